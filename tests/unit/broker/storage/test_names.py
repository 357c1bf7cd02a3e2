"""Pure parts that read names and rows: partition folders, checkpoints, epochs."""

import pytest

from ottla.broker.storage.epochs import parse_entries
from ottla.wire.log_layout import parse_offsets, partition_of
from ottla.wire.names import TopicPartition


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t-0", TopicPartition("t", 0)),
        ("a-b.c_d-12", TopicPartition("a-b.c_d", 12)),
        ("x-delete-3", TopicPartition("x-delete", 3)),
        ("t-0.0123456789abcdef0123456789abcdef-delete", None),
        ("t-00", None),
        ("t-", None),
        ("-1", None),
        ("t", None),
        ("lost+found", None),
        ("t-²", None),
        ("t-10000", None),
        (".-1", None),
    ],
)
def test_only_a_partitions_own_folder_name_is_taken_for_one(name, expected):
    assert partition_of(name) == expected


def test_checkpoint_rows_are_read():
    assert parse_offsets([["a", "0", "5"], ["a", "1", "0"]]) == {TopicPartition("a", 0): 5, TopicPartition("a", 1): 0}


@pytest.mark.parametrize("rows", [[["a", "0", "-1"]], [["a", "-1", "0"]], [["a", "0", "x"]], [["a", "0", "1"]] * 2])
def test_impossible_checkpoint_rows_are_refused(rows):
    with pytest.raises(ValueError):
        parse_offsets(rows)


@pytest.mark.parametrize("rows", [[["1", "5"], ["1", "6"]], [["1", "5"], ["2", "5"]], [["-1", "0"]], [["0", "-1"]]])
def test_epochs_that_do_not_rise_are_refused(rows):
    with pytest.raises(ValueError):
        parse_entries(rows)
