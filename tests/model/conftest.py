"""The larger model check runs only when asked for: ``pytest -m deep tests/model``."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "deep: minutes of model checking; runs only with -m deep")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "deep" in config.getoption("markexpr", ""):
        return
    skip = pytest.mark.skip(reason="runs only with -m deep")
    for item in items:
        if item.get_closest_marker("deep"):
            item.add_marker(skip)
