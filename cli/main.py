"""The ``ottla`` command: where its words stand, and how it ends.

Only what ``--help`` needs is imported here and at the top of the other files: each command imports the client, or what
else it works with, when it runs.
"""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ottla.cli import broker, chaos, cluster, consume, group, log, partition, produce, spark, topic, up, zookeeper
from ottla.cli.errors import BROKEN_PIPE, INTERRUPTED, TERMINATED, Terminated, report, report_usage
from ottla.cli.output import OutputClosed, abandon_output, flush

app = typer.Typer(
    name="ottla",
    help="The little Kafka: start a cluster, write to it, read from it, look into it.",
    epilog="Start with `ottla up`. The cluster is found by -b/--bootstrap or OTTLA_BOOTSTRAP. Exit codes: 0 done, 1 failed, "
    "2 wrong options, 3 timed out, 4 not found, 130 interrupted, 143 terminated.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(up.up)
app.command("down")(up.down)
app.command("start")(up.start)
app.command("stop")(up.stop)
app.command("status")(up.status)
app.command("broker")(broker.broker)
app.add_typer(zookeeper.app, name="zookeeper")
app.add_typer(topic.app, name="topic")
app.add_typer(partition.app, name="partition")
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.add_typer(group.app, name="group")
app.add_typer(cluster.app, name="cluster")
app.add_typer(log.app, name="log")
app.add_typer(spark.app, name="spark")
app.add_typer(chaos.app, name="chaos")


def _show_version(wanted: bool) -> None:
    if wanted:
        from ottla import __version__

        typer.echo(f"ottla {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give back its exit code; whatever goes wrong is told in a line, never as a traceback."""
    try:
        code = app(
            args=list(sys.argv[1:] if arguments is None else arguments), prog_name="ottla", standalone_mode=False
        )
        flush()
        return code if isinstance(code, int) else 0
    except OutputClosed:
        abandon_output()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Terminated:
        return TERMINATED
    except typer.Abort:
        return report_usage("not confirmed", None)
    except Exception as error:
        return report(error)
