"""Starts brokers and runs `ottla` commands by forking a process that has imported them, which saves half a second for each.

A forked broker is a process like any other: it has its own session, log file and environment, and is killed and paused by its
process id. Tests start some hundred brokers and more commands, and nearly all the work of a start is importing. Brokers with
another command line or environment (weakened ones, those without compiled modules) are started as usual.

Run as a program, this is the server: requests come over the socket on descriptor 3.
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedWriter
from pathlib import Path
from typing import IO, Any
from unittest import mock

from ottla.local.broker import child_environment
from ottla.local.processes import Process

ROOT = Path(__file__).parents[2]
REQUEST_MAX = 1 << 20
BROKER_COMMAND = [sys.executable, "-m", "ottla.broker", "--config"]


# --- the side of the tests ---------------------------------------------------------------------------------------------------


class ForkedBroker:
    """What Process needs of subprocess.Popen, for a process that the server has forked."""

    def __init__(self, pid: int, stdin: BufferedWriter, server: "ForkServer") -> None:
        self.pid = pid
        self.stdin = stdin
        self.returncode: int | None = None
        self._server = server

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._server.exit_code(self.pid)
        return self.returncode


class ForkServer:
    """The server process of one pytest worker."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            descriptor = theirs.fileno()
            code = f"import os; os.dup2({descriptor}, 3, inheritable=False); from {__name__} import serve; serve(3)"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], pass_fds=[descriptor], cwd=ROOT, env=dict(environment),
                start_new_session=True,
            )  # fmt: skip
        self._socket = ours
        self._lock = threading.Lock()

    def start(self, arguments: list[str], folder: Path | None, log_file: IO[bytes]) -> ForkedBroker:
        """Fork a broker that waits for a line on its ``stdin`` before it begins."""
        read_end, write_end = os.pipe()
        request = json.dumps({"arguments": arguments, "folder": str(folder or Path.cwd())}).encode()
        with self._lock:
            socket.send_fds(self._socket, [request], [log_file.fileno(), read_end])
            answer = json.loads(self._socket.recv(REQUEST_MAX))
        os.close(read_end)
        return ForkedBroker(answer["pid"], os.fdopen(write_end, "wb"), self)

    def run(
        self, arguments: Sequence[str], environment: Mapping[str, str], stdin: bytes, timeout_s: float
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run one `ottla` command, as subprocess.run does."""
        read_end, write_end = os.pipe()
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            given.write(stdin)
            given.seek(0)
            request = {"command": list(arguments), "environment": dict(environment), "folder": str(Path.cwd())}
            with self._lock:
                files = [given.fileno(), output.fileno(), errors.fileno(), write_end]
                socket.send_fds(self._socket, [json.dumps(request).encode()], files)
                pid = json.loads(self._socket.recv(REQUEST_MAX))["pid"]
            os.close(write_end)
            has_ended, _, _ = select.select([read_end], [], [], timeout_s)
            os.close(read_end)
            if not has_ended:
                os.kill(pid, signal.SIGKILL)
            while (code := self.exit_code(pid)) is None:
                time.sleep(0.002)
            output.seek(0)
            errors.seek(0)
            done = subprocess.CompletedProcess(["ottla", *arguments], code, output.read(), errors.read())
        if not has_ended:
            raise subprocess.TimeoutExpired(done.args, timeout_s, done.stdout, done.stderr)
        return done

    def exit_code(self, pid: int) -> int | None:
        """How a forked process ended, as Popen has it; None while it runs."""
        with self._lock:
            self._socket.send(json.dumps({"exit_code_of": pid}).encode())
            code: int | None = json.loads(self._socket.recv(REQUEST_MAX))["code"]
        return code

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_servers: list[ForkServer] = []
_lock = threading.Lock()


def _server() -> ForkServer:
    with _lock:
        if not _servers:
            _servers.append(ForkServer(_environment(child_environment())))
        return _servers[0]


def run_ottla(arguments: Sequence[str], environment: Mapping[str, str], stdin: bytes, timeout_s: float) -> Any:
    """Run one `ottla` command in a forked process; only inside ``brokers_are_forked``."""
    return _server().run(arguments, environment, stdin, timeout_s)


@contextlib.contextmanager
def brokers_are_forked() -> Iterator[None]:
    """Start brokers with an ordinary command line and environment by forking, as long as the block lasts."""
    environment, spawn = _environment(child_environment()), Process._spawn

    def fork_or_spawn(self: Process, log_file: IO[bytes]) -> Any:
        if self.command[:-1] == BROKER_COMMAND and self._env is not None and _environment(self._env) == environment:
            return _server().start(self.command[3:], self._folder, log_file)
        return spawn(self, log_file)

    with mock.patch.object(Process, "_spawn", fork_or_spawn):
        try:
            yield
        finally:
            while _servers:
                _servers.pop().close()


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """All variables but the one that pytest changes with every test."""
    return {name: value for name, value in variables.items() if name != "PYTEST_CURRENT_TEST"}


# --- the server ------------------------------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Fork brokers and commands until the other side closes the socket."""
    import uvloop  # noqa: F401

    import ottla.broker.node
    import ottla.client  # noqa: F401
    from ottla.broker.__main__ import main
    from ottla.cli.main import main as run_command

    connection = socket.socket(fileno=descriptor)
    gc.freeze()
    ended: dict[int, int] = {}
    running: set[int] = set()
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, REQUEST_MAX, 4)
        if not request:
            return
        message = json.loads(request)
        for pid in [pid for pid in running if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)]:
            ended[pid] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            running.discard(pid)
        if "exit_code_of" in message:
            connection.send(json.dumps({"code": ended.get(message["exit_code_of"])}).encode())
            continue
        pid = os.fork()
        if pid == 0:
            connection.close()
            if "command" in message:
                _become_command(message["environment"], message["folder"], *descriptors)
                sys.exit(run_command(message["command"]))  # in the ordinary way, with all that is done at an exit
            _become_broker(main, message["arguments"], message["folder"], *descriptors)
        for each in descriptors:
            os.close(each)
        ended.pop(pid, None)
        running.add(pid)
        connection.send(json.dumps({"pid": pid}).encode())


def _become_command(environment: dict[str, str], folder: str, stdin: int, output: int, errors: int, alive: int) -> None:
    """``alive`` stays open: its other end tells when this process has ended."""
    gc.unfreeze()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, descriptor in enumerate((stdin, output, errors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _become_broker(main: Any, arguments: list[str], folder: str, log_file: int, word: int) -> None:
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(log_file, 1)
        os.dup2(log_file, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.close(log_file)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if os.read(word, 1):  # else the owner died before the reaper knew of this process
            os.close(word)
            code = main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
