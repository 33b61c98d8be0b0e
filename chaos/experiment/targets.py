"""Which nodes a fault hits: words that stand for nodes; where there is a choice, the run's seed makes it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from fractions import Fraction
from random import Random

from chaos.driver import ClusterView, ReplicaGroup
from chaos.fault import NotNow


class Target(StrEnum):
    """Besides these, ``random(2)`` is that many brokers, ``50%`` or ``1/3`` that part of them (rounded up), and any
    other word a node's name. Words may be written with ``-`` for ``_``.

    With several groups, ``master``, ``slave`` and ``followers`` are those of one group, which the seed draws, and so
    are ``group_leader`` and ``group_member``, of a group whose replicas hold data, and ``owner``, of one whose replicas
    hold none (without any such group: of any). ``minority``, ``minority_third`` and ``majority`` count in every group;
    the other words don't look at groups."""

    ONE = "one"  # a broker
    MINORITY = "minority"  # of the brokers: the most that leave a majority
    MINORITY_THIRD = "minority_third"  # less than a third of the brokers, but at least one
    MAJORITY = "majority"  # of the brokers: the fewest that are one
    ALL = "all"  # brokers
    RANDOM = "random"  # any of the brokers, at least one
    MASTER = "master"  # the leader
    SLAVE = "slave"  # one replica that doesn't lead
    FOLLOWERS = "followers"  # all slaves
    GROUP_LEADER = "group_leader"
    GROUP_MEMBER = "group_member"  # any replica
    OWNER = "owner"
    CONTROLLER_LEADER = "controller_leader"
    CONTROLLERS = "controllers"  # all
    CONTROLLER_MINORITY = "controller_minority"
    NAMESERVER = "nameserver"  # one
    TIER = "tier"
    EVENT_NODE = "event_node"  # of a fault with `when`: the node that traced the event


#: For faults on links alone: all clients of the run.
CLIENT = "client"

_ALIASES = {
    "primaries": Target.MASTER,
    "leader": Target.MASTER,
    "minor": Target.MINORITY,
    "major": Target.MAJORITY,
    "meta_leader": Target.CONTROLLER_LEADER,
}
_COUNT = re.compile(r"random\(([1-9]\d*)\)")
_PART = re.compile(r"(\d+)(%|/\d+)")


def is_target(word: str, nodes: Iterable[str], *, links: bool = False) -> bool:
    """Return whether :func:`choose` knows the word in a system that has these nodes, or :func:`choose_ends`
    (``links``)."""
    plain = _plain(word)
    if links and word == CLIENT:
        return True
    return plain in [*Target, *nodes] or word in nodes or bool(_COUNT.fullmatch(plain)) or _part(plain) is not None


def check_single_slave(target: str, why: str) -> None:
    """Check that a word stands for one slave. Raises ``ValueError`` for one that stands for others. A node's name may
    be one."""
    if target not in (Target.SLAVE, Target.EVENT_NODE) and is_target(target, ()):
        raise ValueError(f"target must be slave or a broker's name, not {target}: {why}")


def choose(target: str, view: ClusterView, rng: Random) -> tuple[str, ...]:
    """Turn a target word into node names, sorted. Raises :class:`NotNow` when nobody fits at the moment."""
    known = {*view.brokers, *view.controllers, *view.others, *view.tier}
    chosen = [target] if target in known else _choose(_plain(target), view, rng)
    if not chosen:
        raise NotNow(f"no node is {target!r} at the moment")
    return tuple(sorted(chosen))


def choose_ends(target: str, view: ClusterView, rng: Random) -> tuple[str, ...]:
    """As :func:`choose`, for faults on links: these may hit :data:`CLIENT` too, which stays this one word."""
    return (CLIENT,) if target == CLIENT else choose(target, view, rng)


def choose_led(view: ClusterView, rng: Random, *, follower: str = "") -> ReplicaGroup:
    """Draw one of the groups that have a leader now; with ``follower``, one in which this node follows. If only one
    fits, nothing is drawn. Raises :class:`NotNow` if none does."""
    if not view.leaders:
        raise NotNow("there is no master to take over from")
    fitting = [group for group in view.groups if group.leader and (not follower or follower in group.followers)]
    if not fitting:
        raise NotNow(f"{follower} can't take over from {', '.join(view.leaders)}")
    return _one_of(fitting, rng)


def _choose(target: str, view: ClusterView, rng: Random) -> list[str]:
    brokers, controllers = sorted(view.brokers), sorted(view.controllers)
    match target:
        case Target.ONE:
            return _some(brokers, 1, rng)
        case Target.MINORITY:
            return _at_most(view.groups, _minority, rng)
        case Target.MINORITY_THIRD:
            return _at_most(view.groups, lambda size: max(1, math.ceil(size / 3) - 1), rng)
        case Target.MAJORITY:
            return _at_least(view.groups, lambda size: size // 2 + 1, rng)
        case Target.ALL:
            return brokers
        case Target.RANDOM:
            return _some(brokers, rng.randint(1, max(1, len(brokers))), rng)
        case Target.MASTER | Target.SLAVE | Target.FOLLOWERS:
            return _by_role(target, view.groups, rng)
        case Target.GROUP_LEADER:
            return _by_role(Target.MASTER, _of_kind(view, holds_data=True), rng)
        case Target.GROUP_MEMBER:
            groups = _of_kind(view, holds_data=True)
            return _some(sorted(_one_of(groups, rng).replicas), 1, rng) if groups else []
        case Target.OWNER:
            return _by_role(Target.MASTER, _of_kind(view, holds_data=False), rng)
        case Target.CONTROLLER_LEADER:
            return [view.controller_leader] if view.controller_leader else []
        case Target.CONTROLLERS:
            return controllers
        case Target.CONTROLLER_MINORITY:
            return _some(controllers, _minority(len(controllers)), rng)
        case Target.NAMESERVER:
            return _some(sorted(view.others), 1, rng)
        case Target.TIER:
            return sorted(view.tier)
    if count := _COUNT.fullmatch(target):
        return _some(brokers, int(count[1]), rng)
    part = _part(target)
    return _some(brokers, max(1, math.ceil(part * len(brokers))), rng) if part is not None else []


def _of_kind(view: ClusterView, *, holds_data: bool) -> Sequence[ReplicaGroup]:
    """Return the groups whose replicas hold data, or hold none; all groups where they are of one kind."""
    return [group for group in view.groups if group.holds_data == holds_data] or view.groups


def _by_role(target: str, groups: Sequence[ReplicaGroup], rng: Random) -> list[str]:
    """Return the leader, one follower or all followers of a group that has them."""
    led = [group for group in groups if (group.leader if target == Target.MASTER else group.followers)]
    if not led:
        return []
    group = _one_of(led, rng)
    if target == Target.MASTER:
        return [group.leader]
    followers = sorted(group.followers)
    return followers if target == Target.FOLLOWERS else _some(followers, 1, rng)


def _minority(size: int) -> int:
    return max(1, (size - 1) // 2)


def _at_least(groups: Sequence[ReplicaGroup], share: Callable[[int], int], rng: Random) -> list[str]:
    """Draw this share of each group's replicas, one group after the other. Who is in several groups counts in each."""
    chosen: list[str] = []
    for group in groups:
        free = [name for name in sorted(group.replicas) if name not in chosen]
        missing = share(len(group.replicas)) - (len(group.replicas) - len(free))
        chosen += _some(free, max(0, missing), rng)
    return chosen


def _at_most(groups: Sequence[ReplicaGroup], share: Callable[[int], int], rng: Random) -> list[str]:
    """Draw at most this share of each group's replicas: nobody who would be one too many for any of its groups."""
    if len(groups) == 1:
        return _at_least(groups, share, rng)
    names = sorted({name for group in groups for name in group.replicas})
    chosen: list[str] = []
    for name in rng.sample(names, len(names)):
        full = any(
            sum(one in chosen for one in group.replicas) >= share(len(group.replicas))
            for group in groups
            if name in group.replicas
        )
        if not full:
            chosen.append(name)
    return chosen


def _one_of(groups: Sequence[ReplicaGroup], rng: Random) -> ReplicaGroup:
    return groups[0] if len(groups) == 1 else rng.choice(groups)


def _some(names: list[str], count: int, rng: Random) -> list[str]:
    return rng.sample(names, min(count, len(names)))


def _plain(word: str) -> str:
    word = word.replace("-", "_")
    return _ALIASES.get(word, word)


def _part(word: str) -> Fraction | None:
    """``50%`` or ``1/3`` as a number above 0 and up to 1; None for anything else."""
    found = _PART.fullmatch(word)
    if found is None:
        return None
    whole = 100 if found[2] == "%" else int(found[2][1:])
    part = Fraction(int(found[1]), whole) if whole else Fraction(0)
    return part if 0 < part <= 1 else None
