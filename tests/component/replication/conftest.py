"""A leader and one follower for the replication tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.component.replication.brokers import Cluster, running_cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path) as running:
        yield running
