"""Scripts in text files with their expected transcript, as etcd's raft has them.

A script is a row of commands, each on a line of its own, then ``----``, then what came of it, then an empty line. Lines that
begin with ``#`` are comments. With OTTLA_REWRITE=1 the file is written anew with what really came of it: read the diff.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

REWRITE = os.environ.get("OTTLA_REWRITE") == "1"


class Command(NamedTuple):
    """``name word word key=value key=value``."""

    name: str
    words: list[str]
    options: dict[str, str]

    @classmethod
    def parse(cls, line: str) -> "Command":
        name, *rest = line.split()
        options = dict(part.split("=", 1) for part in rest if "=" in part)
        return cls(name, [part for part in rest if "=" not in part], options)

    def numbers(self, key: str, default: str = "") -> tuple[int, ...]:
        return numbers(self.options.get(key, default))


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def listed(values: "tuple[int, ...] | list[int]") -> str:
    return ",".join(map(str, values)) or "none"


def check_transcript(path: Path, run: Callable[[Command], list[str]]) -> None:
    """Run a script and compare, or write it anew."""
    expected = path.read_text()
    found = transcript(expected, run)
    if REWRITE:
        path.write_text(found)
        return
    assert found == expected


def transcript(script: str, run: Callable[[Command], list[str]]) -> str:
    """The script with what really comes of it."""
    blocks = []
    for block in script.strip().split("\n\n"):
        lines = block.split("\n")
        asked = lines[: lines.index("----")] if "----" in lines else lines
        commands = [line for line in asked if line and not line.startswith("#")]
        if not commands:
            blocks.append("\n".join(asked))
            continue
        out = [line for command in commands for line in run(Command.parse(command))]
        blocks.append("\n".join([*asked, "----", *(out or ["nothing"])]))
    return "\n\n".join(blocks) + "\n"
