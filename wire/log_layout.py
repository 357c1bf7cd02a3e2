"""How a partition's log stands in folders and files: names and small text formats, for who writes them and who only reads.

A data folder (``log.dirs``) has a folder ``<topic>-<partition>`` for each partition and checkpoints of all of them; a
partition's folder has its segments, each named by its first offset, and a file that says of which topic they are. Kafka's
names and formats. Pure: reading and writing is for others.
"""

from ottla.wire.errors import InvalidTopic
from ottla.wire.names import PARTITIONS_MAX, TopicPartition, check_topic_name

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
OFFSET_DIGITS = 20

METADATA_FILE = "partition.metadata"

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"

CHECKPOINT_VERSION = "0"

ROWS_MAX = 10_000_000
"""More rows than partitions a broker can hold; a larger count is garbage."""


def segment_name(base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    return f"{base_offset:0{OFFSET_DIGITS}d}{suffix}"


def is_offset(stem: str) -> bool:
    """Whether a file's name, without its suffix, is a first offset."""
    return len(stem) == OFFSET_DIGITS and stem.isascii() and stem.isdigit()


def partition_of(folder_name: str) -> TopicPartition | None:
    """The partition whose records a folder of this name holds; None if it is no partition's folder."""
    topic, dash, number = folder_name.rpartition("-")
    if not dash or not (number.isascii() and number.isdigit()) or int(number) >= PARTITIONS_MAX:
        return None
    if str(int(number)) != number:
        return None
    try:
        return TopicPartition(check_topic_name(topic), int(number))
    except InvalidTopic:
        return None


def parse_topic_id(text: str) -> str:
    """What METADATA_FILE says. ValueError if it makes no sense."""
    values = dict(line.split(": ", 1) for line in text.splitlines() if line.strip())
    if values.get("version") != "0" or not values.get("topic_id"):
        raise ValueError(f"it holds {text[:80]!r}")
    return values["topic_id"].strip()


def parse_rows(text: str, columns: int) -> list[list[str]]:
    """The rows of a checkpoint. ValueError, saying what is wrong, if it is garbage."""
    lines = text.splitlines()
    if len(lines) < 2 or lines[0].strip() != CHECKPOINT_VERSION:
        raise ValueError(f"version line {lines[0][:20]!r}" if lines else "empty file")
    count = int(lines[1])
    rows = [line.split() for line in lines[2:] if line.strip()]
    if not 0 <= count <= ROWS_MAX or len(rows) != count:
        raise ValueError(f"{len(rows)} rows where the second line says {count}")
    for row in rows:
        if len(row) != columns:
            raise ValueError(f"row {' '.join(row)[:80]!r} has not {columns} columns")
    return rows


def parse_offsets(rows: list[list[str]]) -> dict[TopicPartition, int]:
    """Rows ``topic partition offset`` as a mapping. ValueError on a number that cannot be one or a partition told twice."""
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in rows:
        key = TopicPartition(topic, int(partition))
        if key in offsets or key.partition < 0 or int(offset) < 0:
            raise ValueError(f"row {topic} {partition} {offset}")
        offsets[key] = int(offset)
    return offsets
