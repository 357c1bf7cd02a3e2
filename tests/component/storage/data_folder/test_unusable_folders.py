"""A data folder that cannot be used is a setting that is wrong, and is told as one."""

import asyncio
import errno
import os
from pathlib import Path

import pytest

from ottla.broker.config import BrokerConfig
from ottla.broker.data_folders import open_log_dirs
from ottla.broker.storage.data_folder.log_dir import LogDir
from ottla.wire.errors import ConfigError


def open_folders(*folders: Path) -> list[LogDir]:
    config = BrokerConfig(broker_id=1, log_dirs=",".join(map(str, folders)))
    return asyncio.run(open_log_dirs(config, "c"))


@pytest.mark.parametrize(("name", "why"), [("file", "it is a file"), ("file/below", "Not a directory")])
def test_a_file_in_the_place_of_a_data_folder_is_told(tmp_path: Path, name: str, why: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError) as caught:
        open_folders(tmp_path / name)
    assert str(caught.value) == f"log.dirs={tmp_path / name} cannot be used: {why}"
    assert caught.value.hint


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.ENOSPC])
@pytest.mark.parametrize("call", ["open", "ftruncate", "pwrite"])
def test_a_disk_that_takes_nothing_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    def refused(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(f"ottla.broker.storage.data_folder.folder_lock.os.{call}", refused)
    with pytest.raises(ConfigError, match=f"cannot be used: {os.strerror(number)}"):
        open_folders(tmp_path / "data")
