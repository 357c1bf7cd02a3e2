"""What tools see of the clients' options is what the configs know."""

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest

import ottla.client.errors
from ottla import client
from ottla.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from ottla.client.options import TYPED
from ottla.wire import errors
from tests.support.machine import scaled

ROOT = Path(__file__).parents[3]

CLIENTS: list[tuple[type, type[ClientConfig]]] = [
    (client.Producer, ProducerConfig),
    (client.AsyncProducer, ProducerConfig),
    (client.Consumer, ConsumerConfig),
    (client.AsyncConsumer, ConsumerConfig),
    (client.Admin, AdminConfig),
    (client.AsyncAdmin, AdminConfig),
]


@pytest.mark.parametrize("config", TYPED, ids=lambda config: config.__name__)
def test_every_option_is_a_typed_keyword_and_the_other_way_round(config: type[ClientConfig]) -> None:
    typed, beside = TYPED[config]
    assert {*get_type_hints(typed), *beside} == {option.name for option in fields(config)}, "see client/options.py"


@pytest.mark.parametrize(("cls", "config"), CLIENTS, ids=lambda each: each.__name__)
def test_help_names_every_option_with_default_and_meaning(cls: type, config: type[ClientConfig]) -> None:
    shown = inspect.signature(cls).parameters
    for option in fields(config):
        assert f"{option.name}={option.default!r}: {option.metadata['help']}" in (cls.__doc__ or "")
        assert shown[option.name].default == option.default


WRONG = {
    'Producer(liner_ms=5)': 'Unexpected keyword argument "liner_ms"',
    'Producer(acks=7)': 'Argument "acks"',
    'Producer(compression_type="zip")': 'Argument "compression_type"',
    'AsyncProducer(linger_ms="soon")': 'Argument "linger_ms"',
    'Consumer("t", auto_offset_reset="first")': 'Argument "auto_offset_reset"',
    'AsyncConsumer("t", group="g")': 'Unexpected keyword argument "group"',
    'Admin(bootstrap_servers=9092)': 'Argument "bootstrap_servers"',
    'AsyncAdmin(acks=1)': 'Unexpected keyword argument "acks"',
    'text: str = Consumer("t", value_deserializer=int).poll()[0].value': 'expression has type "int"',
    'async def f(c: AsyncConsumer[str, int]) -> str: return (await c.poll())[0].value': 'got "int", expected "str"',
    'def g(record: Record[str, int]) -> str: return record.value': 'got "int", expected "str"',
}  # fmt: skip

RIGHT = """
def handle(record: Record) -> bytes: return bytes(record.value)
def loop(consumer: Consumer) -> None:
    for record in consumer: handle(record)
number: int = Consumer("t", value_deserializer=int).poll(None)[0].value
Producer(acks="all", linger_ms=5, bootstrap_servers=["a:1", "b:2"], on_delivery=lambda error, where: print(error, where))
Producer.from_config({"bootstrap.servers": "a:1", "linger.ms": 5})
"""


def test_mypy_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    names = "Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, Producer, Record"
    lines = [f"from ottla.client import {names}", *WRONG, *RIGHT.splitlines()]
    script = tmp_path / "script.py"
    script.write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(script)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=scaled(110))
    found = [line.split("script.py:")[1] for line in checked.stdout.splitlines() if ": error: " in line]
    for number, (line, why) in enumerate(WRONG.items(), start=2):
        assert any(each.startswith(f"{number}:") and why in each for each in found), (line, checked.stdout)
    assert len(found) == len(WRONG), checked.stdout


def test_all_errors_have_a_public_home() -> None:
    there = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}
    assert set(ottla.client.errors.__all__) == there


def test_errors_are_what_python_calls_them() -> None:
    assert issubclass(ottla.client.errors.ClientTimeout, TimeoutError)
    assert issubclass(ottla.client.errors.ConfigError, ValueError)
    late = ottla.client.errors.ClientTimeout("too late", topic="t", hint="wait")
    assert (str(late), late.topic, late.hint) == ("too late", "t", "wait")
