"""Taking one mechanism out of code that is running, to see that somebody notices.

The very piece of a function that does the work is cut out of its source, so that what is left is the product's own code. If
the piece is not there any more, that is an error: the test would prove nothing.
"""

import inspect
import sys
import textwrap
from typing import Any


def cut_out(owner: Any, name: str, piece: str, instead: str = "") -> None:
    """Make ``owner.name`` anew from its source, with another text in the place of ``piece``."""
    function = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(piece) == 1, f"{function.__qualname__} does not have {piece!r} once:\n{source}"
    module = sys.modules[function.__module__]
    made: dict[str, Any] = {}
    exec(compile(source.replace(piece, instead), str(module.__file__), "exec"), vars(module), made)
    setattr(owner, name, made[name])
