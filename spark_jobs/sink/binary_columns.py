"""Arrow's binary arrays as the bytes, starts and lengths that they are made of, without a copy where none is needed."""

from typing import Any

import numpy as np
import pyarrow as pa

Array = np.ndarray[Any, Any]

NULL_LENGTH = -1


def offsets_of(array: pa.Array) -> Array:
    """Where each item begins in the array's bytes, and behind them where the last one ends."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array) + 1, np.int32)
    return np.frombuffer(buffer, np.int32)[array.offset : array.offset + len(array) + 1]


def starts_of(array: pa.Array) -> Array:
    return offsets_of(array)[:-1].astype(np.int64)


def lengths_of(array: pa.Array) -> Array:
    """The length of each item, -1 for null."""
    lengths = np.diff(offsets_of(array))
    if array.null_count:
        lengths[~_valid(array)] = NULL_LENGTH
    return lengths


def data_of(array: pa.Array) -> Array:
    """All bytes that its offsets point into."""
    buffer = array.buffers()[2]
    return np.frombuffer(buffer, np.uint8) if buffer is not None else np.empty(0, np.uint8)


def joined(array: pa.Array) -> tuple[memoryview | None, memoryview | None]:
    """Lengths and data as a columnar batch has them; None for both if all items are null."""
    if array.null_count == len(array):
        return None, None
    lengths = lengths_of(array)
    if array.null_count and int(np.maximum(lengths, 0).sum()) != int(offsets_of(array)[-1] - offsets_of(array)[0]):
        array = array.drop_null()  # there are bytes under a null: they must not be sent
    offsets = offsets_of(array)
    data = data_of(array)[offsets[0] : offsets[-1]]
    return memoryview(lengths.astype("<i4", copy=False).tobytes()), data.data


def _valid(array: pa.Array) -> Array:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)
