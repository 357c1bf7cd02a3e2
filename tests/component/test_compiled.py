"""Which code runs, the compiled module or its source: never a compiled one that its source has left behind."""

import ast
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from ottla import compiled
from tests.support.machine import scaled

ROOT = Path(__file__).parents[2]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package like ours with one module, whose compiled form only says that it was taken: it cannot be loaded."""
    folder = tmp_path / "ottla"
    (folder / "wire").mkdir(parents=True)
    (folder / "compiled.py").write_text(Path(compiled.__file__).read_text())
    (folder / "__init__.py").write_text("from ottla import compiled\ncompiled.choose()\n")
    (folder / "wire/__init__.py").touch()
    (folder / "wire/framing.py").touch()
    (folder / f"wire/framing{EXTENSION_SUFFIXES[0]}").write_text("not really compiled")
    return folder


def taken(package: Path, **environment: str) -> str:
    """Which of the two a process of its own takes."""
    code = "from ottla import compiled; print('compiled' if compiled.is_active() else 'source')"
    env = {name: value for name, value in os.environ.items() if name != "OTTLA_PURE"}
    env |= {"PYTHONPATH": str(package.parent), **environment}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=scaled(60), check=False
    )
    if "framing" in done.stderr and "ImportError" in done.stderr:
        return "compiled"
    return done.stdout.strip() or done.stderr


def write_marker(package: Path, seconds_after_the_source: float) -> None:
    marker = package / "compiled.txt"
    marker.write_text("wire/framing.py\n")
    written = (package / "wire/framing.py").stat().st_mtime + seconds_after_the_source
    os.utime(marker, (written, written))


def test_an_installed_package_runs_compiled(package: Path) -> None:
    assert taken(package) == "compiled"


def test_a_working_copy_runs_compiled_until_a_source_is_edited(package: Path) -> None:
    write_marker(package, seconds_after_the_source=1)
    assert taken(package) == "compiled"
    write_marker(package, seconds_after_the_source=-1)
    assert taken(package) == "source"


def test_a_source_that_is_gone_counts_as_edited(package: Path) -> None:
    write_marker(package, seconds_after_the_source=1)
    with (package / "compiled.txt").open("a") as marker:
        marker.write("wire/gone.py\n")
    os.utime(package / "compiled.txt", (2**31, 2**31))
    assert taken(package) == "source"


@pytest.mark.parametrize(("wish", "expected"), [("1", "source"), ("0", "compiled")])
def test_the_environment_may_ask_for_the_sources(package: Path, wish: str, expected: str) -> None:
    assert taken(package, OTTLA_PURE=wish) == expected


def compiled_modules() -> list[str]:
    assignments = [node for node in ast.parse((ROOT / "setup.py").read_text()).body if isinstance(node, ast.Assign)]
    names = next(ast.literal_eval(node.value) for node in assignments if ast.unparse(node.targets[0]) == "COMPILED")
    return [f"{name}.py" for name in names]


def test_what_is_compiled_is_there() -> None:
    assert len(compiled_modules()) > 30
    assert [name for name in compiled_modules() if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("name", compiled_modules())
def test_a_compiled_module_has_nothing_that_means_something_else_in_c(name: str) -> None:
    """See docs/decisions/0011: each of these was found, or is known, to do something else when it is compiled."""
    tree = ast.parse((ROOT / name).read_text())
    for node in ast.walk(tree):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await), (
            "coroutines lose exceptions and show them to others"
        )
        assert not (isinstance(node, ast.Attribute) and node.attr in ("__cause__", "__context__")), "they are not set"
        if isinstance(node, ast.Try | ast.With):
            inside = [inner for inner in ast.walk(node) if isinstance(inner, ast.Yield | ast.YieldFrom)]
            assert not inside, "as with coroutines"
        if isinstance(node, ast.Slice):
            assigned = [inner for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr)]
            assert not assigned, "a name that is assigned inside a slice has its new value in all of it"
        if isinstance(node, ast.FunctionDef):
            handlers = [inner for inner in ast.walk(node) if isinstance(inner, ast.ExceptHandler)]
            types = {(one.name, ast.unparse(one.type)) for one in handlers if one.name and one.type}
            names = [variable for variable, _ in types]
            assert len(names) == len(set(names)), "a variable has one type: the second exception raises TypeError"
