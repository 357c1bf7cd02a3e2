"""The handlers of all requests, each given the parts that it needs."""

from functools import partial

from ottla import __version__
from ottla.broker.api.auto_topics import AutoTopics, TopicDefaults
from ottla.broker.api.broker_loggers import BrokerLoggers
from ottla.broker.api.consumer_groups import ConsumerGroupHandlers
from ottla.broker.api.control import ControlHandlers
from ottla.broker.api.controller.configs import ConfigHandlers
from ottla.broker.api.controller.each import Controller
from ottla.broker.api.controller.leadership import LeadershipHandlers
from ottla.broker.api.controller.topics import TopicHandlers
from ottla.broker.api.delete_records import DeleteRecordsHandler
from ottla.broker.api.describe_configs import DescribeConfigsHandler
from ottla.broker.api.describe_producers import DescribeProducersHandler
from ottla.broker.api.fetch import FetchHandler
from ottla.broker.api.group_admin import GroupAdminHandlers
from ottla.broker.api.group_offsets import GroupOffsetHandlers
from ottla.broker.api.groups import GroupHandlers
from ottla.broker.api.leader_epochs import OffsetForLeaderEpochHandler
from ottla.broker.api.list_config_resources import ListConfigResourcesHandler
from ottla.broker.api.log_dirs import AlterReplicaLogDirsHandler, DescribeLogDirsHandler
from ottla.broker.api.lost_leaders import LostLeaders
from ottla.broker.api.metadata import ApiVersionsHandler, MetadataHandler
from ottla.broker.api.named_writes import NamedWriteHandlers
from ottla.broker.api.offset_delete import OffsetDeleteHandler
from ottla.broker.api.offsets import ListOffsetsHandler
from ottla.broker.api.produce import ProduceHandler
from ottla.broker.api.producer_ids import InitProducerIdHandler
from ottla.broker.api.replica_fetch import ReplicaFetchHandler
from ottla.broker.api.routes import Handlers
from ottla.broker.api.zookeeper_silence import UnlessZooKeeperIsSilent
from ottla.broker.controller.api import ControllerApi
from ottla.broker.controller.claims import ControllerClaims
from ottla.broker.controller_client import ask_controller, create_topic
from ottla.broker.groups.new_groups import NewGroups
from ottla.broker.parts import Parts
from ottla.broker.peers import Handshakes
from ottla.wire.errors import BrokerNotAvailable


def _controller_of(parts: Parts) -> Controller:
    """Gives the controller if it is on this broker; without ZooKeeper there is none anywhere, and clients must hear that."""

    def controller() -> ControllerApi | None:
        found = parts.membership.controller
        if found is None and not parts.session.connected:
            raise BrokerNotAvailable("there is no controller: ZooKeeper cannot be reached")
        return found

    return controller


def handlers_of(parts: Parts, handshakes: Handshakes, new_groups: NewGroups) -> Handlers:
    membership, view, session, metrics = parts.membership, parts.view, parts.session, parts.metrics
    partitions, purgatories = parts.replication.partitions, parts.replication.purgatories
    for_replicas = ReplicaFetchHandler(parts.replication.sessions, parts.replication.isr_loop.may_have_caught_up)
    controller, fetchers = _controller_of(parts), parts.replication.fetchers
    settings = parts.settings

    def defaults() -> TopicDefaults:
        return TopicDefaults(settings.config.num_partitions, settings.config.default_replication_factor)

    create = partial(create_topic, membership, view)
    auto_topics = AutoTopics(view, create, defaults, lambda: settings.config.auto_create_topics_enable)
    loggers = BrokerLoggers(membership.identity.broker_id)
    producer_ids = InitProducerIdHandler(session, membership.identity.broker_id)
    return Handlers(
        produce=ProduceHandler(
            partitions, view, purgatories.produce, metrics, lambda: membership.unsure, parts.clock.stamp_ms
        ),
        fetch=FetchHandler(partitions, view, purgatories.fetch, metrics, for_replicas, parts.replication.consumers),
        list_offsets=ListOffsetsHandler(partitions, view),
        offset_for_leader_epoch=OffsetForLeaderEpochHandler(partitions, view),
        metadata=MetadataHandler(
            view,
            auto_topics,
            LostLeaders(view, fetchers.follows, fetchers.is_cut_off),
            lambda: parts.peer_metadata.in_doubt,
        ),
        api_versions=ApiVersionsHandler(lambda: membership.identity, handshakes, f"ottla {__version__}"),
        init_producer_id=producer_ids,
        topics=TopicHandlers(controller, defaults),
        describe_configs=DescribeConfigsHandler(view, membership.identity.broker_id, settings, loggers),
        list_config_resources=ListConfigResourcesHandler(view),
        describe_log_dirs=DescribeLogDirsHandler(parts.storage.log_dirs, partitions),
        describe_producers=DescribeProducersHandler(partitions, view, parts.clock.stamp_ms),
        alter_replica_log_dirs=AlterReplicaLogDirsHandler(parts.storage.log_dirs, partitions.prefer_folder),
        delete_records=DeleteRecordsHandler(partitions, view, purgatories.delete_records),
        configs=ConfigHandlers(controller, partial(ask_controller, membership, view), loggers),
        leadership=LeadershipHandlers(controller),
        control=ControlHandlers(
            lambda: membership.identity,
            handshakes,
            partitions,
            view,
            ControllerClaims(session),
            lambda: membership.is_cut_off,
        ),
        groups=GroupHandlers(parts.groups, purgatories.heartbeat, new_groups),
        group_offsets=GroupOffsetHandlers(parts.groups, view, session, new_groups),
        offset_delete=OffsetDeleteHandler(parts.groups, view),
        group_admin=GroupAdminHandlers(parts.groups),
        consumer_groups=ConsumerGroupHandlers(parts.groups, new_groups),
        named_writes=NamedWriteHandlers(session, producer_ids.take, parts.clock.stamp_ms),
        unless_silent=UnlessZooKeeperIsSilent(session),
    )
