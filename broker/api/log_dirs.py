"""DescribeLogDirs: what lies in this broker's data folders, and how much room there is."""

import asyncio
import shutil
from collections.abc import Sequence

from ottla.broker.api.later import while_asked
from ottla.broker.api.slices import Slices, in_slices
from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.admin import DescribedLogDir, DescribeLogDirsRequest, DescribeLogDirsResponse, ReplicaInFolder
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import StorageError
from ottla.wire.messages import PartitionName
from ottla.wire.names import TopicPartition
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
