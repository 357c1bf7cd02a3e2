"""A chaos run whose producers and consumers lack one safety mechanism, in a process of its own.

Run as a program: a mechanism of the clients and one of the brokers ("" for none), scenario, seconds, seed. Its last line is
what was found, as json.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ottla.chaos import run as chaos_run
from ottla.chaos.report.summary import summary
from ottla.chaos.targets.local import LocalTarget
from ottla.client import cluster
from ottla.client.cluster import Cluster
from ottla.client.consuming.leader_loop import LeaderLoop
from ottla.client.producing.sending.sequences import Sequences
from tests.support.machine import scaled
from tests.support.switched_off import cut_out
from tests.support.weakened_broker import brokers_without

TIME_LIMIT_S = scaled(150.0)
CALM_S = 0.5
"""Before the first fault and after the last: these are many runs, each for one thing."""

RATE = 60.0
"""Records per second of each producer: enough that each fault meets some, and tests beside these keep their CPU time."""


def _take_any_answer() -> None:
    """A fetch's answer counts whenever it comes, for the position that was asked for then; and a broker is not told meanwhile
    that something else is wanted, which would make it another question."""
    cut_out(
        LeaderLoop,
        "_take",
        "if named is None or named.stale:\n            continue\n",
        "if named is None or named.state.position_version != named.position_version:\n            continue\n"
        "        named.state.fetch_offset = named.part.offset\n",
    )
    LeaderLoop._amend = lambda self: None  # type: ignore[method-assign]


def _believe_older_metadata() -> None:
    Cluster._check_version = lambda self, answer: None  # type: ignore[method-assign]
    cluster.newest = lambda told, known: told


def _hold_nothing_back() -> None:
    """After a batch is given up a new producer id is used at once, beside batches of the old one."""
    cut_out(Sequences, "may_number", "if line.unfinished:", "if False:")
    cut_out(
        Sequences,
        "finished",
        "line.broken = line.broken or not stored",
        "line.broken = line.spent = line.broken or not stored",
    )


MECHANISMS: dict[str, Callable[[], None]] = {
    "": lambda: None,
    "answers count for their position": _take_any_answer,
    "older metadata is not believed": _believe_older_metadata,
    "holding back": _hold_nothing_back,
}


def suffer_with_clients_without(
    mechanism: str, scenario: str, seconds: float, brokers: str = "", seed: int = 1
) -> dict[str, Any]:
    """The summary of such a run."""
    command = [sys.executable, str(Path(__file__)), mechanism, brokers, scenario, str(seconds), str(seed)]
    # Compiled code would not see what is put in the place of its methods.
    environment = {**os.environ, "OTTLA_PURE": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
    print(done.stdout[:-1].rpartition("\n")[0], done.stderr)
    assert done.returncode == 0
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    clients, brokers, scenario, seconds, seed = sys.argv[1:]
    MECHANISMS[clients]()
    chaos_run.CALM_S = CALM_S
    with brokers_without(brokers) if brokers else nullcontext(), LocalTarget() as target:
        print(json.dumps(summary(chaos_run.run(target, scenario, float(seconds), int(seed), print, rate=RATE))))
