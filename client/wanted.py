"""Many things asked of the controller in one request: what became of each, over as many attempts as it takes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from ottla.client.cluster import Cluster
from ottla.wire.admin import NewPartitions, TopicToDelete
from ottla.wire.errors import (
    NO_ERROR,
    ClientClosed,
    ClientTimeout,
    InvalidPartitions,
    LeaderNotAvailable,
    NoBrokersAvailable,
    OttlaError,
    PreferredLeaderNotAvailable,
    RemoteProtocolError,
    UnknownTopicOrPartition,
)
from ottla.wire.messages import Failure, Message, Request
from ottla.wire.names import TopicPartition, check_topic_name

P = TypeVar("P", bound=Message)
M = TypeVar("M", bound=Message)

TopicOutcomes = dict[str, OttlaError | None]
PartitionOutcomes = dict[TopicPartition, OttlaError | None]
"""What became of each thing that was asked for: None where it was done, else why not."""

ANSWERS = (UnknownTopicOrPartition, PreferredLeaderNotAvailable)
"""Errors that are retriable elsewhere; here they are what was to be known."""


class Wanted(Generic[P]):
    """One thing, until it is done or refused. ``part`` asks for it."""

    def __init__(self, part: P, topic: str, partition: int | None = None) -> None:
        self.part = part
        self.topic = topic
        self.partition = partition
        self.settled = False
        self.result: Failure | None = None
        self.error: OttlaError | None = None
        self.in_doubt = False
        """Whether an attempt may have taken effect although no answer says so."""

    def answered(self, result: Failure) -> None:
        if result.error_code == NO_ERROR:
            self.settled, self.result, self.error = True, result, None
            return
        error = result.error(topic=self.topic, partition=self.partition)
        self.unheard(error)
        self.settled = self._is_final(error)

    def unheard(self, error: OttlaError) -> None:
        """An attempt failed: perhaps it did what it should all the same."""
        nothing_sent = isinstance(error, NoBrokersAvailable | LeaderNotAvailable)
        refused = not (error.retriable or isinstance(error, ClientClosed)) or isinstance(error, ANSWERS)
        self.in_doubt = self.in_doubt or not (nothing_sent or refused)
        self.error = error

    def _is_final(self, error: OttlaError) -> bool:
        return not error.retriable or isinstance(error, ANSWERS)


class WantedDeletion(Wanted[TopicToDelete]):
    """A topic that is gone may have been deleted by an attempt whose answer was lost."""

    def _is_final(self, error: OttlaError) -> bool:
        if not isinstance(error, UnknownTopicOrPartition) or not self.part.topic_id:
            return super()._is_final(error)
        if self.in_doubt:
            self.error = None
            return True
        # Whom we asked for the id may have been behind: let the controller say what is there.
        self.part = TopicToDelete(self.part.name)
        return False


class WantedPartitions(Wanted[NewPartitions]):
    """A topic that has enough partitions may have got them from an attempt whose answer was lost."""

    @property
    def may_be_there(self) -> bool:
        return self.in_doubt and isinstance(self.error, InvalidPartitions)


async def ask_for_each(
    cluster: Cluster,
    wanted: Sequence[Wanted[P]],
    request_for: Callable[[list[P]], Request],
    kind: type[M],
    results_of: Callable[[M], Sequence[Failure]],
    timeout: float,
    otherwise: Callable[[Sequence[Wanted[P]]], str],
) -> None:
    """Ask the controller until everything wanted is settled or time is over; each knows then what became of it."""

    async def attempt() -> None:
        waiting = [one for one in wanted if not one.settled]
        request = request_for([one.part for one in waiting])
        try:
            results = results_of(await cluster.ask_controller(request, kind, cluster.attempt_s(timeout)))
            if len(results) != len(waiting):
                raise RemoteProtocolError(f"{len(waiting)} things were asked for, and {len(results)} answered")
        except OttlaError as error:
            for one in waiting:
                one.unheard(error)
            raise
        for one, result in zip(waiting, results, strict=True):
            one.answered(result)
        again = next((one.error for one in waiting if not one.settled and one.error is not None), None)
        if again is not None:
            raise again

    if not wanted:
        return
    try:
        await cluster.retry(attempt, timeout, otherwise(wanted))
    except OttlaError as error:
        for one in wanted:
            if not one.settled:
                text = str(error)
                if isinstance(error, ClientTimeout):  # others are done perhaps, or were not for another reason
                    why = f": {one.error}" if one.error is not None else ""
                    text = f"{otherwise([one])} within {timeout:g} s{why}; {cluster.tried()}"
                one.error = type(error)(text, topic=one.topic, partition=one.partition, hint=error.hint)


def check_names(wanted: Iterable[Wanted[P]]) -> None:
    for one in wanted:
        check_topic_name(one.topic)


def not_done(wanted: Sequence[Wanted[P]]) -> str:
    """As the beginning of a sentence on what did not happen."""
    if len(wanted) != 1:
        return f"{len(wanted)} topics were not"
    [one] = wanted
    return f"topic {one.topic!r} was not" if one.partition is None else f"{one.topic}-{one.partition} was not"


def raise_first(wanted: Iterable[Wanted[P]]) -> None:
    for one in wanted:
        if one.error is not None:
            raise one.error


def by_topic(wanted: Iterable[Wanted[P]]) -> TopicOutcomes:
    return {one.topic: one.error for one in wanted}


def by_partition(wanted: Iterable[Wanted[P]]) -> PartitionOutcomes:
    return {TopicPartition(one.topic, one.partition or 0): one.error for one in wanted}
