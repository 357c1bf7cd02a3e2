"""Without what only brokers need, the client and the command work, and all else says what to install."""

import subprocess
import sys

from tests.support.machine import scaled

BLOCKED = "import sys; sys.modules.update(dict.fromkeys(('kazoo', 'aiohttp', 'prometheus_client', 'pyspark')));"


def run(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, timeout=scaled(60))


def test_client_needs_none_of_it() -> None:
    names = "Admin, AsyncAdmin, AsyncConsumer, AsyncProducer, Consumer, NewTopic, Producer, Record"
    done = run(f"from ottla.client import {names}; Producer().close(); print('fine')")
    assert done.stdout == "fine\n", done.stderr


def test_command_needs_none_of_it() -> None:
    for words in (["--help"], ["produce", "--help"], ["topic", "--help"], ["up", "--help"]):
        done = run(f"from ottla.cli.main import main; sys.exit(main({words!r}))")
        assert done.returncode == 0, done.stderr
    nobody = run("from ottla.cli.main import main; sys.exit(main(['topic', 'list', '-b', '127.0.0.1:1']))")
    assert (nobody.returncode, nobody.stderr.splitlines()[0][:15]) == (1, "error: no broke")


def test_broker_says_what_to_install() -> None:
    done = run("from ottla.broker.__main__ import main; sys.exit(main(['-o', 'broker.id=1']))")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "hint: pip install 'ottla[broker]'")


def test_local_cluster_says_what_to_install() -> None:
    # Here they are truly not to be found: find_spec looks for the packages themselves.
    hide = "import importlib.util as u; find = u.find_spec; u.find_spec = lambda name: None if name == 'kazoo' else find(name);"
    done = run(hide + "from ottla.cli.main import main; sys.exit(main(['up', '--data', '/nonexistent/ottla']))")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "hint: pip install 'ottla[local]'"), done.stderr
