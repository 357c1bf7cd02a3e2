"""The rules of the code that no linter knows, as tests of the code."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ["bench", "broker", "chaos", "cli", "client", "local", "net", "spark_jobs", "wire", "zk"]
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
TASKS = re.compile(r"\b(create_task|ensure_future|run_coroutine_threadsafe)\(")

FILES_MAX = 12
"""In one folder, unless its ``__init__`` says how they hang together."""

# Not loops, and yet they start tasks, each for its reason.
MAY_START_TASKS = {
    "broker/api/later.py": "a request whose work must outlive its connection",
    "chaos/foreign_clients.py": "aiokafka, which has no blocking face, in a thread of its own",
    "client/loop_thread.py": "work handed to the thread of the blocking clients",
    "zk/watches.py": "a watch is a loop that is always needed together with its callback",
}


def test_every_folder_is_linked_into_the_package():
    links = {path.name: path for path in (ROOT / "src/ottla").iterdir() if path.is_symlink()}
    assert sorted(links) == FOLDERS
    for name, link in links.items():
        assert link.resolve() == ROOT / name
        assert not Path(link.readlink()).is_absolute()


def test_every_top_level_folder_with_python_is_a_known_one():
    found = {path.parent.relative_to(ROOT).parts[0] for path in ROOT.glob("*/*.py")}
    assert found - {"tests", "docs"} == set(FOLDERS)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_says_what_lives_there_and_stays_readable(path):
    text = path.read_text()
    assert text.startswith('"""'), "the first line of a module says what lives there"
    assert text.count("\n") <= 400, "a file splits before 400 lines"
    assert not re.search(r"class \w*(Manager|Helper|Util|Impl)\b", text)
    assert (
        not re.search(r"\bprint\(", text) or path.parts[-2] in ("bench", "cli", "local") or path.name == "__main__.py"
    )


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in SOURCES}), ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_folder_with_many_files_says_why(folder):
    files = [path for path in folder.glob("*.py") if not path.name.startswith("__")]
    said = (folder / "__init__.py").read_text().split('"""')[1].strip()
    assert len(files) <= FILES_MAX or "\n" in said, f"{len(files)} files"


def test_files_that_are_named_exist():
    texts = [*SOURCES, *ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    known = {
        path.name for folder in (*FOLDERS, "tests", "docs", "src/ottla") for path in (ROOT / folder).glob("**/*.py")
    } | {"setup.py"}
    named = {(path, name) for path in texts for name in re.findall(r"(?<![\w*])\w+\.py\b", path.read_text())}
    missing = [f"{path.relative_to(ROOT)} names {name}" for path, name in named if name not in known]
    assert missing == []


def test_only_loops_start_tasks():
    strangers = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if TASKS.search(path.read_text())
        and not path.stem.endswith("_loop")
        and str(path.relative_to(ROOT)) not in MAY_START_TASKS
    ]
    assert strangers == []


def test_nothing_of_this_machine_is_committed():
    suspects = [
        *SOURCES,
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        ROOT / "pyproject.toml",
        ROOT / "constraints.txt",
    ]
    for path in suspects:
        text = path.read_text()
        assert "/root/" not in text, path
        assert not re.search(r"https?://[^\s\"'`)]*(pypi|pythonhosted|index)", text), path
