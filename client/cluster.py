"""The cluster as a client knows it: who leads what, and a connection to each broker."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ottla.client.config import ClientConfig
from ottla.net.channel import Channel, connect
from ottla.net.retry import backoff
from ottla.wire.errors import (
    ClientClosed,
    ClientTimeout,
    LeaderNotAvailable,
    NoBrokersAvailable,
    OttlaError,
    UnknownTopicOrPartition,
    error_for,
)
from ottla.wire.messages import BrokerEndpoint, Message, Request
from ottla.wire.names import TopicPartition, check_topic_name
from ottla.wire.requests import MetadataRequest, MetadataResponse, PartitionMetadata, TopicMetadata

M = TypeVar("M", bound=Message)
R = TypeVar("R")

METADATA_TIMEOUT_S = 5.0
"""How long one broker may take to answer a metadata request before the next one is asked."""


class Cluster:
    """Metadata and connections. Everything that waits takes a deadline on the event loop's clock."""

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._channels: dict[tuple[str, int], Channel] = {}
        self._connecting: dict[tuple[str, int], asyncio.Lock] = {}
        self._refreshing = asyncio.Lock()
        self._refreshed_at = float("-inf")
        self._closed = False
        self._tried: dict[str, str] = {}
        self.brokers: dict[int, BrokerEndpoint] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.controller = -1
        self.cluster_id = ""
        self.watched: set[str] = set()
        """The topics that a refresh asks for."""

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

    def learn_leader(self, where: TopicPartition, leader: int, leader_epoch: int) -> bool:
        """Believe a broker that said who leads now; whether that was news."""
        partition = self.partition(where)
        if partition is None or leader not in self.brokers or leader_epoch <= partition.leader_epoch:
            return False
        partition.leader, partition.leader_epoch = leader, leader_epoch
        return True

    @property
    def stale(self) -> bool:
        return time.monotonic() - self._refreshed_at > self._config.metadata_max_age_ms / 1000

    async def topic(self, name: str, timeout_s: float) -> TopicMetadata:
        """A topic's partitions, waiting for the topic to appear and asking again until ``timeout_s`` is over."""
        check_topic_name(name)
        self.watched.add(name)
        known = self.topics.get(name)
        if known is not None and not self.stale:
            return known

        async def ask() -> TopicMetadata:
            await self.refresh([name])
            return self.topics[name]

        return await self.retry(ask, timeout_s, f"topic {name!r} was not found")

    async def refresh(self, topics: Iterable[str] | None = None) -> MetadataResponse:
        """Ask any broker for the brokers and for ``topics`` (default: all that are watched)."""
        async with self._refreshing:
            wanted = sorted(set(topics) if topics is not None else self.watched)
            answer = await self.ask_any(MetadataRequest(topics=wanted), MetadataResponse)
            self._learn(answer)
            self._refreshed_at = time.monotonic()
        for topic in answer.topics:
            if topic.error_code and topics is not None:
                raise error_for(topic.error_code, topic.error_message, topic=topic.name)
        return answer

    async def refresh_after(self, seen_at: float) -> None:
        """Refresh, unless somebody already did since ``seen_at``: many failures at once need one question only."""
        if self._refreshed_at <= seen_at:
            await self.refresh()

    def _learn(self, answer: MetadataResponse) -> None:
        self.cluster_id, self.controller = answer.cluster_id, answer.controller
        self.brokers = {broker.id: broker for broker in answer.brokers}
        for topic in answer.topics:
            if topic.error_code == UnknownTopicOrPartition.code:
                self.topics.pop(topic.name, None)
            elif not topic.error_code:
                self.topics[topic.name] = topic

    # --- connections -----------------------------------------------------------------------------------------------------

    async def channel(self, broker_id: int) -> Channel:
        """The connection to a broker, made when it is not there."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise LeaderNotAvailable(f"broker {broker_id} is not among those that are known: {sorted(self.brokers)}")
        return await self._channel_to(broker.host, broker.port)

    def open_channel(self, broker_id: int) -> Channel | None:
        """The connection to a broker if it stands."""
        broker = self.brokers.get(broker_id)
        channel = self._channels.get((broker.host, broker.port)) if broker is not None else None
        return channel if channel is not None and channel.usable else None

    async def leader_channel(self, where: TopicPartition) -> Channel:
        leader = self.leader(where)
        if leader is None:
            raise LeaderNotAvailable(f"{where} has no leader", topic=where.topic, partition=where.partition)
        return await self.channel(leader)

    async def _channel_to(self, host: str, port: int) -> Channel:
        if self._closed:
            raise ClientClosed
        address = (host, port)
        channel = self._channels.get(address)
        if channel is not None and channel.usable:
            return channel
        async with self._connecting.setdefault(address, asyncio.Lock()):
            channel = self._channels.get(address)
            if channel is None or not channel.usable:
                timeout_s = self._config.connect_timeout_ms / 1000
                channel = await connect(host, port, client_id=self._config.client_id, timeout_s=timeout_s)
                if self._closed:
                    await channel.close()
                    raise ClientClosed
                self._channels[address] = channel
            return channel

    # --- asking ----------------------------------------------------------------------------------------------------------

    async def ask_any(self, request: Request, kind: type[M]) -> M:
        """Ask the brokers that are known, then those of bootstrap_servers, until one answers."""
        known = [(broker.host, broker.port) for broker in self.brokers.values()]
        known.sort(key=lambda address: address not in self._channels)  # open connections first
        self._tried = {}
        for host, port in dict.fromkeys(known + self._config.addresses):
            try:
                channel = await self._channel_to(host, port)
                return await channel.ask(request, kind, METADATA_TIMEOUT_S)
            except (ClientClosed, asyncio.CancelledError):
                raise
            except OttlaError as error:
                self._tried[f"{host}:{port}"] = str(error)
        raise NoBrokersAvailable(f"no broker answered; {self.tried()}", hint="is the cluster up? `ottla status` tells")

    async def ask_controller(self, request: Request, kind: type[M], timeout_s: float) -> M:
        if self.controller not in self.brokers:
            await self.refresh()
        if self.controller not in self.brokers:
            raise LeaderNotAvailable("the cluster has no controller at the moment")
        channel = await self.channel(self.controller)
        return await channel.ask(request, kind, timeout_s)

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
                        if not error.retriable:
                            raise
                        last = error
                    await asyncio.sleep(wait_s)
                    if last.refresh_metadata:
                        await self._refresh_quietly()
        except TimeoutError:
            pass
        if isinstance(last, UnknownTopicOrPartition | LeaderNotAvailable):
            raise type(last)(f"{last} (waited {timeout_s:g} s; {self.tried()})", topic=last.topic) from None
        why = f": {last}" if last is not None else ""
        raise ClientTimeout(f"{what} within {timeout_s:g} s{why}; {self.tried()}") from None

    async def _refresh_quietly(self) -> None:
        try:
            await self.refresh()
        except ClientClosed:
            raise
        except OttlaError:
            pass  # the attempt itself will say what is wrong

    def tried(self) -> str:
        """The addresses that were asked, and what came of it."""
        if self._tried:
            return "tried " + ", ".join(f"{address} ({why})" for address, why in self._tried.items())
        addresses = [f"{broker.host}:{broker.port}" for broker in self.brokers.values()]
        return "brokers are " + ", ".join(addresses or [f"{host}:{port}" for host, port in self._config.addresses])

    async def close(self) -> None:
        self._closed = True
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()
