"""Metadata: what one small request may ask for."""

import pytest

from ottla.broker.api import metadata
from ottla.wire.control import PartitionState, TopicConfig, UpdateMetadataRequest
from ottla.wire.errors import InvalidRequest
from ottla.wire.messages import BrokerEndpoint
from ottla.wire.requests import MetadataRequest, MetadataResponse
from tests.component.api.served import Served


async def test_a_topic_is_told_once_however_often_it_is_named(served: Served) -> None:
    served.view.known = True
    names = ["nowhere", "elsewhere"] * 5_000
    told = served.answer(MetadataRequest(names), MetadataResponse).topics
    assert [topic.name for topic in told] == ["nowhere", "elsewhere"]


def _know_topics(served: Served, *names: str) -> None:
    topics = [TopicConfig(name, f"id-{name}", {}) for name in names]
    states = [
        PartitionState(name, f"id-{name}", number, 1, 0, [1], [1], 0, 1, []) for name in names for number in (0, 1)
    ]
    served.view.update(UpdateMetadataRequest(1, 1, 1, True, [BrokerEndpoint(1, "h", 1)], topics, states, []))


@pytest.mark.parametrize("names", [None, ["a", "b", "c"]])
async def test_topics_that_do_not_fit_are_named_with_an_error_and_can_be_asked_for(
    served: Served, monkeypatch: pytest.MonkeyPatch, names: list[str] | None
) -> None:
    """Before: an answer that was too long for a frame was an error as a whole, and with an older version of Kafka's none."""
    _know_topics(served, "a", "b", "c")
    monkeypatch.setattr(metadata, "ANSWER_BYTES_MAX", 700)
    told = served.answer(MetadataRequest(names), MetadataResponse).topics
    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in told] == [
        ("a", 0, 2),
        ("b", 0, 2),
        ("c", InvalidRequest.code, 0),
    ]
    (alone,) = served.answer(MetadataRequest(["c"]), MetadataResponse).topics
    assert (alone.error_code, len(alone.partitions)) == (0, 2)
