"""How fast records become batches and batches become records, on one core: ``python -m ottla.bench.codec``."""

import argparse
import random
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any

from ottla.client.arrow import batches_to_arrow
from ottla.client.producing.partitioner import murmur2, partitions_for_keys
from ottla.wire.batch import MAGIC_COLUMNS, MAGIC_KAFKA, Codec
from ottla.wire.records import RecordBatch, encode_batch
from ottla.wire.rewriting import as_kafka_batch

NOW = 1_700_000_000_000
ARROW_BATCHES = 10
"""How many batches become Arrow at once, as in a fetch response."""

Case = tuple[str, Callable[[], object], int]


def main() -> None:
    """Print a table: what is done, records a second, megabytes of values a second."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000, help="records a batch")
    parser.add_argument("--size", type=int, default=100, help="bytes a value")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each line is measured")
    options = parser.parse_args()
    print(f"batches of {options.records} records of {options.size} bytes")
    print(f"{'':44}{'M records/s':>12}{'MB/s':>9}")
    for name, run, batches in cases(options.records, options.size):
        seconds = fastest(run, options.seconds)
        records = options.records * batches
        print(f"{name:44}{records / seconds / 1e6:12.2f}{records * options.size / seconds / 1e6:9.0f}")


def headline_speeds(records: int = 2_500, size: int = 100, seconds: float = 0.5) -> dict[str, float]:
    """Records/s of the three things that decide how fast a client is: keyed values of varied sizes, as fetched at once."""
    arguments = workloads(records, size)["keys, sizes, times"]
    batch = bytes(encode_batch(**arguments))
    many = [batch] * ARROW_BATCHES
    return {
        "encode": records / fastest(lambda: encode_batch(**arguments), seconds),
        "decode to lists": records / fastest(lambda: read_lists(RecordBatch(batch)), seconds),
        "to Arrow columns": records
        * len(many)
        / fastest(lambda: batches_to_arrow([*map(RecordBatch, many)], "topic", 0), seconds),
    }


def fastest(run: Callable[[], object], seconds: float) -> float:
    """The shortest of as many runs as fit: what the code takes when nobody else wants the core."""
    run()
    best = float("inf")
    end = perf_counter() + seconds
    while (start := perf_counter()) < end:
        run()
        best = min(best, perf_counter() - start)
    return best


def cases(records: int, size: int) -> Iterator[Case]:
    for name, arguments in workloads(records, size).items():
        for magic, label in ((MAGIC_COLUMNS, "columns"), (MAGIC_KAFKA, "kafka")):
            yield from batch_cases(f"{label}, {name}", arguments | {"magic": magic})
    for codec in list(Codec)[1:]:
        yield from batch_cases(f"columns, {codec.name.lower()}", json_lines(records, size) | {"codec": codec})
    keys = [b"key-%08d" % number for number in range(records)]
    yield "murmur2, one by one", lambda: [murmur2(key) for key in keys], 1
    yield "partitions for keys, seen before", lambda: partitions_for_keys(keys, 12), 1


def batch_cases(name: str, arguments: dict[str, Any]) -> Iterator[Case]:
    batch = bytes(encode_batch(**arguments))
    yield f"{name}: encode", lambda: encode_batch(**arguments), 1
    yield f"{name}: values as a list", lambda: RecordBatch(batch).values(), 1
    yield f"{name}: all as lists", lambda: read_lists(RecordBatch(batch)), 1
    yield f"{name}: to Arrow", lambda: batches_to_arrow([RecordBatch(batch)], "topic", 0), 1
    many = [batch] * ARROW_BATCHES
    yield (
        f"{name}: {ARROW_BATCHES} to Arrow",
        lambda: batches_to_arrow([*map(RecordBatch, many)], "topic", 0),
        len(many),
    )
    if arguments.get("magic") == MAGIC_COLUMNS:
        yield f"{name}: as a kafka batch", lambda: as_kafka_batch(RecordBatch(batch)), 1


def read_lists(batch: RecordBatch) -> object:
    return batch.offsets(), batch.timestamps(), batch.keys(), batch.values(), batch.headers()


def workloads(records: int, size: int) -> dict[str, dict[str, Any]]:
    source = random.Random(1)
    equal = [source.randbytes(size) for _ in range(records)]
    varied = [source.randbytes(source.randint(size // 2, size * 3 // 2)) for _ in range(records)]
    keys = [b"key-%08d" % number for number in range(records)]
    times = [NOW + number // 3 for number in range(records)]
    return {
        "values of one size": {"values": equal, "timestamps": NOW},
        "keys, sizes, times": {"values": varied, "keys": keys, "timestamps": times},
    }


def json_lines(records: int, size: int) -> dict[str, Any]:
    """Values that compress as JSON does."""
    source = random.Random(2)
    line = b'{"user": %d, "action": "view", "page": "/articles/%d", "referrer": "https://example.org/", "ms": %d}'
    values = [line % (source.randrange(10**6), source.randrange(999), source.randrange(10**4)) for _ in range(records)]
    return {"values": [value.ljust(size)[:size] for value in values], "timestamps": NOW}


if __name__ == "__main__":
    main()
