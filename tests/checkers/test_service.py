"""When service is owed: what excuses a silence, for how long, and which group."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import History
from tests.checkers.names import A, L
from tests.checkers.test_clients import over, sending, storm

AVAILABILITY = L.AVAILABILITY


def applied(history: History, place: int, **entry: Any) -> None:
    told = {"entry": {"group": "g", **entry}}
    history.trace("controller-0", "applied", position=place, epoch=1, value=told)


def emptied(history: History, place: int, **more: Any) -> None:
    applied(history, place, type="apply_id", broker="broker-1", id=4, removed=["broker-1"], set=[], **more)


@pytest.mark.parametrize("joined_since", [True, False])
def test_a_disk_that_was_lost_before_its_replica_came_into_the_set_is_no_excuse(joined_since: bool) -> None:
    history = storm(("ok", 3))
    applied(history, 1, type="elect", master="broker-0", set=["broker-0"], set_epoch=1)
    if not joined_since:
        applied(history, 2, type="alter", set=["broker-0", "broker-1"], set_epoch=2)
    history.undo("wipe", history.inject("wipe", "broker-1"))
    applied(history, 3, type="alter", set=["broker-1"], set_epoch=3)
    emptied(history, 4, set_epoch=4)
    history.phase("heal")
    history.row("harness", f="not_recovered", value={"reason": "nobody leads", "seconds": 30})
    if joined_since:
        history.expect(AVAILABILITY, A.NOT_RECOVERED, validity=Validity.INVALID)
    else:
        assert "fault-0 destroyed" in history.expect(AVAILABILITY, validity=Validity.UNKNOWN).why


@pytest.mark.parametrize(("group", "unattended", "owed"), [("g", False, True), ("object", True, False)])
def test_only_an_election_of_the_same_group_ends_the_time_without_a_sure_copy(
    group: str, unattended: bool, owed: bool
) -> None:
    history = storm(("ok", 3))
    history.undo("wipe", history.inject("wipe", "broker-1"))
    emptied(history, 7, set_epoch=8)
    elected = {"type": "elect", "master": "broker-0", "set": ["broker-0"], "set_epoch": 9}
    applied(history, 8, group=group, **elected, **({"unattended": True} if unattended else {}))
    sending(history, "info", 14)
    over(history).expect(AVAILABILITY, *((A.UNAVAILABLE,) if owed else ()))


@pytest.mark.parametrize(
    ("controllers", "owed"), [(("controller-0",), True), (("controller-0", "controller-1"), False)]
)
def test_a_minority_of_controllers_that_is_out_excuses_nothing_though_brokers_were_touched_lately(
    controllers: tuple[str, ...], owed: bool
) -> None:
    history = storm(("ok", 3))
    history.undo("kill", history.inject("kill", "broker-0"))
    history.wait(1)
    process = history.inject("kill", *controllers)
    sending(history, "info", 14)
    history.undo("kill", process)
    sending(history, "ok", 3)
    over(history).expect(AVAILABILITY, *((A.UNAVAILABLE,) if owed else ()))


@pytest.mark.parametrize(("second", "owed"), [("g", True), ("h", False)])
def test_each_group_needs_enough_brokers_of_its_own(second: str, owed: bool) -> None:
    """Two brokers of five are out, which may be all of their group."""
    history = storm(("ok", 3))
    history.meta["brokers"] = [f"broker-{number}" for number in range(5)]
    process = history.inject("kill", "broker-3", "broker-4")
    sending(history, "info", 14)
    history.undo("kill", process)
    sending(history, "ok", 3)
    over(history)
    for number in range(5):
        history.node(f"broker-{number}", group="g" if number < 3 else second)
    history.expect(AVAILABILITY, *((A.UNAVAILABLE,) if owed else ()))


@pytest.mark.parametrize(("killed", "owed"), [("broker-1", True), ("broker-0", False), ("broker-3", False)])
def test_each_group_has_a_set_of_its_own_though_their_numbers_are_equal(killed: str, owed: bool) -> None:
    """Two groups of three, of each of which one broker is in the set alone."""
    history = storm(("ok", 3))
    history.meta["brokers"] = [f"broker-{number}" for number in range(6)]
    for place, (group, member) in enumerate((("g", "broker-0"), ("h", "broker-3")), 1):
        applied(history, place, group=group, type="elect", master=member, set=[member], set_epoch=1)
    process = history.inject("kill", killed)
    sending(history, "info", 14)
    history.undo("kill", process)
    sending(history, "ok", 3)
    over(history)
    for number in range(6):
        history.node(f"broker-{number}", group="g" if number < 3 else "h")
    history.expect(AVAILABILITY, *((A.UNAVAILABLE,) if owed else ()))
