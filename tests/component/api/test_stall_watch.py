"""What operators are told of an event loop that keeps everybody waiting."""

import asyncio
import time

from ottla.broker.metrics import Metrics
from ottla.broker.stall_watch import StallWatch
from tests.component.groups.test_walk import spend
from tests.support.waiting import eventually


async def test_a_stall_is_measured_with_what_the_loop_did_in_it() -> None:
    metrics = Metrics()
    watch = StallWatch(metrics.stalls)
    watch.start()
    await eventually(lambda: sum(metrics.stalls.counts) >= 1)
    watch.take_longest()
    spend(0.3)
    await asyncio.sleep(0.06)
    stall_s, busy_s = watch.take_longest()
    assert 0.2 < busy_s <= stall_s
    time.sleep(0.3)  # noqa: ASYNC251 - something else has the processor
    await asyncio.sleep(0.06)
    stall_s, busy_s = watch.take_longest()
    assert stall_s > 0.2
    assert busy_s < 0.2
    watch.stop()
    told = {sample.name: sample.value for family in metrics.collect() for sample in family.samples}
    assert told["ottla_event_loop_stall_seconds_count"] == sum(metrics.stalls.counts) >= 3
    assert told["ottla_event_loop_stall_seconds_sum"] > 0.4
