"""Members of the SyncStateSet that lack what is confirmed, sets that a master doesn't count on, and logs that hold less
than their node says; and what looks like it and is lawful."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, SIZE, History
from tests.checkers.names import A, L

LAW = L.IN_SYNC


def entry(history: History, number: int, type: str, members: tuple[str, ...], set_epoch: int, epoch: int = 1) -> None:
    told: dict[str, Any] = {"type": type, "group": "g", "set": list(members), "set_epoch": set_epoch}
    told |= {"master_epoch": epoch, "master": members[0]}
    history.trace("controller-0", "applied", position=number, epoch=1, value={"entry": told})


def counts(history: History, f: str, members: tuple[str, ...], proposed: tuple[str, ...] = (), **more: Any) -> None:
    value = {"set": list(members), "proposed": list(proposed), "set_epoch": 1, "role": "master"}
    history.trace("broker-0", f, epoch=1, value=value, **more)


def begun() -> History:
    """broker-0 is elected alone, with three records in its log, two of which every replica has on its disk."""
    history = History()
    history.phase("load")
    for node in BROKERS:
        history.trace(node, "start", value={"generation": 1, "disk": node})
        history.trace(node, "recovered", position=0, value={"confirm": 0, "first": 0})
    entry(history, 1, "elect", ("broker-0",), 1)
    counts(history, "role", ("broker-0",))
    for node in BROKERS:
        if node != "broker-0":
            history.role(node, "slave", 1)
        for sequence in range(3):
            history.append(node, sequence)
        history.trace(node, "synced", position=(3 if node == "broker-0" else 2) * SIZE)
    return history


def taken_in(history: History, *, told: bool = True) -> History:
    """broker-1 is proposed for the set, and the controllers take it in."""
    if told:
        counts(history, "set", ("broker-0",), ("broker-1",))
    entry(history, 2, "alter", ("broker-0", "broker-1"), 2)
    counts(history, "set", ("broker-0", "broker-1"))
    return history


def test_a_set_whose_members_have_all_that_is_confirmed_is_valid() -> None:
    history = begun()
    counts(history, "confirm", ("broker-0",), position=2 * SIZE)
    taken_in(history).expect(LAW, validity=Validity.VALID)


def test_a_joiner_that_lacks_what_is_confirmed_is_behind() -> None:
    history = begun()
    counts(history, "confirm", ("broker-0",), position=3 * SIZE)
    taken_in(history).expect(LAW, A.MEMBER_BEHIND)


def test_a_member_that_does_not_run_yet_may_still_be_told_to_leave() -> None:
    history = taken_in(begun())
    history.trace("broker-1", "start", incarnation=2, step=1, value={"generation": 1, "disk": "new"})
    history.trace("broker-1", "recovered", incarnation=2, step=2, position=0, value={"confirm": 0})
    counts(history, "confirm", ("broker-0", "broker-1"), position=2 * SIZE)
    entry(history, 3, "register", ("broker-0",), 3)
    history.trace("broker-1", "role", incarnation=2, step=3, epoch=1, value={"role": "slave"})
    history.expect(LAW, validity=Validity.VALID)


def test_a_member_that_comes_back_with_less_and_is_kept_is_behind() -> None:
    history = taken_in(begun())
    counts(history, "confirm", ("broker-0", "broker-1"), position=2 * SIZE)
    history.trace("broker-1", "start", incarnation=2, step=1, value={"generation": 1, "disk": "new"})
    history.trace("broker-1", "recovered", incarnation=2, step=2, position=0, value={"confirm": 0})
    history.trace("broker-1", "role", incarnation=2, step=3, epoch=1, value={"role": "slave"})
    history.expect(LAW, A.MEMBER_BEHIND)


def test_a_master_that_does_not_count_whom_it_proposed_is_found_when_the_set_is_committed() -> None:
    taken_in(begun(), told=False).expect(LAW, A.SET_NOT_COUNTED)


def test_elsewhere_a_set_that_no_word_of_its_master_contains_was_not_counted() -> None:
    history = begun()
    history.meta["deployment"] = "process"
    entry(history, 2, "alter", ("broker-0", "broker-1"), 2)
    history.confirm("broker-2", SIZE)
    history.expect(LAW, A.SET_NOT_COUNTED)


def test_a_master_that_counts_on_nobody_is_found() -> None:
    history = begun()
    counts(history, "confirm", (), position=SIZE)
    history.expect(LAW, A.SET_NOT_COUNTED)


def test_a_deposed_master_need_not_know_the_set_of_a_newer_epoch() -> None:
    history = begun()
    entry(history, 2, "elect", ("broker-1",), 2, epoch=2)
    entry(history, 3, "alter", ("broker-1", "broker-2"), 3, epoch=2)
    counts(history, "confirm", ("broker-0",), position=2 * SIZE)
    history.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize(("flush", "until"), [("sync", 2), ("async", 3)])
def test_a_confirm_offset_stays_within_the_own_log(flush: str, until: int) -> None:
    history = begun()
    history.meta["profile"] = {"flush": flush}
    history.confirm("broker-1", until * SIZE)
    history.expect(LAW, validity=Validity.VALID)
    history.confirm("broker-1", until * SIZE + 1)
    history.expect(LAW, A.CONFIRM_BEYOND_LOG)


def test_what_was_cut_off_is_in_the_log_no_more() -> None:
    history = begun()
    history.trace("broker-1", "truncate", position=SIZE, epoch=1)
    history.confirm("broker-1", SIZE)
    history.expect(LAW, validity=Validity.VALID)
    history.confirm("broker-1", 2 * SIZE)
    history.expect(LAW, A.CONFIRM_BEYOND_LOG)


@pytest.mark.parametrize("f", ["acked", "tier_commit"])
def test_a_confirm_offset_that_is_told_twice_is_told_alike(f: str) -> None:
    history = begun()
    history.meta["profile"] = {"min_in_sync": 1}
    counts(history, "confirm", ("broker-0",), position=2 * SIZE)
    history.trace("broker-0", f, position=SIZE, epoch=1, value={"confirm": 2 * SIZE})
    history.expect(LAW, validity=Validity.VALID)
    history.trace("broker-0", f, position=SIZE, epoch=1, value={"confirm": 3 * SIZE})
    history.expect(LAW, A.CONFIRM_BEYOND_LOG)


def test_a_log_that_ends_before_its_confirm_offset_after_the_run_is_found() -> None:
    history = begun()
    counts(history, "confirm", ("broker-0",), position=SIZE)
    history.node("broker-0", confirm=4 * SIZE, end=3 * SIZE)
    history.expect(LAW, A.CONFIRM_BEYOND_LOG)


def test_what_is_called_durable_is_in_the_log() -> None:
    history = begun()
    counts(history, "confirm", ("broker-0",), position=SIZE)
    history.trace("broker-0", "synced", position=3 * SIZE + 1)
    history.expect(LAW, A.FALSE_SYNC)


@pytest.mark.parametrize(("disk", "names"), [(SIZE, ()), (SIZE - 1, (A.FALSE_SYNC,))])
def test_what_is_called_durable_is_what_the_simulator_knows_of_the_disk(disk: int, names: tuple[str, ...]) -> None:
    history = begun()
    counts(history, "confirm", ("broker-0",), position=SIZE)
    history.trace("broker-0", "synced", position=3 * SIZE, value={"file": "log/2", "size": SIZE, "disk": disk})
    history.expect(LAW, *names)


@pytest.mark.parametrize(
    ("start", "cut", "names"),
    [
        ({"generation": 2, "disk": "broker-0"}, False, (A.FALSE_SYNC,)),
        ({"generation": 2, "disk": "broker-0"}, True, ()),
        ({"generation": 1, "disk": "broker-0"}, False, ()),
        ({"generation": 2, "disk": "another"}, False, ()),
    ],
)
def test_what_was_durable_is_there_after_a_crash(start: dict[str, Any], cut: bool, names: tuple[str, ...]) -> None:
    history = begun()
    counts(history, "confirm", ("broker-0",), position=SIZE)
    if cut:
        history.trace("broker-0", "truncate", position=2 * SIZE, epoch=1)
    history.trace("broker-0", "start", incarnation=2, step=1, value=start)
    history.trace("broker-0", "recovered", incarnation=2, step=2, position=2 * SIZE, value={"confirm": SIZE})
    history.expect(LAW, *names)


@pytest.mark.parametrize(("effect", "names"), [("loses_disk", ()), ("takes_down", (A.FALSE_SYNC,))])
def test_a_disk_that_a_fault_harmed_owes_nothing(effect: str, names: tuple[str, ...]) -> None:
    history = begun()
    counts(history, "confirm", ("broker-0",), position=SIZE)
    history.inject("harm", "broker-0", effects={effect: ["broker-0"]})
    value = {"generation": 2, "disk": "broker-0"}
    history.trace("broker-0", "start", incarnation=2, step=1, value=value)
    history.trace("broker-0", "recovered", incarnation=2, step=2, position=2 * SIZE, value={"confirm": SIZE})
    history.expect(LAW, *names)


# Enough replicas in sync


def acknowledged(history: History, *, epoch: int = 1) -> History:
    """The master's own word that the last of the three messages was answered ok."""
    counts(history, "confirm", ("broker-0",), position=2 * SIZE)
    history.trace("broker-0", "acked", position=3 * SIZE, epoch=epoch, value={"confirm": 2 * SIZE})
    return history


def test_a_master_that_takes_messages_while_it_is_alone_is_found() -> None:
    verdict = acknowledged(begun()).expect(LAW, A.TOO_FEW_IN_SYNC, validity=Validity.INVALID)
    assert "at offset 2 of queue 0" in verdict.anomalies[0].explanation
    assert "no more than broker-0 had been" in verdict.anomalies[0].explanation
    elsewhere = begun()
    elsewhere.meta["deployment"] = "process"
    acknowledged(elsewhere).expect(LAW, A.TOO_FEW_IN_SYNC)


@pytest.mark.parametrize(
    ("profile", "names"),
    [
        ({"min_in_sync": 1}, ()),
        ({"acks": "master"}, ()),  # who asks for one copy gets one
        ({"unclean": True}, (A.TOO_FEW_IN_SYNC,)),
    ],
)
def test_the_profile_says_how_many_must_be_in_sync(profile: dict[str, Any], names: tuple[str, ...]) -> None:
    history = begun()
    history.meta["profile"] = profile
    acknowledged(history).expect(LAW, *names)


def test_a_set_that_grows_before_the_answer_was_large_enough() -> None:
    history = taken_in(begun())
    history.trace("broker-0", "acked", position=3 * SIZE, epoch=1, value={"confirm": 0})
    history.confirm("broker-2", SIZE)
    history.expect(LAW, validity=Validity.VALID)


def test_a_set_that_shrinks_between_the_append_and_the_answer_was_large_enough() -> None:
    history = taken_in(begun())
    history.append("broker-0", 3)
    counts(history, "set", ("broker-0", "broker-1"), ())
    entry(history, 3, "alter", ("broker-0",), 3)
    counts(history, "set", ("broker-0",))
    history.trace("broker-0", "synced", position=4 * SIZE)
    counts(history, "confirm", ("broker-0",), position=4 * SIZE)
    history.trace("broker-0", "acked", position=4 * SIZE, epoch=1, value={"confirm": 4 * SIZE})
    history.expect(LAW, validity=Validity.VALID)
    history.append("broker-0", 4)
    history.trace("broker-0", "acked", position=5 * SIZE, epoch=1, value={"confirm": 4 * SIZE})
    history.expect(LAW, A.TOO_FEW_IN_SYNC)


def test_the_law_keeps_the_contract() -> None:
    near = taken_in(begun())
    near.trace("broker-0", "acked", position=3 * SIZE, epoch=1, value={"confirm": 0})
    near.confirm("broker-2", SIZE)
    known = registry()
    check_law(
        [known.kernels[number] for number in known.of(LAW)],
        bad=[(acknowledged(begun()).table(), [A.TOO_FEW_IN_SYNC])],
        near_miss=[near.table()],
        context=near.context(),
    )


def test_what_another_master_appended_and_a_set_that_nobody_told_prove_nothing() -> None:
    acknowledged(begun(), epoch=2).expect(LAW, validity=Validity.VALID)
    history = begun()
    history.rows = [row for row in history.rows if row["f"] != "role"]
    for number, row in enumerate(history.rows):
        row["index"] = number
    history.trace("broker-0", "acked", position=3 * SIZE, epoch=1, value={"confirm": 0})
    history.confirm("broker-1", SIZE)
    history.expect(LAW, validity=Validity.VALID)


def test_without_confirm_offsets_or_entries_nothing_is_proven() -> None:
    History().expect(LAW, validity=Validity.UNKNOWN)
    begun().expect(LAW, validity=Validity.UNKNOWN)


@pytest.mark.parametrize(("is_over", "names"), [(False, ()), (True, (A.FALSE_SYNC,))])
def test_a_disk_may_lose_what_it_held_as_long_as_a_fault_lasts(is_over: bool, names: tuple[str, ...]) -> None:
    history = begun()
    counts(history, "confirm", ("broker-0",), position=SIZE)
    process = history.inject("harm", "broker-0", effects={"loses_disk": ["broker-0"]})
    if is_over:
        history.undo("harm", process)
    history.trace("broker-0", "synced", position=3 * SIZE)
    value = {"generation": 2, "disk": "broker-0"}
    history.trace("broker-0", "start", incarnation=2, step=1, value=value)
    history.trace("broker-0", "recovered", incarnation=2, step=2, position=2 * SIZE, value={"confirm": SIZE})
    history.expect(LAW, *names)


def ended(
    knows: int, *, member: bool = True, recovered: bool = True, late: bool = False, after_s: float = 3
) -> History:
    """broker-0 has confirmed two records before the drain (``late``: after its beginning). So long after it broker-1
    knows of ``knows`` of them."""
    history = taken_in(begun()) if member else begun()
    if not late:
        counts(history, "confirm", ("broker-0", "broker-1"), position=2 * SIZE)
    if recovered:
        history.row("harness", f="recovered", value={"seconds": 1})
    history.phase("drain")
    if late:
        counts(history, "confirm", ("broker-0", "broker-1"), position=2 * SIZE)
    history.trace("broker-1", "confirm", epoch=1, position=knows * SIZE)
    history.wait(after_s)
    history.row("final", f="node", node="broker-1", value={"end": 2 * SIZE, "confirm": knows * SIZE})
    return history


def test_a_member_that_never_learns_what_is_confirmed_is_found() -> None:
    verdict = ended(1).expect(LAW, A.CONFIRM_BEHIND)
    assert f"up to position {SIZE}, when broker-0 had called position {2 * SIZE}" in verdict.anomalies[0].explanation


@pytest.mark.parametrize("how", [{"member": False}, {"recovered": False}, {"late": True}, {"after_s": 1}])
def test_who_may_not_have_heard_yet_need_not_know_what_is_confirmed(how: dict[str, Any]) -> None:
    ended(1, **how).expect(LAW, validity=Validity.VALID)
    ended(2).expect(LAW, validity=Validity.VALID)


def test_who_left_the_set_after_the_recovery_need_not_know_either() -> None:
    history = ended(1)
    entry(history, 3, "alter", ("broker-0",), 3)
    history.expect(LAW, validity=Validity.VALID)


def test_real_machines_have_no_order_by_which_that_could_be_told() -> None:
    history = ended(1)
    history.meta["deployment"] = "process"
    history.expect(LAW, validity=Validity.VALID)
