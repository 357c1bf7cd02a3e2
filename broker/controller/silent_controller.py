"""Whether a controller that gives no answer may be replaced: more than half of all brokers must not reach it."""

import asyncio
import logging

from ottla.broker.peers import PATIENT_PROBE_TIMEOUT_S, Identity, connect_as_broker, probe
from ottla.wire.control import WitnessRequest, WitnessResponse
from ottla.wire.errors import OttlaError
from ottla.wire.messages import BrokerEndpoint
from ottla.zk.membership import live_brokers
from ottla.zk.session.session import ZkSession

logger = logging.getLogger(__name__)

WITNESS_TIMEOUT_S = 2 * PATIENT_PROBE_TIMEOUT_S


async def is_unreachable_to_most(session: ZkSession, identity: Identity, controller: int) -> bool:
    """Probe the controller once more, and have the other brokers do so.

    Where only two brokers are registered there is no third one to ask: the controller is left to its session. It may fence this
    broker meanwhile, for of two brokers that do not reach each other only the controller decides.
    """
    registered = {i: BrokerEndpoint(i, found.host, found.port) for i, found in (await live_brokers(session)).items()}
    if controller not in registered or len(registered) < 3:
        return False
    if (await probe(registered[controller], identity, PATIENT_PROBE_TIMEOUT_S)).answered:
        return False
    others = [broker for i, broker in registered.items() if i not in (controller, identity.broker_id)]
    answers = await asyncio.gather(*(_reaches(identity, broker, controller) for broker in others))
    unreachable_to = 1 + answers.count(False)
    logger.info(
        "controller is silent broker=%d unreachable_to=%d reachable_to=%d registered=%d",
        controller, unreachable_to, answers.count(True), len(registered),
    )  # fmt: skip
    return 2 * unreachable_to > len(registered)


async def _reaches(identity: Identity, witness: BrokerEndpoint, controller: int) -> bool | None:
    """Whether another broker reaches the controller; None if it cannot be asked."""
    try:
        channel = await connect_as_broker(identity, witness, WITNESS_TIMEOUT_S)
    except OttlaError:
        return None
    try:
        answer = await channel.ask(WitnessRequest(controller), WitnessResponse, 2 * WITNESS_TIMEOUT_S)
    except OttlaError:
        return None
    finally:
        await channel.close()
    return answer.reachable
