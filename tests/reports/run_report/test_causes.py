"""Which violations are put down to what: only rows link a violation with a cause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.history.run_meta import RunMeta
from chaos.verdict import Anomaly
from reports.run_report.causes import Cause, group
from reports.run_report.chain import chain
from reports.run_report.lost_tails import lost_tails
from reports.run_report.story import facts, sentence, title
from tests.reports.run_report.histories import ISOLATED, MadeRun, anomaly, rest, stale_master


def causes(history: MadeRun, *findings: Anomaly) -> list[Cause]:
    rows, story = history.close()
    return group(rows, story.faults, findings)


def lost(found: dict[str, int]) -> Anomaly:
    return anomaly("durability", "lost", (found["lost"], found["drain"]), queue=0, offset=1, message=1)


def conflict(found: dict[str, int]) -> Anomaly:
    return anomaly("agreement", "offset-conflict", (found["lost"], found["other"]), queue=0, offset=1)


def test_one_cause_for_all_that_a_stale_master_breaks(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    found = stale_master(history)
    (cause,) = causes(history, lost(found), conflict(found), rest("durability", "lost", 4))
    assert cause.change is not None and cause.change.before is not None and cause.change.after is not None
    assert (cause.change.before.node, cause.change.before.epoch) == ("broker-0", 1)
    assert (cause.change.after.node, cause.change.after.epoch) == ("broker-1", 2)
    assert cause.change.two_masters_s == pytest.approx(2.0)
    assert (cause.proven, [fault.name for fault in cause.faults]) == (True, ["partition"])
    assert [(tail.node, tail.cut, tail.records) for tail in cause.tails] == [("broker-0", True, 1)]
    assert (list(cause.acknowledged), cause.example) == ([(1, 1)], (1, 1))
    assert [(kind.name, kind.here, kind.whole, kind.partly) for kind in cause.kinds] == [
        ("lost", 1, 5, True),
        ("offset-conflict", 1, 1, False),
    ]


def test_the_story_goes_from_the_fault_to_what_is_gone(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    (cause,) = causes(history, lost(stale_master(history)))
    assert sentence(cause) == (
        "Partition of broker-0 at 1.0 s → two masters for 2.0 s (broker-0 in epoch 1, broker-1 in epoch 2) "
        "→ broker-0 cut 1 record off its log at 5.0 s → 1 acknowledged message is on no replica any more: 0/1"
    )
    assert title(cause) == "Master changed from broker-0 (epoch 1) to broker-1 (epoch 2)"


@pytest.mark.parametrize("proven", [{"isolates": ["broker-1"]}, {"slows": ["broker-0"]}, {"cuts": ["broker-0"]}])
def test_a_fault_that_did_not_take_the_master_away_was_only_there_meanwhile(
    tmp_path: Path, proven: dict[str, list[str]]
) -> None:
    history = MadeRun(tmp_path)
    (cause,) = causes(history, lost(stale_master(history, proven=proven)))
    assert not cause.proven
    assert sentence(cause).startswith("During partition of ")


def test_a_fault_without_proven_effects_is_not_named(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    (cause,) = causes(history, lost(stale_master(history, proven={})))
    assert (cause.faults, cause.proven) == ([], False)


@pytest.mark.parametrize("name", ["kill", "restart", "gremlin"])
def test_effects_decide_and_not_the_name_of_a_fault(tmp_path: Path, name: str) -> None:
    history = MadeRun(tmp_path)
    history.role(0.0, "broker-0", "master", 1)
    history.fault(1.0, 1.1, name=name, proven={"takes_down": ["broker-0"], "may_crash": ["broker-0"]})
    history.role(3.0, "broker-1", "master", 2)
    first, second = history.send(0.5, 1, 1, "broker-0", 1), history.send(4.0, 2, 1, "broker-1", 2)
    (cause,) = causes(history, anomaly("agreement", "offset-conflict", (first, second), queue=0, offset=1))
    assert (cause.proven, [fault.name for fault in cause.faults], cause.tails) == (True, [name], [])


@pytest.mark.parametrize("came_back", [False, True])
def test_a_master_that_came_back_as_the_master_was_not_deposed_by_its_crash(tmp_path: Path, came_back: bool) -> None:
    history = MadeRun(tmp_path)
    history.role(0.0, "broker-0", "master", 1)
    first = history.send(0.5, 1, 1, "broker-0", 1)
    history.fault(1.0, 1.1, name="kill", proven={"takes_down": ["broker-0"], "may_crash": ["broker-0"]})
    if came_back:
        history.send(2.0, 3, 3, "broker-0", 1)
    history.role(3.0, "broker-1", "master", 2)
    second = history.send(4.0, 2, 1, "broker-1", 2)
    (cause,) = causes(history, anomaly("agreement", "offset-conflict", (first, second), queue=0, offset=1))
    assert (cause.proven, len(cause.faults)) == ((False, 0) if came_back else (True, 1))


def test_a_kind_that_comes_with_many_faults_is_told_once(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    found = []
    for number in range(5):
        history.fault(float(number), number + 0.5, proven=ISOLATED)
        found.append(anomaly("order", "reorder", (history.send(number + 0.2, number, number, "broker-0", 1),)))
    (cause,) = causes(history, *found)
    assert (len(cause.faults), cause.always) == (5, False)
    assert "and 2 more faults: 5 × reorder, for example: " in sentence(cause)


def test_the_first_election_is_no_change(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.role(0.1, "broker-0", "master", 1)
    index = history.close()[0].table.to_pylist()[-1]["index"]
    rows, story = history.close()
    (cause,) = group(rows, story.faults, [anomaly("roles", "odd", (index,))])
    assert cause.change is None


def test_what_showed_before_the_loss_is_not_put_down_to_it(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    found = stale_master(history)
    early = anomaly("order", "reorder", (found["lost"],))
    main, other = causes(history, lost(found), early)
    assert [violation.anomaly.name for violation in main.violations] == ["lost"]
    assert (other.change, other.tails, sentence(other)) == (
        None, (), "During partition of broker-0 (1.0 s to 5.0 s): reorder was found"
    )  # fmt: skip


def test_a_copy_that_some_replica_still_holds_was_not_lost_with_a_tail(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    found = stale_master(history)
    history.append(2.1, "broker-2", 1, 1, 100, 1)
    rows, _ = history.close()
    assert (1, 1) not in lost_tails(rows).last_copy
    assert found


def test_without_a_cut_the_epochs_of_the_rows_tell_the_change(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    found = stale_master(history, cut=False)
    (cause,) = causes(history, conflict(found))
    assert cause.change is not None and cause.tails == []
    assert sentence(cause).endswith("; violations that belong to it: offset-conflict was found")


def test_rows_of_epochs_that_do_not_follow_one_another_name_no_change(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    for epoch in (1, 2, 3):
        history.role(float(epoch), f"broker-{epoch}", "master", epoch)
    first, second = history.send(1.5, 1, 1, "broker-1", 1), history.send(4.0, 2, 1, "broker-3", 3)
    (cause,) = causes(history, anomaly("agreement", "offset-conflict", (first, second), queue=0, offset=1))
    assert (cause.change, cause.always) == (None, True)


def test_what_also_happens_without_a_fault_is_not_tied_to_one(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    found = stale_master(history)
    before = history.send(0.6, 7, 7, "broker-0", 1)
    during = history.send(2.5, 8, 8, "broker-0", 1)
    assert found
    (cause,) = causes(history, anomaly("no-rollback", "early", (before,)), anomaly("no-rollback", "early", (during,)))
    assert (cause.always, list(cause.faults)) == (True, [])
    assert sentence(cause) == "Not tied to a fault: 2 × early, for example: early was found"


def test_kinds_that_only_share_a_fault_share_a_card(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.fault(1.0, 5.0, proven=ISOLATED)
    history.fault(7.0, 9.0, name="pause", proven={"takes_down": ["broker-0"]})
    first, second, third = (history.send(at, at, at, "broker-0", 1) for at in (2, 3, 8))
    one, other = causes(
        history,
        anomaly("order", "reorder", (first,)),
        anomaly("roles", "stale", (second,)),
        anomaly("roles", "stale", (third,)),
    )
    assert [(kind.name, kind.here) for kind in one.kinds] == [("reorder", 1), ("stale", 1)]
    assert [fault.name for fault in (*one.faults, *other.faults)] == ["partition", "pause"]


def test_a_second_loss_gets_a_card_though_the_verdict_only_counts_it(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    found = stale_master(history)
    history.append(5.6, "broker-1", 9, 2, 200, 2)
    history.send(5.6, 9, 2, "broker-1", 2)
    history.role(5.7, "broker-0", "master", 3)
    history.role(5.8, "broker-1", "slave", 3)
    history.trace(5.9, "broker-1", "truncate", position=200, value={"old_end": 300})
    first, second = causes(history, lost(found), rest("durability", "lost", 1))
    assert (list(first.acknowledged), list(second.acknowledged)) == ([(1, 1)], [(9, 2)])
    assert (list(second.violations), list(second.kinds)) == ([], [])


def test_a_log_that_came_back_shorter_is_put_down_to_the_crash(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    crash = {"takes_down": ["broker-0"], "may_crash": ["broker-0"]}
    history.role(0.0, "broker-0", "master", 1)
    history.trace(0.0, "broker-0", "recovered", position=0)
    history.fault(0.1, 0.2, name="long over", proven=crash)
    history.append(0.5, "broker-0", 1, 1, 100, 1)
    sent = history.send(0.5, 1, 1, "broker-0", 1)
    history.fault(1.0, 2.0, name="power", proven=crash)
    history.trace(2.0, "broker-0", "recovered", life=2, position=100)
    history.trace(3.0, "broker-0", "role", life=2, epoch=2, value={"role": "master"})
    history.phase(4.0, "drain")
    drain = history.drain(5.0, 0, 2)
    (cause,) = causes(history, anomaly("durability", "lost", (sent, drain), queue=0, offset=1, message=1))
    assert (cause.proven, [fault.name for fault in cause.faults], cause.tails[0].cut) == (True, ["power"], False)
    assert sentence(cause) == (
        "Power of broker-0 at 1.0 s → broker-0 came back without 1 record of its log at 2.0 s → "
        "broker-0 (epoch 2) followed broker-0 (epoch 1) as master at 3.0 s → "
        "1 acknowledged message is on no replica any more: 0/1"
    )


def test_clients_alone_tell_only_what_was_there_meanwhile(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.fault(1.0, 5.0, proven=ISOLATED)
    sent = history.send(2.0, 1, 1, "", -1)
    (cause,) = causes(history, anomaly("durability", "lost", (sent,), queue=0, offset=1, message=1))
    assert (cause.change, cause.proven, cause.faults[0].name) == (None, False, "partition")


def test_what_was_acknowledged_before_a_fault_may_be_lost_by_it(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    sent = history.send(0.5, 1, 1, "", -1)
    history.fault(1.0, 5.0, proven=ISOLATED)
    history.phase(6.0, "heal")
    drained = history.drain(8.0, 0, 2)
    lost_one = anomaly("durability", "lost", (sent, drained), queue=0, offset=1, message=1)
    (cause,) = causes(history, lost_one)
    assert ([fault.name for fault in cause.faults], cause.always, cause.proven) == (["partition"], False, False)


def power_cut(
    tmp_path: Path, *, acked_by: str = "broker-0", acked_s: float = 2.0, blocks: int = 3, read_s: float = 0.0
) -> Cause:
    """A message that is lost, and a power cut at 4 s; nodes trace nothing."""
    history = MadeRun(tmp_path)
    sent = history.send(acked_s, 1, 1, acked_by, -1)
    proof = {"broker-0": {"alive": False, "files_lost": 0, "files_back": 1, "blocks_lost": blocks}}
    history.fault(4.0, 5.0, name="lose_unsynced", proven={"may_crash": ["broker-0"]}, proof=proof)
    if read_s:
        history.read(read_s, 1, 1)
    history.phase(7.0, "heal")
    drained = history.drain(8.0, 0, 2)
    others = rest("durability", "lost", 702)
    (cause,) = causes(history, anomaly("durability", "lost", (sent, drained), queue=0, offset=1, message=1), others)
    return cause


@pytest.mark.parametrize("acked_by", ["broker-0", ""])
def test_what_a_power_cut_took_is_tied_to_it(tmp_path: Path, acked_by: str) -> None:
    cause = power_cut(tmp_path, acked_by=acked_by)
    assert cause.proven and cause.power is not None and cause.power.name == "lose_unsynced"
    assert sentence(cause) == (
        "Lose_unsynced of broker-0 at 4.0 s took 3 blocks that broker-0 had not synced → acknowledged before, and given"
        " to nobody since: at least 1 of 703 × lost, for example: lost was found"
    )


@pytest.mark.parametrize(
    "changed", [{"acked_by": "broker-1"}, {"acked_s": 5.5}, {"blocks": 0}, {"read_s": 6.0}], ids=str
)
def test_what_a_power_cut_can_not_have_taken_is_not_tied_to_it(tmp_path: Path, changed: dict[str, Any]) -> None:
    cause = power_cut(tmp_path, **changed)
    assert cause.power is None and not cause.proven and "→" not in sentence(cause)


def cut_off(
    tmp_path: Path, *, acked_by: str = "broker-0", acked_s: float = 3.5, read_s: float = 0.0, other: str = "broker-1"
) -> Cause:
    """A message that is lost, after a cut between broker-0 and ``other``; nodes trace nothing, and answer polls."""
    history = MadeRun(tmp_path)
    history.polled(0.0, "broker-0", "master", 1)
    history.polled(0.0, "broker-1", "slave", 1)
    cuts = [(["broker-0"], [other]), ([other], ["broker-0"])]
    history.fault(1.0, 5.0, proven={"cuts": ["broker-0", other]}, cuts=cuts)
    sent = history.send(acked_s, 1, 1, acked_by, -1)
    history.polled(3.0, "broker-1", "master", 2)
    history.polled(4.0, "broker-0", "master", 1)
    history.polled(6.0, "broker-0", "slave", 2)
    if read_s:
        history.read(read_s, 1, 1)
    history.phase(7.0, "heal")
    drained = history.drain(8.0, 0, 2)
    (cause,) = causes(history, anomaly("durability", "lost", (sent, drained), queue=0, offset=1, message=1))
    return cause


def test_what_a_deposed_master_acknowledged_is_tied_to_its_cut(tmp_path: Path) -> None:
    cause = cut_off(tmp_path)
    assert cause.proven and cause.change is not None and cause.change.two_masters_s == pytest.approx(3.0)
    assert sentence(cause) == (
        "Partition of broker-0 and broker-1 at 1.0 s → two masters for 3.0 s (broker-0 in epoch 1, broker-1 in epoch 2)"
        "; violations that belong to it: lost was found"
    )
    assert [(step.label, step.text) for step in chain(cause, None)] == [
        ("fault", "Partition of broker-0 and broker-1; broker-0 was the master of epoch 1"),
        ("reaction", "broker-1 becomes master in epoch 2; two masters for 3.0 s"),
        ("why", "broker-0 had acknowledged it, and no reader was given it once broker-0 was no longer master"),
        ("outcome", "lost was found"),
    ]


@pytest.mark.parametrize(
    "changed", [{"acked_by": "broker-1"}, {"acked_s": 6.5}, {"read_s": 6.9}, {"other": "broker-2"}], ids=str
)
def test_what_a_cut_can_not_have_lost_is_not_tied_to_it(tmp_path: Path, changed: dict[str, Any]) -> None:
    cause = cut_off(tmp_path, **changed)
    assert not cause.proven and cause.change is None


def test_the_head_names_what_was_tested() -> None:
    meta = {
        "name": "stale-master", "system": "reference",
        "versions": {"reference": "Stormproof 0.1.0"}, "deployment": "sim",
        "started": "2026-11-22T10:35:43+00:00", "mutant": "ack-before-replication",
    }  # fmt: skip
    assert dict(facts(RunMeta.of(meta), 1)) == {
        "experiment": "stale-master", "system": "reference (Stormproof 0.1.0)", "deployment": "sim",
        "date": "2026-11-22 10:35 UTC", "seed": "1", "planted bug": "ack-before-replication",
    }  # fmt: skip
    assert dict(facts(RunMeta(), 7)) == {"seed": "7"}
