"""Writes the tables of apis and of topic settings in docs/kafka.md from the code: ``python docs/make_kafka.py``."""

from pathlib import Path

from ottla.broker.storage.topic_configs import TOPIC_CONFIGS
from ottla.wire.kafka import fields, request_fields
from ottla.wire.kafka.dialect import KafkaDialect

PAGE = Path(__file__).with_name("kafka.md")
BY_HAND = {0: "Produce", 1: "Fetch"}


class _NoTopics:
    def topic_id_of(self, topic: str) -> str:
        return ""

    def topic_name_of(self, topic_id: str) -> str | None:
        return None


def apis() -> str:
    names = {
        int(line.split()[0]): "".join(word.capitalize() for word in line.split()[1].split("_"))
        for line in request_fields.TABLE.splitlines()
        if not line.startswith(" ")
    } | BY_HAND
    dialect = KafkaDialect(_NoTopics(), lambda topic, partition, views: list(views))
    rows = ["| api | number | versions | newest that Kafka 4 has |", "|---|---|---|---|"]
    for one in dialect.api_ranges:
        newest = {0: 13, 1: 18}.get(one.api) or fields.request_schema(one.api).versions.newest
        rows.append(f"| {names[one.api]} | {one.api} | {one.oldest} to {one.newest} | {newest} |")
    return "\n".join(rows) + "\n"


def topic_settings() -> str:
    rows = ["| setting | here | what it is | allowed | default |", "|---|---|---|---|---|"]
    for name, one in TOPIC_CONFIGS.items():
        default = f"`{one.broker_name}`" if one.default is None else f"`{one.default}`" if one.default else ""
        rows.append(f"| `{name}` | {one.use} | {one.text} | {one.kind.allowed} | {default} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    text = PAGE.read_text()
    for name, table in (("apis", apis), ("topic settings", topic_settings)):
        begin, end = f"<!-- {name}: made by docs/make_kafka.py -->\n", f"<!-- end of {name} -->\n"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = before + begin + "\n" + table() + "\n" + end + after
    return text


if __name__ == "__main__":
    PAGE.write_text(page())
