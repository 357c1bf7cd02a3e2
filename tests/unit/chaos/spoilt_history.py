"""One good history of everything that a run records, in pieces that can be spoilt. Places are random, by seed."""

import random
from dataclasses import dataclass, field
from typing import Any

from ottla.chaos.history import Batch, Event, Expectation, History, Lowered, Outcome, Poll, Read, Replica, Send, Session
from ottla.client.records import Receipt

PARTITIONS = 3
RECORDS = 300
SESSION_END = 50
"""Where each reader's first session ends, in each partition."""


@dataclass
class Spoilt:
    """A good history in pieces that can be changed."""

    sends: list[Send]
    logs: dict[int, list[Read]]
    polls: list[Poll]
    sessions: list[Session]
    replicas: list[Replica]
    chance: random.Random
    more: dict[str, Any] = field(default_factory=dict)

    def history(self) -> History:
        found: dict[str, Any] = {
            "events": [Event(10.0, "fault", "kill broker0", 12.0, ("broker0",))],
            "expectations": [Expectation(1.0, 200.0, tuple(range(PARTITIONS)), 20, "nothing was wrong")],
            "min_insync": 2,
            "sessions": self.sessions,
            "consumers": ["one", "two"],
            "lowered": [Lowered(90.0, 100.0, 1)],
            **self.more,
        }
        return History(self.sends, self.logs, self.polls, self.replicas, **found)

    def acked(self) -> Send:
        """One in the middle of its log, away from where sessions change and from where the setting was lowered."""
        chosen = [send for send in self.sends if send.outcome is Outcome.OK and 5 < (send.offset or 0) < 45]
        return self.chance.choice(chosen)

    def poll_number(self, session: int = 0) -> int:
        """One that is neither the first nor the last of its session."""
        several = [
            n for n, poll in enumerate(self.polls) if poll.session == session and 2 < poll.reads[0].offset % 50 < 40
        ]
        return self.chance.choice(several)

    def change_read(self, send: Send, **how: Any) -> None:
        """In the log, and so for everybody who got it."""
        partition, offset = place(send)
        self.logs[partition][offset] = self.logs[partition][offset]._replace(**how)
        for number, poll in enumerate(self.polls):
            if poll.partition == partition:
                reads = [self.logs[partition][read.offset] for read in poll.reads]
                self.polls[number] = poll._replace(reads=reads)

    def renumber(self, partition: int) -> None:
        """The log of a partition as if it had been written so, and everybody had read it so."""
        log = [read._replace(offset=offset) for offset, read in enumerate(self.logs[partition])]
        self.logs[partition] = log
        self.polls = [poll for poll in self.polls if poll.partition != partition]
        for reader in ("one", "two"):
            self.polls += [
                Poll(reader, int(read.offset >= SESSION_END), 150.0 + read.offset, partition, [read]) for read in log
            ]


def place(send: Send) -> tuple[int, int]:
    assert send.partition is not None
    assert send.offset is not None
    return send.partition, send.offset


def good(seed: int) -> Spoilt:
    chance = random.Random(seed)
    sends: list[Send] = []
    logs: dict[int, list[Read]] = {partition: [] for partition in range(PARTITIONS)}
    batches: dict[int, list[Batch]] = {partition: [] for partition in range(PARTITIONS)}
    for number in range(RECORDS):
        partition = number % PARTITIONS
        send = Send(f"p{number % 4}", number, number / 2, key=f"k{number % 6}")
        send.headers = (("n", b"%d" % number),) if number % 2 else ()
        send.timestamp = 1000 + number if number % 5 else None
        offset, epoch = len(logs[partition]), number // 100
        if number % 23 == 7:
            send.unheard(number / 2 + 3, "ClientTimeout")
        elif number % 29 == 11:
            send.refused(number / 2 + 1, "MessageTooLarge")
            sends.append(send)
            continue
        else:
            isr = (0, 1, 2) if not 190 < number < 198 else (0,)
            send.acknowledged(partition, offset, number / 2 + 1.2, Receipt(epoch % 3, epoch, isr, offset + 1))
        sends.append(send)
        logs[partition].append(Read(offset, send.value, send.key.encode(), send.headers, send.timestamp or 5))
        batches[partition].append(Batch(offset, offset + 1, epoch, b"%d" % number))
    replicas = [
        Replica(partition, broker, 100 * len(found), repr(found).encode(), found)
        for partition, found in batches.items()
        for broker in range(3)
    ]
    sessions = [
        Session(reader, number, 0.0, dict.fromkeys(logs, number * SESSION_END))
        for reader in ("one", "two")
        for number in (0, 1)
    ]
    spoilt = Spoilt(sends, logs, [], sessions, replicas, chance)
    for partition in logs:
        spoilt.renumber(partition)
    return spoilt
