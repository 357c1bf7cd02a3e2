"""Many topics are deleted at once, and others go on."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.client import Admin, NewTopic
from ottla.local import LocalCluster
from tests.support.machine import scaled

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

TOPICS, PARTITIONS = 80, 4


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as running:
        yield running


def test_creation_does_not_wait_for_the_deletion_of_other_topics(cluster: LocalCluster) -> None:
    with (
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Admin(bootstrap_servers=cluster.bootstrap) as other,
        ThreadPoolExecutor(1) as thread,
    ):
        names = [f"doomed{number}" for number in range(TOPICS)]
        admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in names], timeout=scaled(60))
        began = time.monotonic()
        deleting = thread.submit(admin.delete_topics, names, timeout=scaled(60))
        waited_s: list[float] = []
        while not deleting.done():
            asked = time.monotonic()
            other.create_topic(f"made{len(waited_s)}", 1, 3, timeout=scaled(60))
            waited_s.append(time.monotonic() - asked)
        deleting.result()
        took_s = time.monotonic() - began
        print(f"deleted in {took_s:.2f} s, created meanwhile: {[f'{s:.2f}' for s in waited_s]}")
        assert max(waited_s) < max(took_s / 2, scaled(0.1))
