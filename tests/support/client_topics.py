"""Topics for tests of the clients: filled, and read to the end."""

from collections.abc import Callable

from ottla.client import Admin, Consumer, Producer, Record
from tests.support.machine import scaled

WAIT_S = scaled(30.0)

MakeTopic = Callable[..., str]


def write(bootstrap: str, topic: str, numbers: range, partition: int = 0) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for start in numbers[::10]:
            some = range(start, min(start + 10, numbers.stop))
            producer.send_many(topic, [b"%d" % n for n in some], partition=partition).result(timeout=WAIT_S)


def take(consumer: Consumer, count: int) -> list[Record]:
    """Exactly ``count`` records, by as many polls as it takes."""
    found: list[Record] = []
    while len(found) < count:
        records = consumer.poll(timeout=WAIT_S, max_records=count - len(found))
        assert records, f"{len(found)} of {count} records came"
        found += records
    return found


def offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


def read(bootstrap: str, topic: str, count: int) -> list[Record]:
    """The first ``count`` records of a topic, and that there are no more."""
    found: list[Record] = []
    with Consumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        places = [(topic, partition) for partition in range(len(consumer_partitions(bootstrap, topic)))]
        while len(found) < count:
            records = consumer.poll(timeout=WAIT_S)
            assert records, f"{len(found)} of {count} records came"
            found += records
        assert sum(consumer.end_offsets(places).values()) == count
    return found


def consumer_partitions(bootstrap: str, topic: str) -> list[int]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return [each.partition for each in admin.describe_topic(topic).partitions]
