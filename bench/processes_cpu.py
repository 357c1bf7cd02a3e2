"""Who used the cores: the CPU time of a process and of all below it, by kind, from /proc."""

import os
from collections import defaultdict
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(named: dict[int, str]) -> dict[str, float]:
    """CPU seconds so far of this process's children, as "jvm" and "workers", and of processes that are named."""
    found: dict[str, float] = defaultdict(float)
    for pid in _below(os.getpid()):
        command = _read(pid, "cmdline")
        if "java" in command:
            found["jvm"] += _cpu(pid)
        elif "pyspark.daemon" in command:
            found["workers"] += _cpu(pid)
    for pid, name in named.items():
        found[name] += _cpu(pid)
    return found


def _below(root: int) -> list[int]:
    found, left = [], [root]
    while left:
        for task in Path(f"/proc/{left.pop()}/task").glob("*/children"):
            try:
                children = [int(pid) for pid in task.read_text().split()]
            except OSError:
                continue  # it has ended
            found += children
            left += children
    return found


def _cpu(pid: int) -> float:
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS if fields else 0.0  # with children that have ended


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
