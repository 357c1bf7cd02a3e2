"""``ottla zookeeper``: one ZooKeeper server in the foreground."""

import os
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.output import note


def zookeeper(
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Where it keeps its data.")],
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where clients connect.")] = 2181,
) -> None:
    """Run one ZooKeeper server until Ctrl-C. Needs Java 17 and `pip install 'ottla[embedded]'`."""
    from ottla.zk.ensemble import plan_ensemble

    [server] = plan_ensemble(data.resolve(), 1, first_client_port=port)
    command = server.command
    server.write_config()
    note(f"ZooKeeper listens at {server.address}, its data is in {server.folder}; Ctrl-C ends it")
    os.execv(command[0], command)
