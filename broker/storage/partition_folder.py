"""The folder of one partition replica: its name and the id of the topic whose records it holds."""

from pathlib import Path

from ottla.broker.storage.checkpoint_file import replace_file
from ottla.broker.storage.segments.segment_files import base_offsets, segment_path
from ottla.wire.errors import InconsistentTopicId
from ottla.wire.log_layout import METADATA_FILE, parse_topic_id

DELETE_SUFFIX = "-delete"


def read_topic_id(folder: Path) -> str | None:
    """The topic id that a folder belongs to, None if it does not tell. ValueError if its file makes no sense."""
    try:
        text = (folder / METADATA_FILE).read_text("utf-8")
    except FileNotFoundError:
        return None
    try:
        return parse_topic_id(text)
    except ValueError as error:
        raise ValueError(f"{folder / METADATA_FILE}: {error}") from None


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
