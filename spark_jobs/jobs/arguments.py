"""What all jobs can be told, in the words of the other commands. Wrong arguments are a ConfigError, not the end."""

import argparse
import os
from typing import NoReturn

from ottla.wire.errors import ConfigError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

Given = argparse.Namespace


class JobParser(argparse.ArgumentParser):
    """As argparse, but whoever runs a job decides how its end looks."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(message, hint=f"`{self.prog} --help` shows what there is")


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Where the topic is, and where Spark is to run."""
    parser.add_argument("topic", metavar="TOPIC", help="what to read")
    parser.add_argument(
        "-b", "--bootstrap", metavar="HOST:PORT,...", default=os.environ.get("OTTLA_BOOTSTRAP", DEFAULT_BOOTSTRAP),
        help="brokers to ask first (default: OTTLA_BOOTSTRAP, or %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--master", metavar="URL", help="spark://host:7077 and the like; local[*], on this machine, unless told"
    )
    parser.add_argument(
        "--environment", metavar="FILE", help="what executors run, as `ottla spark pack FILE` made it (with --master)"
    )
    parser.add_argument(
        "--conf", metavar="KEY=VALUE", type=key_value, action="append", default=[], help="a setting of Spark; may come again"
    )  # fmt: skip


def add_streaming(parser: argparse.ArgumentParser) -> None:
    """For jobs that go on."""
    parser.add_argument(
        "--checkpoint", metavar="DIR", required=True,
        help="where it notes how far it is; what is started again with the same one goes on there",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--offset", choices=("earliest", "latest"), default="earliest", help="where it begins, the first time"
    )
    parser.add_argument(
        "-e", "--exit", action="store_true", help="end when all that is there now was read; else it goes on until Ctrl-C"
    )  # fmt: skip
    parser.add_argument("-g", "--group", help="commit its progress as this group's, for `ottla group lag`")
    parser.add_argument(
        "--every", metavar="SECONDS", type=positive, default=1.0, help="how often a batch begins (default: %(default)g)"
    )
    parser.add_argument(
        "--most", metavar="RECORDS", type=count, default=1_000_000, help="no more in one batch (default: %(default)s)"
    )


def key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value


def positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)
