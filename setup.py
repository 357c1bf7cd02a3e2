"""Compiles the modules that every record passes through to C, where a C compiler is at hand; else they stay plain Python.

The same sources either way: mypyc takes them as they are, types and all (docs/decisions/0011). OTTLA_COMPILE=0 leaves it out,
OTTLA_COMPILE=1 makes a failure an error. Everything else about the package stands in pyproject.toml.
"""

import os
import sys
import time
from pathlib import Path

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = Path("src/ottla")
MARKER = PACKAGE / "compiled.txt"

COMPILED = [
    "wire/batch", "wire/dialect", "wire/framing", "wire/native", "wire/payload_check",
    "wire/kafka/batches", "wire/kafka/dialect", "wire/kafka/fetch", "wire/kafka/primitives", "wire/kafka/produce",
    "net/answers", "net/busy_poll", "net/connection", "net/exchange", "net/reply",
    "broker/api/acknowledgements", "broker/api/consumer_sessions", "broker/api/dispatch", "broker/api/fetch",
    "broker/api/fetch_refusals", "broker/api/fetched_parts", "broker/api/numbered_sessions",
    "broker/api/parts", "broker/api/produce", "broker/api/replica_fetch",
    "broker/purgatory", "broker/replication/fetch_sessions", "broker/replication/followed", "broker/replication/partition",
    "broker/replication/partition_events",
    "broker/replication/state",
    "broker/storage/disk_health", "broker/storage/incoming", "broker/storage/log",
    "broker/storage/producers/decision", "broker/storage/producers/log_producers", "broker/storage/producers/states",
    "broker/storage/segments/batch_file", "broker/storage/segments/index", "broker/storage/segments/mapped_file",
    "broker/storage/segments/segment", "broker/storage/segments/segments",
    "client/producing/accumulator", "client/producing/batches", "client/producing/headers", "client/producing/outbox",
    "client/producing/partitioner", "client/producing/record_lists", "client/producing/sending/batch_completion",
    "client/producing/sending/delivery_decision", "client/producing/sending/in_flight_requests",
    "client/producing/sending/leaders", "client/producing/sending/sender", "client/producing/sending/sequences",
]  # fmt: skip

WANTED = os.environ.get("OTTLA_COMPILE", "")


class BuildCompiled(build_ext):
    """Makes the extensions only when they are built: telling pip our name and version needs no C."""

    def finalize_options(self) -> None:
        self._began = time.time()
        self.distribution.ext_modules = _extensions()
        super().finalize_options()

    def run(self) -> None:
        in_working_copy = bool(self.inplace or self.editable_mode)
        self._forget_built(in_working_copy)
        try:
            super().run()
        except Exception as error:
            _go_without(str(error))
            self._forget_built(in_working_copy)
            self.extensions = []
        if in_working_copy and self.extensions:
            MARKER.write_text("".join(f"{module}.py\n" for module in COMPILED))
            os.utime(MARKER, (self._began, self._began))  # what was edited meanwhile is younger than what was compiled

    def _forget_built(self, in_working_copy: bool) -> None:
        """Extensions know one another by their insides: some of an earlier list, or half of this one, do only harm."""
        places = [Path(self.build_lib)]
        if in_working_copy:
            MARKER.unlink(missing_ok=True)
            places += [PACKAGE.parent, *(path.resolve() for path in PACKAGE.iterdir() if path.is_symlink())]
        for place in places:
            for extension in place.rglob("*.so"):
                extension.unlink()


class WithExtensions(Distribution):
    def has_ext_modules(self) -> bool:
        return WANTED != "0"


def _extensions() -> list[Extension]:
    if WANTED == "0":
        return []
    try:
        from mypyc.build import mypycify

        files = [str(PACKAGE / f"{module}.py") for module in COMPILED]
        found: list[Extension] = mypycify(
            ["--follow-imports=silent", "--ignore-missing-imports", *files],
            opt_level="1",  # half the time that 3 takes, and as fast: most of it is calls into Python's own C
            debug_level="0",
        )
        return found
    except (Exception, SystemExit) as error:  # mypyc ends the process over a type error
        _go_without(str(error))
        return []


def _go_without(why: str) -> None:
    if WANTED == "1":
        raise SystemExit(f"the compiled modules could not be built: {why}")
    print(f"ottla is installed as plain Python, which is slower: {why}", file=sys.stderr)


setup(cmdclass={"build_ext": BuildCompiled}, distclass=WithExtensions)
