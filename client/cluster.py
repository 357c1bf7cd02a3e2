"""The cluster as a client knows it: who leads what, and how to ask it."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from ottla.client.config import ClientConfig
from ottla.client.connections import CONTROL_LANE, MAIN_LANE, Connections
from ottla.net.channel import Channel
from ottla.net.heap import keep_freed_memory
from ottla.net.retry import backoff
from ottla.wire.errors import (
    BrokerNotAvailable,
    ClientClosed,
    ClientTimeout,
    InvalidRequest,
    LeaderNotAvailable,
    NetworkException,
    NoBrokersAvailable,
    OttlaError,
    UnknownTopicOrPartition,
    error_for,
)
from ottla.wire.messages import BrokerEndpoint, Message, Request
from ottla.wire.names import NO_EPOCH, TopicPartition, check_topic_name
from ottla.wire.requests import MetadataRequest, MetadataResponse, PartitionMetadata, TopicMetadata

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)
R = TypeVar("R")

METADATA_TIMEOUT_S = 5.0
"""How long one broker may take to answer a metadata request before the next one is asked."""


IMPATIENT_S = 1.0
"""As long as there are others to ask: a broker that is paused takes connections and never answers."""

CHECK_S = 1.0
"""How often somebody who waits for a broker's answer looks whether that broker still is the one to ask."""


OTHERS_ASKED = 2
"""How many more brokers are asked where one is cut off from ZooKeeper; if all of them are, ZooKeeper is down."""


class NobodyAnswers(NoBrokersAvailable):
    """No broker at all could be asked."""


class Cluster:
    """Metadata and connections. Everything that waits takes a deadline on the event loop's clock."""

    def __init__(self, config: ClientConfig) -> None:
        keep_freed_memory()
        self._config = config
        self._connections = Connections(config)
        self._refreshing = asyncio.Lock()
        self._refreshed_at = float("-inf")
        self.brokers: dict[int, BrokerEndpoint] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self._missing: dict[str, OttlaError] = {}
        self.version = 0
        """Grows whenever something was learnt: what was derived from the metadata may be outdated then."""
        self.controller = -1
        self.cluster_id = ""
        self._metadata_version = (0, 0)
        """The version of the newest metadata that a broker told: what is older is not listened to."""
        self.watched: set[str] = set()
        """The topics that a refresh asks for: those of the client, and no others."""

    # --- who leads what ------------------------------------------------------------------------------------------------

    def partition(self, where: TopicPartition) -> PartitionMetadata | None:
        topic = self.topics.get(where.topic)
        if topic is None or not 0 <= where.partition < len(topic.partitions):
            return None
        return topic.partitions[where.partition]

    def leader(self, where: TopicPartition) -> int | None:
        """The broker that leads a partition, if one is known."""
        partition = self.partition(where)
        return partition.leader if partition is not None and partition.leader in self.brokers else None

    def leader_epoch(self, where: TopicPartition) -> int:
        """The epoch in which it leads: a broker that was replaced, or does not know yet that it leads, does not answer."""
        partition = self.partition(where)
        return partition.leader_epoch if partition is not None else NO_EPOCH

    def learn_leader(self, where: TopicPartition, leader: int, leader_epoch: int, topic_id: str) -> bool:
        """Believe a broker that said who leads now; whether that was news.

        Not if it means another topic of this name: the epochs of the two have nothing to do with each other.
        """
        partition = self.partition(where)
        if partition is None or topic_id != self.topics[where.topic].topic_id:
            return False
        if leader not in self.brokers or leader_epoch <= partition.leader_epoch:
            return False
        partition.leader, partition.leader_epoch = leader, leader_epoch
        return True

    @property
    def stale(self) -> bool:
        return time.monotonic() - self._refreshed_at > self._config.metadata_max_age_ms / 1000

    async def topic(self, name: str, timeout_s: float) -> TopicMetadata:
        """A topic's partitions, waiting for the topic to appear and asking again until ``timeout_s`` is over."""
        check_topic_name(name)
        known = self.topics.get(name)
        if known is not None and not self.stale:
            return known

        is_first = True

        async def ask() -> TopicMetadata:
            nonlocal is_first
            self.watched.add(name)
            if is_first or name not in self._known_names():  # before all later attempts there was a refresh
                is_first = False
                await self.refresh()
            self.raise_if_missing(name)
            return self.topics[name]

        try:
            return await self.retry(ask, timeout_s, f"topic {name!r} was not found")
        finally:
            if name not in self.topics:
                self.watched.discard(name)  # a name that was misspelt is not asked for ever after

    def raise_if_missing(self, name: str) -> None:
        """Raise what the last refresh said about a topic that is not known."""
        if name not in self.topics:
            error = self._missing.get(name) or UnknownTopicOrPartition(f"topic {name!r} does not exist")
            raise type(error)(str(error), topic=name)

    async def refresh(self) -> None:
        """Ask any broker for the brokers and for the topics that are watched."""
        asked_at = time.monotonic()
        async with self._refreshing:
            if self._refreshed_at > asked_at and self._known_names() >= self.watched:
                return  # somebody else asked while we waited for our turn
            await self.metadata(sorted(self.watched))
            self._refreshed_at = time.monotonic()

    async def metadata(self, topics: list[str] | None) -> MetadataResponse:
        """Ask any broker for these topics, or all; who knows less than others have told before does not count."""
        answer = await self.ask_any(MetadataRequest(topics), MetadataResponse, self._check_version, _is_in_doubt)
        self._learn(answer)
        return answer

    def _check_version(self, answer: MetadataResponse) -> None:
        if answer.cluster_id == self.cluster_id and answer.version < self._metadata_version:
            text = f"knows the cluster as of version {answer.version}; {self._metadata_version} was told before"
            raise BrokerNotAvailable(text)

    def _known_names(self) -> set[str]:
        return self.topics.keys() | self._missing.keys()

    def _learn(self, answer: MetadataResponse) -> None:
        if self.cluster_id not in ("", answer.cluster_id):  # its versions and ours have nothing to do with each other
            logger.warning("another cluster answers cluster_id=%s before=%s", answer.cluster_id, self.cluster_id)
        self._metadata_version = answer.version
        self.cluster_id, self.controller = answer.cluster_id, answer.controller
        self.brokers = {broker.id: broker for broker in answer.brokers}
        for topic in answer.topics:
            if topic.name not in self.watched:
                continue
            if not topic.error_code:
                self._missing.pop(topic.name, None)
                self.topics[topic.name] = newest(topic, self.topics.get(topic.name))
            else:
                self._missing[topic.name] = error_for(topic.error_code, topic.error_message, topic=topic.name)
                if topic.error_code == UnknownTopicOrPartition.code:
                    self.topics.pop(topic.name, None)
        self.version += 1  # last: whoever sees it, in another thread, must find what it stands for

    # --- connections -----------------------------------------------------------------------------------------------------

    async def channel(self, broker_id: int, lane: int = MAIN_LANE) -> Channel:
        """The connection to a broker, made when it is not there."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise LeaderNotAvailable(f"broker {broker_id} is not among those that are known: {sorted(self.brokers)}")
        return await self._connections.to(broker.host, broker.port, lane)

    def open_channel(self, broker_id: int) -> Channel | None:
        """The connection to a broker if it stands."""
        broker = self.brokers.get(broker_id)
        return self._connections.standing(broker.host, broker.port) if broker is not None else None

    def suspect(self, address: str) -> None:
        """A broker does not answer: ask the others first."""
        self._connections.suspect(address)

    @property
    def closed(self) -> bool:
        return self._connections.closed

    async def close(self) -> None:
        await self._connections.close()

    def abort(self) -> None:
        """As ``close``, at once and without waiting for anything."""
        self._connections.abort()

    def abandon(self) -> None:
        """As ``abort``, soon and from any thread: nobody has the client any more."""
        self._connections.abandon()

    # --- asking ----------------------------------------------------------------------------------------------------------

    async def ask_any(
        self,
        request: Request,
        kind: type[M],
        check: Callable[[M], None] = lambda _: None,
        is_in_doubt: Callable[[M], bool] = lambda _: False,
    ) -> M:
        """Ask the brokers that are known, then those of bootstrap_servers, until one answers and ``check`` does not raise.

        An answer in doubt counts if none of the next OTHERS_ASKED brokers has another one.
        """
        doubtful: list[M] = []
        known = [(broker.host, broker.port) for broker in self.brokers.values()]
        addresses = self._connections.likely_first(known + self._config.addresses)
        for address in addresses:
            patience_s = METADATA_TIMEOUT_S if address == addresses[-1] else IMPATIENT_S
            try:
                channel = await self._connections.to(*address)
                answer = await channel.ask(request, kind, patience_s)
                check(answer)
            except ClientClosed:
                if self.closed:
                    raise
            except InvalidRequest:
                raise  # every broker would say the same
            except OttlaError as error:
                self._connections.failed(address, error)
            else:
                self._connections.answered(address)
                if not is_in_doubt(answer):
                    return answer
                doubtful.append(answer)
                self._connections.suspect("{}:{}".format(*address))  # next time the others are asked first
                if len(doubtful) > OTHERS_ASKED:
                    break
        if doubtful:
            return doubtful[0]
        raise NobodyAnswers(f"no broker answered; {self.tried()}", hint="is the cluster up? `ottla status` tells")

    async def ask_controller(self, request: Request, kind: type[M], timeout_s: float) -> M:
        if self.controller not in self.brokers:
            await self.refresh()
        if self.controller not in self.brokers:
            raise LeaderNotAvailable("the cluster has no controller at the moment")
        asked = self.controller
        channel = await self.channel(asked, CONTROL_LANE)
        return await self.ask_while(lambda: self.controller == asked, channel, request, kind, timeout_s)

    async def ask_while(
        self,
        in_charge: Callable[[], bool],
        channel: Channel,
        request: Request,
        kind: type[M],
        timeout_s: float,
        waits_s: float = 0.0,
    ) -> M:
        """Ask a broker that may be dead without anybody having noticed: it is given up once another one is in charge.

        ``waits_s``: for so long it need not answer, by what it is asked; nobody is suspected before.
        """
        answer = channel.send(request)
        deadline = time.monotonic() + timeout_s
        check_s = waits_s + CHECK_S
        while not answer.done():
            left = deadline - time.monotonic()
            await asyncio.wait([answer], timeout=min(left, check_s))
            check_s = CHECK_S
            if answer.done():
                break
            self.suspect(channel.address)
            if left <= CHECK_S:
                await channel.close()  # answers come in order: behind this one nothing else would come either
                text = f"{channel.address} did not answer {type(request).__name__} in {timeout_s:g} s"
                raise ClientTimeout(text, broker=channel.address)
            await self._refresh_quietly()
            if not (answer.done() or in_charge()):
                text = f"{channel.address} did not answer {type(request).__name__} and is not in charge any more"
                raise NetworkException(text, broker=channel.address)
        return cast(M, answer.result().message)

    def attempt_s(self, timeout_s: float) -> float:
        """How long one attempt may take of a time that shall be enough for several."""
        return min(timeout_s / 2, self._config.request_timeout_ms / 1000)

    async def retry(self, attempt: Callable[[], Awaitable[R]], timeout_s: float, what: str) -> R:
        """Try until it works, fails for good, or ``timeout_s`` is over; then say what failed last and who was tried."""
        config = self._config
        last: OttlaError | None = None
        try:
            async with asyncio.timeout(timeout_s):
                for wait_s in backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000):
                    try:
                        return await attempt()
                    except OttlaError as error:
                        if not (error.retriable or self.only_hung_up(error)):
                            raise
                        last = error
                    failed_at = time.monotonic()
                    await asyncio.sleep(wait_s)
                    if not isinstance(last, NobodyAnswers) and self._refreshed_at < failed_at:
                        # Whatever it was: perhaps it is not the right one that was asked. However many calls wait at once,
                        # what one of them is told after the others have failed is news to all.
                        await self._refresh_quietly()
        except TimeoutError:
            pass
        if isinstance(last, UnknownTopicOrPartition | LeaderNotAvailable):
            text = f"{last} (waited {timeout_s:g} s; {self.tried()})"
            raise type(last)(text, topic=last.topic, partition=last.partition) from None
        why = f": {str(last).removesuffix('.')}" if last is not None else ""
        hint = last.hint if last is not None else None
        raise ClientTimeout(self.with_tried(f"{what} within {timeout_s:g} s{why}"), hint=hint) from None

    def only_hung_up(self, error: OttlaError) -> bool:
        """Whether a request was lost because we ourselves gave up its connection, for another request's sake."""
        return isinstance(error, ClientClosed) and not self.closed

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except ClientClosed:
            raise
        except OttlaError:
            pass  # the attempt itself will say what is wrong

    def servers(self) -> str:
        """The addresses that were given to ask first."""
        return ",".join(f"{host}:{port}" for host, port in self._config.addresses)

    def with_tried(self, text: str) -> str:
        """A sentence that ends with whom we tried, unless it says so already."""
        return text if "; tried " in text else f"{text}; {self.tried()}"

    def tried(self) -> str:
        """The addresses that could not be asked, and why; where there are none, those of the brokers."""
        if self._connections.tried:
            return "tried " + ", ".join(f"{address} ({why})" for address, why in self._connections.tried.items())
        addresses = [f"{broker.host}:{broker.port}" for broker in self.brokers.values()]
        return "brokers are " + ", ".join(addresses or [f"{host}:{port}" for host, port in self._config.addresses])


def _is_in_doubt(answer: MetadataResponse) -> bool:
    return answer.in_doubt


def newest(told: TopicMetadata, known: TopicMetadata | None) -> TopicMetadata:
    """What a broker told, except where it is behind what another told before: leader epochs and partitions only grow."""
    if known is not None and known.topic_id == told.topic_id:
        told.partitions += known.partitions[len(told.partitions) :]
        for place, (new, old) in enumerate(zip(told.partitions, known.partitions, strict=False)):
            if new.leader_epoch < old.leader_epoch:
                told.partitions[place] = old
    return told
