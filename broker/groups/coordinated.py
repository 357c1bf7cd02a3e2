"""A group in the hands of its coordinator: what it decides, what stands in ZooKeeper, and what is on its way there."""

from collections import deque

from ottla.broker.groups.kinds import AnyGroup
from ottla.broker.groups.membership import Answer
from ottla.broker.groups.writes_loop import PendingWrite
from ottla.net.timer import Timer
from ottla.zk.groups import LoadedGroup


class Coordinated:
    """A group that this broker coordinates."""

    def __init__(self, group: AnyGroup, loaded: LoadedGroup) -> None:
        self.group = group
        self.loaded = loaded
        self.over = False
        """Whether another broker coordinates it by now."""
        self.timer: Timer | None = None
        self.unwritten: deque[list[Answer]] = deque()
        """For each write that is on its way, the answers that wait for it."""
        self.last_put: PendingWrite | None = None
        """What was put last of all to be written, if that is its znode."""
        self.last_used_ms = 0
        """When something about it was last written here; 0 if nothing was since it was loaded."""
        self.writing = 0
        """How many writes of its znode are on their way: its version may be larger by so many than is known."""
        self.committing = 0
        """How many writes of offsets are on their way."""
