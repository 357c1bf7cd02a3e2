"""The rule about contents: what stands in the log and what consumers got is what was sent, key, headers and timestamp too."""

from collections.abc import Iterator

from ottla.chaos.checker.violation import Violation, at, of_send
from ottla.chaos.history import History, Read, Send


def changed(history: History) -> Iterator[Violation]:
    """The final log; that consumers got what stands there is another rule."""
    origin = {send.value: send for send in history.sends}
    for partition, found in history.reads.items():
        for read in found:
            send = origin.get(read.value) if read.value is not None else None
            difference = _difference(send, read) if send is not None else ""
            if send is not None and difference:
                what = f"{send.value!r} at {at(partition, read.offset)} has {difference}"
                yield of_send("changed", what, send, partition, read.offset)


def _difference(send: Send, read: Read) -> str:
    key = send.key.encode() if send.key else None
    if read.key != key:
        return f"key {read.key!r}, sent was {key!r}"
    if read.headers != send.headers:
        return f"headers {read.headers!r}, sent were {send.headers!r}"
    if send.timestamp is not None and read.timestamp != send.timestamp:
        return f"timestamp {read.timestamp}, sent was {send.timestamp}"
    return ""


def differences(got: Read, stands: Read) -> str:
    """How what a consumer got differs from what stands at its offset."""
    for name, left, right in zip(Read._fields, got, stands, strict=True):
        if left != right:
            return f"{name} {left!r}, where {right!r} stands"
    return ""
