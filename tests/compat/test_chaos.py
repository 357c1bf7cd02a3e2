"""A leader is killed under Kafka's own producers, and the checker that judges ours judges them."""

import pytest

from ottla.chaos.run import run
from ottla.chaos.targets.local import LocalTarget
from ottla.wire.errors import ConfigError


@pytest.mark.parametrize("client", ["confluent", pytest.param("aiokafka", marks=pytest.mark.deep)])
def test_kafkas_clients_lose_nothing_when_a_leader_is_killed(client: str) -> None:
    with LocalTarget() as target:
        outcome = run(target, "kill-leader", 3, 1, rate=60, client=client)
    assert outcome.violations == []
    assert sum(send.partition is not None for send in outcome.history.sends) > 500


def test_a_client_that_there_is_not_is_refused() -> None:
    with LocalTarget() as target, pytest.raises(ConfigError, match="there is no client 'franz'"):
        run(target, "kill-leader", 3, 1, client="franz")
