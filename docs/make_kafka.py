"""Writes the table of apis in docs/kafka.md from the code: ``python docs/make_kafka.py``."""

from pathlib import Path

from ottla.wire.kafka import fields, request_fields
from ottla.wire.kafka.dialect import KafkaDialect

PAGE = Path(__file__).with_name("kafka.md")
BEGIN, END = "<!-- apis: made by docs/make_kafka.py -->\n", "<!-- end of apis -->\n"
BY_HAND = {0: "Produce", 1: "Fetch"}


class _NoTopics:
    def topic_id_of(self, topic: str) -> str:
        return ""

    def topic_name_of(self, topic_id: str) -> str | None:
        return None


def table() -> str:
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


def page() -> str:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + table() + "\n" + END + after


if __name__ == "__main__":
    PAGE.write_text(page())
