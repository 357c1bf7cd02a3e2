"""A new topic takes its first record at once, also when its brokers follow others and are waiting for those."""

import statistics
import time

import pytest

from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from tests.support.machine import scaled

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

WAIT_S = scaled(30.0)
TOPICS = 9
FETCH_WAIT_S = 0.5
"""How long a follower's fetch waits at a leader that has nothing new."""


def test_first_write_to_a_new_topic_does_not_wait_for_fetches_of_other_topics() -> None:
    """The median, for a noisy machine may be slow now and then; a wait for a fetch is as good as always half a second."""
    with (
        LocalCluster(brokers=3) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer,
    ):
        taken = []
        for number in range(TOPICS):
            topic = f"new-{number}"
            admin.create_topic(topic, 3, replication_factor=3, timeout=WAIT_S)
            producer.partitions_for(topic, WAIT_S)
            began = time.monotonic()
            deliveries = [producer.send(topic, b"first", partition=partition) for partition in range(3)]
            for delivery in deliveries:
                delivery.result(WAIT_S)
            taken.append(time.monotonic() - began)
        assert statistics.median(taken[1:]) < FETCH_WAIT_S / 2, [f"{took:.3f}" for took in taken]
