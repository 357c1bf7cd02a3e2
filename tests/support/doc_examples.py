"""The examples of a page of documentation, and a place to run them in the order in which a reader would.

Every fenced block of ``sh`` or ``python`` is run, but for those that say why not in a comment, which readers do not see:
``<!-- not run: it takes ten minutes -->`` in the line before the fence. Shell commands find ``ottla`` in the path, and a
folder of their own; 127.0.0.1:9092 and the ports behind it are others, so that a page can be run where they are taken.
"""

import json
import os
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ottla.local.broker import child_environment
from ottla.zk.ensemble.ports import free_ports
from tests.support.machine import scaled

ROOT = Path(__file__).parents[2]
LANGUAGES = ("sh", "python")
BLOCK_TIMEOUT_S = scaled(240)
BROKERS_MAX = 4
FIRST_PORT = 9092
ADMIN_DISTANCE = 1000

COMMANDS = re.compile(r"^(\$ )?(\.venv/bin/)?(ottla|make|docker|docker-compose|pip) ", re.MULTILINE)
"""A line that looks like a command: a block that has one must say that it is ``sh``."""

INTERPRETER = """
import json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
names = {"__name__": "__main__"}
for line in sys.stdin:
    code, name = json.loads(line)
    try:
        exec(compile(code, name, "exec"), names)
        answer = ""
    except BaseException:
        answer = traceback.format_exc()
    print(json.dumps(answer), file=answers, flush=True)
"""
"""Executes the blocks that it reads, and answers each with nothing or with a traceback."""

_FENCE = re.compile(r"^(?:<!-- not run: (?P<why>.+?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)
_INDENTED = re.compile(r"(?:^    .*\n)+", re.MULTILINE)


@dataclass(frozen=True)
class Example:
    """One block; ``not_run`` says why it is not run, if it is not."""

    page: str
    line: int
    language: str
    text: str
    not_run: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def examples_of(page: str) -> list[Example]:
    text = (ROOT / page).read_text()
    return [
        Example(page, text.count("\n", 0, m.start("text")) + 1, m["language"], m["text"], m["why"])
        for m in _FENCE.finditer(text)
    ]


def unmarked_commands(page: str) -> list[str]:
    """Lines that look like commands, in blocks that nothing says are to be run."""
    text = (ROOT / page).read_text()
    blocks = [example.text for example in examples_of(page) if example.language not in LANGUAGES]
    indented = _INDENTED.findall(_FENCE.sub("", text))
    blocks += [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in indented]
    return [match[0] + block[match.end() :].splitlines()[0] for block in blocks for match in COMMANDS.finditer(block)]


class Reader:
    """Somebody who tries the examples of a page, one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = _free_run_of_ports()
        self._interpreter: subprocess.Popen[str] | None = None
        self._home = folder / "state"
        self._bin = folder / "bin"
        self._bin.mkdir()
        shim = self._bin / "ottla"
        # What `ottla up` takes as it is would be the ports that everybody takes.
        own_ports = f'[ "$1" = up ] && {{ shift; set -- up --port {self._port} "$@"; }}'
        shim.write_text(f'#!/bin/sh\n{own_ports}\nexec {sys.executable} -m ottla.cli "$@"\n')
        shim.chmod(0o755)

    def tries(self, example: Example) -> None:
        text = self._with_own_ports(example.text)
        if example.language == "python":
            self._executes(text, str(example))
        else:
            self.runs(text, str(example))

    def runs(self, commands: str, name: str) -> None:
        """As a shell that ends with the first command that fails."""
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", commands.replace(".venv/bin/", "")],
            cwd=self._folder,
            env=self._environment(),
            capture_output=True,
            timeout=BLOCK_TIMEOUT_S,
            check=False,
        )
        told = f"{done.stdout.decode()}\n{done.stderr.decode()}"
        assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{commands}\n{told}"

    def _executes(self, code: str, name: str) -> None:
        """In one interpreter for the whole page: what a page leaves running, a Spark session say, ends with it."""
        if self._interpreter is None:
            self._interpreter = subprocess.Popen(
                [sys.executable, "-c", INTERPRETER],
                cwd=self._folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        assert self._interpreter.stdin is not None
        assert self._interpreter.stdout is not None
        self._interpreter.stdin.write(json.dumps([code, name]) + "\n")
        self._interpreter.stdin.flush()
        answer = self._interpreter.stdout.readline()
        assert answer, f"{name} ended its interpreter"
        assert json.loads(answer) == "", f"{name} failed:\n{code}\n{json.loads(answer)}"

    def goes(self) -> None:
        """Whatever was started ends."""
        if self._interpreter is not None:
            assert self._interpreter.stdin is not None
            self._interpreter.stdin.close()
            self._interpreter.wait(scaled(30))
        subprocess.run(["ottla", "down"], env=self._environment(), capture_output=True, timeout=scaled(90), check=False)

    def _with_own_ports(self, text: str) -> str:
        for number in range(BROKERS_MAX):
            text = text.replace(f"127.0.0.1:{FIRST_PORT + number}", f"127.0.0.1:{self._port + number}")
        return text

    def _environment(self) -> dict[str, str]:
        return {
            **child_environment(),
            "PATH": f"{self._bin}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(self._home),
            "OTTLA_BOOTSTRAP": f"127.0.0.1:{self._port}",
        }


def _free_run_of_ports() -> int:
    """The first of some that are free together, with their admin ports."""
    for port in free_ports(50):
        if all(_is_free(port + number) and _is_free(port + number - ADMIN_DISTANCE) for number in range(BROKERS_MAX)):
            return port
    raise AssertionError("no ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
