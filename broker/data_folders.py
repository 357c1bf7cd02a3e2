"""The data folders as the broker's settings describe them: opened, and with the defaults of the logs in them."""

import asyncio

from ottla.broker.config import BrokerConfig
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.log_config import LogConfig
from ottla.broker.storage.producers.memory import ProducerMemory
from ottla.broker.storage.segments.open_files import OpenFiles
from ottla.wire.errors import ConfigError

ROLL_INTERVAL_MS = 1_000
"""However far apart the timestamps of a producer are, they begin at most one small segment a second in each partition."""


async def open_log_dirs(config: BrokerConfig, cluster: str, open_files: OpenFiles | None = None) -> list[LogDir]:
    """Open all data folders. ConfigError if one of them cannot be used."""
    defaults = log_defaults(config)
    memory = ProducerMemory(
        config.producer_state_max_bytes, config.producer_id_expiration_ms, config.named_write_expiration_ms
    )
    opened = []
    for folder in config.data_folders:
        try:
            log_dir = await asyncio.to_thread(
                LogDir.open, folder, broker_id=config.broker_id, cluster_id=cluster, config_for=lambda _: defaults,
                producer_memory=memory, open_files=open_files,
            )  # fmt: skip
        except OSError as error:
            why = "it is a file" if isinstance(error, FileExistsError) else error.strerror or error
            raise ConfigError(
                f"log.dirs={folder} cannot be used: {why}",
                hint="give a folder on a disk with room, where this user may write",
            ) from None
        opened.append(log_dir)
    return opened


def forget_new(log_dirs: list[LogDir]) -> None:
    """A start failed before anybody heard of these folders: what was empty is empty again, and another broker may have it."""
    for log_dir in log_dirs:
        if log_dir.was_empty and not any(path.is_dir() for path in log_dir.folder.iterdir()):
            for path in log_dir.folder.iterdir():
                path.unlink()


def log_defaults(config: BrokerConfig) -> LogConfig:
    """What a topic's log obeys where the topic itself says nothing."""
    return LogConfig(
        segment_bytes=config.log_segment_bytes,
        segment_ms=config.log_roll_ms,
        retention_ms=config.log_retention_ms,
        retention_bytes=config.log_retention_bytes,
        max_message_bytes=config.message_max_bytes,
        index_interval_bytes=config.log_index_interval_bytes,
        message_timestamp_type=config.log_message_timestamp_type,
        message_timestamp_before_max_ms=config.log_message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=config.log_message_timestamp_after_max_ms,
        flush_policy=config.log_flush_policy,
        roll_interval_ms=ROLL_INTERVAL_MS,
    )
