"""How long to wait before trying again."""

import random
from collections.abc import Iterator


def backoff(first_s: float, most_s: float) -> Iterator[float]:
    """Waits that double from ``first_s`` to ``most_s``, each shortened or lengthened by up to a fifth.

    Without that jitter all clients that a broker lost come back at the same moment, again and again.
    """
    wait = first_s
    while True:
        yield min(wait, most_s) * random.uniform(0.8, 1.2)
        wait = min(wait * 2, most_s)
