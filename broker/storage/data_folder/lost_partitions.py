"""Partitions of one data folder that lost records, by what its checkpoints say. Kept on disk until the controller has acted.

A checkpoint says how far a log reached the disk, or was committed. A log that ends before that, starts after its log start
offset, or has no folder any more has lost records that were acknowledged. The broker names such partitions when it registers;
the controller takes it out of their ISR before it tells the broker to lead or follow them [I14].
"""

import enum
import logging
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.broker.storage.checkpoint_file import read_rows, write_rows
from ottla.wire.names import TopicPartition

FILE_NAME = ".lost-partitions"

logger = logging.getLogger(__name__)


class Loss(enum.StrEnum):
    """What is missing."""

    FOLDER = "folder"
    """The whole partition folder."""
    END = "end"
    """The log ends before the recovery point or the checkpointed high watermark."""
    START = "start"
    """The log starts after its checkpointed log start offset: segments at its beginning are gone."""


class Lost(NamedTuple):
    """A loss, and how far the log reached by the checkpoints when it was found."""

    loss: Loss
    expected_end: int


class LostPartitions:
    """The file of one data folder. Methods that change it are slow (fsync) and may run in threads."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lock = threading.Lock()
        self.announced: frozenset[TopicPartition] = frozenset()
        """Those that the registration of this broker names: what the controller says of them takes the loss into account."""
        try:
            self._losses = {
                TopicPartition(topic, int(number)): Lost(Loss(loss), int(end))
                for topic, number, loss, end in read_rows(self._path, columns=4)
            }
        except ValueError as error:
            logger.error("list of lost partitions unreadable, ignored: path=%s error=%s", self._path, error)
            self._losses = {}

    @property
    def losses(self) -> Mapping[TopicPartition, Lost]:
        return self._losses

    def add(self, losses: Mapping[TopicPartition, Lost]) -> None:
        """Remember losses that were just found; those that are known keep their reason."""
        with self._lock:
            if losses.keys() - self._losses.keys():
                self._write({**losses, **self._losses})

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Forget partitions: the controller has acted on their loss, or they were deleted."""
        with self._lock:
            if self._losses.keys() & set(partitions):
                self._write({where: loss for where, loss in self._losses.items() if where not in partitions})

    def _write(self, losses: dict[TopicPartition, Lost]) -> None:
        write_rows(self._path, ((*where, lost.loss.value, lost.expected_end) for where, lost in sorted(losses.items())))
        self._losses = losses
