"""``ottla zookeeper``: one ZooKeeper server in the foreground; and ``acl``: who may do what in one."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.errors import FAILED, NotFound
from ottla.cli.output import note, write_line
from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from ottla.zk.access import Digest
    from ottla.zk.tree_acl import TreeReport

_CONNECT_TIMEOUT_S = 15.0
_NAMED_MAX = 10
"""How many znodes are named; the others are counted."""

app = typer.Typer(
    help="Run one ZooKeeper server until Ctrl-C (needs Java 17 and `pip install 'ottla[local]'`), or see to its rights.",
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def zookeeper(
    context: typer.Context,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Where it keeps its data.")] = None,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Where clients connect.")] = 2181,
) -> None:
    if context.invoked_subcommand is not None:
        return
    if data is None:
        raise ConfigError("a server needs a folder for its data", hint="give --data DIR")
    from ottla.zk.ensemble.servers import plan_ensemble

    [server] = plan_ensemble(data.resolve(), 1, first_client_port=port)
    command = server.command
    server.write_config()
    note(f"ZooKeeper listens at {server.address}, its data is in {server.folder}; Ctrl-C ends it")
    os.execv(command[0], command)


@app.command()
def acl(
    connect: Annotated[str, typer.Option("--connect", metavar="HOST:PORT,.../PATH", help="As in zookeeper.connect.")],
    digest_file: Annotated[
        Path, typer.Option("--digest-file", metavar="FILE", help="The brokers' zookeeper.digest.file.")
    ],
    secure: Annotated[bool, typer.Option("--secure", help="Close all znodes of the cluster to others.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open them to everybody again.")] = False,
) -> int:
    """Show whether a cluster's znodes are closed to others; with --secure or --open, see to it.

    May be run again, also after it broke off, and while the cluster works. All brokers must have the digest before.
    """
    import asyncio

    from ottla.zk.access import read_digest

    if secure and open_:
        raise ConfigError("--secure and --open contradict each other")
    digest = read_digest(digest_file)
    report = asyncio.run(_visit(connect, digest, closed=not open_, change=secure or open_))
    return _tell(report, "open" if open_ else "closed", changed=secure or open_)


async def _visit(connect: str, digest: "Digest", *, closed: bool, change: bool) -> "TreeReport":
    from ottla.zk.session.session import ZkSession
    from ottla.zk.tree_acl import set_tree_acl
    from ottla.zk.znodes.cluster import ClusterIdZnode

    session = ZkSession(connect, digest=digest)
    await session.start(_CONNECT_TIMEOUT_S, make_root=False)
    try:
        if await session.exists("/") is None:
            raise NotFound(f"there is no {session.connect.chroot} in ZooKeeper", hint="is the path in --connect right?")
        if await session.exists(ClusterIdZnode.PATH) is None:  # the root, and what stands there, is somebody else's
            root = session.connect.chroot
            doubt = "is the path in --connect right?" if root else "is the chroot missing?"
            raise NotFound(f"no Ottla cluster at {root or '/'}; {doubt}", hint="give it as in zookeeper.connect")
        return await set_tree_acl(session, digest, closed=closed, change=change)
    finally:
        await session.close()


def _tell(report: "TreeReport", wanted: str, *, changed: bool) -> int:
    if changed:
        was = "was" if report.right == 1 else "were"
        write_line(f"{_znodes(report.changed)} {wanted} now, {report.right} {was} before")
        return 0
    are = "is" if len(report.wrong) == 1 else "are"
    write_line(f"{_znodes(report.right)} {wanted}, {len(report.wrong)} {are} not")
    for path in report.wrong[:_NAMED_MAX]:
        write_line(f"  {path}")
    if len(report.wrong) > _NAMED_MAX:
        write_line("  ...")
    return FAILED if report.wrong else 0


def _znodes(count: int) -> str:
    return "1 znode is" if count == 1 else f"{count} znodes are"
