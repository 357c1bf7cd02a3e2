"""Topics, brokers and offsets: what an operator asks a cluster."""

import base64
import time
import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.config import AdminConfig, build
from ottla.client.offsets import list_offsets
from ottla.wire.control import ElectLeadersRequest, PartitionName
from ottla.wire.errors import (
    ClientClosed,
    InvalidPartitions,
    LeaderNotAvailable,
    NoBrokersAvailable,
    OttlaError,
    UnknownTopicOrPartition,
)
from ottla.wire.messages import EARLIEST, LATEST, Done, Request
from ottla.wire.names import TopicPartition, check_topic_name
from ottla.wire.requests import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    MetadataResponse,
    NewTopic,
    ReassignRequest,
    TopicMetadata,
)

DEFAULT_TIMEOUT_S = 30.0


class AsyncAdmin:
    """Creates, describes and deletes topics; tells who is in the cluster. ``async with`` closes it."""

    def __init__(self, **options: Any) -> None:
        self._config = build(AdminConfig, options)
        self._cluster = Cluster(self._config)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "AsyncAdmin":
        """From Kafka's own names: ``{"bootstrap.servers": ...}``."""
        return cls(**config)

    async def __aenter__(self) -> "AsyncAdmin":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._cluster.close()

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        assignment: Iterable[Iterable[int]] | None = None,
        validate_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> str:
        """Create a topic and wait until every live broker knows it; gives back the topic's id."""
        check_topic_name(name)
        fixed = [list(replicas) for replicas in assignment] if assignment is not None else None
        settings = {key: str(value) for key, value in (config or {}).items()}
        # An attempt whose answer is lost may have created it: the next one is known by the same id.
        topic = NewTopic(name, partitions, replication_factor, settings, fixed, "" if validate_only else _random_id())
        request = CreateTopicsRequest([topic], timeout_ms=self._controller_ms(timeout), validate_only=validate_only)

        async def attempt() -> str:
            answer = await self._cluster.ask_controller(request, CreateTopicsResponse, self._cluster.attempt_s(timeout))
            answer.topics[0].raise_if_failed(topic=name)
            return answer.topics[0].topic_id

        return await self._cluster.retry(attempt, timeout, f"topic {name!r} was not created")

    async def delete_topic(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Delete a topic with all its records and wait until it is gone."""
        check_topic_name(name)
        deadline = time.monotonic() + timeout
        topic_id = (await self._metadata([name], timeout)).topics[0].topic_id
        doubt = _Doubt()

        async def attempt() -> None:
            nonlocal topic_id
            try:
                await self._delete(name, topic_id, timeout, doubt)
            except UnknownTopicOrPartition as error:  # retriable elsewhere; here it is an answer
                if doubt.there and topic_id:
                    return  # it was there before: an attempt that we did not hear of deleted it
                if not topic_id:
                    raise _Final(error) from None
                topic_id = ""  # whom we asked for the id may have been behind: let the controller say what is there
                raise

        try:
            await self._cluster.retry(attempt, deadline - time.monotonic(), f"topic {name!r} was not deleted")
        except _Final as final:
            raise final.error from None

    async def _delete(self, name: str, topic_id: str, timeout: float, doubt: "_Doubt") -> None:
        request = DeleteTopicsRequest([name], self._controller_ms(timeout), [topic_id])
        with doubt:
            answer = await self._cluster.ask_controller(request, DeleteTopicsResponse, self._cluster.attempt_s(timeout))
            answer.topics[0].raise_if_failed(topic=name)

    async def add_partitions(self, name: str, count: int, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Let a topic have ``count`` partitions, more than it has. Keys may go to other partitions from then on."""
        request = CreatePartitionsRequest(check_topic_name(name), count, self._controller_ms(timeout))
        doubt = _Doubt()
        try:
            await self._ask_controller(request, timeout, f"topic {name!r} got no more partitions", doubt)
        except InvalidPartitions:
            if not doubt.there or len((await self.describe_topic(name, timeout=timeout)).partitions) != count:
                raise  # else it has what was asked for, from an attempt that we did not hear of

    async def alter_topic_config(
        self, name: str, config: Mapping[str, str], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Replace a topic's settings by these."""
        settings = {key: str(value) for key, value in config.items()}
        request = AlterConfigsRequest(check_topic_name(name), settings, self._controller_ms(timeout))
        await self._ask_controller(request, timeout, f"the settings of topic {name!r} were not changed")

    async def reassign(
        self, name: str, partition: int, replicas: Iterable[int], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Begin to move a partition to other brokers, the preferred leader first; describe_topic shows when it is done."""
        request = ReassignRequest(check_topic_name(name), partition, list(replicas), self._controller_ms(timeout))
        await self._ask_controller(request, timeout, f"{name}-{partition} was not moved")

    async def elect_leaders(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        unclean: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Give leadership back to the preferred leaders that are in sync: of these partitions, or of all.

        ``unclean=True`` means something else: where a partition has no leader, take a replica that lives as it is. What
        only the others had is lost.
        """
        named = [PartitionName(*where) for where in partitions] if partitions is not None else None
        request = ElectLeadersRequest(named, self._controller_ms(timeout), unclean)
        await self._ask_controller(request, timeout, "no leaders were elected")

    async def list_topics(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> list[str]:
        """The names of all topics, sorted."""
        answer = await self._metadata(None, timeout)
        return sorted(topic.name for topic in answer.topics)

    async def describe_topic(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> TopicMetadata:
        """A topic's id, config overrides and partitions (leader, replicas, isr, leader_epoch)."""
        check_topic_name(name)
        topic = (await self._metadata([name], timeout)).topics[0]
        if topic.error_code:
            raise UnknownTopicOrPartition(f"topic {name!r} does not exist", topic=name)
        return topic

    async def describe_cluster(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> MetadataResponse:
        """Cluster id, controller, brokers and all topics, as one broker knows them."""
        return await self._metadata(None, timeout)

    async def earliest_offsets(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, int]:
        """The first offset that is still there, for each partition."""
        return await self._offsets(name, EARLIEST, timeout)

    async def latest_offsets(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, int]:
        """The offset that the next committed record will get, for each partition."""
        return await self._offsets(name, LATEST, timeout)

    async def _offsets(self, name: str, timestamp_ms: int, timeout: float) -> dict[TopicPartition, int]:
        deadline = time.monotonic() + timeout
        topic = await self._cluster.topic(name, timeout)
        wanted = {TopicPartition(name, partition.partition): timestamp_ms for partition in topic.partitions}
        found = await list_offsets(self._cluster, wanted, deadline - time.monotonic())
        return {where: offset for where, (offset, _) in found.items()}

    async def _ask_controller(
        self, request: Request, timeout: float, otherwise: str, doubt: "_Doubt | None" = None
    ) -> None:
        async def attempt() -> None:
            try:
                with doubt or _Doubt():
                    await self._cluster.ask_controller(request, Done, self._cluster.attempt_s(timeout))
            except UnknownTopicOrPartition as error:  # retriable elsewhere; here it is an answer
                raise _Final(error) from None

        try:
            await self._cluster.retry(attempt, timeout, otherwise)
        except _Final as final:
            raise final.error from None

    def _controller_ms(self, timeout: float) -> int:
        """How long the controller may take: a little less than we wait, so that its answer is heard."""
        return int(self._cluster.attempt_s(timeout) * 900)

    async def _metadata(self, topics: list[str] | None, timeout: float) -> MetadataResponse:
        return await self._cluster.retry(
            lambda: self._cluster.metadata(topics), timeout, "the cluster was not described"
        )


class _Final(Exception):
    """Carries an error out of a retry that would else be tried again."""

    def __init__(self, error: OttlaError) -> None:
        self.error = error


class _Doubt:
    """Around every attempt: whether one of them may have taken effect although no answer says so."""

    def __init__(self) -> None:
        self.there = False

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        nothing_sent = isinstance(error, NoBrokersAvailable | LeaderNotAvailable)
        answered = isinstance(error, OttlaError) and not (error.retriable or isinstance(error, ClientClosed))
        if error is not None and not (nothing_sent or answered or isinstance(error, UnknownTopicOrPartition)):
            self.there = True


def _random_id() -> str:
    """A topic id in Kafka's spelling: 22 characters of base64."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
