"""Kafka's partitioner for a whole column of keys at once: the same numbers as client/producing/partitioner.py, by numpy."""

from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.producing.partitioner import MULTIPLIER, SEED
from ottla.spark_jobs.sink.binary_columns import data_of, lengths_of, starts_of

Array = np.ndarray[Any, Any]

_M = np.uint32(MULTIPLIER)


def partitions_of_keys(keys: pa.Array, count: int) -> Array:
    """The partition of each key in a topic of ``count`` partitions; that of a null key says nothing."""
    return (murmur2(data_of(keys), starts_of(keys), lengths_of(keys)) & np.uint32(0x7FFFFFFF)) % np.uint32(count)


def murmur2(data: Array, starts: Array, lengths: Array) -> Array:
    """MurmurHash2 of each piece of ``data``, unsigned. Runs once for every four bytes of the longest, not for each piece."""
    sizes = np.maximum(lengths, 0)
    hashes = np.uint32(SEED) ^ sizes.astype(np.uint32)
    words = sizes >> 2
    for index in range(int(words.max(initial=0))):
        some = np.flatnonzero(words > index)
        word = _little_endian(data, starts[some] + 4 * index, 4) * _M
        hashes[some] = (hashes[some] * _M) ^ ((word ^ (word >> np.uint32(24))) * _M)
    for rest in (1, 2, 3):
        some = np.flatnonzero(sizes & 3 == rest)
        tail = _little_endian(data, starts[some] + 4 * words[some], rest)
        hashes[some] = (hashes[some] ^ tail) * _M
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _M
    return hashes ^ (hashes >> np.uint32(15))


def _little_endian(data: Array, places: Array, size: int) -> Array:
    """The numbers of ``size`` bytes at these places."""
    number = np.zeros(len(places), np.uint32)
    for byte in range(size):
        number |= data[places + byte].astype(np.uint32) << np.uint32(8 * byte)
    return number
