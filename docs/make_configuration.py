"""Writes docs/configuration.md from the help texts in the code: ``python docs/make_configuration.py``."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from ottla.broker.config import BrokerConfig, property_name
from ottla.broker.dynamic_config import FOR_ALL_ONLY
from ottla.broker.storage.topic_configs import TOPIC_CONFIGS
from ottla.client.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig

PAGE = Path(__file__).with_name("configuration.md")


def page() -> str:
    lines = ["# Configuration", "", "Made by `python docs/make_configuration.py` from the code; do not edit.", ""]
    lines += [
        "## Broker",
        "",
        "Defaults, then the properties file, then the environment (`OTTLA_BROKER_ID`), then `-o key=value`.",
        "Those that are marked can be changed while brokers run, for one of them or for all (`ottla cluster config`; Kafka's",
        "AlterConfigs): what is set for all counts more than what a broker was started with, what is set for one counts most.",
        f"For all only: {', '.join(f'`{name}`' for name in sorted(FOR_ALL_ONLY))}.",
        "",
    ]
    lines += broker_table()
    lines += [
        "",
        "## Topic",
        "",
        "[kafka.md](kafka.md#topic-settings) says which of Kafka's settings are implemented.",
        "",
    ]
    lines += ["| setting | what it is | allowed |", "|---|---|---|"]
    lines += [f"| `{name}` | {one.text} | {one.kind.allowed} |" for name, one in sorted(TOPIC_CONFIGS.items())]
    shared = {field.name for field in fields(ClientConfig)}
    lines += ["", "## All clients", "", *table(ClientConfig)]
    for title, cls in (("Producer", ProducerConfig), ("Consumer", ConsumerConfig), ("Admin", AdminConfig)):
        own = table(cls, leave_out=shared)
        if len(own) > 2:
            lines += ["", f"## {title}", "", *own]
    return "\n".join(lines) + "\n"


def broker_table() -> list[str]:
    head, line, *rows = table(BrokerConfig, property_name)
    marks = ["yes" if field.metadata["running"] else "" for field in fields(BrokerConfig)]
    marked = [f"{row} {mark} |" for row, mark in zip(rows, marks, strict=True)]
    return [f"{head} while running |", f"{line}---|", *marked]


def table(cls: Any, name_of: Any = str, leave_out: frozenset[str] | set[str] = frozenset()) -> list[str]:
    rows = ["| setting | default | what it is |", "|---|---|---|"]
    for field in fields(cls):
        if field.name not in leave_out:
            is_property = name_of is property_name and isinstance(field.default, bool)
            shown = str(field.default).lower() if is_property else field.default
            default = f"`{shown}`" if shown not in (None, "") else ""
            rows.append(f"| `{name_of(field.name)}` | {default} | {field.metadata['help']} |")
    return rows


if __name__ == "__main__":
    PAGE.write_text(page())
