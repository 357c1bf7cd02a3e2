"""``python -m ottla.bench``: measure one broker beside the bare limit; print a table, write bench-results/one-broker.json."""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ottla.bench import codec, limit, workloads
from ottla.bench.workloads import new_topic, percentile
from ottla.local import LocalCluster

MB = 1_000_000


@dataclass
class Row:
    """One measurement. ``goal`` is what it should reach; ``others`` what others reached on such a machine."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    goal: str = ""
    met: bool | None = None
    others: str = ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="how much data, 1 = a few minutes")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    options = parser.parse_args()
    rows = codec_rows()
    print_rows(rows)
    with LocalCluster(brokers=1) as cluster:
        rows += print_rows(broker_rows(cluster.bootstrap, cluster.pid(0), options.scale))
        began = time.perf_counter()
        cluster.terminate(0)
        cluster.start(0)
        rows += print_rows(
            [Row("restart to serving", time.perf_counter() - began, "s", goal="< 1.5 start", others="Kafka 5.8-8.9")]
        )
    options.out.mkdir(exist_ok=True)
    path = options.out / "one-broker.json"
    path.write_text(
        json.dumps({"at": time.strftime("%Y-%m-%dT%H:%M:%S"), "rows": [asdict(row) for row in rows]}, indent=2)
    )
    print(f"\nwritten to {path}")


def broker_rows(bootstrap: str, pid: int, scale: float) -> list[Row]:
    rows = [Row("broker, idle: memory", rss_mb(pid), "MB", goal="< 80", met=rss_mb(pid) < 80, others="Kafka 330-350")]
    total = int(1_500 * MB * scale)
    # The limit is taken before and after, and the better one counts: a machine that got busier must not flatter us.
    write_limit = limit.write_limit(total)
    topic = new_topic(bootstrap)
    kilobytes = workloads.produce_batches(bootstrap, topic, total_bytes=total, value_size=1024, batch_size=65536)
    whole = workloads.produce_batches(
        bootstrap, new_topic(bootstrap), total_bytes=total, value_size=65000, batch_size=65536
    )
    write_limit = max(write_limit, limit.write_limit(total))
    rows.append(
        against(
            "produce acks=1, 64 KB batches of one value",
            total / whole / MB,
            "MB/s",
            write_limit,
            "NATS 690, Kafka 100-109",
        )
    )
    rows.append(
        against(
            "produce acks=1, 64 KB batches of 1 KB values", total / kilobytes / MB, "MB/s", write_limit, "Kafka 100-109"
        )
    )

    read_limit = limit.read_limit(total)
    records = total // (64 * 1024) * 64
    _, speed = workloads.read_batches(bootstrap, topic, records=records, values=False)
    read_limit = max(read_limit, limit.read_limit(total))
    rows.append(
        against("consume 1 KB records as batches", speed / MB, "MB/s", read_limit, "Kafka Java 354-372, librdkafka 283")
    )
    rows += latency_rows(bootstrap, int(5000 * max(scale, 0.2)))

    small, count = new_topic(bootstrap), int(3_000_000 * scale)
    rows.append(
        goal(
            "Producer.send, 100 B",
            workloads.send_one_by_one(bootstrap, small, records=count // 3, value_size=100),
            500e3,
        )
    )
    rows.append(
        goal(
            "Producer.send_many, 100 B",
            workloads.send_lists(bootstrap, small, records=count, value_size=100),
            2e6,
            "confluent 1.1 M",
        )
    )
    rows.append(goal("for record in Consumer, 100 B", workloads.read_records(bootstrap, small, records=count), 800e3))
    rows.append(
        goal(
            "Consumer.poll_batches, values of 100 B",
            workloads.read_batches(bootstrap, small, records=count, values=True)[0],
            3e6,
        )
    )
    rows.append(Row("broker, after all this: memory", rss_mb(pid), "MB"))
    return rows


def latency_rows(bootstrap: str, rounds: int) -> list[Row]:
    """p50 and p99 of one send in flight, beside a bare echo of the same bytes."""
    topic = new_topic(bootstrap)
    bare = limit.echo_latency(rounds)
    rows = []
    measured: list[tuple[str, Callable[..., list[float]]]] = [
        ("AsyncProducer", workloads.produce_latencies),
        ("Producer", workloads.blocking_latencies),
    ]
    for name, measure in measured:
        taken = measure(bootstrap, topic, rounds=rounds, value_size=1024)
        for share, wanted, others in ((0.5, 0.15, "Kafka 0.27, NATS 0.18"), (0.99, 0.45, "Kafka 0.91, NATS 0.29")):
            value = percentile(taken, share) * 1000
            rows.append(
                Row(
                    f"{name}, 1 KB, acks=1, one in flight, p{share * 100:.0f}", value, "ms",
                    limit=percentile(bare, share) * 1000, goal=f"<= {wanted}", met=value <= wanted, others=others,
                )
            )  # fmt: skip
    return rows


def codec_rows() -> list[Row]:
    """Encoding and decoding alone, one core, 100-byte values."""
    speeds = codec.headline_speeds()
    wanted = {"encode": 2e6, "decode to lists": 2e6, "to Arrow columns": 10e6}
    return [goal(f"batches: {name}", speeds[name], least) for name, least in wanted.items()]


def against(name: str, value: float, unit: str, limit_value: float, others: str) -> Row:
    return Row(
        name, value, unit, limit=limit_value, goal=">= half of limit", met=value >= limit_value / 2, others=others
    )


def goal(name: str, value: float, least: float, others: str = "") -> Row:
    return Row(name, value, "records/s", goal=f">= {least:,.0f}", met=value >= least, others=others)


def rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def print_rows(rows: list[Row]) -> list[Row]:
    for row in rows:
        value = f"{row.value:,.0f}" if row.value >= 100 else f"{row.value:.3f}"
        limit_text = (
            f"limit {row.limit:,.0f}"
            if row.limit and row.limit >= 100
            else f"limit {row.limit:.3f}"
            if row.limit
            else ""
        )
        verdict = {True: "met", False: "MISSED", None: ""}[row.met]
        print(
            f"{row.name:<48}{value:>14} {row.unit:<10}{limit_text:<16}{row.goal:<18}{verdict:<8}{row.others}",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    main()
