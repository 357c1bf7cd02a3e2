"""Whoever sent a request, as far as its handler has to do with it."""

from collections.abc import Hashable
from typing import Protocol

from ottla.net.long_requests import InHand
from ottla.net.principal import Principal
from ottla.net.reply import Later


class Peer(Hashable, Protocol):
    """A connection, to its handlers. (A protocol: compiled handlers take nothing else where a class is asked for.)"""

    listener: str
    """The name of the listener through which it came in."""
    ip: str
    principal: Principal
    """Whom it has proven to be."""

    @property
    def in_hand(self) -> InHand | None:
        """Its long request, if the one that is handled is long."""
        ...

    def takes(self, later: Later) -> bool:
        """Whether an answer would leave now; if not, ``later`` is tried again when it would."""
        ...

    def refuse(self, why: str) -> None:
        """It cheats: hang up after its answer, and say so in the log."""
        ...

    def close(self) -> None:
        """Hang up once what was answered has left."""
        ...
