"""A group whose coordinator assigns is read from its znode as it was written, and what is none is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.zk.znodes.consumer_members import ConsumerRecord
from ottla.zk.znodes.consumers import CONSUMER_KIND, GroupZnode
from ottla.zk.znodes.json_fields import MalformedZnode

TOPICS = (("idA", "a"), ("idB", "b"))
texts = st.none() | st.text(max_size=5)
partitions = st.frozensets(st.tuples(st.sampled_from(["idA", "idB"]), st.integers(0, 20)))
records = st.builds(
    ConsumerRecord, st.text(max_size=5), texts, texts, st.text(max_size=5), st.text(max_size=5), st.integers(0, 2**31 - 1),
    st.lists(st.text(max_size=5), max_size=3).map(tuple), texts, texts, st.integers(-2, 100), st.integers(-2, 100),
    partitions, partitions, partitions,
)  # fmt: skip


@given(st.lists(records, max_size=3).map(tuple))
def test_what_was_written_is_read(consumers: tuple[ConsumerRecord, ...]) -> None:
    znode = GroupZnode(7, "consumer", "uniform", kind=CONSUMER_KIND, consumers=consumers, topic_names=TOPICS, life="x")
    assert GroupZnode.decode("g", znode.encode()) == znode


@given(st.lists(records, max_size=3).map(tuple))
def test_whether_a_group_is_too_large_is_told_exactly(consumers: tuple[ConsumerRecord, ...]) -> None:
    znode = GroupZnode(7, "consumer", "uniform", kind=CONSUMER_KIND, consumers=consumers, topic_names=TOPICS, life="x")
    size = len(znode.encode())
    assert znode.is_larger_than(size - 1)
    assert not znode.is_larger_than(size)


def test_a_group_that_is_far_from_too_large_is_not_written_down_to_find_that_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each heartbeat that changes something asks."""
    some = [frozenset(("idA", number) for number in range(first, 10_000, 1000)) for first in range(1000)]
    consumers = tuple(
        ConsumerRecord(
            f"{number:036d}", None, None, "client", "127.0.0.1", 1, ("b",), None, None, 1, 1, has, target=has
        )
        for number, has in enumerate(some)
    )
    monkeypatch.setattr(GroupZnode, "encode", lambda self: pytest.fail("it was written down"))
    assert not GroupZnode(kind=CONSUMER_KIND, consumers=consumers, topic_names=TOPICS).is_larger_than(900_000)


def test_partitions_are_written_short() -> None:
    some = frozenset({("idB", number) for number in (0, 1, 2, 3, 7, 9, 10)})
    member = ConsumerRecord("m", None, None, "c", "h", 1, ("b",), None, None, 1, 1, some, frozenset(), some)
    written = json.loads(GroupZnode(kind=CONSUMER_KIND, consumers=(member,), topic_names=TOPICS).encode())
    assert written["consumers"][0]["assigned"] == {"1": "0-3,7,9-10"}
    assert "target" not in written["consumers"][0]


@pytest.mark.parametrize(
    "assigned", [{"2": "0"}, {"x": "0"}, {"0": ""}, {"0": "5-1"}, {"0": "0-99999999"}, {"0": "-1"}, [1]]
)
def test_what_is_no_partition_is_refused(assigned: object) -> None:
    written = json.loads(GroupZnode(kind=CONSUMER_KIND, topic_names=TOPICS).encode())
    written["consumers"] = [
        {"id": "m", "rebalance_timeout_ms": 1, "epoch": 1, "previous_epoch": 1, "assigned": assigned}
    ]
    with pytest.raises(MalformedZnode):
        GroupZnode.decode("g", json.dumps(written).encode())
