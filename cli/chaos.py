"""``ottla chaos``: faults on a live cluster under load, and a check of everything that was acknowledged."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.errors import FAILED, report_usage
from ottla.cli.options import Format
from ottla.cli.output import OutputFormat, Table, flush, note, show, to_json, write_line
from ottla.wire.errors import ConfigError

if TYPE_CHECKING:
    from ottla.chaos.run import Outcome
    from ottla.chaos.targets.target import Target

TARGETS = ("local", "compose")

app = typer.Typer(
    help="Break a cluster on purpose, and check what it promised.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def run(
    scenario: Annotated[str, typer.Option("--scenario", help="Its name; `ottla chaos list` shows all.")] = "random",
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long faults come.")] = 60.0,
    seed: Annotated[
        int | None, typer.Option("--seed", help="The same number brings the same faults.", show_default=False)
    ] = None,
    target: Annotated[
        str, typer.Option("--target", help="local: a cluster of its own; compose: the containers.")
    ] = "local",
    report: Annotated[
        Path | None, typer.Option("--report", metavar="DIR", help="Write index.html and run.json there.")
    ] = None,
    rate: Annotated[
        float,
        typer.Option("--rate", min=1, help="How many records each of the five producers sends per second."),
    ] = 180.0,
    allow_skipped: Annotated[
        bool, typer.Option("--allow-skipped", help="Pass though faults found no victim, or could not be done.")
    ] = False,
    client: Annotated[
        str, typer.Option("--client", help="Whose producers write: ottla, or Kafka's: confluent, aiokafka.")
    ] = "ottla",
    project: Annotated[str, typer.Option("--project", help="The name of the compose project.")] = "ottla",
    output_format: Format = None,
) -> int:
    """Run one scenario; ends with 1 if anything was found that must not be, with 2 if it could not start."""
    import logging
    import random

    from ottla.chaos.faults import NotOffered, NotStarted
    from ottla.chaos.report.summary import summary, told
    from ottla.chaos.run import run as run_scenario

    # Clients tell of every broker that they miss, which is what this is about.
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    logging.getLogger("ottla").propagate = False
    if report is not None:
        _check_folder(report)
    chosen = random.SystemRandom().randrange(2**31) if seed is None else seed
    with open_target(target, project) as opened:
        try:
            outcome = run_scenario(
                opened, scenario, seconds, chosen, note, rate=rate, allow_skipped=allow_skipped, client=client
            )
        except NotOffered as error:
            raise ConfigError(str(error)) from None
        except NotStarted as error:
            return report_usage(str(error), error.hint)
    if report is not None:
        _write(report, outcome)
    if output_format is OutputFormat.JSON:
        write_line(to_json(summary(outcome), indent=2))
    else:
        write_line(told(outcome))
    flush()
    return 0 if outcome.passed else FAILED


@app.command()
def fuzz(
    seconds: Annotated[float, typer.Option("--seconds", min=1, help="How long attacks come.")] = 60.0,
    seed: Annotated[
        int | None, typer.Option("--seed", help="The same number brings the same attacks.", show_default=False)
    ] = None,
    rate: Annotated[float, typer.Option("--rate", min=1, max=1000, help="Attacks a second.")] = 50.0,
    largest: Annotated[
        bool, typer.Option("--largest", help="Send the largest requests that brokers take, instead of spoilt ones.")
    ] = False,
    report: Annotated[Path | None, typer.Option("--report", metavar="DIR", help="Write fuzz.json there.")] = None,
    output_format: Format = None,
) -> int:
    """Send spoilt and random frames of Kafka's protocol to a cluster of its own, beside a client that must not notice."""
    import random

    from ottla.chaos.fuzz.report import summary, told
    from ottla.chaos.fuzz.run import run as run_fuzz

    if report is not None:
        _check_folder(report)
    chosen = random.SystemRandom().randrange(2**31) if seed is None else seed
    outcome = run_fuzz(seconds, chosen, rate, note, largest=largest)
    if report is not None:
        (report / "fuzz.json").write_text(to_json(summary(outcome), indent=2), encoding="utf-8")
    write_line(to_json(summary(outcome), indent=2) if output_format is OutputFormat.JSON else told(outcome))
    flush()
    return 0 if outcome.passed else FAILED


@app.command("list")
def list_scenarios(output_format: Format = None) -> None:
    """List all scenarios."""
    from ottla.chaos.scenarios import SCENARIOS

    rows = [(scenario.name, scenario.what) for scenario in SCENARIOS.values()]
    show([Table(("Scenario", "What"), rows)], [{"scenario": name, "what": what} for name, what in rows], output_format)


def open_target(name: str, project: str) -> "Target":
    """The cluster that is to suffer."""
    if name == "local":
        from ottla.chaos.targets.local import LocalTarget

        return LocalTarget()
    if name == "compose":
        from ottla.chaos.targets.compose import ComposeTarget

        return ComposeTarget(project)
    raise ConfigError(f"there is no target {name!r}", hint=f"there are: {', '.join(TARGETS)}")


def _check_folder(folder: Path) -> None:
    """Before a run that may take hours: that its report can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--report {folder} cannot be used: {error.strerror}", hint="give a folder") from None


def _write(folder: Path, outcome: "Outcome") -> None:
    from ottla.chaos.report.page import page
    from ottla.chaos.report.summary import summary

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.html").write_text(page(outcome), encoding="utf-8")
    (folder / "run.json").write_text(to_json(summary(outcome), indent=2), encoding="utf-8")
    note(f"the report is {folder / 'index.html'}")
