"""What the controller tells of the cluster has a version: the same on all brokers, and larger with every change."""

from ottla.broker.controller.decisions.state import Action, Broker, ControllerState, Tell
from ottla.wire.control import UpdateMetadataRequest
from ottla.wire.messages import BrokerEndpoint
from ottla.zk.metadata import LoadedTopic, VersionedState
from ottla.zk.znodes.topics import PartitionStateZnode, TopicZnode


def brokers(*ids: int, epoch: int = 1) -> dict[int, Broker]:
    return {i: Broker(BrokerEndpoint(i, "host", 9092), epoch) for i in ids}


def topic(name: str) -> LoadedTopic:
    state = VersionedState(PartitionStateZnode(1, 0, 1, (1, 2), leader_broker_epoch=1), 0)
    return LoadedTopic(name, TopicZnode({0: (1, 2)}, f"id-of-{name}"), 0, {}, {0: state})


def versions(actions: list[Action]) -> dict[int, int]:
    """What each broker knows after these."""
    told: dict[int, int] = {}
    for action in actions:
        if isinstance(action, Tell) and isinstance(action.request, UpdateMetadataRequest):
            assert not action.request.more
            told[action.broker] = max(told.get(action.broker, 0), action.request.version)
    return told


def test_all_brokers_are_at_the_same_version_after_every_change() -> None:
    controller = ControllerState(controller_id=1, controller_epoch=3)
    steps = [
        controller.loaded(brokers(1, 2), [topic("a")], []),
        controller.topic_created(topic("b")),
        controller.brokers_seen(brokers(1, 2, 3)),
        controller.config_changed("a", {"retention.ms": "1"}),
        controller.topic_removed("b"),
        controller.brokers_seen(brokers(1, 3)),
    ]
    last = 0
    for step in steps:
        found = set(versions(step).values())
        assert len(found) == 1
        assert found.pop() > last or step is steps[0]
        last = max(versions(step).values())


def test_broker_that_comes_back_is_told_as_much_as_the_others() -> None:
    controller = ControllerState(controller_id=1, controller_epoch=3)
    controller.loaded(brokers(1, 2), [], [])
    told = versions(controller.brokers_seen({**brokers(1), **brokers(2, epoch=2)}))
    assert told[1] == told[2]
