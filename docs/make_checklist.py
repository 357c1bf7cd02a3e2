"""Writes docs/checklist.md, with the tests that cite each line by its number: ``python docs/make_checklist.py``."""

import re
from pathlib import Path

PAGE = Path(__file__).with_name("checklist.md")
TESTS = Path(__file__).parent.parent / "tests"
CITES = re.compile(r"def (test_((?:s\d\d_)+)\w+)\(")

BEHAVIOURS = {
    "Membership and discovery": {
        1: "`/brokers/ids` lists the live brokers, and only those",
        2: "every broker has an id of its own, by `broker.id`",
        3: "a broker registers itself by an ephemeral znode when it starts",
        4: "`zookeeper.connect` from a properties file, with a chroot once or at every host",
        5: "the znode of a broker that died or is cut off goes away",
        6: "a second broker of the same id is refused",
        7: "whoever watches the list of brokers is told of changes",
        8: "an ephemeral znode lives as long as its session; after it, the broker registers anew",
        9: "host and port of each broker stand in its znode",
        10: "brokers find each other by ZooKeeper alone",
        11: "every broker knows when a broker joined or died, a topic was added or removed",
        12: "there is no fixed master: any broker can be controller, and lead",
        13: "a cluster of four brokers",
    },
    "Controller": {
        14: "there is one controller, never two of the same epoch",
        15: "the broker that comes first becomes controller, by the ephemeral `/controller`",
        16: "the others try to create it too, and are told that it exists",
        17: "they watch it",
        18: "when the controller dies another one takes over, with the next epoch",
        19: "the controller is a broker like all others: it leads and serves too",
        20: "the controller watches the list of brokers",
        21: "it finds the partitions that lost their leader and gives them another",
        22: "the new leader is the first in the assignment that is in sync and lives",
        23: "leaders and followers are told by LeaderAndIsr, everybody by UpdateMetadata",
        24: "leaders then serve producers and consumers, followers replicate",
        25: "a broker that comes back follows, catches up and is in sync again",
        26: "the controller assigns partitions to brokers",
        27: "it keeps leaders and followers of all partitions",
    },
    "Topics and placement": {
        28: "which topics there are, with which partitions, replicas, preferred leaders and settings, stands in ZooKeeper",
        29: "the znodes are Kafka's",
        30: "a topic has partitions, each a queue in total order",
        31: "a replica lies on one machine, in one folder",
        32: "a broker stores one partition or more",
        33: "leaders are spread over brokers by turns",
        34: "a replication factor above the number of brokers is refused",
        35: "the replicas of a partition are identical to the byte",
        36: "what all acknowledged survives the failure of all brokers but one",
        37: "five brokers in two racks",
        38: "a topic of ten partitions and three replicas",
        39: "brokers are chosen in a sequence that alternates racks",
        40: "partitions and replicas are spread evenly",
        41: "when a rack goes down, the other one has every partition",
        42: "topics can be added and removed",
    },
    "Replication, in-sync replicas, commit": {
        43: "every replica is leader or follower",
        44: "followers fetch as consumers do",
        45: "a fetch tells the leader how far its follower is",
        46: "followers fetch for ever",
        47: "the leader keeps who is in sync, in ZooKeeper",
        48: "replicas leave the ISR and join it again",
        49: "out of sync is who does not fetch, or does not reach the end, within `replica.lag.time.max.ms`",
        50: "who is not in sync cannot lead",
        51: "when the leader dies a follower takes its place",
        52: "committed is what all in-sync replicas have",
        53: "consumers see only what is committed",
        54: "what is committed is not lost while one in-sync replica lives",
        55: "acks: of nobody, the leader, all in-sync replicas",
        56: "with acks=all the answer waits in the purgatory",
    },
    "Requests": {
        57: "Produce, Fetch and Metadata",
        58: "every broker has the metadata and gives the same answer",
        59: "a client may begin at any broker",
        60: "metadata of the topics that are asked for",
        61: "produce and fetch are served by the leader only",
        62: "clients ask again when metadata is old, or when told that somebody else leads",
        63: "clients remember who leads",
        64: "the requests of one connection are answered in their order",
        65: "one fetch reads many partitions, each from its own offset",
        66: "least and most bytes, and the longest wait, of a fetch",
        67: "`max.message.bytes`",
        68: "a topic or partition that does not exist is an error",
        69: "a producer's own limits: batch, linger, request, buffer",
        70: "followers do not serve consumers",
    },
    "Producer": {
        71: "records are appended",
        72: "records of one key go to one partition",
        73: "topic and value are all that is needed",
        74: "the key's hash picks the partition; without a key, by turns",
        75: "timestamps of the producer or of the log",
        76: "the partition may be told",
        77: "serializers for keys and values",
        78: "a partition that is told comes before the key",
        79: "sending does not wait; records travel in batches",
        80: "records go to the leaders that metadata tells",
    },
    "Consumer and storage": {
        81: "in a group, a partition belongs to one consumer",
        82: "one consumer may read many partitions",
        83: "in a group, consumers beyond the number of partitions get nothing",
        84: "an offset is the next record to be read",
        85: "a group's offsets stand in ZooKeeper",
        86: "consumers can go back",
        87: "consumers pull",
        88: "every record is on disk: it is there after a restart",
    },
    "Resilience and uses": {
        89: "all that is decided is read from ZooKeeper when a broker starts",
        90: "one ZooKeeper server of three may die",
        91: "without ZooKeeper leaders go on serving; when it is back all goes on by itself",
        92: "ZooKeeper has the whole view of the cluster",
        93: "metrics, log aggregation and stream processing by Spark jobs",
    },
}


def tests_by_number() -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name, numbers in CITES.findall(path.read_text()):
            for number in re.findall(r"s(\d\d)_", numbers):
                found.setdefault(int(number), []).append(f"`{path.relative_to(TESTS)}` {name}")
    return found


def page() -> str:
    lines = ["# Checklist", "", "Made by `python docs/make_checklist.py`; do not edit."]
    lines += [
        "What the system does, line by line, each with the tests that cite it by its number (`test_s36_...`).",
        "",
    ]
    found = tests_by_number()
    for title, behaviours in BEHAVIOURS.items():
        lines += [f"## {title}", "", "| # | behaviour | tests |", "|---|---|---|"]
        lines += [
            f"| {number} | {what} | {'<br>'.join(found.get(number, ['*not built yet*']))} |"
            for number, what in behaviours.items()
        ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
