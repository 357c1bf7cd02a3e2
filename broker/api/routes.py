"""Every request that this broker serves, in one table: who answers it, and who may send it."""

from dataclasses import dataclass

from ottla.broker.api.consumer_groups import ConsumerGroupHandlers
from ottla.broker.api.control import ControlHandlers
from ottla.broker.api.controller.configs import ConfigHandlers
from ottla.broker.api.controller.leadership import LeadershipHandlers
from ottla.broker.api.controller.topics import TopicHandlers
from ottla.broker.api.dispatch import ApiHandler, Route
from ottla.broker.api.group_admin import GroupAdminHandlers
from ottla.broker.api.group_offsets import GroupOffsetHandlers
from ottla.broker.api.groups import GroupHandlers
from ottla.broker.api.named_writes import NamedWriteHandlers
from ottla.broker.api.offset_delete import OffsetDeleteHandler
from ottla.broker.api.who_may import (
    brokers,
    consumers_and_the_replica_itself,
    everybody,
    the_broker_itself,
    the_controller,
)
from ottla.broker.api.zookeeper_silence import UnlessZooKeeperIsSilent
from ottla.wire.messages import Api


@dataclass(frozen=True)
class Handlers:
    """All of them, by the files they live in."""

    produce: ApiHandler
    fetch: ApiHandler
    list_offsets: ApiHandler
    metadata: ApiHandler
    api_versions: ApiHandler
    init_producer_id: ApiHandler
    offset_for_leader_epoch: ApiHandler
    describe_configs: ApiHandler
    list_config_resources: ApiHandler
    describe_log_dirs: ApiHandler
    describe_producers: ApiHandler
    alter_replica_log_dirs: ApiHandler
    delete_records: ApiHandler
    topics: TopicHandlers
    configs: ConfigHandlers
    leadership: LeadershipHandlers
    control: ControlHandlers
    groups: GroupHandlers
    group_offsets: GroupOffsetHandlers
    offset_delete: OffsetDeleteHandler
    group_admin: GroupAdminHandlers
    consumer_groups: ConsumerGroupHandlers
    named_writes: NamedWriteHandlers
    unless_silent: UnlessZooKeeperIsSilent


def routes(to: Handlers) -> dict[Api, Route]:
    return {
        Api.PRODUCE: Route(to.produce, everybody),
        Api.FETCH: Route(to.fetch, consumers_and_the_replica_itself),
        Api.LIST_OFFSETS: Route(to.list_offsets, everybody),
        Api.METADATA: Route(to.metadata, everybody),
        Api.API_VERSIONS: Route(to.api_versions, everybody),
        Api.INIT_PRODUCER_ID: Route(to.init_producer_id, everybody),
        Api.OFFSET_FOR_LEADER_EPOCH: Route(to.offset_for_leader_epoch, everybody),
        Api.CREATE_TOPICS: Route(to.topics.create, everybody),
        Api.DELETE_TOPICS: Route(to.topics.delete, everybody),
        Api.DELETE_RECORDS: Route(to.delete_records, everybody),
        Api.CREATE_PARTITIONS: Route(to.topics.create_partitions, everybody),
        Api.DESCRIBE_CONFIGS: Route(to.describe_configs, everybody),
        Api.LIST_CONFIG_RESOURCES: Route(to.list_config_resources, everybody),
        Api.DESCRIBE_LOG_DIRS: Route(to.describe_log_dirs, everybody),
        Api.DESCRIBE_PRODUCERS: Route(to.describe_producers, everybody),
        Api.ALTER_REPLICA_LOG_DIRS: Route(to.alter_replica_log_dirs, everybody),
        Api.ALTER_CONFIGS: Route(to.configs.alter, everybody),
        Api.INCREMENTAL_ALTER_CONFIGS: Route(to.configs.incremental_alter, everybody),
        Api.ALTER_PARTITION_REASSIGNMENTS: Route(to.leadership.reassign, everybody),
        Api.LIST_PARTITION_REASSIGNMENTS: Route(to.leadership.reassignments, everybody),
        Api.ELECT_LEADERS: Route(to.leadership.elect, everybody),
        Api.FIND_COORDINATOR: Route(to.groups.find_coordinator, everybody),
        Api.JOIN_GROUP: Route(to.groups.join, everybody),
        Api.SYNC_GROUP: Route(to.groups.sync, everybody),
        Api.HEARTBEAT: Route(to.groups.heartbeat, everybody),
        Api.LEAVE_GROUP: Route(to.groups.leave, everybody),
        Api.OFFSET_COMMIT: Route(to.unless_silent(to.group_offsets.commit), everybody),
        Api.OFFSET_FETCH: Route(to.unless_silent(to.group_offsets.fetch), everybody),
        Api.OFFSET_DELETE: Route(to.unless_silent(to.offset_delete), everybody),
        Api.DESCRIBE_GROUPS: Route(to.unless_silent(to.group_admin.describe), everybody),
        Api.LIST_GROUPS: Route(to.unless_silent(to.group_admin.list), everybody),
        Api.DELETE_GROUPS: Route(to.unless_silent(to.group_admin.delete), everybody),
        Api.CONSUMER_GROUP_HEARTBEAT: Route(to.consumer_groups.heartbeat, everybody),
        Api.CONSUMER_GROUP_DESCRIBE: Route(to.unless_silent(to.consumer_groups.describe), everybody),
        Api.BEGIN_WRITE: Route(to.named_writes.begin, everybody),
        Api.END_WRITE: Route(to.named_writes.end, everybody),
        Api.BROKER_HANDSHAKE: Route(to.control.handshake, everybody),
        Api.WITNESS: Route(to.control.witness, brokers),
        Api.PEER_METADATA: Route(to.control.peer_metadata, brokers),
        Api.CONTROLLED_SHUTDOWN: Route(to.leadership.shutdown, the_broker_itself),
        Api.UNREACHABLE_LEADERS: Route(to.leadership.unreachable, the_broker_itself),
        Api.LEADER_AND_ISR: Route(to.control.leader_and_isr, the_controller),
        Api.UPDATE_METADATA: Route(to.control.update_metadata, the_controller),
        Api.STOP_REPLICA: Route(to.control.stop_replica, the_controller),
    }
