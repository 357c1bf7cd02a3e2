"""Options that many commands share."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.output import OutputFormat
from ottla.wire.errors import ConfigError

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 10.0

Bootstrap = Annotated[
    str,
    typer.Option("-b", "--bootstrap", envvar="OTTLA_BOOTSTRAP", metavar="HOST:PORT,...", help="Brokers to ask first."),
]
Format = Annotated[
    OutputFormat | None,
    typer.Option(
        "--format", help="How to print; a table on a terminal and tsv in a pipe unless told.", show_default=False
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for brokers.")]

DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="The cluster's folder; ~/.local/state/ottla unless told.", show_default=False
    ),
]


def parse_pair(text: str, option: str) -> tuple[str, str]:
    """``key=value`` as it was given to an option."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{option} {text!r} is not key=value")
    return key.strip(), value
