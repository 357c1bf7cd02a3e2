"""``ottla spark``: jobs that Spark runs over topics, here or on a cluster, and what executors need for them in one file."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.options import DEFAULT_BOOTSTRAP, DEFAULT_TIMEOUT_S, Bootstrap, Format, Timeout
from ottla.cli.output import Table, flush, note, show, write_line

app = typer.Typer(help="Run Spark jobs over topics.", no_args_is_help=True, rich_markup_mode=None)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
)
def run(
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Its name; `ottla spark list` shows all.")],
) -> None:
    """Run a job: ottla spark run JOB TOPIC [OPTIONS]. What a job can be told is shown by ottla spark run JOB --help."""
    import signal

    from ottla.spark_jobs.jobs.program import run_job
    from ottla.spark_jobs.jobs.streams import Talk

    def write(text: str) -> None:
        write_line(text)
        flush()

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: the query is stopped
    _use_java()
    try:
        run_job(job, context.args, Talk(note=note, write=write))
    except SystemExit:  # --help was shown
        return


@app.command("list")
def list_jobs(output_format: Format = None) -> None:
    """List all jobs."""
    from ottla.spark_jobs.jobs import JOBS

    show([Table(("Job", "What"), list(JOBS.items()))], [{"job": n, "what": w} for n, w in JOBS.items()], output_format)


@app.command()
def pack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to write, such as ottla-environment.tar.gz.")],
) -> None:
    """Pack what executors need, for `ottla spark run --environment` or spark.archives: ottla, what it depends on, pyarrow."""
    from ottla.spark_jobs.jobs.packing import pack as pack_environment

    packed = pack_environment(file)
    note(f"{file}: {packed.bytes / 1e6:.0f} MB, for {packed.python} on {packed.platform}: {', '.join(packed.packages)}")


@app.command()
def sample(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where to; made if it is not there.")],
    hosts: Annotated[int, typer.Option("--hosts", min=1, max=10_000, help="So many send metrics.")] = 12,
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="For so long, in their time.")] = 600.0,
    live: Annotated[bool, typer.Option("--live", help="As time goes by, and not all at once.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="The same number brings the same metrics.")] = 1,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
) -> None:
    """Write metrics of made-up hosts, as the job metrics-monitor reads them: something to try it with."""
    from ottla.cli.connection import check_reachable
    from ottla.local.sample_metrics import write_metrics

    check_reachable(bootstrap, timeout)
    written = write_metrics(bootstrap, topic, hosts=hosts, seconds=seconds, live=live, seed=seed)
    note(f"{written:,} metrics of {hosts} hosts in {topic}")


def _use_java() -> None:
    """Spark takes the java of JAVA_HOME or PATH; where that is none or too old, one that we find."""
    import os

    from ottla.zk.ensemble.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().resolve().parents[1])
