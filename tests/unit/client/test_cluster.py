"""What a client believes of the cluster: the newest that any broker told, in whatever order it hears of it."""

import asyncio
import logging
from collections.abc import Callable
from itertools import accumulate
from typing import Any, TypeVar

import pytest

from ottla.client.cluster import Cluster
from ottla.client.config import AdminConfig
from ottla.wire.errors import NoBrokersAvailable, UnknownTopicOrPartition
from ottla.wire.messages import BrokerEndpoint, Message, Request
from ottla.wire.names import TopicPartition
from ottla.wire.requests import MetadataRequest, MetadataResponse, PartitionMetadata, TopicMetadata
from tests.support.machine import scaled

M = TypeVar("M", bound=Message)


class ToldCluster(Cluster):
    """Asks nobody: answers come from a list, one for each broker that would be asked."""

    def __init__(self) -> None:
        super().__init__(AdminConfig())
        self.watched.add("t")
        self.answers: list[MetadataResponse] = []

    async def ask_any(
        self,
        request: Request,
        kind: type[M],
        check: Callable[[M], None] = lambda _: None,
        is_in_doubt: Callable[[M], bool] = lambda _: False,
    ) -> M:
        while self.answers:
            answer = self.answers.pop(0)
            assert isinstance(answer, kind)
            try:
                check(answer)
            except Exception:
                continue
            return answer
        raise NoBrokersAvailable

    async def hear(self, *answers: MetadataResponse) -> None:
        self.answers = list(answers)
        await self.refresh()


def told(
    version: tuple[int, int], topic_id: str = "id", partitions: int = 2, epoch: int = 0, cluster: str = "c"
) -> MetadataResponse:
    states = [PartitionMetadata(number, 1, epoch, [1], [1]) for number in range(partitions)]
    topic = TopicMetadata("t", topic_id, states, {})
    if not topic_id:
        topic = TopicMetadata("t", "", [], {}, UnknownTopicOrPartition.code, "no such topic")
    return MetadataResponse(cluster, 1, [BrokerEndpoint(1, "host", 9092)], [topic], version)


@pytest.mark.parametrize(
    "older",
    [
        told((1, 9), topic_id=""),
        told((1, 9), topic_id="former"),
        told((2, 3), partitions=1),
        told((0, 0), topic_id=""),
    ],
    ids=["no such topic", "an older topic of the name", "fewer partitions", "nothing yet"],
)
async def test_broker_that_lags_behind_changes_nothing(older: MetadataResponse) -> None:
    cluster = ToldCluster()
    await cluster.hear(told((2, 4)))
    known, version = cluster.topics["t"], cluster.version
    with pytest.raises(NoBrokersAvailable):
        await cluster.hear(older)
    assert (cluster.topics["t"], cluster.version) == (known, version)
    await cluster.hear(older, told((2, 5), partitions=3))
    assert len(cluster.topics["t"].partitions) == 3, "the next broker is asked"


async def test_later_answer_is_believed_though_the_topic_is_gone_or_another_one() -> None:
    cluster = ToldCluster()
    await cluster.hear(told((2, 4)))
    await cluster.hear(told((3, 1), topic_id="successor", partitions=1))
    assert (cluster.topics["t"].topic_id, len(cluster.topics["t"].partitions)) == ("successor", 1)
    await cluster.hear(told((3, 2), topic_id=""))
    assert "t" not in cluster.topics


async def test_partitions_of_one_topic_never_become_fewer() -> None:
    cluster = ToldCluster()
    await cluster.hear(told((2, 4), partitions=3, epoch=5))
    await cluster.hear(told((2, 4), partitions=2, epoch=4))
    assert [state.leader_epoch for state in cluster.topics["t"].partitions] == [5, 5, 5]


async def test_hint_of_who_leads_counts_only_for_the_topic_that_it_means() -> None:
    cluster = ToldCluster()
    await cluster.hear(told((2, 4), topic_id="successor"))
    where = TopicPartition("t", 0)
    assert not cluster.learn_leader(where, 1, 7, "former")
    assert not cluster.learn_leader(where, 1, 7, "")
    assert cluster.leader_epoch(where) == 0
    assert cluster.learn_leader(where, 1, 2, "successor")
    assert not cluster.learn_leader(where, 1, 2, "successor"), "no news"
    assert cluster.leader_epoch(where) == 2


async def test_versions_of_another_cluster_begin_anew(caplog: pytest.LogCaptureFixture) -> None:
    cluster = ToldCluster()
    await cluster.hear(told((70, 4), cluster="before"))
    with caplog.at_level(logging.WARNING):
        await cluster.hear(told((1, 2), topic_id="new", cluster="after"))
    assert cluster.topics["t"].topic_id == "new"
    assert "another cluster answers" in caplog.text
    with pytest.raises(NoBrokersAvailable):
        await cluster.hear(told((1, 1), cluster="after"))


async def test_version_of_routes_grows_only_when_what_it_stands_for_is_there() -> None:
    """A caller in another thread that sees the new version must not find the old partitions under it."""
    seen: list[int] = []

    class Watched(dict[str, TopicMetadata]):
        def __setitem__(self, name: str, topic: TopicMetadata) -> None:
            seen.append(cluster.version)
            super().__setitem__(name, topic)

    cluster = ToldCluster()
    cluster.topics = Watched()
    await cluster.hear(told((1, 1)))
    assert (seen, cluster.version) == ([0], 1)


async def test_what_an_admin_is_told_counts_for_what_it_believes_later() -> None:
    cluster = ToldCluster()
    cluster.answers = [told((1, 5))]
    await cluster.metadata(None)
    with pytest.raises(NoBrokersAvailable):
        await cluster.hear(told((1, 4), topic_id=""))


class CountingCluster(ToldCluster):
    """Is told again and again that there is no such topic."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def ask_any(self, request: Request, kind: type[M], *checks: Any) -> M:
        self.asked += 1
        await asyncio.sleep(0)
        assert isinstance(request, MetadataRequest)
        missing = [TopicMetadata(name, "", [], {}, UnknownTopicOrPartition.code, "") for name in request.topics or ()]
        answer = MetadataResponse("c", 1, [BrokerEndpoint(1, "host", 9092)], missing, (1, 1))
        assert isinstance(answer, kind)
        return answer


@pytest.mark.parametrize("callers", [1, 100])
async def test_what_does_not_exist_is_asked_for_with_growing_pauses_however_many_want_it(callers: int) -> None:
    """A hundred calls for missing topics sent a thousand Metadata requests in five seconds: each call two for each attempt."""
    cluster = CountingCluster()
    seconds = scaled(0.5)
    attempts = list(accumulate(0.8 * min(0.05 * 2**n, 1.0) for n in range(50)))  # the shortest pauses that there are
    wanted = [cluster.topic(f"missing-{number}", seconds) for number in range(callers)]
    errors = await asyncio.gather(*wanted, return_exceptions=True)
    assert {type(error) for error in errors} == {UnknownTopicOrPartition}
    most = 1 + sum(begins < seconds for begins in attempts)
    assert 3 <= cluster.asked <= most if callers == 1 else cluster.asked <= 5 * most


async def test_a_topic_that_was_missing_before_is_asked_for_anew() -> None:
    cluster = CountingCluster()
    for times in (1, 2):
        with pytest.raises(UnknownTopicOrPartition):
            await cluster.topic("missing", 0.01)
        assert cluster.asked == times
