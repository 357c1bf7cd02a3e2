"""Processes of a local cluster: started, killed, paused, and never left behind.

A process must not outlive the one that started it, even if that is killed with -9 and can clean up nothing. So a *reaper*,
a tiny process of its own, is told about every process; it kills them all when its standard input closes, which the kernel
does for whatever reason the owner ends. A new process waits for a word before it becomes what it shall be, and the word
is given after the reaper knows: there is no moment in which a death of the owner leaves it behind.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from ottla.wire.errors import OttlaError

# Reads "+pid start-time" and "-pid" lines. A pid alone is not enough: it may belong to somebody else by the time of the
# kill, but the pair of pid and start time names one process for as long as the machine is up.
_REAPER = r"""
import os, signal, sys
for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(ignored, signal.SIG_IGN)
started = {}
for line in sys.stdin:
    word, _, time = line.strip().partition(" ")
    if word[0] == "+":
        started[int(word[1:])] = time
    else:
        started.pop(int(word[1:]), None)
for pid, time in started.items():
    try:
        with open(f"/proc/{pid}/stat") as stat:
            same = stat.read().rpartition(")")[2].split()[19] == time
        if same:
            os.killpg(pid, signal.SIGKILL)
    except (OSError, IndexError):
        pass
"""

# Waits for a line, then becomes the command under the same pid. If the owner dies first, the line never comes.
_WAIT_FOR_WORD = 'read -r word && exec "$@" </dev/null'


class ProcessError(OttlaError):
    """A process could not be started, or did not end in time."""


def start_time(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; None if there is no such process."""
    try:
        # The name in brackets may hold anything, spaces and brackets too: count from the last bracket.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


class Reaper:
    """Kills everything it was told of as soon as this process ends or calls ``close``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._guard = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _REAPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in a terminal goes to the owner alone
        )

    @property
    def pid(self) -> int:
        return self._guard.pid

    def watch(self, pid: int) -> None:
        """Kill this process, and those in its group, when the owner ends."""
        time_started = start_time(pid)
        if time_started is not None:
            self._tell(f"+{pid} {time_started}\n")

    def forget(self, pid: int) -> None:
        """This process has ended and was waited for."""
        try:
            self._tell(f"-{pid}\n")
        except ProcessError:
            pass  # the reaper has ended, and with it the list

    def _tell(self, line: str) -> None:
        assert self._guard.stdin is not None
        with self._lock:
            try:
                self._guard.stdin.write(line.encode())
                self._guard.stdin.flush()
            except (OSError, ValueError) as error:
                raise ProcessError(f"the reaper process {self.pid} is gone: {error}") from None

    def close(self) -> None:
        """Kill all that is left and end the reaper itself."""
        assert self._guard.stdin is not None
        with self._lock:
            try:
                self._guard.stdin.close()
            except OSError:
                pass
        self._guard.wait()


class Process:
    """One command with a log file of its own; it may be started again after it ended, and goes on with the same log file.

    All methods may be called from any thread.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log_path: Path,
        reaper: Reaper,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log_path = log_path
        self._reaper = reaper
        self._env = dict(env) if env is not None else None
        self._folder = folder
        self._lock = threading.RLock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._watched = False

    def start(self) -> None:
        """Start the command; standard output and error go to the end of the log file."""
        with self._lock:
            if self.alive:
                raise ProcessError(f"{self.name} is running already, as process {self.pid}")
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            with self.log_path.open("ab") as log_file:
                popen = self._spawn(log_file)
            self._popen = popen
            self._reaper.watch(popen.pid)
            self._watched = True
            assert popen.stdin is not None
            try:
                with popen.stdin as word:
                    word.write(b"go\n")
            except BrokenPipeError:
                pass  # it ended already; ``alive`` and ``wait`` tell

    def _spawn(self, log_file: IO[bytes]) -> "subprocess.Popen[bytes]":
        """Start a process that waits for a line on its standard input before it becomes the command."""
        return subprocess.Popen(
            ["/bin/sh", "-c", _WAIT_FOR_WORD, self.name, *self.command],
            stdin=subprocess.PIPE,
            stdout=log_file,
            stderr=subprocess.STDOUT,
            env=self._env,
            cwd=self._folder,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The process id of the last start."""
        if self._popen is None:
            raise ProcessError(f"{self.name} was never started")
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it runs; one that is paused does."""
        with self._lock:
            if self._popen is None:
                return False
            if self._popen.poll() is None:
                return True
            if self._watched:
                self._watched = False
                self._reaper.forget(self._popen.pid)
            return False

    @property
    def returncode(self) -> int | None:
        """How it ended: None while it runs, -9 after ``kill``."""
        return self._popen.returncode if self._popen is not None and not self.alive else None

    def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL)."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end in good order (SIGTERM)."""
        self._signal(signal.SIGTERM)

    def pause(self) -> None:
        """Freeze it: its sockets stay open, but it does nothing any more (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def wait(self, timeout_s: float) -> int:
        """Wait until it has ended and return its code; ProcessError if that takes too long."""
        if self._popen is None:
            raise ProcessError(f"{self.name} was never started")
        deadline = time.monotonic() + timeout_s
        # Short waits, so that other threads may signal the process in between.
        while self.alive:
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name}, process {self.pid}, did not end within {timeout_s} s")
            time.sleep(0.005)
        return self._popen.returncode

    def _signal(self, number: signal.Signals) -> None:
        """To the whole group: whatever the command has started shares its fate. One that has ended is left alone."""
        with self._lock:
            if self.alive:
                os.killpg(self.pid, number)
