"""Names that cross the wire: topics, partitions, and what a legal one looks like."""

import re
from typing import Final, NamedTuple

from ottla.wire.errors import InvalidTopic

# A topic name becomes a folder name and a znode name: nothing but these characters, and never more than a file system
# allows once "-<partition>" is appended (Kafka's limit, so that every tool that knows Kafka agrees).
TOPIC_NAME_MAX = 249
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)

PARTITIONS_MAX = 10_000
"""The most partitions one topic may have: each costs every broker memory and the controller a write."""

SEGMENT_BYTES_MIN = 64 * 1024
"""The smallest segments that a request may ask for, unless log.segment.bytes.min says otherwise.

Each segment costs files and descriptors, so one client could fill the disk's inodes and a broker's descriptors with tiny ones.
Smaller values that are stored already stay in force, for without them a log would hold fewer and larger segments than before.
"""

BROKER_ID_MAX = 2**31 - 1

NO_LEADER: Final = -1
"""The leader of a partition that has none."""

NO_EPOCH: Final = -1
"""The epoch of somebody who knows none: checks against it are skipped."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def check_topic_name(name: str) -> str:
    """Give back ``name`` if it may name a topic; raise InvalidTopic, saying why, if not."""
    if not name:
        raise InvalidTopic("a topic name must not be empty", topic=name)
    if name in (".", ".."):
        raise InvalidTopic(f"topic name {name!r} is a folder's own name", topic=name)
    if len(name) > TOPIC_NAME_MAX:
        raise InvalidTopic(f"a topic name has at most {TOPIC_NAME_MAX} characters, not {len(name)}", topic=name[:64])
    if not _LEGAL_TOPIC.fullmatch(name):
        raise InvalidTopic(f"topic name {name!r} may only have letters, digits, '.', '_' and '-'", topic=name)
    return name


INTERNAL_TOPICS = {
    "__consumer_offsets": "what groups have read is kept in ZooKeeper",
    "__transaction_state": "there are no transactions",
    "__share_group_state": "there are no share groups",
}
"""Topics that Kafka makes for itself, and why there are none here. Clients that ask for one would get an ordinary topic."""

RECORD_FORMAT = "record.format"
RECORD_FORMAT_COLUMNAR, RECORD_FORMAT_KAFKA = "columnar", "kafka"
"""A topic's setting: the format in which our own producers write. What is stored stays as it is, and everybody reads both."""
