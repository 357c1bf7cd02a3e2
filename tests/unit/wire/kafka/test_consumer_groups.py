"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: what their fields become, and what kio reads in our answers."""

from typing import Any

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from ottla.wire.consumer_groups import (
    AssignedTopic,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumer,
    DescribedConsumerGroup,
    TopicPartitions,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import FencedMemberEpoch
from ottla.wire.kafka.topic_ids import to_text
from ottla.wire.messages import Message
from tests.support.kafka_dialect import IDS, dialect_of_two_topics
from tests.support.kafka_values import frame, plain, request_bytes

DIALECT = dialect_of_two_topics()
FIRST = to_text(IDS["first"])


def _request(api: int, version: int, **values: Any) -> IncomingRequest:
    found = DIALECT.read_request(memoryview(frame(api, version, True, request_bytes(api, version, values))))
    assert isinstance(found, IncomingRequest)
    return found


def _answer(request: IncomingRequest, message: Message) -> Any:
    written = b"".join(map(bytes, DIALECT.encode_response(request, message)))
    entity, _ = entity_reader(load_response_schema(request.api, request.version))(written[9:], 0)
    return plain(entity)


@pytest.mark.parametrize("version", [0, 1])
def test_a_heartbeat_that_says_all(version: int) -> None:
    regex = {"subscribed_topic_regex": "a.*"} if version >= 1 else {}
    request = _request(
        68, version, group_id="g", member_id="m", member_epoch=3, instance_id="i", rack_id="r", rebalance_timeout_ms=1000,
        subscribed_topic_names=["first"], server_assignor="range",
        topic_partitions=[{"topic_id": IDS["first"], "partitions": [0, 2]}], **regex,
    )  # fmt: skip
    assert request.message == ConsumerGroupHeartbeatRequest(
        "g", "m", 3, "i", "r", 1000, ("first",), regex.get("subscribed_topic_regex"), "range",
        (TopicPartitions(FIRST, (0, 2)),), brings_member_id=version >= 1,
    )  # fmt: skip


@pytest.mark.parametrize("version", [0, 1])
def test_a_heartbeat_that_says_nothing_new(version: int) -> None:
    request = _request(68, version, group_id="g", member_id="m", member_epoch=3, topic_partitions=None)
    expected = ConsumerGroupHeartbeatRequest("g", "m", 3, brings_member_id=version >= 1)
    assert request.message == expected


@pytest.mark.parametrize("version", [0, 1])
def test_kio_reads_our_answers_to_a_heartbeat(version: int) -> None:
    request = _request(68, version, group_id="g", member_id="m", topic_partitions=None)
    given = ConsumerGroupHeartbeatResponse(0, "", "m", 4, 5000, (TopicPartitions(FIRST, (0, 2)),))
    answer = _answer(request, given)
    assert (answer["error_code"], answer["error_message"], answer["member_id"]) == (0, None, "m")
    assert (answer["member_epoch"], answer["heartbeat_interval_ms"]) == (4, 5000)
    assert answer["assignment"] == {"topic_partitions": [{"topic_id": IDS["first"], "partitions": [0, 2]}]}
    assert _answer(request, ConsumerGroupHeartbeatResponse(0, "", "m", 4, 5000))["assignment"] is None
    nothing = ConsumerGroupHeartbeatResponse(0, "", "m", 4, 5000, ())
    assert _answer(request, nothing)["assignment"] == {"topic_partitions": []}, "to have nothing is not: nothing is new"
    failed = _answer(request, ConsumerGroupHeartbeatResponse(FencedMemberEpoch.code, "no"))
    assert (failed["error_code"], failed["error_message"], failed["member_id"]) == (110, "no", None)


@pytest.mark.parametrize("version", [0, 1])
def test_kio_reads_what_we_describe(version: int) -> None:
    request = _request(69, version, group_ids=["g", "h"])
    has, to_have = AssignedTopic(FIRST, "first", (0,)), AssignedTopic(FIRST, "first", (0, 1))
    gone = AssignedTopic("", "", (7,))
    member = DescribedConsumer("m", "i", None, 4, "c", "h", ("first",), "a.*", (has, gone), (to_have,))
    groups = [
        DescribedConsumerGroup(0, "", "g", "Stable", 5, 5, "uniform", (member,)),
        DescribedConsumerGroup(69, "no", "h"),
    ]
    first, second = _answer(request, ConsumerGroupDescribeResponse(groups))["groups"]
    assert (first["group_state"], first["group_epoch"], first["assignor_name"]) == ("Stable", 5, "uniform")
    told = first["members"][0]
    assert (told["member_id"], told["instance_id"], told["rack_id"], told["member_epoch"]) == ("m", "i", None, 4)
    assert told["client_host"] == "/h"
    assert (told["subscribed_topic_names"], told["subscribed_topic_regex"]) == (["first"], "a.*")
    topic = {"topic_id": IDS["first"], "topic_name": "first"}
    assert told["assignment"] == {"topic_partitions": [{**topic, "partitions": [0]}]}, (
        "what is gone has no name to tell"
    )
    assert told["target_assignment"] == {"topic_partitions": [{**topic, "partitions": [0, 1]}]}
    assert told.get("member_type", 1) == 1
    assert (second["error_code"], second["error_message"], second["members"]) == (69, "no", [])
