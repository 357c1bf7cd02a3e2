"""What executors need, in one file that Spark ships to them: ottla's light parts, what they depend on, and a ``bin/python``.

No copy of a virtual environment, which knows the paths of its machine: ``bin/python`` is a script that runs the machine's own
Python of the same version with the packed libraries in front (docs/decisions/0031). pyspark is not packed: Spark has its own.
"""

import io
import os
import platform
import re
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath

from ottla.wire.errors import ConfigError, OttlaError

NEEDED = ("cramjam", "crc32c", "msgspec", "uvloop", "numpy", "pyarrow", "pandas")
"""What a task imports: the light client's dependencies without those of the command line, and Arrow for pyspark."""

PARTS = ("wire", "net", "client", "spark_jobs")
"""The folders of ottla that a task imports."""

COMPRESSION = 1
"""Most of it is machine code, of which more effort would save little."""

_LEFT_OUT = {"tests", "test", "include", "__pycache__"}

_PYTHON = """\
#!/bin/sh
# The machine's Python {version}, with what stands beside this in lib. OTTLA_PYTHON names it where it is not on the PATH.
python=${{OTTLA_PYTHON:-python{version}}}
if ! command -v "$python" >/dev/null; then
    echo "this environment was packed for Python {version}, and there is no $python here; install it, or set OTTLA_PYTHON" >&2
    exit 127
fi
lib=$(cd "$(dirname "$0")/../lib" && pwd)
PYTHONPATH=$lib${{PYTHONPATH:+:$PYTHONPATH}}
export PYTHONPATH
exec "$python" "$@"
"""

_RUN = """\
# What spark-submit is given: spark-submit ... environment/run.py JOB TOPIC ...
import sys

from ottla.spark_jobs.jobs.__main__ import main

sys.exit(main())
"""


@dataclass(frozen=True)
class Packed:
    """What was written."""

    bytes: int
    python: str
    platform: str
    packages: tuple[str, ...]


def pack(file: Path) -> Packed:
    """Write the archive, whole or not at all."""
    packages = tuple(closure(NEEDED))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    half = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with tarfile.open(half, "w:gz", compresslevel=COMPRESSION) as archive:
            _add_text(archive, "bin/python", _PYTHON.format(version=version), 0o755)
            _add_text(archive, "run.py", _RUN, 0o644)
            for path, name in [*_own_files(), *(found for package in packages for found in _files_of(package))]:
                archive.add(path, f"lib/{name}", recursive=False, filter=_anonymous)
        half.replace(file)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}", hint="name a file in a folder that is there"
        ) from None
    finally:
        half.unlink(missing_ok=True)
    where = f"{platform.system()} {platform.machine()}"
    return Packed(file.stat().st_size, f"Python {version}", where, ("ottla", *packages))


def closure(roots: tuple[str, ...]) -> Iterator[str]:
    """These distributions and all that they need, as far as it is installed; what only an extra asks for is not needed."""
    seen: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop(0)
        if _normal(name) in seen:
            continue
        seen.add(_normal(name))
        try:
            requires = metadata.distribution(name).requires or []
        except metadata.PackageNotFoundError:
            if name in roots:
                raise OttlaError(
                    f"{name} is to be packed and is not installed here", hint="pip install 'ottla[spark]'"
                ) from None
            continue  # for another platform or version
        yield name
        waiting += [found[0] for line in requires if "extra ==" not in line and (found := re.match(r"[\w.-]+", line))]


def _files_of(package: str) -> Iterator[tuple[Path, str]]:
    distribution = metadata.distribution(package)
    for file in distribution.files or []:
        if file.parts[0] != ".." and _wanted(PurePosixPath(file)):
            path = Path(str(distribution.locate_file(file)))
            if path.is_file():
                yield path, str(file)


def _own_files() -> Iterator[tuple[Path, str]]:
    """Out of a working copy, where folders are links, or as it was installed."""
    import ottla

    package = Path(ottla.__file__).parent
    site = package.parent
    folders = [(package / part, f"ottla/{part}") for part in PARTS] + [(site / "pyspark_ottla", "pyspark_ottla")]
    for folder, name in folders:
        for path in sorted(folder.resolve().rglob("*")):
            inside = PurePosixPath(path.relative_to(folder.resolve()).as_posix())
            if path.is_file() and _wanted(inside) and path.suffix in (".py", ".so", ".typed"):
                yield path, f"{name}/{inside}"
    for path in sorted([*package.glob("*.py"), *package.glob("py.typed")]):
        yield path, f"ottla/{path.name}"
    for path in sorted(site.glob("*__mypyc*.so")):  # what the compiled modules share
        yield path, path.name


def _wanted(file: PurePosixPath) -> bool:
    return not _LEFT_OUT.intersection(file.parts) and file.suffix not in (".pyc", ".pyi", ".pxd", ".h", ".c")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whose file it was is nobody's business."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _add_text(archive: tarfile.TarFile, name: str, text: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), mode
    archive.addfile(entry, io.BytesIO(text.encode()))
