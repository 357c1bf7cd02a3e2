"""How a broker shares out its file descriptors: RLIMIT_NOFILE is raised at the start, and clients never get the last ones."""

import logging
import resource
from pathlib import Path
from typing import Final, NamedTuple

logger = logging.getLogger(__name__)

LIMIT_MAX: Final = 1_048_576
"""More is never asked for, also where there is no hard limit: it is what Linux allows a process by default."""


class DescriptorPlan(NamedTuple):
    """Who may have how many."""

    limit: int
    """RLIMIT_NOFILE, the soft one."""
    clients: int
    """Connections whose descriptor would have this number or a higher one are for other brokers only."""
    maps: int
    """Memory maps of segments."""
    unflushed: int
    """Sealed segments that wait for their first flush."""

    @property
    def reserve(self) -> int:
        """What is left for segments, checkpoints, other brokers and ZooKeeper, however many clients come."""
        return self.limit - self.clients


def plan(limit: int) -> DescriptorPlan:
    """Share out ``limit`` descriptors. Pure."""
    maps = _between(16, limit // 8, 8192)
    unflushed = _between(8, limit // 16, 1024)
    others = _between(24, limit // 16, 1024)
    return DescriptorPlan(limit, max(limit - maps - unflushed - others, limit // 4), maps, unflushed)


def _between(least: int, wanted: int, most: int) -> int:
    return max(least, min(wanted, most))


def raise_limit() -> int:
    """Raise the soft limit of open files to the hard limit; gives what it is then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, LIMIT_MAX)
    if soft == resource.RLIM_INFINITY:
        return LIMIT_MAX
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            logger.warning("limit of open files not raised: limit=%d hard_limit=%d error=%s", soft, hard, error)
            return soft
        logger.info("limit of open files raised: from=%d to=%d", soft, wanted)
        return wanted
    return soft


def warn_if_low(descriptors: DescriptorPlan, logs: int) -> None:
    """Every partition keeps a descriptor for its active segment: say so if that leaves too few for clients."""
    if logs + descriptors.reserve > descriptors.limit // 2:
        logger.warning(
            "the limit of open files is low for this broker: limit=%d partitions=%d reserve=%d: raise the hard limit "
            "(ulimit -Hn, LimitNOFILE of systemd), or clients are refused when partitions and connections grow",
            descriptors.limit, logs, descriptors.reserve,
        )  # fmt: skip


def open_descriptors() -> int:
    """How many this process has open; -1 if that cannot be told now."""
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return -1
