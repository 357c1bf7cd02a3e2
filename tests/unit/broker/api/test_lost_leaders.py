"""Who asks who leads, just when a leader is gone, is told the next one, if there will be one soon."""

import asyncio
import time

from ottla.broker.api import lost_leaders
from ottla.broker.api.lost_leaders import LostLeaders
from ottla.broker.cluster_view import ClusterView
from ottla.wire.control import PartitionState, TopicConfig, UpdateMetadataRequest


def lead(view: ClusterView, leader: int, epoch: int) -> None:
    state = PartitionState("t", "id", 0, leader, epoch, [1, 2], [1, 2], epoch, 1, [])
    view.update(UpdateMetadataRequest(1, 1, 1, epoch == 0, [], [TopicConfig("t", "id", {})], [state], [], epoch))


async def test_a_leader_that_is_gone_is_waited_for_until_there_is_another() -> None:
    view, gone = ClusterView("c"), {1}
    leaders = LostLeaders(view, lambda broker: True, gone.__contains__)
    lead(view, 1, 0)
    assert leaders.can_tell(["t"])
    waiting = asyncio.ensure_future(leaders.wait(["t"]))
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    view.update(UpdateMetadataRequest(1, 1, 1, False, [], [], [], []))  # something else
    done, _ = await asyncio.wait([waiting], timeout=0.05)
    assert not done
    lead(view, 2, 1)
    await asyncio.wait_for(waiting, 0.3)


async def test_nobody_waits_for_long() -> None:
    view = ClusterView("c")
    leaders = LostLeaders(view, lambda broker: True, lambda broker: True)
    lead(view, 1, 0)
    began = time.monotonic()
    await leaders.wait(["t"])
    assert time.monotonic() - began < 2 * lost_leaders.WAIT_S + 1


async def test_a_broker_that_follows_nobody_cannot_tell() -> None:
    view = ClusterView("c")
    leaders = LostLeaders(view, lambda broker: False, lambda broker: False)
    lead(view, 1, 0)
    assert not leaders.can_tell(["t"])
    assert not leaders.can_tell(["unknown"])
    await leaders.wait(["t"])
