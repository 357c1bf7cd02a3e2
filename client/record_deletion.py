"""Deleting records from the beginning of partitions: their leaders are asked until all of it is done, or time is over."""

from collections.abc import Mapping

from ottla.client.cluster import Cluster
from ottla.client.leaders import ask_leaders
from ottla.wire.admin import DeleteRecordsRequest, DeleteRecordsResponse, RecordsToDelete
from ottla.wire.names import TopicPartition


async def delete_records(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], timeout_s: float
) -> dict[TopicPartition, int]:
    """Where each partition begins then. What fails for good is raised when all has been tried.

    To ask again does no harm: what is gone stays gone.
    """
    begins: dict[TopicPartition, int] = {}
    for topic in dict.fromkeys(where.topic for where in offsets):
        await cluster.topic(topic, timeout_s)

    async def attempt() -> None:
        attempt_s = cluster.attempt_s(timeout_s)

        def request(group: list[TopicPartition]) -> DeleteRecordsRequest:
            parts = [RecordsToDelete(*where, offsets[where]) for where in group]
            return DeleteRecordsRequest(parts, max(1, int(attempt_s * 900)))  # the answer must have time to come

        missing = [where for where in offsets if where not in begins]
        done, failures = await ask_leaders(
            cluster, missing, request, DeleteRecordsResponse, lambda answer: answer.partitions, attempt_s
        )
        begins.update({where: result.low_watermark for where, result in done.items()})
        for error in sorted(failures.values(), key=lambda error: error.retriable):
            raise error

    await cluster.retry(attempt, timeout_s, "records were not deleted")
    return begins
