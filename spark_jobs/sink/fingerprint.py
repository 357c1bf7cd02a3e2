"""What two attempts at the same rows have in common, and attempts at others have not."""

import hashlib

import pyarrow as pa

from ottla.spark_jobs.sink.binary_columns import joined

DIGEST_BYTES = 16


class Fingerprint:
    """Of rows in their order, told table by table: where one table ends and the next begins makes no difference."""

    def __init__(self) -> None:
        self._hashes: dict[str, tuple[hashlib.blake2b, hashlib.blake2b]] = {}
        self.count = 0

    def add(self, rows: pa.Table) -> None:
        self.count += rows.num_rows
        for name in rows.column_names:
            for chunk in rows[name].chunks:
                self._add_column(name, chunk)

    def _add_column(self, name: str, array: pa.Array) -> None:
        if name not in self._hashes:
            self._hashes[name] = (hashlib.blake2b(digest_size=DIGEST_BYTES), hashlib.blake2b(digest_size=DIGEST_BYTES))
        of_lengths, of_data = self._hashes[name]
        if pa.types.is_integer(array.type):
            of_data.update(array.fill_null(-1).to_numpy().tobytes())
            return
        lengths, data = joined(array.cast(pa.binary()))
        of_lengths.update(lengths if lengths is not None else b"\xff\xff\xff\xff" * len(array))
        if data is not None:
            of_data.update(data)

    def digest(self) -> bytes:
        whole = hashlib.blake2b(self.count.to_bytes(8, "big"), digest_size=DIGEST_BYTES)
        for name, (of_lengths, of_data) in sorted(self._hashes.items()):
            whole.update(name.encode() + b"\0" + of_lengths.digest() + of_data.digest())
        return whole.digest()
