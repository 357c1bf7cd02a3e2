"""How commands fail: exit codes, and one line that says what is wrong and one that says what to do."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ottla.wire.errors import (
    ClientTimeout,
    ConfigError,
    InvalidReplicationFactor,
    NoBrokersAvailable,
    NotEnoughReplicas,
    OffsetOutOfRange,
    OttlaError,
    RequestTimedOut,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

FAILED = 1
USAGE = 2
TIMED_OUT = 3
NOT_FOUND = 4
INTERRUPTED = 130  # 128 + SIGINT, as shells count
BROKEN_PIPE = 141  # 128 + SIGPIPE
TERMINATED = 143  # 128 + SIGTERM

# typer has its own copy of click since 0.16 or uses the installed one: its public BadParameter knows the class of all.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


BROKER_NEEDS = ("aiohttp", "kazoo", "prometheus_client")
"""What only brokers and those who look into ZooKeeper need."""

SPARK_NEEDS = ("pyspark", "py4j", "pyarrow", "numpy", "pandas")


class Terminated(BaseException):
    """SIGTERM came, and whoever is in the middle of something ends it as after Ctrl-C."""


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM (kill, timeout, docker stop) is raised as Terminated, once: a second one ends the process as ever."""

    def end(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, before)
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class NotFound(OttlaError):
    """What was asked for does not exist."""


def topic_not_found(name: str, topics: list[str]) -> NotFound:
    """No such topic; with the one that was probably meant."""
    import difflib

    near = difflib.get_close_matches(name, topics, n=1)
    hint = f"did you mean {near[0]}?" if near else f"`ottla topic create {name}` makes it"
    return NotFound(f"topic {name!r} does not exist", topic=name, hint=hint)


_EXIT_CODES: dict[type[BaseException], int] = {
    ClientTimeout: TIMED_OUT,
    RequestTimedOut: TIMED_OUT,
    NotEnoughReplicas: TIMED_OUT,
    TimeoutError: TIMED_OUT,
    NotFound: NOT_FOUND,
    UnknownTopicOrPartition: NOT_FOUND,
    UnknownTopicId: NOT_FOUND,
    FileNotFoundError: NOT_FOUND,
    ConfigError: USAGE,
}

_HINTS: dict[type[BaseException], str] = {
    UnknownTopicOrPartition: "`ottla topic list` shows what there is; `ottla topic create NAME` makes one",
    TopicAlreadyExists: "give --if-not-exists if that is fine",
    InvalidReplicationFactor: "`ottla cluster info` shows how many brokers there are",
    OffsetOutOfRange: "give -o earliest or -o latest",
    NotEnoughReplicas: "`ottla topic describe NAME` shows who is in sync",
    NoBrokersAvailable: "start a cluster with `ottla up`, or name one with -b host:port or OTTLA_BOOTSTRAP",
    ClientTimeout: "`ottla status` shows a local cluster; --timeout waits longer",
}


def exit_code(error: BaseException) -> int:
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), FAILED)


def hint_for(error: BaseException) -> str | None:
    """The error's own hint, else the one that a user of the command line can follow."""
    own = error.hint if isinstance(error, OttlaError) else None
    return own or next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), None)


def report(error: Exception) -> int:
    """Tell an error on standard error and give back the exit code."""
    if isinstance(error, UsageError):
        return _report_typer(error)
    if isinstance(error, OttlaError):
        message = str(error)
    elif isinstance(error, ModuleNotFoundError) and error.name in BROKER_NEEDS:
        show_error(f"this needs {error.name}, which is not installed", "pip install 'ottla[broker]'")
        return FAILED
    elif isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in SPARK_NEEDS:
        missing = (error.name or "").partition(".")[0]
        show_error(f"this needs {missing}, which is not installed", "pip install 'ottla[spark]'")
        return FAILED
    elif isinstance(error, OSError):
        name = f": {error.filename}" if error.filename else ""
        message = f"{error.strerror or error}{name}"
    else:
        # A bug of ours: the type is needed to find it.
        message = f"unexpected {type(error).__name__}: {error}"
    show_error(message, hint_for(error))
    return exit_code(error)


def report_usage(message: str, hint: str | None) -> int:
    show_error(message, hint)
    return USAGE


def show_error(message: str, hint: str | None = None) -> None:
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)


def _report_typer(error: Exception) -> int:
    message = str(getattr(error, "format_message", error.__str__)())
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help itself
        print(message, file=sys.stderr)
        return USAGE
    path = context.command_path if context is not None else "ottla"
    return report_usage(message.rstrip("."), f"`{path} --help` shows what there is")
