"""The folder of one partition replica: its name and the id of the topic whose records it holds."""

from pathlib import Path

from ottla.broker.storage.checkpoint_file import replace_file
from ottla.broker.storage.segments.segment_files import base_offsets, segment_path
from ottla.wire.errors import InconsistentTopicId, InvalidTopic
from ottla.wire.names import PARTITIONS_MAX, TopicPartition, check_topic_name

METADATA_FILE = "partition.metadata"
DELETE_SUFFIX = "-delete"


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


def read_topic_id(folder: Path) -> str | None:
    """The topic id that a folder belongs to, None if it does not tell. ValueError if its file makes no sense."""
    try:
        text = (folder / METADATA_FILE).read_text("utf-8")
    except FileNotFoundError:
        return None
    values = dict(line.split(": ", 1) for line in text.splitlines() if line.strip())
    if values.get("version") != "0" or not values.get("topic_id"):
        raise ValueError(f"{folder / METADATA_FILE} holds {text[:80]!r}")
    return values["topic_id"].strip()


def holds_records(folder: Path) -> bool:
    """Whether there is anything in it that could be lost: files of a log that is empty are not."""
    return any(segment_path(folder, base).stat().st_size for base in base_offsets(folder))


def claim_folder(folder: Path, topic_id: str) -> None:
    """Make ``folder`` one of this topic, creating it if need be. InconsistentTopicId if it is another topic's.

    The names of new files, and of the folder itself, are synced with the first flush of the log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = read_topic_id(folder)
    if found is None and holds_records(folder):
        raise InconsistentTopicId(f"{folder} holds records but no {METADATA_FILE} that says of which topic")
    if found is None:
        replace_file(folder / METADATA_FILE, f"version: 0\ntopic_id: {topic_id}\n", sync_name=False)
    elif found != topic_id:
        raise InconsistentTopicId(
            f"{folder} holds records of topic id {found}, not {topic_id}",
            hint="an earlier topic of the same name was deleted; delete its replica here before creating the new one",
        )
