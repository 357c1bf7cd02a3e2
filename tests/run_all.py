"""Runs everything that ``make test`` promises: lint, types and import rules beside the tests, then a summary.

The static checks need one core for a minute while live clusters mostly wait, so both run at the same time. pytest prints
its progress as it goes; a check prints when it fails. The last lines say what passed and how long each part took.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

WORKERS = os.environ.get("OTTLA_TEST_WORKERS", "4")
"""More than there are cores: a test on live processes spends most of its time waiting for them."""

PYTEST = [sys.executable, "-m", "pytest", "-n", WORKERS, "--dist", "loadgroup", "--no-loadscope-reorder"]

CHECKS = {
    "lint": [[str(BIN / "ruff"), "check", "."], [str(BIN / "ruff"), "format", "--check", "."]],
    "types": [[str(BIN / "mypy")]],
    "imports": [[str(BIN / "lint-imports"), "--no-logo"]],
}

PURE = [
    "tests/unit/wire",
    "tests/unit/broker/api",
    "tests/unit/broker/storage",
    "tests/unit/client/producing",
    "tests/component/api",
    "tests/component/net",
    "tests/component/replication",
    "tests/component/storage",
    "tests/component/test_compiled.py",
]
"""The tests of the modules that setup.py compiles: they run once more as plain Python, as on a machine without a compiler."""


@dataclass
class Result:
    """What became of one step."""

    passed: bool
    seconds: float
    parts: str = ""


@dataclass
class Run:
    """The results of all steps so far, in the order in which they ended."""

    results: dict[str, Result] = field(default_factory=dict)

    def check(self) -> None:
        for name, commands in CHECKS.items():
            began = time.monotonic()
            done = [subprocess.run(one, cwd=ROOT, capture_output=True, text=True, check=False) for one in commands]
            passed = all(one.returncode == 0 for one in done)
            self.results[name] = Result(passed, time.monotonic() - began)
            if not passed:
                print(f"\n{name} failed:\n" + "".join(one.stdout + one.stderr for one in done), flush=True)

    def tests(self, name: str, arguments: list[str], **environment: str) -> None:
        began = time.monotonic()
        with tempfile.NamedTemporaryFile("r") as summary:
            env = {**os.environ, "OTTLA_TEST_SUMMARY": summary.name, **environment}
            code = subprocess.run([*PYTEST, *arguments], cwd=ROOT, env=env, check=False).returncode
            parts = summary.read()
        self.results[name] = Result(code == 0, time.monotonic() - began, parts)

    def report(self) -> None:
        print("\nmake test: what ran, and how long it took")
        for name, result in self.results.items():
            print(f"  {name:<22} {'passed' if result.passed else 'FAILED':<7} {result.seconds:7.1f} s")
            for part in result.parts.splitlines():
                print(f"      {part}")


def main() -> int:
    began = time.monotonic()
    run = Run()
    checks = threading.Thread(target=run.check)
    checks.start()
    try:
        run.tests("tests", [])
        run.tests("tests as plain Python", PURE, OTTLA_PURE="1")
    finally:
        checks.join()
    run.report()
    failed = [name for name, result in run.results.items() if not result.passed]
    verdict = f"failed: {', '.join(failed)}" if failed else "everything passed"
    print(f"{verdict}, in {(time.monotonic() - began) / 60:.1f} minutes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
