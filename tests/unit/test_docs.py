"""The docs say what the code does."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["make_configuration", "make_checklist", "make_kafka"])
def test_pages_that_are_made_from_the_code_are_up_to_date(name: str) -> None:
    module = script(name)
    assert module.PAGE.read_text() == module.page(), f"run: python docs/{name}.py"


def test_every_behaviour_has_a_test_on_a_live_cluster() -> None:
    module = script("make_checklist")
    lines = [number for behaviours in module.BEHAVIOURS.values() for number in behaviours]
    assert lines == list(range(1, 94))
    found = module.tests_by_number()
    live = ("`cluster/", "`docker/", "`spark/")
    cited = {number for number, tests in found.items() if any(test.startswith(live) for test in tests)}
    assert set(lines) - cited == set()


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/where-would-i-add.md", "docs/invariants.md"])
def test_files_that_the_maps_of_the_code_name_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    named = set(re.findall(r"`((?:broker|client|net|wire|zk|cli|chaos|local|tests|docs)/[\w/]+(?:\.\w+)?/?)`", text))
    assert named, "it names none"
    missing = {name for name in named if not (ROOT / name).exists() and not (ROOT / f"{name}.py").exists()}
    assert missing == set()
