"""Metadata for brokers that are cut off from ZooKeeper: of one version in all pieces, and not made for every piece anew."""

import pytest

from ottla.broker.cluster_view import ClusterView
from ottla.broker.metadata_snapshot import REUSED_S, MetadataSnapshot
from ottla.wire.control import PartitionState, TopicConfig, UpdateMetadataRequest
from ottla.wire.errors import InvalidRequest


class CountingView(ClusterView):
    made = 0

    def as_update(self) -> UpdateMetadataRequest:
        self.made += 1
        return super().as_update()


def view_of(topics: int) -> CountingView:
    view = CountingView("c")
    states = [
        PartitionState(f"topic-{i}", f"id-{i}", number, 1, 0, [1], [1], 0, 1, [])
        for i in range(topics)
        for number in range(100)
    ]
    configs = [TopicConfig(f"topic-{i}", f"id-{i}", {}) for i in range(topics)]
    view.update(UpdateMetadataRequest(1, 1, 1, True, [], configs, states, [], 1))
    return view


def change(view: ClusterView, version: int) -> None:
    view.update(UpdateMetadataRequest(1, 1, 1, False, [], [], [], [], version))


def all_pieces(snapshot: MetadataSnapshot, view: ClusterView, changes: int = 0) -> list[UpdateMetadataRequest]:
    pieces: list[UpdateMetadataRequest] = []
    while not pieces or pieces[-1].more:
        piece = snapshot.piece((0, 0), len(pieces))
        assert piece is not None
        pieces.append(piece)
        if changes:
            change(view, view.version[1] + 1)
    return pieces


def test_pieces_of_one_answer_are_made_once_and_of_one_version_although_the_cluster_changes():
    view, now = view_of(150), [0.0]
    snapshot = MetadataSnapshot(view, lambda: now[0])
    pieces = all_pieces(snapshot, view, changes=1)
    assert len(pieces) > 2
    assert {piece.version for piece in pieces} == {1}
    assert sum(len(piece.partitions) for piece in pieces) == 15_000
    all_pieces(snapshot, view)
    assert view.made == 1, "whoever asks at the same time gets the same"
    now[0] = REUSED_S
    assert {piece.version for piece in all_pieces(snapshot, view)} == {view.version[1]}
    assert view.made == 2


def test_what_fits_into_one_piece_is_never_old():
    view = view_of(1)
    snapshot = MetadataSnapshot(view, lambda: 0.0)
    for version in (2, 3):
        change(view, version)
        assert [piece.version for piece in all_pieces(snapshot, view)] == [version]


def test_only_what_is_newer_is_given():
    view = view_of(150)
    snapshot = MetadataSnapshot(view, lambda: 0.0)
    all_pieces(snapshot, view)
    assert snapshot.piece((1, 1), 0) is None
    change(view, 2)
    newer = snapshot.piece((1, 1), 0)
    assert newer is not None, "what was made for others is not new for this one"
    assert newer.version == 2
    with pytest.raises(InvalidRequest):
        snapshot.piece((1, 1), 99)
