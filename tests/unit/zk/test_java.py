"""Finding Java's version in what java prints."""

import pytest

from ottla.zk.java import parse_java_version


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
