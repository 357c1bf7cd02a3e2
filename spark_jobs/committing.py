"""Spark as a group: the progress of a stream, committed to the cluster, so that `ottla group lag` sees it."""

import logging

from ottla.client.groups.group_admin import GroupAdmin
from ottla.client.loop_thread import shared_loop_thread
from ottla.spark_jobs.clusters import cluster_for
from ottla.spark_jobs.options import ReadOptions
from ottla.spark_jobs.positions import Offsets
from ottla.wire.errors import OttlaError

logger = logging.getLogger(__name__)

COMMIT_TIMEOUT_S = 5.0
"""A stream does not wait longer than this for a commit: its own checkpoint is what it goes on from."""


class GroupProgress:
    """Of one stream. A commit that fails is told, and left to the next one."""

    def __init__(self, options: ReadOptions) -> None:
        self._group_id = options.group_id
        self._admin = GroupAdmin(cluster_for(options.client))
        self._committed: Offsets = {}
        self._failure = ""

    def commit(self, offsets: Offsets) -> None:
        news = {where: offset for where, offset in offsets.items() if self._committed.get(where) != offset}
        if not news:
            return
        try:
            shared_loop_thread().run(self._admin.alter_offsets(self._group_id, news, COMMIT_TIMEOUT_S))
        except OttlaError as error:
            if str(error) != self._failure:
                logger.warning("progress of the stream was not committed to group %r: %s", self._group_id, error)
            self._failure = str(error)
        else:
            self._committed.update(news)
            self._failure = ""
