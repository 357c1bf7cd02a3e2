"""What goes wrong with processes on this machine, told with the end of their log."""

from pathlib import Path

from ottla.wire.errors import OttlaError

TAIL_LINES = 20
_TAIL_BYTES = 16 * 1024


class LocalClusterError(OttlaError):
    """A process of a local cluster did not do what it should."""


def last_lines(path: Path, count: int = TAIL_LINES) -> str:
    """The end of a log file, indented for an error message; a note if there is nothing to show."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError as error:
        return f"  (no log: {error.strerror})"
    return "\n".join(f"  {line}" for line in lines[-count:]) or "  (the log is empty)"
