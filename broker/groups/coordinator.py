"""Which broker coordinates a group: every broker finds the same one by itself, from the list of those that live. Pure."""

import hashlib
from collections.abc import Iterable


def coordinator_of(group: str, brokers: Iterable[int]) -> int | None:
    """Rendezvous hashing: when a broker comes or goes, only the groups that it gets or had have another coordinator."""
    return max(brokers, key=lambda broker: (_weight(group, broker), broker), default=None)


def _weight(group: str, broker: int) -> bytes:
    return hashlib.blake2b(f"{broker}:{group}".encode(errors="surrogatepass"), digest_size=8).digest()
