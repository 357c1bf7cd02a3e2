"""What the C library does with memory that was freed."""

from functools import cache

KEPT = 16 * 1024 * 1024
"""As large as the largest frame that is received in one piece."""


@cache
def keep_freed_memory() -> None:
    """Have memory that was freed used again, instead of giving it back to the system at once.

    glibc gives back what is freed at the end of the heap from 128 KB on. Buffers of 64 KB that are made, sent and freed again
    and again then cost sixteen page faults each, a sixth of a producer's time. But glibc learns: once a block was freed that
    it had asked the system for separately, it keeps blocks of that size, and twice as much at the end of the heap. So we free
    one, which was never touched and costs nothing. Elsewhere this does nothing.
    """
    bytearray(KEPT)
