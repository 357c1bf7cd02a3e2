"""Keys and values as the application wants them, and what becomes of records for which that cannot be done."""

import logging

from ottla.client.config import ConsumerConfig
from ottla.client.records import Record
from ottla.wire.errors import RecordDeserializationError
from ottla.wire.names import TopicPartition

logger = logging.getLogger(__name__)


class Deserializing:
    """The deserializers of a consumer, and its ``on_deserialization_error``. Runs in the thread that reads."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._of_key = config.key_deserializer
        self._of_value = config.value_deserializer
        self._on_error = config.on_deserialization_error

    @property
    def needed(self) -> bool:
        return self._of_key is not None or self._of_value is not None

    def apply(self, records: list[Record]) -> tuple[list[Record], int, Exception | None]:
        """What can be read up to the first record that stops reading; how many records lie before it; and what it raises."""
        of_key, of_value = self._of_key, self._of_value
        done: list[Record] = []
        passed: list[RecordDeserializationError] = []
        rest = iter(records)
        stopped: Exception | None = None
        while stopped is None:
            try:
                for r in rest:
                    key = of_key(r.key) if of_key is not None else r.key
                    value = of_value(r.value) if of_value is not None else r.value
                    done.append(
                        Record(r.topic, r.partition, r.offset, r.timestamp, r.timestamp_type, key, value, r.headers)
                    )
                break
            except Exception as why:
                refused = _refused(records[len(done) + len(passed)], why)
                stopped = self._stops(refused)
                if stopped is None:
                    passed.append(refused)
        if passed and self._on_error == "skip":
            logger.warning("records skipped count=%d first=%s", len(passed), passed[0])
        return done, len(done) + len(passed), stopped

    def _stops(self, refused: RecordDeserializationError) -> Exception | None:
        """What is to be raised for it; None if reading goes on."""
        if callable(self._on_error):
            try:
                self._on_error(refused)
            except Exception as error:
                return error
            return None
        return None if self._on_error == "skip" else refused


def _refused(record: Record, why: Exception) -> RecordDeserializationError:
    where = TopicPartition(record.topic, record.partition)
    error = RecordDeserializationError(
        f"the record at offset {record.offset} of {where} cannot be deserialized: {why!r}",
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        record=record,
        hint=f"seek to {record.offset + 1} to go on behind it, or give on_deserialization_error",
    )
    error.__cause__ = why
    return error
