"""A producer that gives a record up while others travel behind it, on a live broker."""

import time

import pytest

from ottla.client import Admin, Producer
from ottla.local import LocalCluster
from ottla.wire.errors import ClientTimeout
from tests.support.client_topics import WAIT_S, read

pytestmark = pytest.mark.cluster

DELIVERY_S = 4.0


def test_record_behind_one_that_was_given_up_is_not_overtaken_by_a_later_one() -> None:
    with (
        LocalCluster(brokers=1) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
        Producer(bootstrap_servers=cluster.bootstrap, delivery_timeout_ms=int(DELIVERY_S * 1000)) as producer,
    ):
        admin.create_topic("order", timeout=WAIT_S)
        producer.send("order", b"w").result(timeout=WAIT_S)
        cluster.pause(0)
        given_up = producer.send("order", b"a")
        time.sleep(DELIVERY_S * 0.8)  # b shall have most of its time left when that of a is over
        survivor = producer.send("order", b"b")
        cluster.kill(0)
        with pytest.raises(ClientTimeout):
            given_up.result(timeout=WAIT_S)
        later = producer.send("order", b"c")
        cluster.start(0)
        outcomes = [(name, each.exception(timeout=WAIT_S)) for name, each in ((b"b", survivor), (b"c", later))]
        delivered = [b"w", *(name for name, error in outcomes if error is None)]
        assert delivered[-1] == b"c", f"the broker did not come back in time: {outcomes}"
        assert [record.value for record in read(cluster.bootstrap, "order", len(delivered))] == delivered
