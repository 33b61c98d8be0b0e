"""Progress: readers are given what is there, are sent on to the next message, and are not kept waiting."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.histories import History, m
from tests.checkers.names import A, L

PROGRESS = L.PROGRESS
LOOSE = {"profile": {"acks": "master"}}


def ask(history: History, offset: int, *sequences: int, type: str = "ok", epoch: int = 1, **value: Any) -> int:
    """A pull of the group g, with this answer; without ``following`` it is told to go on behind what came."""
    same = {name: value.pop(name) for name in ("demand", "group", "from", "by") if name in value}
    op = history.invoke("pull", queue=0, offset=offset, value={"group": "g", **same})
    told = {"following": offset + len(sequences), "minimum": 0, "maximum": offset + len(sequences), **value}
    history.complete(op, type, value=told, node="broker-0", epoch=epoch, incarnation=1)
    for place, sequence in enumerate(sequences, offset):
        message = {"message": m(sequence), "hash": sequence, "offset": place, "queue": 0}
        history.row("op", type="ok", op=op, f="delivered", node="broker-0", epoch=epoch, incarnation=1, **message)
    return op


def sent(count: int, **meta: Any) -> History:
    history = History(meta=meta)
    history.phase("load")
    for sequence in range(count):
        history.send(sequence)
    return history


# Unreadable


@pytest.mark.parametrize(
    ("type", "following", "maximum"),
    [("ok", 2, 5), ("ok", -1, -1), ("fail", 0, 5), ("fail", 5, 5), ("fail", 4, -1)],
)
def test_a_message_that_is_there_and_is_not_given_is_found(type: str, following: int, maximum: int) -> None:
    history = sent(5)
    ask(history, 2, type=type, following=following, maximum=maximum)
    verdict = history.expect(PROGRESS, A.UNREADABLE, validity=Validity.INVALID)
    assert verdict.anomalies[0].offset == 2


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        ({}, {"offset": 5, "maximum": 5}),  # the end
        ({}, {"offset": 2, "type": "fail", "maximum": 5}),  # "later"
        ({}, {"offset": 2, "type": "info", "maximum": 5}),
        ({}, {"offset": 2, "demand": "tier", "maximum": 5}),  # the tier alone need not hold it yet
        ({}, {"offset": 2, "demand": "local", "type": "fail", "following": 4, "maximum": 5}),
        ({}, {"offset": 2, "from": "broker-1", "maximum": 2}),  # a slave may be behind
        ({}, {"offset": 2, "maximum": 2}),  # a rollback, which is for another law
        ({}, {"offset": 5, "maximum": 6}),  # came while it was asked
        (LOOSE, {"offset": 2, "maximum": 5}),  # acknowledged, perhaps not confirmed
    ],
)
def test_what_need_not_be_given_is_no_anomaly(profile: dict[str, Any], told: dict[str, Any]) -> None:
    history = sent(5, **profile)
    ask(history, 0, 0, maximum=1)
    ask(history, **told)
    history.send(5)
    history.expect(PROGRESS, validity=Validity.VALID)


def test_an_older_master_need_not_have_what_a_newer_one_confirmed() -> None:
    def run(epoch: int, **meta: Any) -> History:
        history = History(meta=meta)
        history.bounds(0, 4, epoch=2)
        ask(history, 2, maximum=3, following=2, epoch=epoch)
        return history

    run(2).expect(PROGRESS, A.UNREADABLE)
    run(3).expect(PROGRESS, A.UNREADABLE)
    run(1).expect(PROGRESS, validity=Validity.VALID)
    run(2, **LOOSE).expect(PROGRESS, A.UNREADABLE)
    run(3, **LOOSE).expect(PROGRESS, validity=Validity.VALID)


def test_what_retention_removed_is_answered_with_the_beginning() -> None:
    def run(minimum: int) -> History:
        history = sent(5)
        history.trace("broker-0", "start")
        history.trace("broker-0", "retention", position=0, value={"minimums": {"0": minimum}})
        ask(history, 1, type="fail", following=3, minimum=3, maximum=5)
        return history

    run(2).expect(PROGRESS, A.WRONG_NEXT_OFFSET)
    run(3).expect(PROGRESS, validity=Validity.VALID)
    run(1).expect(PROGRESS, A.UNREADABLE)


# The next offset


@pytest.mark.parametrize("following", [0, 1, 2, 4, 9])
def test_a_next_offset_that_goes_back_or_jumps_is_found(following: int) -> None:
    """As apache/rocketmq #7363, where it cycles."""
    history = sent(5)
    ask(history, 1, 1, 2, following=following, maximum=5)
    history.expect(PROGRESS, A.WRONG_NEXT_OFFSET, validity=Validity.INVALID)


@pytest.mark.parametrize("profile", [{}, LOOSE])
def test_readers_are_sent_on_to_the_next_message(profile: dict[str, Any]) -> None:
    history = sent(5, **profile)
    ask(history, 0, 0, 1, maximum=5)
    ask(history, 2, 2, 3, 4, following=-1)
    ask(history, 5)
    ask(history, 9, type="fail", following=5, maximum=5)  # beyond the end
    history.expect(PROGRESS, validity=Validity.VALID)


def test_a_jump_over_nothing_passes_nobody_over() -> None:
    history = sent(3)
    ask(history, 0, 0, 1, 2, following=5, maximum=5)
    history.expect(PROGRESS, validity=Validity.VALID)
    ask(history, 3, following=5)
    history.send(3)
    history.expect(PROGRESS, A.WRONG_NEXT_OFFSET)


# Reads that stop


def polling(seconds: float, *, empty: bool = False, **meta: Any) -> History:
    """Three sends, and a group that is told to come again later, twice a second."""
    history = sent(3, **meta)
    ask(history, 0, 0, maximum=3)
    for _ in range(int(seconds * 2)):
        history.wait(0.5)
        ask(history, 3 if empty else 1, type="fail", maximum=3)
    return history


def over(history: History) -> History:
    ask(history, 1, 1, 2, maximum=3)
    history.phase("heal")
    history.recovered()
    return history


@pytest.mark.parametrize("told", ["nothing", "the load's beginning"])
def test_a_history_without_the_end_of_a_load_is_judged_from_send_to_send(told: str) -> None:
    history = polling(22)
    history.send(3)
    if told == "nothing":
        history.rows = [row for row in history.rows if row["kind"] != "harness"]
    history.expect(PROGRESS, A.STALLED, validity=Validity.INVALID)


def test_a_group_that_polls_in_vain_for_longer_than_the_bound_is_found() -> None:
    verdict = over(polling(22)).expect(PROGRESS, A.STALLED, validity=Validity.INVALID)
    assert "Group g polled queue 0 44 times in 22." in verdict.anomalies[0].explanation
    assert 22_000 < verdict.counts["longest_wait_ms"] < 23_000


def test_readers_at_the_end_and_short_waits_are_no_stall() -> None:
    over(polling(22, empty=True)).expect(PROGRESS, validity=Validity.VALID)
    over(polling(18)).expect(PROGRESS, validity=Validity.VALID)
    over(polling(22, bounds={"available_s": 12})).expect(PROGRESS, validity=Validity.VALID)
    silent = sent(3).wait(30)  # who asks for nothing is owed nothing
    over(silent).expect(PROGRESS, validity=Validity.VALID)


@pytest.mark.parametrize(
    ("fault", "targets", "owed"),
    [
        ("kill", ("broker-1",), True),
        ("noop", (), True),
        ("membership", ("broker-3",), True),
        ("kill", ("broker-0", "broker-1"), False),
        ("slow_link", ("broker-0",), False),
        ("tier_outage", ("store-0",), False),
        ("kill", ("store-0",), False),
    ],
)
def test_reads_are_owed_while_enough_is_left_and_the_tier_is_well(
    fault: str, targets: tuple[str, ...], owed: bool
) -> None:
    nodes = [{"name": "store-0", "role": "objectstore"}]
    history = sent(3, nodes=nodes)
    ask(history, 0, 0, maximum=3)
    process = history.inject(fault, *targets)
    for _ in range(44):
        history.wait(0.5)
        ask(history, 1, type="fail", maximum=3)
    ask(history, 1, 1, 2)
    history.undo(fault, process)
    over(history).expect(PROGRESS, *((A.STALLED,) if owed else ()))


def test_a_final_reading_that_gets_stuck_is_a_stall_whoever_reads() -> None:
    def run(*, recovered: bool) -> History:
        history = sent(3)
        ask(history, 0, 0, maximum=3)
        history.phase("heal")
        if recovered:
            history.recovered()
        history.phase("drain")
        for _ in range(44):
            history.wait(0.5)
            ask(history, 1, type="info", group="", by="queue")
        history.phase("collect")
        return history

    run(recovered=True).expect(PROGRESS, A.STALLED)
    run(recovered=False).expect(PROGRESS, validity=Validity.VALID)


def test_who_reads_in_vain_is_told_with_whom_it_waits_for() -> None:
    history = sent(3)
    elected = {"group": "g", "type": "elect", "master": "broker-0", "set": ["broker-0"], "set_epoch": 1}
    history.trace("controller-0", "applied", position=1, epoch=1, value={"entry": elected})
    history.trace("broker-1", "role", epoch=1, value={"role": "slave", "master": "broker-0"})
    ask(history, 0, 0, maximum=3)
    history.phase("heal")
    history.recovered()
    history.phase("drain")
    from_tier(history, 0, 0)
    for _ in range(44):
        history.wait(0.5)
        ask(history, 1, type="info", group="", by="queue")
        from_tier(history, 1)
    history.phase("collect")
    found = {one.name: one.explanation for one in history.expect(PROGRESS, A.STALLED, A.TIER_STALLED).anomalies}
    assert "waits for broker-0 to give it what stands next; broker-1 waits for broker-0 to take" in found[A.STALLED]
    assert "waits for broker-0 to upload what stands next to the tier" in found[A.TIER_STALLED]


# A tier that is given nothing new


def tier_reading(
    seconds: float, *, tiered: bool = True, recovered: bool = True, asked: int = 1, maximum: int = 3, **meta: Any
) -> History:
    """Three messages, of which the tier gives the first, if any; then the final reading asks it for the offset
    ``asked``, twice a second, and is given nothing."""
    history = sent(3, **meta)
    ask(history, 0, 0, 1, 2, maximum=3)
    history.phase("heal")
    if recovered:
        history.recovered()
    history.phase("drain")
    if tiered:
        from_tier(history, 0, 0)
    for _ in range(int(seconds * 2)):
        history.wait(0.5)
        from_tier(history, asked, maximum=maximum)
    return history


def from_tier(history: History, offset: int, *sequences: int, type: str = "ok", **value: Any) -> None:
    ask(history, offset, *sequences, type=type, **{"group": "", "demand": "tier", "maximum": 3, **value})


def collected(history: History) -> History:
    history.phase("collect")
    return history


def test_a_tier_that_gives_nothing_new_after_recovery_is_found() -> None:
    verdict = collected(tier_reading(16)).expect(PROGRESS, A.TIER_STALLED, validity=Validity.INVALID)
    assert "The reader client of the tier alone polled queue 0 32 times in 16." in verdict.anomalies[0].explanation
    assert 16_000 < verdict.counts["longest_tier_wait_ms"] < 17_000
    collected(tier_reading(6, bounds={"upload_s": 5})).expect(PROGRESS, A.TIER_STALLED)
    collected(tier_reading(16, nodes=[{"name": "s", "role": "objectstore"}])).expect(PROGRESS, A.TIER_STALLED)
    collected(tier_reading(16, **LOOSE)).expect(PROGRESS, A.TIER_STALLED)
    store = [{"name": "s", "role": "objectstore"}]  # every queue is to be there
    for asked, seconds in ((0, 16), (1, 16)):
        nothing = collected(tier_reading(seconds, tiered=False, asked=asked, nodes=store))
        nothing.expect(PROGRESS, A.TIER_STALLED, validity=Validity.INVALID)
    collected(tier_reading(14, tiered=False, asked=0, nodes=store)).expect(PROGRESS, validity=Validity.VALID)
    collected(tier_reading(16, tiered=False, asked=3, nodes=store)).expect(PROGRESS, validity=Validity.VALID)


@pytest.mark.parametrize(
    "how",
    [
        {"seconds": 14},
        {"asked": 3},  # it holds all that there is
        {"tiered": False},  # nobody knows that this queue is to be there
        {"recovered": False},
        {"bounds": {"upload_s": 20}},
        {"nodes": [{"name": "broker-0", "role": "broker"}]},  # there is no tier
        {**LOOSE, "maximum": 1},  # what was acknowledged may be lost
    ],
)
def test_a_tier_that_need_not_have_more_yet_is_lawful(how: dict[str, Any]) -> None:
    collected(tier_reading(**{"seconds": 16, **how})).expect(PROGRESS, validity=Validity.VALID)


@pytest.mark.parametrize("value", [{"type": "fail"}, {"type": "info"}, {"from": "broker-1"}, {"demand": "local"}])
def test_only_an_answer_for_the_tier_says_that_it_holds_no_more(value: dict[str, Any]) -> None:
    history = tier_reading(1)
    for _ in range(32):
        history.wait(0.5)
        from_tier(history, 1, **value)
    collected(history).expect(PROGRESS, validity=Validity.VALID)


def test_a_tier_that_comes_forward_late_and_slowly_is_no_stall() -> None:
    history = tier_reading(10)
    from_tier(history, 1, 1)
    for _ in range(20):
        history.wait(0.5)
        from_tier(history, 2)
    collected(history).expect(PROGRESS, validity=Validity.VALID)


def test_a_harness_that_stood_still_leaves_a_silent_tier_open() -> None:
    history = tier_reading(8)
    history.row("harness", f="stall", value={"ms": 3000})
    for _ in range(16):
        history.wait(0.5)
        from_tier(history, 1)
    collected(history).expect(PROGRESS, validity=Validity.UNKNOWN)


# Groups and their offsets


def test_a_group_that_is_not_told_its_offset_is_kept_waiting_too() -> None:
    history = sent(3)
    ask(history, 0, 0, maximum=3)
    for _ in range(44):
        history.wait(0.5)
        history.complete(history.invoke("committed", queue=0, value={"group": "g"}), "fail")
    over(history).expect(PROGRESS, A.STALLED)


def test_faults_that_declare_nothing_and_a_harness_that_stood_still_leave_it_open() -> None:
    unknown = sent(3)
    unknown.inject("kill", effects=None)
    ask(unknown, 0, 0, maximum=3)
    for _ in range(44):
        unknown.wait(0.5)
        ask(unknown, 1, type="fail", maximum=3)
    over(unknown).expect(PROGRESS, validity=Validity.UNKNOWN)
    stood = polling(11)
    stood.row("harness", f="stall", value={"ms": 3000})
    for _ in range(22):
        stood.wait(0.5)
        ask(stood, 1, type="fail", maximum=3)
    over(stood).expect(PROGRESS, validity=Validity.UNKNOWN)


def test_without_reads_nothing_is_known() -> None:
    sent(3).expect(PROGRESS, validity=Validity.UNKNOWN)


def test_the_law_keeps_the_contract() -> None:
    unreadable, cycles = sent(5), sent(5)
    ask(unreadable, 2, maximum=5)
    ask(cycles, 1, 1, 2, following=1, maximum=5)
    stalled, near = over(polling(22)), over(polling(18))
    tier_stalled, tier_near = collected(tier_reading(16)), collected(tier_reading(14))
    known = registry()
    kernels = [known.kernels[number] for number in known.of(PROGRESS)]
    bad = [(unreadable, A.UNREADABLE), (cycles, A.WRONG_NEXT_OFFSET), (stalled, A.STALLED)]
    bad.append((tier_stalled, A.TIER_STALLED))
    check_law(
        kernels,
        bad=[(history.table(), [name]) for history, name in bad],
        near_miss=[near.table(), tier_near.table()],
        context=near.context(),
    )


@pytest.mark.parametrize(("pause_s", "found"), [(1, True), (11, False)])
def test_polls_that_hang_for_long_are_in_vain_one_after_the_other(pause_s: float, found: bool) -> None:
    history = sent(3)
    ask(history, 0, 0, maximum=3)
    for _ in range(3):
        op = history.invoke("pull", queue=0, offset=1, value={"group": "g"})
        history.wait(12)
        history.complete(op, "fail", node="broker-0", epoch=1, incarnation=1)
        history.wait(pause_s)
    over(history).expect(PROGRESS, *((A.STALLED,) if found else ()))
