"""What somebody wrote into ZooKeeper by other means: what means nothing is left out, the rest counts, and all agree on it."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.controller.decisions.cluster import Cluster, Topic
from ottla.broker.dynamic_config import ALL_BROKERS, BrokerSettings
from ottla.wire.errors import NotEnoughReplicas
from ottla.zk.znodes.config import BrokerConfigZnode
from tests.component.api.served import Served, batch_of, error_of

DEFAULT = 3
WRITTEN = [
    "2",
    " 2 ",
    "0002",
    "0",
    "-1",
    "+2",
    "2.0",
    "",
    "nonsense",
    "3000000000",
    "²",
    "٢",
    "9" * 5000,
    "2" + " " * 2000,
]


async def test_setting_that_nobody_knows_takes_no_other_one_out_of_force(served: Served) -> None:
    await served.decide(min_insync_replicas="2", retention_ms="-1", compression_type="producer", segment_bytes="a few")
    assert error_of(served.produce(batch_of(), acks=-1)) is NotEnoughReplicas
    config = served.partition().log.config
    assert (config.retention_ms, config.segment_bytes) == (-1, 1024**3)


async def test_stored_segments_smaller_than_requests_may_set_count_with_one_warning(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    for epoch in range(3):
        await served.decide(segment_bytes="14", epoch=epoch)
    assert served.partition().log.config.segment_bytes == 14
    settings = BrokerSettings(BrokerConfig(broker_id=1))
    for retention in ("1", "2"):
        settings.take({ALL_BROKERS: {"log.segment.bytes": "14", "log.retention.ms": retention}})
    assert settings.config.log_segment_bytes == 14
    warned = [record.getMessage() for record in caplog.records if "segments are small" in record.message]
    assert len(warned) == 2
    assert "set_for=topic t segment_bytes=14" in warned[0]
    assert "set_for=this broker" in warned[1]


@pytest.mark.parametrize("text", WRITTEN)
async def test_controller_elects_by_what_leaders_acknowledge_by(served: Served, text: str) -> None:
    """Of a topic. Were it more for the controller than for the leader, one that lacks acknowledged records could be elected."""
    served.partitions.set_defaults(served.partitions._defaults, DEFAULT)
    await served.decide(min_insync_replicas=text)
    topic = Topic("id", {"min.insync.replicas": text}, {}, {})
    assert topic.min_insync(DEFAULT) == served.partition().min_insync


JSON = """{"version": 1, "config": {
    "log.retention.ms": -1, "auto.create.topics.enable": false, "num.partitions": 2.5, "group.max.size": null,
    "offset.metadata.max.bytes": [7], "min.insync.replicas": "2"}}"""


def test_numbers_of_json_are_settings_and_what_is_nonsense_takes_no_other_one_out_of_force() -> None:
    settings = BrokerSettings(BrokerConfig(broker_id=1))
    settings.take({ALL_BROKERS: BrokerConfigZnode.decode(ALL_BROKERS, JSON.encode()).config})
    config = settings.config
    assert (config.log_retention_ms, config.auto_create_topics_enable, config.min_insync_replicas) == (-1, False, 2)
    assert (config.num_partitions, config.group_max_size, config.offset_metadata_max_bytes) == (1, 1000, 4096)


@pytest.mark.parametrize("text", WRITTEN)
def test_controller_and_leaders_mean_the_same_default(text: str) -> None:
    cluster = Cluster()
    cluster.settings = {ALL_BROKERS: {"min.insync.replicas": text}}
    settings = BrokerSettings(BrokerConfig(broker_id=1, min_insync_replicas=DEFAULT))
    settings.take({told.broker: told.config for told in cluster.told_settings()})
    assert cluster.min_insync(DEFAULT) == settings.config.min_insync_replicas
