"""A broker's handlers over real logs, for each test a new one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.component.api.served import Served


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    broker = Served(tmp_path / "data")
    yield broker
    await broker.close()
