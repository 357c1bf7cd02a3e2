"""``python -m ottla.bench [one|cluster|partitions|groups|...|all]``: measure, print a table, write bench-results/*.json."""

import argparse
from pathlib import Path

from ottla import compiled
from ottla.bench import event_loop, failover, groups, kafka, one_broker, partitions, peer, three_brokers


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "what",
        nargs="?",
        default="all",
        choices=["one", "cluster", "partitions", "groups", "failover", "loop", "peer", "kafka", "spark", "sink", "all"],
    )
    parser.add_argument("--scale", type=float, default=1.0, help="how much data; 1 takes a few minutes in all")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    options = parser.parse_args()
    print(f"compiled modules: {'yes' if compiled.is_active() else 'no'}")
    if options.what in ("one", "all"):
        one_broker.run(options.scale, options.out)
    if options.what in ("cluster", "all"):
        three_brokers.run(options.scale, options.out)
    if options.what in ("partitions", "all"):
        partitions.run(options.scale, options.out)
    if options.what in ("groups", "all"):
        groups.run(options.scale, options.out)
    if options.what in ("failover", "all"):
        failover.run(options.scale, options.out)
    if options.what in ("peer", "all"):
        peer.run(options.scale, options.out)
    if options.what in ("kafka", "all"):
        kafka.run(options.scale, options.out)
    if options.what in ("spark", "all"):
        from ottla.bench import spark  # pyspark takes a second to import

        spark.run(options.scale, options.out)
    if options.what == "sink":
        from ottla.bench import spark_sink

        spark_sink.run(options.scale, options.out)
    if options.what in ("loop", "all"):
        event_loop.run(options.scale, options.out)


if __name__ == "__main__":
    main()
