"""The states of a group whose coordinator assigns."""

from enum import StrEnum


class ConsumerGroupState(StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
