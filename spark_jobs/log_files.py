"""What there is to read in data folders (mode=files): partitions, and how far each is committed, by its checkpoint."""

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ottla.spark_jobs.log_reader import Place, base_offsets, read_batch, walk
from ottla.spark_jobs.options import ReadOptions
from ottla.spark_jobs.positions import Offsets
from ottla.wire.errors import ConfigError
from ottla.wire.log_layout import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    METADATA_FILE,
    parse_offsets,
    parse_rows,
    parse_topic_id,
    partition_of,
    segment_name,
)
from ottla.wire.messages import EARLIEST, LATEST
from ottla.wire.names import TopicPartition
from ottla.wire.records import find_offset_by_timestamp


class Replica(NamedTuple):
    """A partition's folder: what it holds that is committed."""

    folder: Path
    topic_id: str
    start: int
    end: int


class FileCatalog:
    """Of several replicas of a partition the one that is known to be committed furthest is read."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._replicas: dict[TopicPartition, Replica] = {}
        self._walked: dict[Path, Place] = {}
        """Of each segment the last batch that was seen: a stream looks again and again, and only further."""

    def partitions(self, *, missing_ok: bool = False) -> dict[TopicPartition, str]:
        found: dict[TopicPartition, list[Replica]] = {}
        for path in self._options.paths:
            for where, replica in _replicas(Path(path)):
                found.setdefault(where, []).append(replica)
        choice = self._options.choice
        self._replicas = {
            where: self._best(where, replicas) for where, replicas in sorted(found.items()) if choice.wants(*where)
        }
        if not missing_ok:
            self._check_all_there(found)
        return {where: replica.topic_id for where, replica in self._replicas.items()}

    def _check_all_there(self, found: dict[TopicPartition, list[Replica]]) -> None:
        choice = self._options.choice
        topics = sorted({where.topic for where in found})
        for name in choice.names:
            if name not in topics:
                near = difflib.get_close_matches(name, topics, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(topics) or 'no topics at all'}"
                raise ConfigError(f"option {choice.option()}: no folder of topic {name!r} in {self._where()}; {hint}")
        for name, numbers in choice.assigned.items():
            for number in numbers:
                if TopicPartition(name, number) not in self._replicas:
                    raise ConfigError(f"option assign: there is no folder {name}-{number} in {self._where()}")

    def offsets(self, wanted: dict[TopicPartition, int]) -> Offsets:
        if any(where not in self._replicas for where in wanted):
            self.partitions()
        found = {}
        for where, asked in wanted.items():
            replica = self._replicas[where]
            if asked == EARLIEST:
                found[where] = replica.start
            elif asked == LATEST:
                found[where] = self._latest(replica)
            else:
                found[where] = _at_time(replica, asked)
        return found

    def _best(self, where: TopicPartition, replicas: list[Replica]) -> Replica:
        _check_same_topic(where, replicas)
        return replicas[0] if len(replicas) == 1 else max(replicas, key=self._latest)

    def _latest(self, replica: Replica) -> int:
        """The high watermark; less where the files end before it, as of logs that were copied before their checkpoint."""
        bases = [base for base in base_offsets(replica.folder) if base < replica.end]
        if not bases:
            return replica.start
        path = replica.folder / segment_name(bases[-1])
        last = bases[-1]
        try:
            with path.open("rb") as file:
                for place in self._walk_on(file.fileno(), path, bases[-1]):
                    last = place.next_offset
                    if last >= replica.end:
                        return replica.end
                    self._walked[path] = place
        except FileNotFoundError:
            pass  # deleted meanwhile: there is nothing before it either
        return max(last, replica.start)

    def _walk_on(self, fd: int, path: Path, base: int) -> Iterator[Place]:
        """From the batch that was seen last, if it still stands there."""
        known = self._walked.get(path)
        if known is not None:
            on = walk(fd, base, known.position)
            if next(on, None) == known:
                yield known
                yield from on
                return
        yield from walk(fd, base)

    def folder(self, where: TopicPartition) -> str:
        replica = self._replicas.get(where)
        return str(replica.folder) if replica is not None else self._options.paths[0]

    def _where(self) -> str:
        return "path=" + ",".join(self._options.paths)


def _replicas(path: Path) -> list[tuple[TopicPartition, Replica]]:
    """The partitions of a data folder, or the one whose own folder it is."""
    if not path.is_dir():
        raise ConfigError(
            f"option path={str(path)!r}: there is no such folder; give the data folder of a broker (log.dirs)"
        )
    only = partition_of(path.name)
    if only is not None and base_offsets(path):
        return [(only, _replica(only, path, _checkpoints(path.parent)))]
    checkpoints = _checkpoints(path)
    folders = sorted(child for child in path.iterdir() if child.is_dir())
    found = [(where, child) for child in folders if (where := partition_of(child.name)) is not None]
    return [(where, _replica(where, child, checkpoints)) for where, child in found if base_offsets(child)]


def _checkpoints(folder: Path) -> tuple[Offsets, Offsets]:
    """High watermarks and log start offsets."""
    if not (folder / HIGH_WATERMARKS).exists():
        raise ConfigError(
            f"option path={str(folder)!r}: there is no file {HIGH_WATERMARKS}, so nobody knows what is committed; give a "
            "broker's whole data folder, or copy that file too"
        )
    return _offsets_in(folder / HIGH_WATERMARKS), _offsets_in(folder / LOG_START_OFFSETS)


def _offsets_in(path: Path) -> Offsets:
    try:
        return parse_offsets(parse_rows(path.read_text("utf-8"), columns=3))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ConfigError(f"option path: {path} is no checkpoint: {error}") from None


def _replica(where: TopicPartition, folder: Path, checkpoints: tuple[Offsets, Offsets]) -> Replica:
    high_watermarks, log_starts = checkpoints
    try:
        topic_id = parse_topic_id((folder / METADATA_FILE).read_text("utf-8"))
    except FileNotFoundError:
        topic_id = ""
    except ValueError as error:
        raise ConfigError(f"option path: {folder / METADATA_FILE}: {error}") from None
    start = max(min(base_offsets(folder), default=0), log_starts.get(where, 0))
    return Replica(folder, topic_id, start, max(high_watermarks.get(where, 0), start))


def _check_same_topic(where: TopicPartition, replicas: list[Replica]) -> None:
    if len({replica.topic_id for replica in replicas if replica.topic_id}) > 1:
        folders = " and ".join(str(replica.folder) for replica in replicas)
        raise ConfigError(
            f"option path: {folders} hold records of different topics that were named {where.topic!r}; give one of them"
        )


def _at_time(replica: Replica, time_ms: int) -> int:
    """The first committed offset that is not older; -1 if there is none."""
    for base in base_offsets(replica.folder):
        with (replica.folder / segment_name(base)).open("rb") as file:
            fd = file.fileno()
            for place in walk(fd, base):
                if place.base_offset >= replica.end:
                    return -1
                if place.max_timestamp < time_ms or place.next_offset <= replica.start:
                    continue
                found = find_offset_by_timestamp(read_batch(fd, place), time_ms)
                if found is not None and replica.start <= found[0] < replica.end:
                    return found[0]
    return -1
