"""``ottla broker``: one broker in the foreground."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer


def broker(
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A server.properties with Kafka's names.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", "--option", metavar="KEY=VALUE", help="A property; overrides the file.")
    ] = None,
) -> None:
    """Run one broker until Ctrl-C. Properties come from the file, then OTTLA_* variables, then -o."""
    arguments = [sys.executable, "-m", "ottla.broker"]
    if config is not None:
        arguments += ["--config", str(config)]
    for pair in option or []:
        arguments += ["-o", pair]
    # Its own program in our place: signals and the exit code are the broker's.
    sys.stdout.flush()
    os.execv(sys.executable, arguments)
