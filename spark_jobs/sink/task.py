"""One task of a write: its rows in, its batches to their leaders. Exactly once, or fast and at least once."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from ottla.spark_jobs.sink.batching import Batching, Numbers
from ottla.spark_jobs.sink.fingerprint import Fingerprint
from ottla.spark_jobs.sink.notes import Note, agreed
from ottla.spark_jobs.sink.options import SinkOptions
from ottla.spark_jobs.sink.placing import Placer, TopicPlan, by_topic, sizes_of, spread_bytes
from ottla.spark_jobs.sink.rows import as_rows
from ottla.spark_jobs.sink.sink_client import SinkClient, TaskName
from ottla.spark_jobs.sink.sorting import KeptRows, SortedRows
from ottla.wire.names import TopicPartition

Batches = Iterator[tuple[TopicPartition, bytearray]]


@dataclass(frozen=True)
class Written:
    """What became of a task."""

    rows: int = 0
    bytes: int = 0
    repeated: bool = False
    """Whether an attempt before had stored everything already."""


def write_once(batches: Iterable[pa.RecordBatch], options: SinkOptions, name: TaskName) -> Written:
    """Store the rows of a task so that no other attempt at it stores them again.

    All rows are read before the first is sent: only then is it known that they are those of the attempts before, and in which
    order they bear which numbers.
    """
    with (KeptRows if options.keep_order else SortedRows)(options.sort_memory) as rows:
        for batch in batches:
            rows.add(as_rows(batch, fixed_topic=options.topic is not None))
        fingerprint, spread = _look_over(rows, options.topic)
        client = SinkClient(options.client)
        mine = Note(fingerprint.digest(), options.keep_order, client.plan(spread))
        begun = client.begin(name, mine.encode())
        note = agreed(mine, Note.decode(begun.note), f"task {name[1]} of {name[0]}, batch {name[2]},")
        if begun.done or not fingerprint.count:  # that there are no rows must be known too, if others come with some
            return Written(fingerprint.count, 0, repeated=begun.done)
        batching = Batching(Numbers(begun.producer_id, begun.producer_epoch), client.config.codec, _now_ms())
        placers = {
            topic: Placer(topic, plan, spread[topic], turn=name[1] + name[2]) for topic, plan in note.plans.items()
        }
        size = client.send(_batches(rows, options.topic, placers, note.plans, batching))
        client.end(name)
        return Written(fingerprint.count, size)


def write_fast(batches: Iterable[pa.RecordBatch], options: SinkOptions, task: int) -> Written:
    """Store the rows of a task as they come; an attempt that is repeated stores them again."""
    client = SinkClient(options.client)
    batching = Batching(Numbers(client.new_producer_id(), 0), client.config.codec, _now_ms())
    count = 0

    def made() -> Batches:
        nonlocal count
        plans: dict[str, TopicPlan] = {}
        for turn, batch in enumerate(batches, start=task):
            count += batch.num_rows
            for topic, rows in by_topic(as_rows(batch, fixed_topic=options.topic is not None), options.topic).items():
                plans = plans if topic in plans else plans | client.plan([topic])
                sizes = sizes_of(rows)
                placer = Placer(topic, plans[topic], spread_bytes(rows, sizes), turn)
                yield from batching.add(topic, rows, placer.place(rows, sizes), plans[topic].batch_bytes)
        yield from batching.finish()

    size = client.send(made())
    return Written(count, size)


def _look_over(rows: KeptRows, topic: str | None) -> tuple[Fingerprint, Counter[str]]:
    """What all rows are together, and for each topic how many bytes of them have no partition of their own."""
    fingerprint = Fingerprint()
    spread: Counter[str] = Counter()
    for table in rows:
        fingerprint.add(table)
        for name, some in by_topic(table, topic).items():
            spread[name] += spread_bytes(some, sizes_of(some))
    return fingerprint, spread


def _batches(
    rows: KeptRows, topic: str | None, placers: Mapping[str, Placer], plans: Mapping[str, TopicPlan], batching: Batching
) -> Batches:
    for table in rows:
        for name, some in by_topic(table, topic).items():
            places = placers[name].place(some, sizes_of(some))
            yield from batching.add(name, some, places, plans[name].batch_bytes)
    yield from batching.finish()


def _now_ms() -> int:
    return int(time.time() * 1000)
