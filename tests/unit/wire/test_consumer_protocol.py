"""Kafka's consumer protocol: its bytes, every version of it, and bytes that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.wire.errors import InvalidRequest
from ottla.wire.names import TopicPartition

T = TopicPartition("t", 1)


def test_subscription_is_kafkas_version_3() -> None:
    encoded = encode_subscription(Subscription(("t",), b"u", (T,), 7, "r"))
    assert encoded == (
        b"\x00\x03\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01u"
        b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x07\x00\x01r"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff", Subscription(("t",))),
        (b"\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00\x00\x00\x00\x00", Subscription(("t",), b"")),
        (
            b"\x00\x09\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x02\xff\xfflater",
            Subscription((), None, (), 2),
        ),
    ],
    ids=["version 0", "version 1", "one that is not known yet"],
)
def test_other_versions_are_read(data: bytes, found: Subscription) -> None:
    assert decode_subscription(data) == found


partitions = st.lists(
    st.tuples(st.sampled_from(["t", "größe"]), st.integers(0, 9)).map(lambda p: TopicPartition(*p)), unique=True
)


@given(st.lists(st.text(max_size=9)), st.none() | st.binary(max_size=9), partitions, st.integers(-1, 2**31 - 1))
def test_what_is_written_is_read(
    topics: list[str], user: bytes | None, owned: list[TopicPartition], generation: int
) -> None:
    owned.sort()
    subscription = Subscription(tuple(topics), user, tuple(owned), generation, "rack")
    found = decode_subscription(encode_subscription(subscription))
    assert found._replace(owned=tuple(sorted(found.owned))) == subscription
    assignment = decode_assignment(encode_assignment(Assignment(tuple(owned), user)))
    assert (sorted(assignment.partitions), assignment.user_data) == (owned, user)


def test_no_bytes_are_no_partitions() -> None:
    assert decode_assignment(b"") == Assignment(())


@given(st.binary(max_size=60))
def test_any_bytes_are_something_or_refused(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except InvalidRequest:
            pass


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00"])
def test_a_count_that_lies_costs_nothing(count: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_subscription(b"\x00\x03" + count)
