"""The examples of docs/client.md, run in the order in which a reader would run them."""

import re
from pathlib import Path
from typing import Any

import pytest

from ottla.local import LocalCluster

pytestmark = pytest.mark.cluster

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


def test_every_example_of_the_client_runs() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) > 5
    names: dict[str, Any] = {}
    with LocalCluster(brokers=1) as cluster:
        for number, example in enumerate(examples):
            code = compile(
                example.replace("127.0.0.1:9092", cluster.bootstrap), f"{PAGE.name}, example {number}", "exec"
            )
            exec(code, names)
