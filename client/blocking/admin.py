"""The blocking Admin."""

import warnings
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Unpack, cast

from ottla.client.admin import DEFAULT_TIMEOUT_S, NOTHING, AsyncAdmin
from ottla.client.admin_requests import NewTopic, Setting
from ottla.client.config import AdminConfig
from ottla.client.groups.commits import OffsetAndMetadata
from ottla.client.groups.descriptions import GroupDescription, PartitionLag
from ottla.client.loop_thread import shared_loop_thread
from ottla.client.options import AdminOptions, documented
from ottla.client.wanted import PartitionOutcomes, TopicOutcomes
from ottla.wire.admin import ConfigEntry, OngoingReassignment
from ottla.wire.errors import OttlaError
from ottla.wire.names import TopicPartition
from ottla.wire.requests import MetadataResponse, TopicMetadata


@documented(AdminConfig)
class Admin:
    """Creates, describes and deletes topics; tells who is in the cluster.

    with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
        admin.create_topic("orders", partitions=3)
    """

    _closed = True  # until it is made

    def __init__(self, **options: Unpack[AdminOptions]) -> None:
        self._thread = shared_loop_thread()
        self._twin = self._thread.call(lambda: AsyncAdmin(**options))
        self._closed = False
        self._thread.clients.add(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Admin":
        """From Kafka's own names: ``{"bootstrap.servers": ...}``."""
        return cls(**cast(Any, config))

    def __repr__(self) -> str:
        return f"<Admin at {self._twin._cluster.servers()}{' (closed)' if self._closed else ''}>"

    def __enter__(self) -> "Admin":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and not self._thread.lost:
            self._thread.close_unowned(self._twin.close)
            warnings.warn("an admin that nobody has any more was not closed", ResourceWarning, 2, source=self)

    def close(self) -> None:
        self._closed = True
        if not self._thread.lost:
            self._thread.run(self._twin.close())

    def _close_at_exit(self, timeout: float) -> bool:
        self.close()
        return False  # no record is lost by it

    def _forked(self, why: OttlaError) -> None:
        """Nothing to do: whatever is asked of it from now on is refused by the loop thread."""

    # --- groups ----------------------------------------------------------------------------------------------------------

    def list_groups(self, states: Iterable[str] = (), *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[str, str]:
        """All consumer groups and their states; only those in these states, if some are named."""
        return self._thread.run(self._twin.list_groups(states, timeout=timeout))

    def describe_group(self, group: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> GroupDescription:
        """A group's members and what each of them reads. GroupIdNotFound if there is none."""
        return self._thread.run(self._twin.describe_group(group, timeout=timeout))

    def group_offsets(
        self, group: str, *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Everything that a group has committed."""
        return self._thread.run(self._twin.group_offsets(group, timeout=timeout))

    def group_lag(self, group: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, PartitionLag]:
        """How far a group is behind."""
        return self._thread.run(self._twin.group_lag(group, timeout=timeout))

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int],
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Let a group go on from these offsets. It must have no members."""
        self._thread.run(self._twin.alter_group_offsets(group, offsets, timeout=timeout))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[tuple[str, int]], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Forget what a group has committed of these, of topics that no member subscribes to."""
        self._thread.run(self._twin.delete_group_offsets(group, partitions, timeout=timeout))

    def delete_group(self, group: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Forget a group that has no members, and all that it committed."""
        self._thread.run(self._twin.delete_group(group, timeout=timeout))

    def create_topic(
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
        return self._thread.run(
            self._twin.create_topic(
                name, partitions, replication_factor, config,
                assignment=assignment, validate_only=validate_only, timeout=timeout,
            )
        )  # fmt: skip

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False, timeout: float = DEFAULT_TIMEOUT_S
    ) -> TopicOutcomes:
        """Create many topics; tells of each what became of it: None, or an error."""
        return self._thread.run(self._twin.create_topics(topics, validate_only=validate_only, timeout=timeout))

    def delete_topic(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Delete a topic with all its records and wait until it is gone."""
        self._thread.run(self._twin.delete_topic(name, timeout=timeout))

    def delete_topics(self, names: Iterable[str], *, timeout: float = DEFAULT_TIMEOUT_S) -> TopicOutcomes:
        """Delete many topics; tells of each what became of it: None, or an error."""
        return self._thread.run(self._twin.delete_topics(names, timeout=timeout))

    def add_partitions(self, name: str, count: int, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        """Let a topic have ``count`` partitions, more than it has. Keys may go to other partitions from then on."""
        self._thread.run(self._twin.add_partitions(name, count, timeout=timeout))

    def create_partitions(self, counts: Mapping[str, int], *, timeout: float = DEFAULT_TIMEOUT_S) -> TopicOutcomes:
        """Let many topics have so many partitions each; tells of each what became of it: None, or an error."""
        return self._thread.run(self._twin.create_partitions(counts, timeout=timeout))

    def delete_records(
        self,
        offsets: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int],
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> dict[TopicPartition, int]:
        """Delete the records before these offsets, -1 for all that are committed; gives where each partition begins then.

        It returns when every replica in sync has noted it on disk. OffsetOutOfRange for an offset past the end; the other
        partitions are done all the same. The space comes back segment by segment (log.retention.check.interval.ms).
        """
        return self._thread.run(self._twin.delete_records(offsets, timeout=timeout))

    def alter_topic_config(
        self,
        name: str,
        settings: Mapping[str, Setting] = NOTHING,
        *,
        unset: Iterable[str] = (),
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Change these settings of a topic, take those in ``unset`` away, and leave all others as they are."""
        self._thread.run(self._twin.alter_topic_config(name, settings, unset=unset, timeout=timeout))

    def replace_topic_config(
        self, name: str, settings: Mapping[str, Setting], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Let a topic have these settings of its own and no others."""
        self._thread.run(self._twin.replace_topic_config(name, settings, timeout=timeout))

    def incremental_alter_configs(
        self,
        changes: Mapping[str, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> TopicOutcomes:
        """Change some settings of many topics, ``{topic: {key: value}}``; None for a value takes the setting away."""
        return self._thread.run(
            self._twin.incremental_alter_configs(changes, validate_only=validate_only, timeout=timeout)
        )

    def describe_configs(
        self, topics: Iterable[str], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> dict[str, list[ConfigEntry]]:
        """All settings of topics, those that they leave to the broker too: key, value, and ``source`` (a ConfigSource)."""
        return self._thread.run(self._twin.describe_configs(topics, timeout=timeout))

    def alter_broker_config(
        self,
        broker: int | None,
        settings: Mapping[str, Setting] = NOTHING,
        *,
        unset: Iterable[str] = (),
        validate_only: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Change these settings of a running broker, or of all of them (None), and take those in ``unset`` away."""
        self._thread.run(
            self._twin.alter_broker_config(broker, settings, unset=unset, validate_only=validate_only, timeout=timeout)
        )

    def describe_broker_config(self, broker: int | None, *, timeout: float = DEFAULT_TIMEOUT_S) -> list[ConfigEntry]:
        """All settings of a broker, with their ``source``; or (None) those that were set for all while they run."""
        return self._thread.run(self._twin.describe_broker_config(broker, timeout=timeout))

    def reassign(
        self, name: str, partition: int, replicas: Iterable[int], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> None:
        """Begin to move a partition to other brokers, the preferred leader first; describe_topic shows when it is done."""
        self._thread.run(self._twin.reassign(name, partition, replicas, timeout=timeout))

    def alter_partition_reassignments(
        self, moves: Mapping[tuple[str, int], Iterable[int] | None], *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> PartitionOutcomes:
        """Begin to move many partitions; None for a partition calls off what is under way."""
        return self._thread.run(self._twin.alter_partition_reassignments(moves, timeout=timeout))

    def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, timeout: float = DEFAULT_TIMEOUT_S
    ) -> list[OngoingReassignment]:
        """The moves that are under way: of these partitions, or of all."""
        return self._thread.run(self._twin.list_partition_reassignments(partitions, timeout=timeout))

    def elect_leaders(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        unclean: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> PartitionOutcomes:
        """Give leadership back to preferred leaders, and tell of each partition whether that could be done.

        ``unclean``: see ``AsyncAdmin.elect_leaders``, it loses records.
        """
        return self._thread.run(self._twin.elect_leaders(partitions, unclean=unclean, timeout=timeout))

    def list_topics(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> list[str]:
        """The names of all topics, sorted."""
        return self._thread.run(self._twin.list_topics(timeout=timeout))

    def describe_topic(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> TopicMetadata:
        """A topic's id, config overrides and partitions (leader, replicas, isr, leader_epoch)."""
        return self._thread.run(self._twin.describe_topic(name, timeout=timeout))

    def describe_cluster(self, *, timeout: float = DEFAULT_TIMEOUT_S) -> MetadataResponse:
        """Cluster id, controller, brokers and all topics, as one broker knows them."""
        return self._thread.run(self._twin.describe_cluster(timeout=timeout))

    def earliest_offsets(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, int]:
        """The first offset that is still there, for each partition."""
        return self._thread.run(self._twin.earliest_offsets(name, timeout=timeout))

    def latest_offsets(self, name: str, *, timeout: float = DEFAULT_TIMEOUT_S) -> dict[TopicPartition, int]:
        """The offset that the next committed record will get, for each partition."""
        return self._thread.run(self._twin.latest_offsets(name, timeout=timeout))
