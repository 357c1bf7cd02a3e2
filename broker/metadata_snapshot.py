"""All metadata of this broker in pieces, as brokers that are cut off from ZooKeeper ask for it (docs/decisions/0051)."""

import time
from collections.abc import Callable, Sequence

from ottla.broker.cluster_view import ClusterView
from ottla.broker.controller.decisions.pieces import in_pieces
from ottla.wire.control import UpdateMetadataRequest
from ottla.wire.errors import InvalidRequest

REUSED_S = 0.5
"""How long metadata of several pieces is sent as it was. Making it takes 0.1 s for 50,000 partitions, and brokers ask
ten times a second; the pieces of one answer must also be of one version."""


class MetadataSnapshot:
    """The metadata as it was when a broker last asked for its first piece."""

    def __init__(self, view: ClusterView, clock: Callable[[], float] = time.monotonic) -> None:
        self._view = view
        self._clock = clock
        self._made_at = float("-inf")
        self._pieces: Sequence[UpdateMetadataRequest] = ()

    def piece(self, known: tuple[int, int], number: int) -> UpdateMetadataRequest | None:
        """A piece of metadata that is newer than ``known``; None if there is none. InvalidRequest if it has no such piece."""
        if not self._view.known or known >= self._view.version:
            return None
        if not (self._is_newer(known) and (number > 0 or self._clock() - self._made_at < REUSED_S)):
            self._make()
        if not 0 <= number < len(self._pieces):
            raise InvalidRequest(f"piece {number} of the metadata, which has {len(self._pieces)}")
        found = self._pieces[number]
        if len(self._pieces) == 1:
            self._pieces = ()  # it is made in no time
        return found

    def _is_newer(self, known: tuple[int, int]) -> bool:
        return bool(self._pieces) and (self._pieces[0].controller_epoch, self._pieces[0].version) > known

    def _make(self) -> None:
        made = in_pieces(self._view.as_update())
        self._pieces = [piece for piece in made if isinstance(piece, UpdateMetadataRequest)]
        self._made_at = self._clock()
