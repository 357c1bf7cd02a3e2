"""Listeners that raise: whoever tells them something goes on, and the log has each failure once."""

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)


class FailedListeners:
    """Of one list or more. ``note`` is called where the exception is caught; again and again, if need be, on the hot path."""

    def __init__(self) -> None:
        self._noted: set[tuple[str, str]] = set()

    def note(self, listener: Callable[..., object], error: Exception) -> None:
        """Log it, unless this listener has failed in this way before."""
        name = str(getattr(listener, "__qualname__", listener))
        kind = type(error).__name__
        if (name, kind) not in self._noted:
            self._noted.add((name, kind))
            logger.error("a listener failed, the others were told all the same listener=%s", name, exc_info=error)
