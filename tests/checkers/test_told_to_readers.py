"""What readers are told, by slaves too: about ends, beginnings, routes and views in calm time; and while they wait."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import History
from tests.checkers.names import A, L
from tests.checkers.test_progress import LOOSE, ask
from tests.checkers.test_roles import switched
from tests.checkers.test_tier import Tiered
from tests.checkers.test_watched_views import Run, finished, run


def told(history: History, offset: int, *sequences: int, node: str = "broker-1", **value: Any) -> int:
    """A pull that asked this replica."""
    op = ask(history, offset, *sequences, **{"from": node, "group": "", **value})
    for row in history.rows:
        if row["op"] == op:
            row["node"] = node
    return op


def led(count: int, **meta: Any) -> History:
    """Broker-0 leads since the load began, and so many messages were acknowledged."""
    history = History(meta=meta)
    history.phase("load")
    history.master("broker-0", 1)
    for sequence in range(count):
        history.send(sequence)
    ask(history, 0, 0, maximum=count)
    return history


def over(history: History) -> History:
    history.phase("heal")
    history.recovered()
    history.phase("drain")
    history.phase("collect")
    return history


# Next offsets and empty answers


@pytest.mark.parametrize("demand", ["", "local", "tier"])
@pytest.mark.parametrize("following", [0, 1, 4, 12])
def test_a_slave_that_sends_its_reader_elsewhere_is_found(following: int, demand: str) -> None:
    history = led(13)
    told(history, 0, 0, 1, following=following, maximum=13, demand=demand)
    over(history).expect(L.PROGRESS, A.WRONG_NEXT_OFFSET, validity=Validity.INVALID)


@pytest.mark.parametrize("profile", [{}, LOOSE])
def test_a_slave_that_is_behind_or_has_deleted_what_was_asked_for_tells_no_lie(profile: dict[str, Any]) -> None:
    history = led(5, **profile)
    told(history, 0, 0, 1, maximum=2)
    told(history, 2, maximum=2, following=2)  # nothing more so far
    told(history, 4, maximum=2, following=2)  # it has less than was asked for
    told(history, 0, type="fail", maximum=5, following=3, demand="local")  # its own log begins there
    over(history).expect(L.PROGRESS, validity=Validity.VALID)


def test_a_slave_that_gives_nothing_although_it_says_that_there_is_more_is_found() -> None:
    history = led(5)
    told(history, 1, maximum=5, following=1)
    verdict = over(history).expect(L.PROGRESS, A.UNREADABLE, validity=Validity.INVALID)
    assert "in the same answer" in verdict.anomalies[0].explanation


# A replica that asks its readers to come again


def come_again(seconds: float, *, given: bool = False, fault: bool = False) -> History:
    history = led(5)
    process = history.inject("pause", "broker-2") if fault else ""
    for half in range(int(2 * seconds)):
        told(history, 1, type="fail", maximum=5, following=1, source="tier")
        if given and half == seconds:
            told(history, 1, 1, maximum=5, source="tier")
        history.wait(0.5)
    if fault:
        history.undo("pause", process)
    return over(history)


def test_a_replica_that_asks_readers_to_come_again_beyond_the_bound_is_found() -> None:
    verdict = come_again(12).expect(L.PROGRESS, A.STALLED, validity=Validity.INVALID)
    assert "broker-1 (tier)" in verdict.anomalies[0].explanation
    assert verdict.counts["longest_replica_wait_ms"] > 10_000


def test_a_replica_may_ask_for_patience_within_the_bound_and_while_a_fault_lasts() -> None:
    for history in (come_again(9), come_again(16, given=True), come_again(12, fault=True)):
        history.expect(L.PROGRESS, validity=Validity.VALID)


# Where a queue ends and begins


def ends(after_s: float, *, maximum: int, node: str = "broker-1", fault: bool = False, **meta: Any) -> History:
    history = led(5, **meta)
    history.bounds(0, 5)
    process = history.inject("slow_link", "broker-1") if fault else ""
    history.wait(after_s)
    told(history, 1, *range(1, maximum), node=node, maximum=maximum)
    if fault:
        history.undo("slow_link", process)
    return over(history)


def test_a_slave_whose_end_of_a_queue_is_long_past_is_found() -> None:
    ends(6, maximum=3).expect(L.PROGRESS, A.STALE_MAXIMUM, validity=Validity.INVALID)
    for lawful in (ends(4, maximum=3), ends(6, maximum=5), ends(6, maximum=3, fault=True), ends(6, maximum=3, **LOOSE)):
        lawful.expect(L.PROGRESS, validity=Validity.VALID)


def test_an_end_that_a_slave_showed_binds_later_masters() -> None:
    def shown(maximum: int, **meta: Any) -> History:
        history = led(3, **meta)
        told(history, 1, 1, 2, maximum=maximum)
        history.send(3)
        return over(history)

    shown(5).expect(L.NO_ROLLBACK, A.MAX_OFFSET_REGRESSION, validity=Validity.INVALID)
    shown(3).expect(L.NO_ROLLBACK)
    shown(5, tells=["operations", "roles"]).expect(L.NO_ROLLBACK)  # it may be unconfirmed


def begins(
    minimum: int, *, after_s: float = 6.0, trimmed_to: int = 3, anew: bool = False, fault: bool = False
) -> Tiered:
    """A replica whose own log begins at 3 asks a tier that begins at ``trimmed_to``."""
    history = Tiered().begin(6)
    for start in (0, trimmed_to):
        history.upload(6, start=start)
    value = {"minimums": {"0": 3}, "inputs": {"tiered": True, "retain_bytes": 100, "end": 600}}
    history.trace("broker-1", "retention", position=300, value=value)
    if anew:
        history.trace("broker-1", "bootstrap", position=300, value={"queues": []})
    process = history.inject("pause", "store-0") if fault else ""
    history.wait(after_s)
    told(history, 3, 3, minimum=minimum, maximum=6)
    if fault:
        history.undo("pause", process)
    return history


def is_stale(history: Tiered) -> bool:
    return A.STALE_MINIMUM in {one.name for one in history.verdict(L.PROGRESS).anomalies}


def test_a_beginning_that_was_deleted_long_ago_is_found() -> None:
    assert is_stale(begins(0)) and is_stale(begins(2))
    assert not is_stale(begins(3))
    assert not is_stale(begins(0, after_s=4.0))  # not long ago
    assert not is_stale(begins(0, trimmed_to=0))  # the tier still has it
    assert not is_stale(begins(0, anew=True))  # the log was begun anew since
    assert not is_stale(begins(0, fault=True))


def test_what_one_node_deleted_binds_no_other_one() -> None:
    history = begins(3)
    told(history, 0, 0, node="broker-2", minimum=0, maximum=6)
    assert not is_stale(history)


def test_a_slave_that_names_a_beginning_above_what_retention_removed_is_found() -> None:
    def said(minimum: int) -> History:
        history = History()
        history.phase("load")
        history.master("broker-0", 1)
        for sequence in range(5):
            history.send(sequence)
        history.pull(4, 4, minimum=minimum, node="broker-1", from_="broker-1")
        return history.finish(0, 1, 2, 3, 4)

    assert A.EARLY_RETENTION in {one.name for one in said(2).verdict(L.DURABILITY).anomalies}
    assert not said(0).verdict(L.DURABILITY).anomalies


# Reads that wait


def held(
    after_s: float,
    *,
    shown_by: str = "broker-1",
    fault: bool = False,
    type: str = "ok",
    epoch: int = 1,
    **meta: Any,
) -> History:
    """A read waits at the end of a queue; another reader is given a message there, and ``after_s`` later it is too."""
    history = led(3, **meta)
    process = history.inject("slow_link", "broker-2") if fault else ""
    if fault:
        history.undo("slow_link", process)
    asked = {"from": "broker-1", "wait_ms": 3_000}
    waits = history.invoke("pull", process="tail.0", queue=0, offset=3, value=asked)
    history.send(3)
    told(history, 3, 3, node=shown_by, maximum=4)
    history.wait(after_s)
    answer = {"following": 3, "maximum": 3}
    node = "broker-1" if type != "info" else ""
    history.complete(waits, type, value=answer if node else {}, node=node, epoch=epoch if node else -1, incarnation=1)
    return over(history)


@pytest.mark.parametrize("how", [{}, {"type": "info"}])
def test_a_reader_that_is_not_woken_is_found(how: dict[str, Any]) -> None:
    verdict = held(0.5, **how).expect(L.PROGRESS, A.WOKEN_LATE, validity=Validity.INVALID)
    assert len(verdict.anomalies[0].rows) == 3


def test_a_reader_that_is_woken_soon_or_whose_node_had_nothing_is_lawful() -> None:
    lawful = (
        held(0.1),
        held(0.5, shown_by="broker-2"),  # its own node may be behind
        held(0.5, epoch=2),  # of another epoch than the word of its node
        held(0.5, fault=True),  # its end was less than three seconds ago
        held(1.5, deployment="process"),
    )
    for history in lawful:
        history.expect(L.PROGRESS, validity=Validity.VALID)
    held(2.5, deployment="process").expect(L.PROGRESS, A.WOKEN_LATE)


def test_reads_that_wait_and_are_never_answered_prove_nothing() -> None:
    history = led(1)
    waits = history.invoke("pull", process="tail.0", queue=0, offset=1, value={"wait_ms": 3_000})
    history.wait(5)
    history.complete(waits, "info")
    ask(history, 0, 0, maximum=1)
    assert over(history).expect(L.PROGRESS, validity=Validity.UNKNOWN).why == (
        "reads asked to be held, and none of them was answered"
    )


# Routes and views in calm time


def routed(*named: str, seconds: float = 6.0, role: str = "slave", fault: bool = False) -> History:
    history = switched()
    history.phase("load")
    history.role("broker-2", role, 2)
    value = {"group": "g", "master": "broker-1", "brokers": ["broker-0", "broker-1", *named]}
    history.trace("nameserver-0", "route", epoch=2, value=value)
    process = history.inject("pause", "broker-2") if fault else ""
    history.wait(seconds)
    if fault:
        history.undo("pause", process)
    value["brokers"] = ["broker-0", "broker-1", "broker-2"]
    history.trace("nameserver-0", "route", epoch=2, value=value)
    return over(history)


def test_a_living_broker_that_a_route_leaves_out_is_found_although_it_comes_back() -> None:
    routed().expect(L.ROLES, A.MISSING_FROM_ROUTE, validity=Validity.INVALID)


def test_a_group_that_somebody_else_registered_needs_none_of_the_brokers() -> None:
    history = routed("broker-2")
    for seconds in (6, 0):
        history.trace("nameserver-0", "route", epoch=0, value={"group": "limits-1", "master": "", "brokers": []})
        history.wait(seconds)
    history.expect(L.ROLES, validity=Validity.VALID)


def test_a_broker_may_be_missing_for_a_while_or_without_a_role_or_while_it_is_down() -> None:
    for history in (routed("broker-2"), routed(seconds=4), routed(role="fenced"), routed(fault=True)):
        history.expect(L.ROLES, validity=Validity.VALID)


def viewed(after_s: float, *, fault: bool = False) -> Run:
    it = run()
    it.agreed(4)
    process = it.inject("pause", "nameserver-0") if fault else ""
    it.wait(after_s)
    it.view("topic/t", 2, 103, knew=3)
    if fault:
        it.undo("pause", process)
    it.view("topic/t", 3, -1, knew=4)
    return finished(it)


def test_a_view_that_is_stale_until_somebody_asks_is_found() -> None:
    viewed(6).expect(L.WATCHED_VIEWS, A.VIEW_BEHIND, validity=Validity.INVALID)
    for lawful in (viewed(4), viewed(6, fault=True)):
        lawful.expect(L.WATCHED_VIEWS, validity=Validity.VALID)


def learned(after_s: float, *, fault: bool = False, never: bool = False) -> Tiered:
    """A manifest is committed in calm time, and one replica learns of it so much later."""
    history = Tiered().begin()
    history.phase("load")
    history.wait(5)
    history.upload(2)
    history.view("broker-1", 1, 2)
    process = history.inject("pause", "broker-2") if fault else ""
    history.wait(after_s)
    if fault:
        history.undo("pause", process)
    if not never:
        history.view("broker-2", 1, 2)
    return history.finals(0, 1, 2, 3)


def late_views(history: Tiered) -> list[str]:
    return [one.explanation for one in history.verdict(L.TIER_METADATA).anomalies if one.name == A.STALE_VIEW]


def test_a_manifest_that_a_replica_learns_of_late_is_found() -> None:
    (said,) = late_views(learned(3))
    assert said.startswith("broker-2 learned")
    (said,) = late_views(learned(3, never=True))
    assert said.startswith("broker-2 never learned")
    assert not late_views(learned(1)) and not late_views(learned(3, fault=True))
