"""Compiled loops keep the interpreter to themselves, in a thread as well: long ones let other threads run now and then."""

import time
from typing import Final

BREATH: Final = 1024
"""So many elements are read or written at a time: about a millisecond."""


def let_others_run() -> None:
    time.sleep(0)
