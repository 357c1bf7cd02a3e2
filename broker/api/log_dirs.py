"""DescribeLogDirs: what lies in this broker's data folders, and how much room there is. AlterReplicaLogDirs."""

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence

from ottla.broker.api.controller.each import check_count
from ottla.broker.api.later import while_asked
from ottla.broker.api.slices import Slices, in_slices
from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.admin import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribedLogDir,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    PartitionResult,
    ReplicaInFolder,
    ReplicaToMove,
)
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, InvalidRequest, LogDirNotFound, OttlaError, ReplicaNotAvailable, StorageError
from ottla.wire.messages import PartitionName
from ottla.wire.names import TopicPartition, check_topic_name
from ottla.wire.request_limits import INLINE_ELEMENTS_MAX


class DescribeLogDirsHandler:
    """Every broker answers for itself."""

    def __init__(self, log_dirs: Sequence[LogDir], partitions: Partitions) -> None:
        self._log_dirs = log_dirs
        self._partitions = partitions

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> asyncio.Future[Reply]:
        request = incoming.message
        assert isinstance(request, DescribeLogDirsRequest)
        incoming.is_long |= sum(len(log_dir.logs) for log_dir in self._log_dirs) > INLINE_ELEMENTS_MAX
        return while_asked(self._describe_all(request.partitions))

    async def _describe_all(self, wanted: list[PartitionName] | None) -> Reply:
        names: set[TopicPartition] | None = None
        if wanted is not None:
            names = set(await in_slices(lambda name: TopicPartition(name.topic, name.partition), wanted))
        return Reply(DescribeLogDirsResponse([await self._describe(log_dir, names) for log_dir in self._log_dirs]))

    async def _describe(self, log_dir: LogDir, names: set[TopicPartition] | None) -> DescribedLogDir:
        folder = str(log_dir.folder)
        try:
            disk = shutil.disk_usage(log_dir.folder)
        except OSError as error:
            return DescribedLogDir(StorageError.code, f"{folder}: {error.strerror}", folder)
        found = []
        slices = Slices()
        for where, log in list(log_dir.logs.items()):
            await slices.rest()
            if (names is None or where in names) and log_dir.logs.get(
                where
            ) is log:  # it may have been deleted meanwhile
                partition = self._partitions.get(*where)
                committed = partition.high_watermark if partition is not None else log.log_end_offset
                found.append(ReplicaInFolder(*where, log.size, max(committed - log.log_end_offset, 0)))
        return DescribedLogDir(0, "", folder, tuple(found), disk.total, disk.free)


class AlterReplicaLogDirsHandler:
    """Chooses the folder of replicas that are not here yet. Others stay in the folder that they were made in.

    As Kafka's brokers do, it answers ReplicaNotAvailable for a replica that is not here yet: whoever moves it to this broker
    names the folder first, and asks again when it has come.
    """

    def __init__(self, log_dirs: Sequence[LogDir], prefer: Callable[[TopicPartition, LogDir], None]) -> None:
        """``prefer`` has a replica made in a folder later."""
        self._log_dirs = log_dirs
        self._prefer = prefer

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply:
        request = incoming.message
        assert isinstance(request, AlterReplicaLogDirsRequest)
        check_count(request.partitions)
        by_folder = {str(log_dir.folder): log_dir for log_dir in self._log_dirs}
        return Reply(AlterReplicaLogDirsResponse([self._answer(by_folder, wanted) for wanted in request.partitions]))

    def _answer(self, by_folder: Mapping[str, LogDir], wanted: ReplicaToMove) -> PartitionResult:
        try:
            self._check(by_folder, wanted)
        except OttlaError as error:
            return PartitionResult(error.code, str(error), wanted.topic, wanted.partition)
        return PartitionResult(NO_ERROR, "", wanted.topic, wanted.partition)

    def _check(self, by_folder: Mapping[str, LogDir], wanted: ReplicaToMove) -> None:
        where = TopicPartition(wanted.topic, wanted.partition)
        folder = by_folder.get(wanted.folder)
        if folder is None:
            raise LogDirNotFound(f"{wanted.folder[:200]!r} is no data folder of this broker: {', '.join(by_folder)}")
        if not any(where in log_dir.logs for log_dir in self._log_dirs):
            check_topic_name(where.topic)
            self._prefer(where, folder)
            raise ReplicaNotAvailable(f"this broker has no replica of {where} yet, and will make it in {folder.folder}")
        if where not in folder.logs:
            raise InvalidRequest(
                f"{where} is in another data folder of this broker, and stays there",
                hint="move the replica to another broker, name the folder again, and move it back",
            )
