"""What attacks were made, and what came of them: counted by the attacker, told by the report."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

VIOLATIONS_MAX: Final = 100
"""More of one run need not be told."""


@dataclass
class Tally:
    attacks: Counter[str] = field(default_factory=Counter)
    """By kind."""
    answers: Counter[str] = field(default_factory=Counter)
    """By the error that they tell of, and how connections ended."""
    frames: int = 0
    storable: set[int] = field(default_factory=set)
    """The fingerprints of all batches that may be stored."""
    violations: list[str] = field(default_factory=list)
    last_number: int = 0

    def violate(self, what: str) -> None:
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(what)
