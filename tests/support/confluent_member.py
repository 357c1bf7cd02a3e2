"""A process that is a member of a group with group.protocol=consumer, to be killed. Writes how many partitions it has.

python -m tests.support.confluent_member <bootstrap> <group> <topic>
"""

import sys

import confluent_kafka


def main(bootstrap: str, group: str, topic: str) -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer", "log_level": 0}
    )
    consumer.subscribe([topic])
    while True:
        consumer.poll(0.05)
        sys.stdout.write(f"{len(consumer.assignment())}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
