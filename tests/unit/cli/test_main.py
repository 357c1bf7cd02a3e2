"""How commands end: exit codes, one line for the error and one for the hint, never a traceback."""

import pytest

from ottla.cli import errors
from ottla.cli import main as main_module
from ottla.cli.errors import FAILED, INTERRUPTED, NOT_FOUND, TIMED_OUT, USAGE, exit_code, report
from ottla.cli.main import main
from ottla.cli.output import OutputClosed
from ottla.wire.errors import (
    ClientTimeout,
    ConfigError,
    InvalidTopic,
    NoBrokersAvailable,
    OttlaError,
    UnknownTopicOrPartition,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ClientTimeout("x"), TIMED_OUT),
        (UnknownTopicOrPartition("x"), NOT_FOUND),
        (FileNotFoundError(2, "No such file", "x"), NOT_FOUND),
        (ConfigError("x"), USAGE),
        (NoBrokersAvailable("x"), FAILED),
        (InvalidTopic("x"), FAILED),
        (PermissionError(13, "Permission denied", "x"), FAILED),
        (ZeroDivisionError("x"), FAILED),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code(error) == code


def test_error_and_its_own_hint_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(OttlaError("it broke", hint="mend it")) == FAILED
    shown = capsys.readouterr()
    assert shown.err == "error: it broke\nhint: mend it\n"
    assert shown.out == ""


def test_error_without_a_hint_of_its_own_gets_the_one_for_its_kind(capsys: pytest.CaptureFixture[str]) -> None:
    report(NoBrokersAvailable("nobody"))
    assert "hint: start a cluster with `ottla up`" in capsys.readouterr().err


def test_file_error_names_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    report(FileNotFoundError(2, "No such file or directory", "/nowhere"))
    assert capsys.readouterr().err == "error: No such file or directory: /nowhere\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "create"],
        ["topic", "create", "x", "--bogus"],
        ["bogus"],
        ["topic", "create", "x", "-p", "many"],
        ["topic", "create", "x", "-c", "no-equals-sign"],
        ["topic", "list", "--format", "xml"],
        ["produce", "x", "-k", "a", "-K", ":"],
        ["produce", "x", "-H", "none"],
        ["consume", "x", "-o", "nonsense"],
        ["consume", "x", "-f", "%q"],
        ["consume"],
        ["up", "--port", "80"],
    ],
)
def test_wrong_usage_ends_with_2_and_a_hint_or_a_reason(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == USAGE
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_usage_error_points_to_the_help_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    main(["topic", "create"])
    assert "hint: `ottla topic create --help`" in capsys.readouterr().err


def test_command_without_arguments_shows_its_help_and_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic"]) == USAGE
    assert "describe" in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["topic"], ["topic", "create"], ["consume"], ["up"], ["log", "dump"]])
def test_help_ends_with_0(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    assert "Usage: ottla" in capsys.readouterr().out


def test_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    from ottla import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ottla {__version__}\n"


def test_delete_without_yes_is_refused_where_nobody_can_be_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert main(["topic", "delete", "x"]) == USAGE
    assert "hint: give --yes" in capsys.readouterr().err


def raising(error: BaseException) -> object:
    def app(**_: object) -> None:
        raise error

    return app


def test_interrupt_ends_quietly_with_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(main_module, "app", raising(KeyboardInterrupt()))
    assert main([]) == INTERRUPTED
    assert capsys.readouterr().err == ""


def test_closed_output_ends_quietly_with_141(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main_module, "app", raising(OutputClosed()))
    monkeypatch.setattr(main_module, "abandon_output", lambda: None)
    assert main([]) == errors.BROKEN_PIPE == 141
    assert capsys.readouterr().err == ""


def test_bug_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(main_module, "app", raising(ZeroDivisionError("oops")))
    assert main([]) == FAILED
    assert capsys.readouterr().err == "error: unexpected ZeroDivisionError: oops\n"
