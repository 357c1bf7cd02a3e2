"""DescribeLogDirs: what lies in this broker's data folders, and how much room there is."""

import shutil
from collections.abc import Sequence

from ottla.broker.replication.partitions import Partitions
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.net.peer import Peer
from ottla.net.reply import Reply
from ottla.wire.admin import DescribedLogDir, DescribeLogDirsRequest, DescribeLogDirsResponse, ReplicaInFolder
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import StorageError
from ottla.wire.names import TopicPartition


class DescribeLogDirsHandler:
    """Every broker answers for itself."""

    def __init__(self, log_dirs: Sequence[LogDir], partitions: Partitions) -> None:
        self._log_dirs = log_dirs
        self._partitions = partitions

    def __call__(self, incoming: IncomingRequest, connection: Peer) -> Reply:
        request = incoming.message
        assert isinstance(request, DescribeLogDirsRequest)
        wanted = request.partitions
        names = None if wanted is None else {TopicPartition(name.topic, name.partition) for name in wanted}
        return Reply(DescribeLogDirsResponse([self._describe(log_dir, names) for log_dir in self._log_dirs]))

    def _describe(self, log_dir: LogDir, names: set[TopicPartition] | None) -> DescribedLogDir:
        folder = str(log_dir.folder)
        try:
            disk = shutil.disk_usage(log_dir.folder)
        except OSError as error:
            return DescribedLogDir(StorageError.code, f"{folder}: {error.strerror}", folder)
        found = []
        for where, log in log_dir.logs.items():
            if names is None or where in names:
                partition = self._partitions.get(*where)
                committed = partition.high_watermark if partition is not None else log.log_end_offset
                found.append(ReplicaInFolder(*where, log.size, max(committed - log.log_end_offset, 0)))
        return DescribedLogDir(0, "", folder, tuple(found), disk.total, disk.free)
