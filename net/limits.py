"""What one peer of a server, and all of them together, may cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.wire.dialect import Dialect
from ottla.wire.framing import FRAME_MAX
from ottla.wire.request_limits import FIRST_FRAME_MAX


@dataclass(frozen=True)
class Limits:
    """What one peer, and all together, may cost."""

    frame_max: int = FRAME_MAX
    first_frame_max: int = FIRST_FRAME_MAX  # of any request; of all before a peer is believed (Connection._is_believed)
    pending_frames_bytes: int = 512 * 1024 * 1024  # half-received frames of all connections together
    connections: int = 10_000
    connections_per_ip: int = 5_000
    descriptors: int = 2**31  # of a number from there on only connections from brokers are served
    proving: int = 32  # such connections at once that have not proven yet to come from a broker
    proving_s: float = 2.0  # how long they have
    requests_in_flight: int = 256  # of one connection; then it is not read any more
    write_buffer_high: int = (
        4 * 1024 * 1024
    )  # answers that one peer has not taken; then it gets no more, and is not read
    unsent_bytes: int = 512 * 1024 * 1024  # memory for answers that peers have not taken, of all connections together
    first_frame_s: float = 10.0  # a connection that has said nothing sensible by then is closed
    frame_s: float = 30.0  # from a frame's first byte to its last
    write_stall_s: float = 60.0  # answers that nobody reads
    idle_s: float = 600.0


def longest_frame(limits: Limits, dialects: Sequence[Dialect], head: memoryview, is_believed: bool) -> int:
    """How long a frame may be that begins so and is longer than ``first_frame_max``.

    A peer that is not believed yet may begin with a large request only if it is a Produce of Kafka's: some of its clients never
    greet, and the first that they say to a leader is a megabyte of records.
    """
    allowed = 0
    for dialect in dialects:
        if is_believed or dialect.is_produce(head):
            allowed = max(allowed, dialect.frame_max(head))
    return min(max(allowed, limits.first_frame_max), limits.frame_max)
