"""AlterReplicaLogDirs: which data folder a replica is, or will be, in."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.api.log_dirs import AlterReplicaLogDirsHandler
from ottla.broker.replication import replica_logs
from ottla.broker.replication.replica_logs import ReplicaLogs
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.broker.storage.log_config import LogConfig
from ottla.wire.admin import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, ReplicaToMove
from ottla.wire.dialect import IncomingRequest
from ottla.wire.errors import NO_ERROR, InvalidRequest, InvalidTopic, LogDirNotFound, ReplicaNotAvailable
from ottla.wire.names import TopicPartition
from ottla.wire.native import NATIVE
from tests.component.api.served import Peer

HERE, FRESH = TopicPartition("here", 0), [TopicPartition("fresh", number) for number in range(4)]


@pytest.fixture
def log_dirs(tmp_path: Path) -> Iterator[list[LogDir]]:
    folders = [tmp_path / "one", tmp_path / "two"]
    opened = [LogDir.open(one, broker_id=1, cluster_id="c", config_for=lambda _: LogConfig()) for one in folders]
    opened[0].create_log(HERE, "id", LogConfig())
    yield opened
    for log_dir in opened:
        log_dir.close()


def ask(logs: ReplicaLogs, log_dirs: list[LogDir], *wanted: tuple[TopicPartition, str]) -> list[int]:
    request = AlterReplicaLogDirsRequest([ReplicaToMove(*where, folder) for where, folder in wanted])
    handler = AlterReplicaLogDirsHandler(log_dirs, logs.prefer)
    reply = handler(IncomingRequest(NATIVE, int(request.api), 0, 1, "test", request, []), Peer())
    assert isinstance(reply.message, AlterReplicaLogDirsResponse)
    return [result.error_code for result in reply.message.partitions]


def test_replica_stays_in_its_folder_and_a_new_one_is_made_where_it_is_wanted(log_dirs: list[LogDir]) -> None:
    logs = ReplicaLogs(1, log_dirs, lambda topic: LogConfig())
    one, two = (str(log_dir.folder) for log_dir in log_dirs)
    wanted = [(HERE, one), (HERE, two), (HERE, "/elsewhere"), (TopicPartition("../no", 0), one)]
    assert ask(logs, log_dirs, *wanted) == [NO_ERROR, InvalidRequest.code, LogDirNotFound.code, InvalidTopic.code]
    assert ask(logs, log_dirs, *((where, one) for where in FRESH[:3])) == [ReplicaNotAvailable.code] * 3
    assert logs.dirs_for(FRESH) == [log_dirs[0], log_dirs[0], log_dirs[0], log_dirs[1]]
    assert logs.dirs_for(FRESH[:1]) == [log_dirs[1]], "a wish is fulfilled once"
    logs.close()


def test_wishes_are_bounded(log_dirs: list[LogDir], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_logs, "PREFERENCES_MAX", 2)
    logs = ReplicaLogs(1, log_dirs, lambda topic: LogConfig())
    ask(logs, log_dirs, *((where, str(log_dirs[0].folder)) for where in FRESH[:3]))
    assert logs.dirs_for(FRESH[:1]) == [log_dirs[1]], "the oldest one is forgotten"
    assert logs.dirs_for(FRESH[1:3]) == [log_dirs[0]] * 2
    logs.close()
