"""Which code runs: the compiled modules that setup.py has built, or the Python sources they were built from.

Python itself prefers a compiled module to the source beside it. Two more rules make that safe in a working copy: a source
that was edited is never hidden by what was compiled from it before, and OTTLA_PURE=1 asks for the sources alone (a debugger
wants them, and tests that put something of their own into the code).
"""

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path

HERE = Path(__file__).parent
MARKER = HERE / "compiled.txt"
"""Names what was compiled in this working copy, and is as old as that. An installed package has none: nobody edits it."""


def choose() -> None:
    """Before any other module of the package is imported."""
    if os.environ.get("OTTLA_PURE", "0") != "0" or _edited():
        sys.path_hooks.insert(0, _sources_only)


def is_active() -> bool:
    """Whether this process runs compiled modules."""
    from ottla.wire import framing

    return not str(framing.__file__).endswith(".py")


def _edited() -> bool:
    try:
        compiled_at = MARKER.stat().st_mtime
        sources = MARKER.read_text().split()
        return any((HERE / source).stat().st_mtime > compiled_at for source in sources)
    except OSError:  # installed, or never compiled, or a source is gone
        return MARKER.exists()


def _sources_only(path: str) -> FileFinder:
    if not path.startswith(str(HERE)):
        raise ImportError(f"{path} is not of this package")
    return FileFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))
