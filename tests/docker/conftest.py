"""Tests on live containers run only when asked for: ``make docker-test``, which makes the images first."""

from collections.abc import Iterator

import pytest

from tests.support.compose import ComposeCluster, why_no_docker


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.get_closest_marker("docker")]
    if not ours:
        return
    why = why_no_docker() if "docker" in config.getoption("markexpr", "") else "runs only with -m docker"
    if why is not None:
        for item in ours:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def compose() -> Iterator[ComposeCluster]:
    """Three ZooKeepers and three brokers in containers; each test leaves them running."""
    cluster = ComposeCluster()
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down("--volumes")
