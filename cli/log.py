"""``ottla log``: what stands in a partition's files."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli.options import Format
from ottla.cli.output import OutputFormat, flush, to_json, write_line
from ottla.cli.records import bytes_value

if TYPE_CHECKING:
    from ottla.cli.segments import StoredBatch

app = typer.Typer(help="Look into a partition's files.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    """Look into a partition's files."""  # with a callback typer keeps `log dump` two words


@app.command()
def dump(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A segment file or a partition's folder.")],
    records: Annotated[bool, typer.Option("--records", help="Show the records too.")] = False,
    output_format: Format = None,
) -> None:
    """Show the batches of a log and check each. Changes nothing; ends with 1 at the first batch that is corrupt."""
    from ottla.cli.segments import CorruptSegment, read_segment, segment_files

    as_json = output_format is OutputFormat.JSON
    aligned = output_format is OutputFormat.TABLE or (output_format is None and sys.stdout.isatty())
    try:
        # Line by line as it is read, not as one table: a log may be larger than memory.
        for file in segment_files(path):
            if not as_json:
                write_line(f"# {file}")
                write_line(_line(_COLUMNS, aligned))
            for batch in read_segment(file):
                value = _batch_value(batch)
                found = _record_values(batch) if records else []
                if as_json:
                    more = {"records": found} if records else {}
                    write_line(to_json({"file": str(file), **value, **more}))
                else:
                    write_line(_line(list(map(str, value.values())), aligned))
                    for record in found:
                        write_line("  " + to_json(record))
    except CorruptSegment as error:
        if as_json:
            write_line(to_json({"error": str(error)}))
        flush()
        raise


_COLUMNS = (
    "BaseOffset", "LastOffset", "Count", "LeaderEpoch", "Position", "Size", "Magic", "Codec",
    "TimestampType", "MaxTimestamp", "ProducerId", "Crc",
)  # fmt: skip


def _line(cells: Sequence[str], aligned: bool) -> str:
    """Columns of the same width in every line, although no line knows what the others will hold."""
    if not aligned:
        return "\t".join(cells)
    widths = [max(len(column), 10) for column in _COLUMNS]
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))


def _batch_value(batch: "StoredBatch") -> dict[str, Any]:
    header = batch.header
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "leader_epoch": header.leader_epoch,
        "position": batch.position,
        "size": header.size,
        "magic": header.magic,
        "codec": header.codec.name.lower(),
        "timestamp_type": "LogAppendTime" if header.timestamp_type else "CreateTime",
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "crc": f"{header.crc:#010x}",
    }


def _record_values(batch: "StoredBatch") -> list[dict[str, Any]]:
    from ottla.cli.segments import CorruptSegment
    from ottla.wire.errors import OttlaError

    decoded = batch.records()
    try:
        columns = (decoded.offsets(), decoded.timestamps(), decoded.keys(), decoded.values(), decoded.headers())
    except OttlaError as error:
        raise CorruptSegment(batch.path, batch.position, str(error), batch.header.size) from None
    return [
        {
            "offset": offset,
            "timestamp": timestamp,
            "key": bytes_value(key),
            "value": bytes_value(value),
            "headers": [{"key": name, "value": bytes_value(data)} for name, data in headers],
        }
        for offset, timestamp, key, value, headers in zip(*columns, strict=True)
    ]
