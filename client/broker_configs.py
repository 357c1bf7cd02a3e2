"""Settings of brokers, of one or of all: told, and changed while they run."""

from collections.abc import Mapping

from ottla.client.admin_requests import config_change, controller_ms
from ottla.client.cluster import Cluster
from ottla.client.connections import CONTROL_LANE
from ottla.wire import admin as wire
from ottla.wire.admin import BROKER_RESOURCE
from ottla.wire.errors import ConfigError


async def alter_broker_config(
    cluster: Cluster, broker: int | None, changes: Mapping[str, str | None], validate_only: bool, timeout: float
) -> None:
    alteration = wire.ConfigAlteration(
        BROKER_RESOURCE, _name(broker), [config_change(*pair) for pair in changes.items()]
    )

    async def attempt() -> None:
        request = wire.IncrementalAlterConfigsRequest([alteration], controller_ms(cluster, timeout), validate_only)
        answer = await cluster.ask_controller(request, wire.IncrementalAlterConfigsResponse, cluster.attempt_s(timeout))
        answer.resources[0].raise_if_failed()

    await cluster.retry(attempt, timeout, f"the settings of {_who(broker)} were not changed")


async def describe_broker_config(cluster: Cluster, broker: int | None, timeout: float) -> list[wire.ConfigEntry]:
    request = wire.DescribeConfigsRequest([wire.ConfigsToDescribe(BROKER_RESOURCE, _name(broker))])

    async def attempt() -> wire.DescribeConfigsResponse:
        if broker is None:
            return await cluster.ask_any(request, wire.DescribeConfigsResponse)
        if broker not in cluster.brokers:
            await cluster.refresh()
        if broker not in cluster.brokers:
            known = ", ".join(map(str, sorted(cluster.brokers)))
            raise ConfigError(f"there is no broker {broker}", hint=f"there are {known}")
        channel = await cluster.channel(broker, CONTROL_LANE)
        return await channel.ask(request, wire.DescribeConfigsResponse, cluster.attempt_s(timeout))

    answer = await cluster.retry(attempt, timeout, f"the settings of {_who(broker)} were not described")
    answer.resources[0].raise_if_failed()
    return list(answer.resources[0].entries)


def _name(broker: int | None) -> str:
    """Kafka's: no name means all brokers."""
    return "" if broker is None else str(broker)


def _who(broker: int | None) -> str:
    return "all brokers" if broker is None else f"broker {broker}"
