"""Rows in an order of their own bytes, however many they are: sorted in memory, or in runs on disk that are merged by ranges.

``KeptRows`` has the same to offer for rows in the order in which they came.

The order does not depend on how the rows came: two attempts at the same rows give the same sequence. Runs are merged without
looking at single rows: some rows of the runs divide all rows into ranges, and what the runs have of a range is sorted together.
"""

import bisect
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

RUN_CHUNK_ROWS = 65_536

SAMPLES_PER_RUN = 64
"""Rows of each run that are looked at to find the borders of ranges."""


class KeptRows:
    """Takes tables, all with the same columns, and gives their rows as they came, as often as one likes."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._runs: list[pa.Table] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._whole: pa.Table | None = None
        """All rows in order, where none are on disk."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runs, self._held, self._whole = [], [], None
        if self._folder is not None:
            self._folder.cleanup()

    @property
    def spilled(self) -> bool:
        return bool(self._runs)

    def add(self, rows: pa.Table) -> None:
        """More rows; not once they have been looked at."""
        if rows.num_rows:
            self._held.append(rows)
            self._held_bytes += rows.nbytes
            if self._held_bytes >= self._memory_bytes:
                self._spill()

    def __iter__(self) -> Iterator[pa.Table]:
        """All rows in order, in tables of about the memory that there is."""
        if not self._runs:
            if self._held and self._whole is None:
                self._whole, self._held = self._arranged(self._held), []
            if self._whole is not None:
                yield self._whole
            return
        if self._held:
            self._spill()
        yield from self._from_runs()

    def _spill(self) -> None:
        """What is held becomes a run on disk."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="ottla-rows-")
        path = Path(self._folder.name) / f"{len(self._runs)}.arrow"
        run = self._arranged(self._held)
        with ipc.new_file(path, run.schema) as file:
            file.write_table(run, max_chunksize=RUN_CHUNK_ROWS)
        self._held, self._held_bytes = [], 0
        self._runs.append(ipc.open_file(pa.memory_map(str(path))).read_all())

    def _arranged(self, tables: list[pa.Table]) -> pa.Table:
        return pa.concat_tables(tables)

    def _from_runs(self) -> Iterator[pa.Table]:
        yield from self._runs


class SortedRows(KeptRows):
    """As KeptRows, with the rows in an order of their own."""

    def _arranged(self, tables: list[pa.Table]) -> pa.Table:
        return _in_order(pa.concat_tables(tables))

    def _from_runs(self) -> Iterator[pa.Table]:
        before = [0] * len(self._runs)
        for border in [*self._borders(), None]:
            ends = [run.num_rows if border is None else _place(run, border) for run in self._runs]
            pieces = [run.slice(start, end - start) for run, start, end in zip(self._runs, before, ends, strict=True)]
            before = ends
            rows = pa.concat_tables(pieces)
            if rows.num_rows:
                yield _in_order(rows)

    def _borders(self) -> list["_Key"]:
        """Rows that divide all of them into ranges of about the size that memory has room for."""
        samples = sorted(
            _Key.of(run, run.num_rows * place // SAMPLES_PER_RUN)
            for run in self._runs
            for place in range(SAMPLES_PER_RUN)
        )
        ranges = min(len(self._runs) + 1, len(samples))
        return [samples[len(samples) * number // ranges] for number in range(1, ranges)]


def _in_order(rows: pa.Table) -> pa.Table:
    rows = rows.combine_chunks()
    keys = [(name, "ascending") for name in rows.column_names]
    return rows.take(pc.sort_indices(rows, sort_keys=keys)).combine_chunks()


class _Key(tuple[tuple[bool, Any], ...]):
    """A row, to be compared as Arrow compares unless told otherwise: column by column, nulls last."""

    @classmethod
    def of(cls, rows: pa.Table, index: int) -> "_Key":
        values = [column[index].as_py() for column in rows.columns]
        return cls((value is None, value if value is not None else 0) for value in values)


class _Keys(Sequence[_Key]):
    """All rows of a run, each made only when it is looked at."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def __getitem__(self, index: Any) -> Any:
        return _Key.of(self._rows, index)


def _place(run: pa.Table, border: _Key) -> int:
    """How many rows of a run come before ``border``."""
    return bisect.bisect_left(_Keys(run), border)
