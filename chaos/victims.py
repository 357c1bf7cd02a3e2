"""Whom a fault meets: the names behind its role, at the moment it begins."""

from collections.abc import Sequence
from typing import TypeVar

from ottla.chaos.faults import CLIENTS, TOPIC, Role
from ottla.chaos.targets.target import Target, names
from ottla.chaos.watcher import View

T = TypeVar("T")


def who(target: Target, role: Role, pick: int, view: View) -> list[str]:
    """The names behind a role, as the cluster was last seen."""
    brokers, servers = target.brokers(), target.zookeepers()
    part = view.partitions[pick % len(view.partitions)]
    followers = [broker for broker in part.replicas if broker != part.leader]
    if role is Role.LEADER:
        return names([part.leader]) if part.leader >= 0 else []
    if role is Role.OTHER_LEADER:
        turned = [*view.partitions[pick % len(view.partitions) :], *view.partitions]
        return names([one.leader for one in turned if one.leader not in (-1, view.controller)][:1])
    if role is Role.FOLLOWER:
        return names(_one(followers, pick))
    if role is Role.FOLLOWERS:
        return names(followers)
    if role is Role.CONTROLLER:
        return names([view.controller]) if view.controller >= 0 else []
    if role is Role.RACK:
        racks = sorted(target.racks().items())
        return racks[pick % len(racks)][1]
    if role is Role.ZOOKEEPER_LEADER:
        leader = target.zookeeper_leader()
        return [leader] if leader is not None else []
    return {
        Role.BROKER: _one(brokers, pick),
        Role.MINORITY: _some(brokers, (len(brokers) - 1) // 2, pick),
        Role.MAJORITY: _some(brokers, len(brokers) // 2 + 1, pick),
        Role.ALL: brokers,
        Role.ZOOKEEPER: _one(servers, pick),
        Role.ZOOKEEPER_MAJORITY: _some(servers, len(servers) // 2 + 1, pick),
        Role.ZOOKEEPER_ALL: servers,
        Role.CLIENTS: [CLIENTS],
        Role.TOPIC: [TOPIC],
    }[role]


def _one(among: Sequence[T], pick: int) -> list[T]:
    return [among[pick % len(among)]] if among else []


def _some(among: Sequence[str], count: int, pick: int) -> list[str]:
    first = pick % len(among)
    return [*among[first:], *among[:first]][:count]
