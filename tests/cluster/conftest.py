"""Fixtures of the tests that attack a live broker."""

from collections.abc import Iterator

import pytest

from tests.support.victim import Victim, running_victim


@pytest.fixture(scope="session")
def victim() -> Iterator[Victim]:
    """One broker that all attacks share, so that what one of them leaves behind disturbs the next."""
    with running_victim() as running:
        yield running


@pytest.fixture
def unharmed(victim: Victim) -> Iterator[Victim]:
    """The victim, watched during the test; the test fails if anybody but the attacker felt the attack."""
    with victim.unharmed():
        yield victim
