"""How slow this machine is now: measured once per test run, and every deadline of the tests is multiplied by it.

A deadline in a test says when to give up, not how fast the code should be, so a generous one costs nothing while the
test passes. ``scaled(20.0)`` is 20 s of the machine on which the deadlines were chosen.
"""

import os
import subprocess
import sys
import time

VARIABLE = "TEST_SLOWNESS"
"""Holds the result, so that the workers and the subprocesses of one run agree. Set it to skip the measurement. Its name does
not begin with OTTLA_, because brokers do not inherit such variables, and each would measure anew."""

REFERENCE_S = 0.35
"""How long the probe takes on the idle machine on which the deadlines were chosen."""

LOAD_ALLOWANCE = 2.0
"""The workers of one run compete with each other, and other programs may start after the measurement."""

SLOWNESS_MAX = 30.0

_PROBE = (
    "import asyncio, hashlib, json, socket, ssl\nfor _ in range(2500): hashlib.pbkdf2_hmac('sha256', b'x', b'y', 500)"
)


def slowness() -> float:
    """The factor by which deadlines are multiplied in this run: 2 on an idle reference machine."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = f"{_measure():.2f}"
    return float(os.environ[VARIABLE])


def scaled(seconds: float) -> float:
    """A deadline of the reference machine, as it is here."""
    return seconds * slowness()


def _measure() -> float:
    """Two interpreters started side by side, for tests mostly start processes and use both cores; wall-clock time."""
    started = time.monotonic()
    probes = [subprocess.Popen([sys.executable, "-c", _PROBE]) for _ in range(2)]
    for each in probes:
        each.wait()
    took = time.monotonic() - started
    return min(SLOWNESS_MAX, LOAD_ALLOWANCE * max(1.0, took / REFERENCE_S))
