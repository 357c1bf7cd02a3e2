"""The leader-epoch cache and its file."""

import pytest

from ottla.broker.storage.epochs import EpochCache


@pytest.fixture
def cache(tmp_path):
    return EpochCache.load(tmp_path)


def reloaded(cache: EpochCache) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in EpochCache.load(cache.path.parent).entries]


def test_the_file_is_kafkas(cache):
    cache.assign(0, 0)
    cache.assign(3, 17)
    assert cache.path.name == "leader-epoch-checkpoint"
    assert cache.path.read_text() == "0\n2\n0 0\n3 17\n"


def test_an_epoch_is_assigned_once_even_before_any_record(cache):
    assert cache.assign(1, 0)
    assert not cache.assign(1, 5)
    assert cache.assign(2, 5)
    assert cache.assign(4, 5)  # epoch 2 wrote nothing
    assert reloaded(cache) == [(1, 0), (4, 5)]
    assert cache.latest_epoch == 4


@pytest.mark.parametrize(("epoch", "offset"), [(1, 10), (-1, 10), (3, -1)])
def test_epochs_never_go_back(cache, epoch, offset):
    cache.assign(2, 5)
    with pytest.raises(ValueError):
        cache.assign(epoch, offset)
    assert reloaded(cache) == [(2, 5)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 10)), (1, (1, 20)), (2, (1, 20)), (3, (3, 30)), (5, (5, 99)), (6, (-1, -1))],
)
def test_the_end_of_the_largest_known_epoch_is_told(cache, asked, answer):
    for epoch, start in [(1, 10), (3, 20), (5, 30)]:
        cache.assign(epoch, start)
    assert cache.end_offset_for(asked, 99) == answer


def test_an_empty_cache_knows_nothing(cache):
    assert cache.end_offset_for(0, 99) == (-1, -1)
    assert (cache.latest_epoch, cache.epoch_at(0)) == (-1, -1)


@pytest.mark.parametrize(
    ("offset", "left"), [(0, []), (10, []), (11, [(1, 10)]), (20, [(1, 10)]), (31, [(1, 10), (3, 20), (5, 30)])]
)
def test_truncation_from_the_end(cache, offset, left):
    for epoch, start in [(1, 10), (3, 20), (5, 30)]:
        cache.assign(epoch, start)
    cache.truncate_from_end(offset)
    assert reloaded(cache) == left


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (5, [(1, 10), (3, 20), (5, 30)]),
        (10, [(1, 10), (3, 20), (5, 30)]),
        (15, [(1, 15), (3, 20), (5, 30)]),
        (20, [(3, 20), (5, 30)]),
        (40, [(5, 40)]),
    ],
)
def test_truncation_from_the_start_keeps_the_epoch_that_is_cut_through(cache, offset, left):
    for epoch, start in [(1, 10), (3, 20), (5, 30)]:
        cache.assign(epoch, start)
    cache.truncate_from_start(offset)
    assert reloaded(cache) == left


def test_a_write_that_fails_changes_nothing(cache, monkeypatch):
    cache.assign(1, 0)

    def failing(fd):
        raise OSError(5, "input/output error")

    monkeypatch.setattr("os.fsync", failing)
    with pytest.raises(OSError, match="input/output"):
        cache.assign(2, 10)
    monkeypatch.undo()
    assert [tuple(entry) for entry in cache.entries] == reloaded(cache) == [(1, 0)]
