"""Roles as polled keep the groups of a system apart in which each has a leader of its own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from chaos.ops import QueueRef
from chaos.verdict import Verdict
from tests.checkers.histories import History
from tests.checkers.names import A, L
from tests.checkers.test_losses import NOT_DECIDED, NOT_PERMITTED, PERMITTED, POLLED, found

QUEUES = [asdict(QueueRef(index=at, topic="t", queue_id=at, group=group)) for at, group in enumerate("ab")]
META = {"tells": POLLED, "deployment": "netns", "queues": QUEUES, "bounds": {}}


def polled(history: History, group: str, node: str, epoch: int, role: str = "master") -> None:
    op = history.row("poll", type="invoke", f="state", node=node)
    history.row("poll", type="ok", op=op, f="state", node=node, epoch=epoch, value={"role": role, "group": group})


def switched(group: str, profile: dict[str, Any], *, of: str = "ab", epochs: tuple[int, int] = (1, 2)) -> Verdict:
    """A message of queue 0, that of group a, is lost; meanwhile the leader of this group changed."""
    history = History(meta={**META, "profile": profile})
    history.phase("load")
    for one in of:
        polled(history, one, "broker-0", epochs[0])
    history.send(0)
    history.send(1)
    for one in of:
        polled(history, one, "broker-1" if one == group else "broker-0", epochs[one == group])
    history.finish(0)
    return history.verdict(L.DURABILITY)


def test_a_switch_explains_losses_of_its_own_group_alone() -> None:
    assert found(switched("a", {"acks": "master"})) == PERMITTED
    assert found(switched("b", {"acks": "master"})) == NOT_PERMITTED
    assert found(switched("b", {"acks": "master"}, epochs=(1, 9))) == NOT_PERMITTED


def test_of_a_queue_whose_group_was_not_polled_nothing_is_known() -> None:
    assert found(switched("c", {"acks": "master"}, of="bc")) == NOT_DECIDED


@pytest.mark.parametrize(("group", "names"), [("a", set()), ("b", {A.MAX_OFFSET_REGRESSION})])
def test_the_end_of_a_queue_may_fall_at_a_switch_of_its_own_group(group: str, names: set[str]) -> None:
    history = History(meta={**META, "profile": {"acks": "master"}})
    history.phase("load")
    for one in "ab":
        polled(history, one, "broker-0", 1)
    history.bounds(0, 9, epoch=1)
    for one in "ab":
        polled(history, one, "broker-1" if one == group else "broker-0", 1 + (one == group))
    history.bounds(0, 5, node="broker-1", epoch=2)
    assert found(history.verdict(L.NO_ROLLBACK))[1] == names


def test_epochs_of_groups_are_compared_within_them() -> None:
    history = History(meta=META)
    for _ in range(2):
        polled(history, "a", "broker-0", 5)
        polled(history, "b", "broker-0", 1, "slave")
        polled(history, "b", "broker-1", 5)
    history.expect(L.ROLES)
    polled(history, "a", "broker-0", 4)
    history.expect(L.ROLES, A.EPOCH_REGRESSION)


def test_two_masters_are_those_of_one_group() -> None:
    history = History(meta=META)
    polled(history, "a", "broker-0", 1)
    polled(history, "b", "broker-1", 1)
    history.expect(L.ROLES)
    polled(history, "b", "broker-2", 1)
    history.expect(L.ROLES, A.TWO_MASTERS)
