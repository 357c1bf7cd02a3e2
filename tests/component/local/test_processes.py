"""Processes are started, signalled and never left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.local.processes import Process, ProcessError, Reaper, start_time
from tests.support.machine import scaled

DEADLINE_S = scaled(10.0)


@pytest.fixture
def reaper() -> Iterator[Reaper]:
    reaper = Reaper()
    yield reaper
    reaper.close()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not true after {DEADLINE_S} s"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Neither gone nor a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def sleeper(tmp_path: Path, reaper: Reaper) -> Process:
    return Process("sleeper", ["sleep", "600"], log_path=tmp_path / "sleeper.log", reaper=reaper)


def test_restarted_process_appends_to_its_log(tmp_path: Path, reaper: Reaper) -> None:
    process = Process(
        "echo",
        ["sh", "-c", "echo $WORD; echo $$ >&2"],
        log_path=tmp_path / "logs" / "echo.log",
        reaper=reaper,
        env={"WORD": "hello", "PATH": os.environ["PATH"]},
    )
    pids = []
    for _ in range(2):
        process.start()
        pids.append(process.pid)
        assert process.wait(DEADLINE_S) == 0
    assert process.log_path.read_text().split() == ["hello", str(pids[0]), "hello", str(pids[1])]


def test_command_gets_its_arguments_unchanged_and_no_input(tmp_path: Path, reaper: Reaper) -> None:
    arguments = ["a b", "$HOME", '"', "*", ""]
    code = "import sys; print(sys.argv[1:], repr(sys.stdin.read()))"
    process = Process("args", [sys.executable, "-c", code, *arguments], log_path=tmp_path / "log", reaper=reaper)
    process.start()
    assert process.wait(DEADLINE_S) == 0
    assert process.log_path.read_text() == f"{arguments} ''\n"


def test_process_inherits_no_open_files_and_has_its_own_group(tmp_path: Path, reaper: Reaper) -> None:
    with (tmp_path / "open").open("w") as open_file:
        os.set_inheritable(open_file.fileno(), True)
        code = "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1], os.getpgid(0) == os.getpid())"
        process = Process("files", [sys.executable, "-c", code], log_path=tmp_path / "log", reaper=reaper)
        process.start()
        assert process.wait(DEADLINE_S) == 0
    assert process.log_path.read_text() == "[0, 1, 2] True\n"


def test_signals_do_what_they_say(tmp_path: Path, reaper: Reaper) -> None:
    process = sleeper(tmp_path, reaper)
    assert not process.alive
    process.start()
    assert process.alive
    assert process.returncode is None
    process.pause()
    wait_for(lambda: state_of(process.pid) == "T")
    assert process.alive
    process.resume()
    wait_for(lambda: state_of(process.pid) != "T")
    process.terminate()
    assert process.wait(DEADLINE_S) == -signal.SIGTERM
    process.start()
    process.kill()
    assert process.wait(DEADLINE_S) == -signal.SIGKILL
    assert process.returncode == -signal.SIGKILL
    process.kill()  # one that has ended is left alone


def test_paused_process_can_be_killed(tmp_path: Path, reaper: Reaper) -> None:
    process = sleeper(tmp_path, reaper)
    process.start()
    process.pause()
    process.kill()
    assert process.wait(DEADLINE_S) == -signal.SIGKILL


def test_misuse_is_refused(tmp_path: Path, reaper: Reaper) -> None:
    process = sleeper(tmp_path, reaper)
    with pytest.raises(ProcessError, match="never started"):
        process.wait(1)
    process.start()
    with pytest.raises(ProcessError, match="running already"):
        process.start()
    with pytest.raises(ProcessError, match="did not end within"):
        process.wait(0.05)
    missing = Process("missing", ["/no/such/command"], log_path=tmp_path / "missing.log", reaper=reaper)
    missing.start()
    assert missing.wait(DEADLINE_S) == 127
    assert "/no/such/command" in missing.log_path.read_text()


def test_another_thread_may_kill_while_one_waits(tmp_path: Path, reaper: Reaper) -> None:
    process = sleeper(tmp_path, reaper)
    process.start()
    codes: list[int] = []
    waiter = threading.Thread(target=lambda: codes.append(process.wait(DEADLINE_S)))
    waiter.start()
    process.kill()
    waiter.join(DEADLINE_S)
    assert codes == [-signal.SIGKILL]


def test_closed_reaper_kills_all_and_is_gone_itself(tmp_path: Path) -> None:
    reaper = Reaper()
    processes = [sleeper(tmp_path, reaper) for _ in range(3)]
    for process in processes:
        process.start()
    processes[0].pause()
    reaper.close()
    assert [process.wait(DEADLINE_S) for process in processes] == [-signal.SIGKILL] * 3
    assert start_time(reaper.pid) is None


def test_reaper_leaves_a_process_alone_that_only_has_the_same_pid(tmp_path: Path, reaper: Reaper) -> None:
    """As if the pid had been given to somebody else since: the start time differs."""
    stranger = sleeper(tmp_path, reaper)
    stranger.start()
    other = Reaper()
    other._tell(f"+{stranger.pid} 1\n")
    other.close()
    assert stranger.alive


OWNER = """
    import pathlib, sys, time
    from ottla.local.processes import Process, Reaper

    folder = pathlib.Path(sys.argv[1])
    reaper = Reaper()
    plain = Process("plain", ["sleep", "600"], log_path=folder / "plain.log", reaper=reaper)
    family = Process("family", ["sh", "-c", "sleep 600 & sleep 600"], log_path=folder / "family.log", reaper=reaper)
    paused = Process("paused", ["sleep", "600"], log_path=folder / "paused.log", reaper=reaper)
    for process in (plain, family, paused):
        process.start()
    paused.pause()
    print(reaper.pid, plain.pid, family.pid, paused.pid, flush=True)
    time.sleep(600)
"""


def test_no_process_outlives_an_owner_that_is_killed_with_9(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pids = [int(word) for word in owner.stdout.readline().split()]
    assert len(pids) == 4
    # what a process has started itself belongs to its group and must go too
    wait_for(lambda: len(children_of(pids[2])) == 2)
    pids += children_of(pids[2])
    assert all(is_running(pid) for pid in pids)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_for(lambda: not any(is_running(pid) for pid in pids))
