"""What the images promise: small, not root, and a clear word where the settings make no sense."""

import json
from typing import Any

import pytest

from tests.support.compose import docker

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

BROKER_IMAGE_MAX = 300 * 1000 * 1000


def image(name: str) -> Any:
    return json.loads(docker("image", "inspect", f"ottla-{name}").stdout)[0]


def test_broker_image_is_small(capsys: pytest.CaptureFixture[str]) -> None:
    size = image("broker")["Size"]
    with capsys.disabled():
        print(f"\n  the broker image has {size / 1e6:.0f} MB")
    assert size < BROKER_IMAGE_MAX


@pytest.mark.parametrize("name", ["zookeeper", "broker", "client", "spark"])
def test_nothing_runs_as_root(name: str) -> None:
    done = docker("run", "--rm", "--entrypoint", "id", f"ottla-{name}", "-u")
    assert int(done.stdout) > 0


@pytest.mark.parametrize("name", ["zookeeper", "broker"])
def test_servers_say_whether_they_are_healthy(name: str) -> None:
    assert image(name)["Config"]["Healthcheck"]["Test"][0] == "CMD"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "broker.id=-1 is not allowed"),
        ({"OTTLA_BROKER_ID": "zero"}, "give a whole number"),
        (
            {"OTTLA_BROKER_ID": "0", "OTTLA_LISTENERS": "A://:1,B://:2", "OTTLA_ADVERTISED_LISTENERS": "A://h:1"},
            "give the same names",
        ),
        ({"OTTLA_BROKER_ID": "0", "OTTLA_ADVERTISED_LISTENERS": "PLAINTEXT://0.0.0.0:9092"}, "nobody can connect"),
        ({"OTTLA_BROKER_ID": "0", "OTTLA_LISTENERS": "SSL://:9092"}, "asks for SSL"),
        ({"OTTLA_BROKER_ID": "0", "OTTLA_ZOOKEEPER_CONNECT": "127.0.0.1:1", "OTTLA_ZOOKEEPER_CONNECTION_TIMEOUT_MS": "500"},
         "127.0.0.1:1"),
    ],
)  # fmt: skip
def test_bad_settings_end_a_container_with_a_clear_message(settings: dict[str, str], says: str) -> None:
    options = [part for name, value in settings.items() for part in ("-e", f"{name}={value}")]
    ended = docker("run", "--rm", *options, "ottla-broker", check=False)
    assert ended.returncode == 1
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert errors, ended.stderr
    assert says in errors[0]
    assert "Traceback" not in ended.stderr


def test_client_image_is_the_command() -> None:
    assert "Usage: ottla" in docker("run", "--rm", "ottla-client", "--help").stdout
