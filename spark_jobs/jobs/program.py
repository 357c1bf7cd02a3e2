"""Runs a job by its name: what it was told, a session, the job; and what went wrong as one sentence."""

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ottla.spark_jobs.jobs import JOBS
from ottla.spark_jobs.jobs.arguments import Given, JobParser, add_shared
from ottla.spark_jobs.jobs.spark_session import spark_session
from ottla.spark_jobs.jobs.streams import Talk
from ottla.wire.errors import ConfigError, OttlaError

_OURS = re.compile(r"^(?:\S*\s)*?ottla(?:\.\w+)+\.\w+: (?P<told>.+)$", re.MULTILINE)
"""How Spark's exceptions tell one of ours: its class with the module, and what it says."""

_TRACEBACK_END = re.compile(r"Traceback .*\n(?:^[ \t].*\n)+(?P<told>\S.+)$", re.MULTILINE)
"""The last line of a Python stack: what was raised."""

NOT_SHIPPED = "No module named"


class JobFailed(OttlaError):
    """Spark ended a job, for the reason that it gives."""


def run_job(name: str, arguments: Sequence[str], talk: Talk, prog: str = "ottla spark run") -> None:
    """Parse, open a session, run, end. Raises OttlaError for what was foreseen, SystemExit for --help."""
    module, given = parsed(name, arguments, prog)

    from pyspark.errors import PySparkException

    try:
        with spark_session(name, given) as spark:
            talk.note(f"Spark {spark.version} on {spark.sparkContext.master}")
            module.run(spark, given, talk)
    except PySparkException as error:
        told = sentence(str(error))
        hint = "executors need what `ottla spark pack FILE` packs: give it as --environment FILE"
        raise JobFailed(told, hint=hint if NOT_SHIPPED in told else None) from error


def parsed(name: str, arguments: Sequence[str], prog: str) -> tuple[Any, Given]:
    """The job's module, and what it was told; ConfigError for the first argument that is wrong."""
    module = find_job(name)
    parser = JobParser(prog=f"{prog} {name}", description=JOBS[name].capitalize() + ".", epilog=_epilog(module))
    add_shared(parser)
    module.add_arguments(parser)
    return module, parser.parse_args(arguments)


def find_job(name: str) -> Any:
    """The module of a job; ConfigError with the nearest name if there is none."""
    import difflib

    if name not in JOBS:
        near = difflib.get_close_matches(name, JOBS, n=1)
        raise ConfigError(
            f"there is no job {name!r}", hint=f"did you mean {near[0]}?" if near else f"there are: {', '.join(JOBS)}"
        )
    return import_module(f"ottla.spark_jobs.jobs.{name.replace('-', '_')}")


def sentence(text: str) -> str:
    """Of all that Spark tells of a failure, what people need: our own words, else what Python raised, else the first line."""
    found = _OURS.search(text) or _TRACEBACK_END.search(text)
    return (found["told"] if found else text.strip().splitlines()[0]).strip()


def _epilog(module: Any) -> str:
    """What stands in front of the job's file, behind its first line."""
    return " ".join(module.__doc__.split("\n\n", 1)[-1].replace("``", "").split())
