"""Metadata: what one small request may ask for."""

from ottla.wire.requests import MetadataRequest, MetadataResponse
from tests.component.api.served import Served


async def test_a_topic_is_told_once_however_often_it_is_named(served: Served) -> None:
    served.view.known = True
    names = ["nowhere", "elsewhere"] * 5_000
    told = served.answer(MetadataRequest(names), MetadataResponse).topics
    assert [topic.name for topic in told] == ["nowhere", "elsewhere"]
