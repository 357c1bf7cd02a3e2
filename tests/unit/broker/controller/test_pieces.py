"""Orders of any length can be sent, and a broker that is told everything in pieces knows all of it or what it knew before."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from ottla.broker.cluster_view import ClusterView
from ottla.broker.controller.decisions.pieces import PIECE_BYTES, in_pieces
from ottla.broker.storage.config_kinds import CONFIG_VALUE_MAX
from ottla.broker.storage.topic_configs import parse_topic_config, plain_topic_config
from ottla.wire.control import (
    GroupSettings,
    LeaderAndIsrRequest,
    Order,
    PartitionState,
    StopReplicaPart,
    StopReplicaRequest,
    TopicConfig,
    UpdateMetadataRequest,
)
from ottla.wire.errors import InvalidConfig, InvalidRequest
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.native import REQUEST_HEAD_MAX, encode_request

BROKERS = [BrokerEndpoint(number, f"host-{number}", 9092, None) for number in range(3)]
TOPIC_ID = "4Hn2Vq9zTGSf0fxnBuvZyg"
BLANKS = " " * 900_000


def state(topic: str, partition: int, brokers: int = 3, leader: int = 0) -> PartitionState:
    replicas = list(range(1000, 1000 + brokers))
    return PartitionState(topic, TOPIC_ID, partition, leader, 2**40, replicas, replicas, 2**40, 2**40, replicas)


def config(topic: str, **settings: str) -> TopicConfig:
    return TopicConfig(topic, TOPIC_ID, {key.replace("_", "."): value for key, value in settings.items()})


def everything(topics: list[TopicConfig], states: list[PartitionState]) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(0, 1, 1, True, BROKERS, topics, states, [])


def sizes(pieces: list[Order]) -> Iterator[int]:
    for piece in pieces:
        yield sum(len(part) for part in encode_request(piece, 2**31 - 1, "controller"))


@pytest.fixture(scope="module")
def large() -> UpdateMetadataRequest:
    """73,000 partitions, the names as long as they may be: 23 MB."""
    names = [f"{number:03d}-".ljust(249, "x") for number in range(73)]
    states = [state(name, partition) for name in names for partition in range(1000)]
    return everything([config(name, retention_ms="1") for name in names], states)


def view(*orders: Order) -> ClusterView:
    made = ClusterView("c")
    for order in orders:
        assert isinstance(order, UpdateMetadataRequest)
        made.update(order)
    return made


def test_short_orders_are_sent_as_they_are() -> None:
    orders: list[Order] = [
        everything([config("a")], [state("a", 0)]),
        UpdateMetadataRequest(0, 1, 1, False, BROKERS, [], [], ["gone"]),
        UpdateMetadataRequest(0, 1, 1, True, BROKERS, [], [], []),
        LeaderAndIsrRequest(0, 1, 1, [state("a", 0)], [config("a")]),
        StopReplicaRequest(0, 1, 1, [StopReplicaPart("a", TOPIC_ID, 0, 1, True)]),
    ]
    assert [in_pieces(order) for order in orders] == [[order] for order in orders]


def test_every_piece_can_be_sent_and_together_they_say_the_same(large: UpdateMetadataRequest) -> None:
    pieces = in_pieces(large)
    assert max(sizes(pieces)) < PIECE_BYTES * 1.1 < REQUEST_HEAD_MAX
    assert view(*pieces).describe(None, "x") == view(large).describe(None, "x")
    assert len(view(*pieces).describe(None, "x").topics) == 73


def test_other_orders_are_cut_too_and_settings_come_before_partitions(large: UpdateMetadataRequest) -> None:
    order = LeaderAndIsrRequest(0, 1, 1, large.partitions, large.topics)
    known: set[str] = set()
    seen: list[PartitionState] = []
    pieces = in_pieces(order)
    for piece in pieces:
        assert isinstance(piece, LeaderAndIsrRequest)
        known |= {topic.topic for topic in piece.topics}
        assert {partition.topic for partition in piece.partitions} <= known
        seen += piece.partitions
    assert seen == order.partitions
    assert max(sizes(pieces)) < PIECE_BYTES * 1.1
    parts = [StopReplicaPart(p.topic, p.topic_id, p.partition, 2**40, True) for p in large.partitions]
    stops = in_pieces(StopReplicaRequest(0, 1, 1, parts))
    assert [part for stop in stops if isinstance(stop, StopReplicaRequest) for part in stop.parts] == parts
    assert max(sizes(stops)) < PIECE_BYTES * 1.1
    news = UpdateMetadataRequest(0, 1, 1, False, BROKERS, large.topics, large.partitions, ["x" * 249] * 10_000)
    assert max(sizes(in_pieces(news))) < PIECE_BYTES * 2.1
    told = [piece for piece in in_pieces(news) if isinstance(piece, UpdateMetadataRequest)]
    assert [piece.more for piece in told] == [True] * (len(told) - 1) + [False]
    assert {piece.piece for piece in told} == {0}, "each is taken as it comes"


def test_a_topic_that_fits_comes_whole(large: UpdateMetadataRequest) -> None:
    """Between two pieces of what is new, nobody is told of a topic that has half of its partitions."""
    news = UpdateMetadataRequest(0, 1, 1, False, BROKERS, large.topics, large.partitions, [])
    for piece in in_pieces(news):
        assert isinstance(piece, UpdateMetadataRequest)
        assert len(piece.partitions) == 1000 * len(piece.topics)


def test_settings_that_are_too_long_to_mean_anything_keep_no_order_from_being_sent() -> None:
    names = [f"t{number}" for number in range(5)]
    topics = [
        config(name, retention_ms=BLANKS + "1", segment_ms="x" * 900_000, min_insync_replicas="2") for name in names
    ]
    order = everything(topics, [state(name, 0) for name in names])
    pieces = in_pieces(order)
    assert max(sizes(pieces)) < PIECE_BYTES
    told = view(*pieces).describe(None, "x").topics
    assert [topic.config for topic in told] == [{"retention.ms": "1", "min.insync.replicas": "2"}] * 5


# --- at the broker -----------------------------------------------------------------------------------------------------------


def test_until_the_last_piece_has_come_what_was_known_before_stands(large: UpdateMetadataRequest) -> None:
    before = everything([config("a")], [state("a", 0)])
    pieces = in_pieces(large)
    known = view(before, *pieces[:-1])
    assert [topic.name for topic in known.describe(None, "x").topics] == ["a"]
    fresh = view(*pieces[:-1])
    assert not fresh.known
    for half in (known, fresh):
        half.update(pieces[-1])  # type: ignore[arg-type]
        assert half.known
        assert len(half.describe(None, "x").topics) == 73


def test_news_alone_do_not_make_a_broker_know_everything() -> None:
    news = UpdateMetadataRequest(0, 1, 1, False, BROKERS, [], [], [])
    assert not view(news).known
    assert view(everything([], []), news).known


def test_a_piece_that_comes_again_counts_once_and_a_new_first_one_begins_anew(large: UpdateMetadataRequest) -> None:
    pieces = in_pieces(large)
    again = view(*(piece for piece in pieces for _ in range(2)))
    assert again.describe(None, "x") == view(large).describe(None, "x")
    other = view(*pieces[:3], everything([config("a")], [state("a", 0)]))
    assert [topic.name for topic in other.describe(None, "x").topics] == ["a"]
    with pytest.raises(InvalidRequest):
        other.update(pieces[2])  # type: ignore[arg-type]


# --- settings ----------------------------------------------------------------------------------------------------------------


def test_a_setting_is_stored_as_it_is_read_and_has_a_limit() -> None:
    assert plain_topic_config({"retention.ms": " 0010 ", "unclean.leader.election.enable": "TRUE"}) == {
        "retention.ms": "10",
        "unclean.leader.election.enable": "true",
    }
    with pytest.raises(InvalidConfig, match="900001 characters"):
        parse_topic_config({"retention.ms": BLANKS + "1"})
    parse_topic_config({"retention.ms": "1".rjust(CONFIG_VALUE_MAX)})
    with pytest.raises(InvalidConfig) as refused:
        parse_topic_config({"x" * 900_000: "1"})
    assert len(str(refused.value)) < 1000


def test_settings_of_groups_come_once_and_stay_until_others_come(large: UpdateMetadataRequest) -> None:
    groups = (GroupSettings("g", {"consumer.session.timeout.ms": "50000"}),)
    pieces = in_pieces(replace(large, groups=groups))
    told = [piece.groups for piece in pieces if isinstance(piece, UpdateMetadataRequest)]
    assert told == [None] * (len(pieces) - 1) + [groups]
    known = view(*pieces)
    heard: list[int] = []
    known.on_group_settings.append(lambda: heard.append(1))
    news = UpdateMetadataRequest(0, 1, 1, False, BROKERS, [], [], [], 1)
    known.update(news)
    assert (known.group_settings, heard) == ({"g": {"consumer.session.timeout.ms": "50000"}}, [])
    assert known.as_update().groups == groups
    known.update(replace(news, groups=()))
    assert (known.group_settings, heard) == ({}, [1])
