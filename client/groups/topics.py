"""The topics that a member wants: by name, or all that a pattern is found in; and whether they are what they were."""

import logging
import re
import time
from collections.abc import Iterable

from ottla.client.cluster import Cluster
from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)


class GroupTopics:
    """``names`` are those that are wanted, as far as they are known."""

    def __init__(self, cluster: Cluster, max_age_s: float) -> None:
        """``max_age_s``: after this time a pattern is looked for anew."""
        self._cluster = cluster
        self._max_age_s = max_age_s
        self._looked_at = 0.0
        self._pattern: re.Pattern[str] | None = None
        self._looked_for: set[str] = set()
        self._seen: dict[str, int] = {}
        self._told: set[str] = set()
        self.names: list[str] = []

    def want(self, names: Iterable[str], pattern: "re.Pattern[str] | None") -> None:
        self.names, self._pattern = list(names), pattern

    async def look(self) -> None:
        """Learn which there are."""
        if self._pattern is not None:
            self.names = await self._found()
        await self.count(self.names)
        self._tell_of_missing()

    async def count(self, names: Iterable[str]) -> dict[str, int]:
        """How many partitions these have, of those that exist; ``have_changed`` tells when it is not so any more."""
        wanted = set(names)
        self._cluster.watched.update(wanted)
        await self._cluster.refresh()
        self._looked_for, self._seen = wanted, self._counts(wanted)
        return self._seen

    async def have_changed(self) -> bool:
        """Whether there are other topics, or partitions, than when it was looked last. If nobody can be asked: not yet."""
        aged = time.monotonic() - self._looked_at > self._max_age_s
        try:
            if self._pattern is not None and aged and await self._found() != self.names:
                return True
            if len(self._seen) < len(self._looked_for):
                await self._cluster.refresh()  # those that are missing may be made any moment
        except OttlaError as error:
            logger.debug("topics could not be looked for error=%s", error)
        return self._counts(self._looked_for) != self._seen

    async def _found(self) -> list[str]:
        self._looked_at = time.monotonic()
        everything = await self._cluster.metadata(None)
        pattern = self._pattern
        return sorted(topic.name for topic in everything.topics if pattern is not None and pattern.search(topic.name))

    def _tell_of_missing(self) -> None:
        """Once: whoever misspelt a name would else wait for records without a word."""
        missing = set(self.names) - self._seen.keys()
        for name in sorted(missing - self._told):
            logger.warning("Topic %s does not exist: it is read as soon as somebody makes it.", name)
        self._told = missing

    def _counts(self, names: Iterable[str]) -> dict[str, int]:
        known = self._cluster.topics
        return {name: len(known[name].partitions) for name in names if name in known}
