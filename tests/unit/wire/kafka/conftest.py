"""What the tests of Kafka's dialect share: a dialect that knows two topics, and answers of any kind to what was asked."""

import pytest

from ottla.wire.kafka.dialect import KafkaDialect
from tests.support.kafka_dialect import dialect_of_two_topics


@pytest.fixture
def dialect() -> KafkaDialect:
    return dialect_of_two_topics()
