"""Order, consumers and availability: what clients alone can see going wrong."""

from __future__ import annotations

import json

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, REPORTED, History, m
from tests.checkers.names import A, L

ORDER, CONSUMERS, AVAILABILITY = L.ORDER, L.CONSUMERS, L.AVAILABILITY

# Order


@pytest.mark.parametrize(("process", "name"), [("producer-0.1", A.PRODUCER_REORDER), ("producer-1.0", A.REORDER)])
def test_a_later_send_at_a_lower_offset_is_found(process: str, name: str) -> None:
    history = History()
    history.send(0, 5)
    history.send(1, 4, process=process)
    history.expect(ORDER, name, validity=Validity.INVALID)


def test_concurrent_sends_have_no_order_and_queues_are_apart() -> None:
    history = History()
    early = history.invoke("send", queue=0, message=7, hash=1)
    history.send(1, 5)
    history.complete(early, offset=4)
    history.send(2, 0, queue=1)
    history.expect(ORDER, validity=Validity.VALID)


@pytest.mark.parametrize("offsets", [(3, 2), (3, 5), (2, 3), (4, 5), (3, 3)])
def test_a_pull_that_steps_back_or_jumps_is_found(offsets: tuple[int, int]) -> None:
    history = History()
    history.send(0)
    history.pull(3, 3, 4, offsets=offsets)
    history.expect(ORDER, A.CONSUMER_REORDER)


def test_a_pull_may_begin_at_the_minimum_of_the_queue() -> None:
    history = History()
    history.send(0)
    history.pull(3, 5, 6, offsets=(5, 6), minimum=5)
    history.expect(ORDER, validity=Validity.VALID)
    History().expect(ORDER, validity=Validity.UNKNOWN)


@pytest.mark.parametrize(("begin", "validity"), [(3, Validity.VALID), (4, Validity.INVALID), (2, Validity.INVALID)])
def test_the_minimum_may_rise_while_a_pull_is_answered(begin: int, validity: Validity) -> None:
    history = History()
    history.send(0)
    history.pull(3, begin, begin + 1, offsets=(begin, begin + 1), minimum=5)
    history.expect(ORDER, *([A.CONSUMER_REORDER] if validity is Validity.INVALID else []), validity=validity)


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        (3, {"limit": 2}),
        (1, {"limit": 0}),
        (2, {"limit": 9, "max_bytes": 299, "size": 300}),
        (2, {"max_bytes": 1, "size": 300}),
    ],
)
def test_a_pull_that_gives_more_than_it_was_asked_for_is_found(given: int, limits: dict[str, int]) -> None:
    history = History()
    history.send(0)
    history.pull(0, *range(given), **limits)
    verdict = history.expect(ORDER, A.OVER_FULL, validity=Validity.INVALID)
    assert verdict.anomalies[0].queue == 0 and len(verdict.anomalies[0].rows) == 2


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        (2, {"limit": 2, "max_bytes": 300, "size": 300}),  # just as much as was asked for
        (1, {"limit": 2, "max_bytes": 299, "size": 300}),  # one message that is larger than that
        (0, {"limit": 2, "max_bytes": 299, "size": 0}),
        (2, {"limit": 2, "max_bytes": 299}),  # nobody counted the bytes
        (2, {"size": 1 << 40}),  # nobody set a limit
    ],
)
def test_a_pull_gives_what_it_was_asked_for_or_one_message_that_is_larger(given: int, limits: dict[str, int]) -> None:
    history = History()
    history.send(0)
    history.pull(0, *range(given), **limits)
    history.expect(ORDER, validity=Validity.VALID)


# Consumers


def test_a_committed_offset_that_goes_back_is_found() -> None:
    history = consumed(5)
    history.commit(5)
    history.committed(3)
    history.expect(CONSUMERS, A.COMMIT_REGRESSION)


def test_a_group_that_is_forgotten_is_found() -> None:
    history = consumed(5)
    history.commit(5)
    history.committed(-1, epoch=2)
    history.expect(CONSUMERS, A.COMMIT_REGRESSION)


def test_a_commit_that_the_last_master_has_forgotten_is_found_though_nobody_asks() -> None:
    def run(kept: int, *, pending: int = -1) -> History:
        history = consumed(5)
        if pending >= 0:
            history.commit(pending, type="info")
        history.commit(5)
        history.finish(*range(5))
        for node in BROKERS:
            history.row("final", f="offsets", node=node, value={"groups": {"g": {"0": kept}}})
        return history

    run(2).expect(CONSUMERS, A.COMMIT_REGRESSION)
    run(5).expect(CONSUMERS, validity=Validity.VALID)
    run(2, pending=2).expect(CONSUMERS, A.COMMIT_REGRESSION)


def test_a_commit_of_any_number_is_found_and_not_counted_out() -> None:
    history = consumed(5)
    history.commit(1 << 50)
    history.expect(CONSUMERS, A.COMMIT_BEYOND_END, A.SKIPPED, validity=Validity.INVALID)


@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_no_smaller_commit_takes_a_group_back(outcome: str) -> None:
    def run(given: int) -> History:
        history = consumed(5)
        late = history.invoke("commit", queue=0, offset=2, value={"group": "g"})
        history.commit(5)
        history.complete(late, outcome, node="broker-0", epoch=1)
        history.committed(given)
        return history

    run(2).expect(CONSUMERS, A.COMMIT_REGRESSION)
    run(5).expect(CONSUMERS, validity=Validity.VALID)


def test_a_smaller_commit_that_is_asked_for_later_has_no_effect_either() -> None:
    history = consumed(5)
    history.commit(5)
    history.commit(2)
    history.committed(2)
    history.expect(CONSUMERS, A.COMMIT_REGRESSION)


def test_a_deposed_master_may_know_an_older_commit() -> None:
    history = consumed(5)
    history.commit(5, epoch=2)
    history.committed(3, epoch=1)
    history.expect(CONSUMERS, validity=Validity.VALID)


def test_a_group_is_given_nothing_that_it_never_committed() -> None:
    def run(given: int, *outcomes: str) -> History:
        history = consumed(5)
        history.committed(0)
        for offset, outcome in enumerate(outcomes, 3):
            history.commit(offset, type=outcome)
        history.committed(given)
        history.commit(5)
        return history

    run(2).expect(CONSUMERS, A.NEVER_COMMITTED)
    run(4, "ok").expect(CONSUMERS, A.NEVER_COMMITTED)
    run(4, "ok", "fail").expect(CONSUMERS, A.NEVER_COMMITTED)
    for near_miss in (run(-1), run(0), run(3, "ok"), run(4, "ok", "info")):
        near_miss.expect(CONSUMERS, validity=Validity.VALID)


@pytest.mark.parametrize("given", [1, 9])
def test_a_message_that_was_acknowledged_as_a_repetition_must_come_to_the_group(given: int) -> None:
    history = History()
    history.send(0)
    history.pull(0, 0, given, group="g")
    history.send(1, type="info")
    history.send(1, type="info", offset=1)
    history.commit(2)
    names = [] if given == 1 else [A.SKIPPED]
    history.finish(0, 1).expect(CONSUMERS, *names, validity=Validity.INVALID if names else Validity.VALID)


@pytest.mark.parametrize("profile", [{}, {"acks": "master"}, {"min_in_sync": 1}])
def test_a_message_that_took_the_offset_of_another_one_is_skipped(profile: dict[str, object]) -> None:
    """As apache/rocketmq #8239: a message is read, a crash takes its offset back, and another one gets it."""

    def run(*, again: bool) -> History:
        history = History(meta={"profile": profile})
        for sequence in (0, 1):
            history.send(sequence)
        history.pull(0, 0, 1, 9, group="g")
        history.send(2, epoch=2)
        if again:
            history.pull(2, 2, group="g", epoch=2)
        history.commit(3, epoch=2)
        return history.finish(0, 1, 2)

    verdict = run(again=False).expect(CONSUMERS, A.SKIPPED)
    assert (verdict.anomalies[0].offset, verdict.anomalies[0].message) == (2, m(2))
    run(again=True).expect(CONSUMERS, validity=Validity.VALID)


def test_nobody_says_which_message_a_group_was_not_given_where_none_has_an_id() -> None:
    def run(*, ids: bool) -> History:
        history = History()
        for sequence in (0, 1):
            history.send(sequence)
        history.pull(0, 0, 9, group="g")
        history.commit(2)
        for row in history.rows if not ids else []:
            if row["f"] == "delivered":
                row["message"] = -1
        return history.finish(0, 1)

    run(ids=True).expect(CONSUMERS, A.SKIPPED)
    run(ids=False).expect(CONSUMERS, validity=Validity.VALID)


@pytest.mark.parametrize("profile", [{"flush": "async"}, {"unclean": True}])
def test_who_may_lose_what_was_read_may_give_its_offset_to_another_message(profile: dict[str, object]) -> None:
    history = History(meta={"profile": profile})
    history.pull(0, 9, group="g")
    history.send(0, epoch=2)
    history.commit(1, epoch=2)
    history.finish(0).expect(CONSUMERS, validity=Validity.VALID)


def test_a_message_that_may_be_lost_need_not_come_to_the_group() -> None:
    history = History(meta={"profile": {"acks": "master"}, "tells": [*set(REPORTED) - {"elections"}]})
    history.master("broker-0", 1)
    history.master("broker-1", 2)
    history.send(9, 0)  # by a master that is replaced before anybody else has it
    history.send(0, epoch=2)
    history.pull(0, 0, group="g", epoch=2)
    history.commit(1, epoch=2)
    history.finish(0).expect(CONSUMERS, validity=Validity.VALID)


def test_an_old_commit_comes_back_after_a_newer_one() -> None:
    history = consumed(5)
    history.commit(3)
    history.commit(5)
    history.committed(3)
    history.expect(CONSUMERS, A.COMMIT_REGRESSION)


def test_a_commit_beyond_the_end_is_found() -> None:
    history = consumed(5)
    history.commit(5)
    history.committed(9)
    history.expect(CONSUMERS, A.COMMIT_BEYOND_END, A.NEVER_COMMITTED)


def test_offsets_that_a_group_never_got_are_skipped() -> None:
    history = consumed(3)
    history.pull(4, 4, group="g")
    history.commit(5)
    verdict = history.expect(CONSUMERS, A.SKIPPED)
    assert verdict.anomalies[0].offset == 3


def test_two_owners_at_once_are_found() -> None:
    history = consumed(3)
    history.commit(3)
    asked = [
        history.invoke("pull", process=who, queue=0, offset=3, value={"group": "g", "owner": who}) for who in ("a", "b")
    ]
    for op in asked:
        history.complete(op, value={"maximum": 3})
    history.expect(CONSUMERS, A.DOUBLE_OWNER)


def test_an_owner_that_hangs_while_another_pulls_again_and_again_is_found() -> None:
    history = consumed(3)
    history.commit(3)

    def asks(who: str) -> int:
        return history.invoke("pull", process=who, queue=0, offset=3, value={"group": "g", "owner": who})

    hanging = asks("a")
    history.complete(asks("c"), value={"maximum": 3})
    history.complete(hanging, value={"maximum": 3})
    # Far from it in the rows, and with another one's calls between them.
    long = asks("a")
    for _ in range(3):
        history.complete(asks("b"), value={"maximum": 3})
    history.complete(long, value={"maximum": 3})
    history.complete(asks("b"), value={"maximum": 3})
    verdict = history.expect(CONSUMERS, A.DOUBLE_OWNER)
    assert sum(anomaly.count for anomaly in verdict.anomalies) == 4, "every call within another owner's"
    assert {anomaly.rows[0] for anomaly in verdict.anomalies} == {hanging, long}


def test_without_commits_nothing_is_known_of_consumers() -> None:
    consumed(3).expect(CONSUMERS, validity=Validity.UNKNOWN)


def consumed(count: int) -> History:
    history = History()
    for sequence in range(count):
        history.send(sequence)
    history.pull(0, *range(count), group="g")
    return history


# Availability


def storm(*parts: tuple[str, float]) -> History:
    """``parts``: ("ok" or "info", seconds): sends every half second that end so."""
    history = History(meta={"controllers": ["controller-0", "controller-1", "controller-2"]})
    history.phase("load")
    history.master("broker-0", 1)
    for outcome, seconds in parts:
        sending(history, outcome, seconds)
    return history


def sending(history: History, outcome: str, seconds: float) -> None:
    for _ in range(int(seconds * 2)):
        history.wait(0.5)
        history.send(len(history.rows), type=outcome)


def over(history: History, *, recovered: bool = True) -> History:
    history.phase("heal")
    if recovered:
        history.recovered()
    return history


def test_no_service_without_any_fault_is_found() -> None:
    over(storm(("ok", 3), ("info", 12), ("ok", 3))).expect(AVAILABILITY, A.UNAVAILABLE)


@pytest.mark.parametrize(
    ("fault", "targets", "detail", "owed"),
    [
        ("kill", ("broker-0",), {}, True),
        ("pause", ("controller-1",), {}, True),
        ("partition", ("broker-0",), {"shape": "isolate"}, True),
        ("partition", ("broker-0",), {"shape": "one_way"}, False),
        ("kill", ("broker-0", "broker-1"), {}, False),
        ("kill", ("broker-0", "controller-0", "controller-1"), {}, False),
        ("kill", ("controller-0", "controller-1"), {}, True),
        ("slow_link", ("broker-0",), {}, False),
        ("tier_outage", ("store-0",), {}, True),
        ("stop", ("broker-0",), {}, True),
        ("noop", (), {}, True),
        ("partition", ("client",), {"shape": "isolate"}, False),
    ],
)
def test_service_is_owed_while_the_fault_lasts_if_enough_is_left(
    fault: str, targets: tuple[str, ...], detail: dict[str, str], owed: bool
) -> None:
    history = storm(("ok", 3))
    process = history.inject(fault, *targets, **detail)
    sending(history, "info", 14)
    history.undo(fault, process)
    sending(history, "ok", 3)
    over(history).expect(AVAILABILITY, *((A.UNAVAILABLE,) if owed else ()))


def test_no_member_of_the_set_left_means_nothing_is_owed() -> None:
    history = storm(("ok", 3))
    history.trace("broker-0", "set", epoch=1, value={"set": ["broker-0"], "set_epoch": 2})
    process = history.inject("kill", "broker-0")
    sending(history, "info", 14)
    history.undo("kill", process)
    sending(history, "ok", 3)
    over(history).expect(AVAILABILITY, validity=Validity.VALID)


def test_a_switch_within_the_bound_is_lawful_and_the_gap_is_counted() -> None:
    history = storm(("ok", 3))
    process = history.inject("kill", "broker-0")
    sending(history, "info", 5)
    sending(history, "ok", 5)
    history.undo("kill", process)
    verdict = over(history).expect(AVAILABILITY, validity=Validity.VALID)
    assert 5_000 < verdict.counts["longest_without_ok_ms"] < 7_000


def test_silence_of_the_clients_is_no_lack_of_service() -> None:
    history = storm(("ok", 3)).wait(30)
    over(history).expect(AVAILABILITY, validity=Validity.VALID)


def test_a_system_that_does_not_recover_is_found() -> None:
    history = over(storm(("ok", 3)), recovered=False)
    history.row("harness", f="not_recovered", value={"reason": "broker-2 is not in sync", "seconds": 30})
    verdict = history.expect(AVAILABILITY, A.NOT_RECOVERED)
    assert "broker-2" in verdict.anomalies[0].explanation


def decided(history: History, **entry: object) -> None:
    position = len(history.rows)
    history.trace("controller-0", "applied", position=position, epoch=1, value={"entry": {"group": "g", **entry}})


def test_who_does_not_recover_is_told_by_who_waits_for_whom_and_what() -> None:
    def run(*roles: tuple[str, dict[str, object]], **entry: object) -> str:
        history = over(storm(("ok", 3)), recovered=False)
        decided(history, **entry)
        for node, value in roles:
            history.trace(node, "role", epoch=1, value=value)
        history.row("harness", f="not_recovered", value={"reason": "not settled", "seconds": 30})
        (found,) = history.expect(AVAILABILITY, A.NOT_RECOVERED).anomalies
        return found.explanation

    elected = {"type": "elect", "master": "broker-0", "set": ["broker-0"], "set_epoch": 1}
    master, slave = ("broker-0", {"role": "master"}), ("broker-1", {"role": "slave", "master": "broker-0"})
    behind = run(master, slave, **elected)
    assert "broker-1 waits for broker-0 to take it into the SyncStateSet (broker-0)" in behind
    assert "each other" not in behind
    fenced = run(("broker-0", {"role": "fenced"}), ("broker-1", {"role": "slave", "master": "broker-2"}), **elected)
    assert "broker-0 waits for the controllers to notify it that it was elected" in fenced
    assert "broker-1 waits for broker-2 to give it records, though broker-0 was elected" in fenced
    dead = run(slave, type="masterless", master_epoch=1, set=["broker-1"])
    assert "broker-1 waits for the controllers to elect a master" in dead
    assert "broker-1 and the controllers wait for each other" in dead
    history = over(storm(("ok", 3)), recovered=False)
    decided(history, **elected)
    history.trace("broker-1", "role", epoch=1, value={"role": "master"})
    history.trace("broker-1", "crash", value={"error": "IndexError"})
    history.row("harness", f="not_recovered", value={"reason": "not settled", "seconds": 30})
    (found,) = history.expect(AVAILABILITY, A.NOT_RECOVERED).anomalies
    assert "broker-0 waits for broker-1 to come back, which an error of its own has ended" in found.explanation
    assert "broker-1 waits" not in found.explanation
    whole = run(master, slave, **{**elected, "set": ["broker-0", "broker-1"]})
    assert "waits" not in whole, "nobody waits where all is as it was decided"


def test_a_master_that_waits_for_a_peer_that_a_fault_holds_is_told() -> None:
    history = storm(("ok", 3))
    decided(history, type="elect", master="broker-0", set=["broker-0", "broker-2"], set_epoch=1)
    history.trace("broker-0", "role", epoch=1, value={"role": "master"})
    process = history.inject("kill", "broker-2")
    sending(history, "info", 14)
    history.undo("kill", process)
    sending(history, "ok", 3)
    (found,) = over(history).expect(AVAILABILITY, A.UNAVAILABLE).anomalies
    assert "broker-0 waits for broker-2 to store its records, as one of the SyncStateSet" in found.explanation


def test_a_harness_that_stood_still_cannot_judge() -> None:
    history = storm(("ok", 3))
    history.row("harness", f="stall", value={"ms": 1500})
    over(history).expect(AVAILABILITY, validity=Validity.UNKNOWN)


def test_runs_that_show_nothing_are_unknown() -> None:
    History().expect(AVAILABILITY, validity=Validity.UNKNOWN)
    over(storm(("info", 3))).expect(AVAILABILITY, validity=Validity.UNKNOWN)
    storm(("ok", 3)).expect(AVAILABILITY, validity=Validity.UNKNOWN)


def test_nothing_is_owed_once_the_run_wiped_the_only_sure_copy() -> None:
    def run(fault: str) -> History:
        history = storm(("ok", 3))
        history.inject(fault, "broker-1")
        entry = {"type": "apply_id", "group": "g", "broker": "broker-1", "id": 4, "removed": ["broker-1"], "set": []}
        history.trace("controller-0", "applied", position=7, epoch=1, value={"entry": entry})
        history.phase("heal")
        history.row("harness", f="not_recovered", value={"reason": "nobody leads", "seconds": 30})
        return history

    verdict = run("wipe").expect(AVAILABILITY, validity=Validity.UNKNOWN)
    assert "fault-0 destroyed" in verdict.why
    run("kill").expect(AVAILABILITY, A.NOT_RECOVERED, validity=Validity.INVALID)


def test_vain_sends_after_the_only_sure_copy_was_wiped_are_nobodys_fault_until_the_next_election() -> None:
    def run(*, elects: bool) -> History:
        history = storm(("ok", 3))
        history.undo("wipe", history.inject("wipe", "broker-1"))
        entry = {"type": "apply_id", "group": "g", "broker": "broker-1", "id": 4, "removed": ["broker-1"], "set": []}
        history.trace("controller-0", "applied", position=7, epoch=1, value={"entry": entry})
        if elects:
            elected = {"type": "elect", "group": "g", "master": "broker-0", "set": ["broker-0"], "set_epoch": 9}
            history.trace("controller-0", "applied", position=8, epoch=1, value={"entry": elected})
        sending(history, "info", 14)
        history.phase("heal")
        history.row("harness", f="not_recovered", value={"reason": "nobody leads", "seconds": 30})
        return history

    run(elects=False).expect(AVAILABILITY, validity=Validity.UNKNOWN)
    run(elects=True).expect(AVAILABILITY, A.UNAVAILABLE, A.NOT_RECOVERED)


def test_a_set_whose_only_member_is_out_owes_nothing_although_no_master_told_it() -> None:
    def run(*members: str) -> History:
        history = storm(("ok", 3))
        history.inject("pause", "broker-2")
        history.wait(0.5)
        entry = {"type": "elect", "group": "g", "master": "broker-2", "set": list(members), "set_epoch": 2}
        history.trace("controller-0", "applied", position=7, epoch=1, value={"entry": entry})
        sending(history, "info", 12)
        return over(history)

    run("broker-2").expect(AVAILABILITY, validity=Validity.VALID)
    run("broker-2", "broker-1").expect(AVAILABILITY, A.UNAVAILABLE)


def test_a_broker_that_joins_owes_no_interruption_and_counts_from_then_on() -> None:
    def run(*, joins: bool) -> History:
        history = storm(("ok", 3))
        if joins:
            process = history.inject("membership", "broker-3", change="add")
            history.row("harness", f="node_added", node="broker-3", value={"role": "broker"})
            history.undo("membership", process)
        process = history.inject("kill", "broker-1", "broker-2")
        sending(history, "info", 14)
        history.undo("kill", process)
        sending(history, "ok", 3)
        if not joins:
            history.row("harness", f="node_added", node="broker-3", value={"role": "broker"})
        return over(history)

    run(joins=True).expect(AVAILABILITY, A.UNAVAILABLE)
    run(joins=False).expect(AVAILABILITY, validity=Validity.VALID)
    history = storm(("ok", 3))
    history.inject("membership", "broker-3", change="add")
    sending(history, "info", 14)
    over(history).expect(AVAILABILITY, A.UNAVAILABLE)


# Faults on clients, which some of them have not felt


def cut_off(felt: list[str] | None, *sends: tuple[str, str]) -> History:
    """A fault on all clients, felt by these; meanwhile one send after the other, by whom and how it ended."""
    history = storm(("ok", 3))
    process = history.inject("partition", "client", shape="isolate")
    for who, outcome in sends:
        history.wait(0.5)
        history.send(len(history.rows), type=outcome, process=f"{who}.0")
    history.undo("partition", process)
    if felt is not None:
        undone = json.loads(history.rows[-1]["value"])
        history.rows[-1]["value"] = json.dumps({**undone, "proof": {"hits": 9, "clients": felt}})
    sending(history, "ok", 3)
    return over(history)


HUNG = (("program-0", "ok"), *[("program-0", "info")] * 28)


def test_a_client_that_goes_round_a_fault_on_clients_is_owed_service() -> None:
    cut_off(["producer-0"], ("producer-0", "info"), *HUNG).expect(AVAILABILITY, A.UNAVAILABLE)


@pytest.mark.parametrize(
    ("felt", "who"),
    [
        (["producer-0", "program-0"], "program-0"),  # it has felt it
        (["producer-0"], "producer-0"),
        (None, "program-0"),  # nobody can tell who has
        (["shared"], "program-0"),  # the driver's names are none that processes have
        ([], "program-0"),
    ],
)
def test_a_client_that_may_have_felt_it_is_owed_nothing(felt: list[str] | None, who: str) -> None:
    cut_off(felt, ("producer-0", "info"), (who, "ok"), *[(who, "info")] * 28).expect(AVAILABILITY)


def test_a_client_of_which_nothing_shows_that_it_went_round_is_owed_nothing() -> None:
    cut_off(["producer-0"], ("producer-0", "info"), *HUNG[1:]).expect(AVAILABILITY)
