"""Znodes are written as Kafka writes them, and read whatever Kafka or anybody else wrote."""

import json
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.errors import InvalidTopic, OttlaError
from ottla.wire.messages import ListenerAddress
from ottla.wire.names import TopicPartition
from ottla.zk.znodes.brokers import BrokerEpochZnode, BrokerState, BrokerZnode
from ottla.zk.znodes.cluster import ClusterIdZnode, SecretZnode
from ottla.zk.znodes.config import TopicConfigZnode
from ottla.zk.znodes.controller import ControllerEpochZnode, ControllerZnode
from ottla.zk.znodes.isr_changes import IsrChangeZnode
from ottla.zk.znodes.json_fields import MalformedZnode
from ottla.zk.znodes.persistent_paths import PERSISTENT_PATHS
from ottla.zk.znodes.producer_ids import ProducerIdBlockZnode
from ottla.zk.znodes.topics import DeleteTopicZnode, PartitionStateZnode, TopicZnode
from ottla.zk.znodes.uuids import uuid_from_text, uuid_to_text

TOPIC_ID = uuid_to_text(uuid.UUID(int=7))

DECODERS: list[Callable[[bytes], object]] = [
    lambda data: BrokerZnode.decode(1, data),
    lambda data: BrokerEpochZnode.decode(1, data),
    lambda data: TopicZnode.decode("t", data),
    lambda data: PartitionStateZnode.decode("t", 0, data),
    ControllerZnode.decode,
    ControllerEpochZnode.decode,
    ClusterIdZnode.decode,
    lambda data: TopicConfigZnode.decode("t", data),
    ProducerIdBlockZnode.decode,
    SecretZnode.decode,
    lambda data: IsrChangeZnode.decode("isr_change_0000000001", data),
]

SAMPLES = [
    BrokerZnode(1, "h", 9092, rack="r1", uuid="u", broker_epoch=3, timestamp_ms=1_700_000_000_000).encode(),
    BrokerEpochZnode("i", "b", BrokerState.FENCED).encode(),
    TopicZnode({0: (1, 2)}, TOPIC_ID, {0: (2,)}, {0: (1,)}).encode(),
    PartitionStateZnode(1, 0, 1, (1, 2), elr=(3,), recovering=True).encode(),
    ControllerZnode(0, 17).encode(),
    ControllerEpochZnode(7).encode(),
    ClusterIdZnode("abc").encode(),
    TopicConfigZnode({"k": "v"}).encode(),
    ProducerIdBlockZnode(0, 0, 999).encode(),
    b"ab" * 32,
    IsrChangeZnode([TopicPartition("t", 1)]).encode(),
]


def test_payloads_are_exactly_kafkas() -> None:
    assert json.loads(SAMPLES[0]) == {
        "version": 5,
        "host": "h",
        "port": 9092,
        "endpoints": ["PLAINTEXT://h:9092"],
        "jmx_port": -1,
        "timestamp": "1700000000000",
        "rack": "r1",
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "features": {},
        "uuid": "u",
        "broker_epoch": 3,
    }
    assert "rack" not in json.loads(BrokerZnode(1, "h", 9092).encode())
    assert TopicZnode({1: (2,), 0: (1, 2, 3)}, TOPIC_ID).encode() == (
        b'{"version":3,"partitions":{"0":[1,2,3],"1":[2]},"adding_replicas":{},"removing_replicas":{},'
        b'"topic_id":"' + TOPIC_ID.encode() + b'"}'
    )
    assert PartitionStateZnode(1, 0, 1, (1, 2, 3)).encode() == (
        b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1,2,3]}'
    )
    assert ControllerZnode(0, 17).encode() == b'{"version":1,"brokerid":0,"timestamp":"17"}'
    assert ControllerEpochZnode(7).encode() == b"7"
    assert ClusterIdZnode("abc").encode() == b'{"version":"1","id":"abc"}'
    assert TopicConfigZnode({"k": "v"}).encode() == b'{"version":1,"config":{"k":"v"}}'
    assert ProducerIdBlockZnode(0, 0, 999).encode() == (b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}')


def test_paths_are_kafkas() -> None:
    assert BrokerZnode.path(3) == "/brokers/ids/3"
    assert BrokerEpochZnode.path(3) == "/brokers/epochs/3"
    assert TopicZnode.path("t") == "/brokers/topics/t"
    assert PartitionStateZnode.path("t", 4) == "/brokers/topics/t/partitions/4/state"
    assert TopicConfigZnode.path("t") == "/config/topics/t"
    assert DeleteTopicZnode.path("t") == "/admin/delete_topics/t"
    assert {"/brokers/ids", "/brokers/topics", "/brokers/epochs", "/config/topics"} <= set(PERSISTENT_PATHS)


@pytest.mark.parametrize("path", [TopicZnode.path, TopicConfigZnode.path, DeleteTopicZnode.path])
@pytest.mark.parametrize("name", ["", ".", "..", "../../etc", "a/b", "a\0", "x" * 250, "tøpic"])
def test_illegal_topic_name_never_becomes_a_path(path: Callable[[str], str], name: str) -> None:
    with pytest.raises(InvalidTopic):
        path(name)


@pytest.mark.parametrize(("decode", "sample"), list(zip(DECODERS, SAMPLES, strict=True)))
def test_what_was_written_is_read_again(decode: Callable[[bytes], object], sample: bytes) -> None:
    value = decode(sample)
    if not isinstance(value, str):
        assert value.encode() == sample  # type: ignore[attr-defined]


def test_older_payloads_are_read() -> None:
    assert TopicZnode.decode("t", b'{"version":1,"partitions":{"10":[1],"2":[3]}}') == TopicZnode({2: (3,), 10: (1,)})
    second = b'{"version":2,"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{}}'
    assert TopicZnode.decode("t", second).topic_id is None
    fourth = (
        b'{"version":4,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"],"jmx_port":-1,"timestamp":"5",'
        b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"}}'
    )
    assert BrokerZnode.decode(1, fourth) == BrokerZnode(1, "h", 1, timestamp_ms=5)
    first = b'{"version":1,"host":"h","port":1,"jmx_port":-1}'
    assert BrokerZnode.decode(1, first) == BrokerZnode(1, "h", 1)


def test_broker_without_plaintext_listener_is_read_from_its_endpoints() -> None:
    data = b'{"version":5,"host":null,"port":-1,"endpoints":["SSL://[::1]:9093"],"timestamp":"5"}'
    broker = BrokerZnode.decode(1, data)
    assert (broker.host, broker.port) == ("::1", 9093)
    assert json.loads(broker.encode())["endpoints"] == ["SSL://[::1]:9093"]


def test_broker_with_two_listeners_has_both_endpoints_and_the_brokers_own_address() -> None:
    inside, outside = ListenerAddress("INSIDE", "broker0", 9192), ListenerAddress("OUTSIDE", "127.0.0.1", 9092)
    broker = BrokerZnode(0, "broker0", 9192, listeners=(inside, outside))
    told = json.loads(broker.encode())
    assert (told["host"], told["port"]) == ("broker0", 9192)
    assert told["endpoints"] == ["INSIDE://broker0:9192", "OUTSIDE://127.0.0.1:9092"]
    assert told["listener_security_protocol_map"] == {"INSIDE": "PLAINTEXT", "OUTSIDE": "PLAINTEXT"}
    assert BrokerZnode.decode(0, broker.encode()) == broker


def test_endpoint_that_is_none_is_refused() -> None:
    with pytest.raises(MalformedZnode, match="endpoint"):
        BrokerZnode.decode(0, b'{"version":5,"host":"h","port":1,"endpoints":["INSIDE//h"]}')


def test_later_versions_and_unknown_keys_are_read() -> None:
    data = b'{"version":2,"brokerid":3,"timestamp":"5","kraftControllerEpoch":-1,"more":{"x":[]}}'
    assert ControllerZnode.decode(data) == ControllerZnode(3, 5)
    state = b'{"version":9,"leader":-1,"leader_epoch":4,"controller_epoch":2,"isr":[1],"color":"red"}'
    assert PartitionStateZnode.decode("t", 0, state) == PartitionStateZnode(-1, 4, 2, (1,))


def test_producer_id_block_that_was_never_given_out_is_none() -> None:
    assert ProducerIdBlockZnode.decode(b"") is None


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1}',
        b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1,"2"]}',
        b'{"version":1,"leader":true,"leader_epoch":0,"controller_epoch":1,"isr":[1]}',
        b'{"version":1,"leader":-2,"leader_epoch":0,"controller_epoch":1,"isr":[1]}',
        b'{"version":1,"leader":1.5,"leader_epoch":0,"controller_epoch":1,"isr":[1]}',
        b'{"version":0,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}',
        b'{"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}',
    ],
)
def test_wrong_field_is_refused_with_the_path(data: bytes) -> None:
    with pytest.raises(MalformedZnode, match="/brokers/topics/t/partitions/0/state") as refused:
        PartitionStateZnode.decode("t", 0, data)
    assert isinstance(refused.value, OttlaError)
    assert refused.value.path == PartitionStateZnode.path("t", 0)
    assert refused.value.why


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("data", [b"\xff\xfe", b"[]", b"null", b"{", b"[" * 100_000, b"NaN", b"-" + b"9" * 5000])
def test_garbage_is_refused(decode: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(MalformedZnode):
        decode(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(sorted({key for sample in SAMPLES if sample[:1] == b"{" for key in json.loads(sample)}))


@given(fields=st.dictionaries(KEYS, JSON, max_size=8), decode=st.sampled_from(DECODERS), at=st.sampled_from(SAMPLES))
def test_any_json_is_read_or_refused(fields: dict[str, object], decode: Callable[[bytes], object], at: bytes) -> None:
    sample = json.loads(at) if at[:1] == b"{" else {"version": 1}
    try:
        decode(json.dumps({**sample, **fields}).encode())
    except MalformedZnode:
        pass


def test_isr_changes_are_read_as_they_were_written() -> None:
    changed = IsrChangeZnode([TopicPartition("t", 1), TopicPartition("u", 0)])
    assert json.loads(changed.encode())["partitions"][0] == {"topic": "t", "partition": 1}
    assert IsrChangeZnode.decode("isr_change_0000000001", changed.encode()) == changed


def test_topic_id_must_be_a_uuid() -> None:
    with pytest.raises(MalformedZnode, match="topic_id"):
        TopicZnode.decode("t", b'{"version":3,"partitions":{},"topic_id":"short"}')
    value = uuid.uuid4()
    assert uuid_from_text(uuid_to_text(value)) == value
    assert len(uuid_to_text(value)) == 22
