"""Empty, torn and vacuous runs are UNKNOWN, never VALID; exit codes follow the contract."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from chaos.errors import BadInput
from chaos.findings import Findings, decide
from chaos.history import directory, pieces
from chaos.history.recorder import STREAM, Recorder
from chaos.judging.outcome import judge
from chaos.judging.registry import Registry
from chaos.judging.run import examine_run
from chaos.kernel import Key, Needs, Reads
from chaos.law import AnomalyKind, Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Anomaly, Engine, RunVerdict, Validity, Verdict
from stormproof.outcome import exit_code, worst_code
from stormproof.shrinking.again import failed
from tests.checkers.names import A, L


def make_run(
    tmp_path, *, sends: int = 3, drained: bool = True, ended: bool = True, faults=(), effective=(), traces=(), **meta
):
    """A run directory with a few rows, as a harness would leave it."""
    recorder = Recorder(tmp_path, lambda: 5, batch_rows=4)
    recorder.record("harness", f="phase", value={"phase": "load"})
    for number in range(sends):
        row = {"process": "p.0", "queue": 0, "message": number, "hash": number + 7}
        asked = recorder.record("op", type="invoke", f="send", **row)
        recorder.record("op", type="ok", f="send", op=asked, offset=number, node="broker-0", epoch=1, **row)
    for name in effective:
        recorder.record("fault", type="invoke", f=name, process="fault-0", value={"targets": ["broker-0"]})
        recorder.record("fault", type="ok", f=name, process="fault-0", value={"phase": "undo", "effective": True})
    for row in traces:
        recorder.record_trace(row)
    if drained:
        asked = recorder.record("op", type="invoke", f="drain", process="d.0", queue=0, offset=0)
        recorder.record("op", type="ok", f="drain", process="d.0", queue=0, op=asked, offset=sends)
    if ended:
        recorder.record("harness", f="end", value={"interrupted": meta.pop("interrupted", False)})
    recorder.close()
    told = {"seed": 9, "state": "finished", "rows": len(recorder), "faults": list(faults), "queues": [{"index": 0}]}
    told |= {"profile": {"strict": True}, "nodes": [], "workloads": ["queue"], "bounds": {}, **meta}
    directory.write_meta(tmp_path, {name: value for name, value in told.items() if value is not None})
    return tmp_path


def test_a_whole_run_has_nothing_against_it_before_the_laws_look(tmp_path):
    found = examine_run(make_run(tmp_path, faults=["kill"], effective=["kill"]))
    assert found.why == () and found.damage == ()
    assert found.examined and found.as_if == []
    assert found.context.seed == 9 and len(found.digest) == 64


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sends": 0}, "no write of a workload was acknowledged"),
        ({"drained": False}, "no queue was drained"),
        ({"ended": False}, "its last phase was load"),
        ({"interrupted": True}, "interrupted"),
        ({"state": "failed", "error": "boom"}, "boom"),
        ({"faults": ["kill", "pause"], "effective": ["kill"]}, "no pause took effect"),
        ({"faults": ["kill"], "drawn_faults": ["kill"]}, "no fault of the swarm took effect"),
        (
            {"faults": ["kill", "pause"], "drawn_faults": ["pause"], "effective": ["kill"]},
            "no fault of the swarm took effect",
        ),
        ({"profile": None}, "run.json has no field 'profile'"),
    ],
)
def test_a_run_that_shows_nothing_says_why(tmp_path, options, words):
    why = [reason.text for reason in examine_run(make_run(tmp_path, **options)).why]
    assert len(why) == 1 and words in why[0]
    verdict = judge([examine_run(tmp_path)], engine=Engine.LOCAL)[0]
    assert verdict.validity is not Validity.VALID
    assert any(words in reason for reason in verdict.why)


def test_a_fault_that_the_seed_drew_and_that_found_no_moment_is_a_goal_not_reached(tmp_path):
    faults = ["kill", "pause", "wipe"]
    run = make_run(tmp_path, faults=faults, drawn_faults=["pause", "wipe"], effective=["kill", "wipe", "wipe"])
    verdict = judge([examine_run(run)], engine=Engine.LOCAL)[0]
    assert not any("took effect" in reason for reason in verdict.why)
    assert verdict.reached == {"effect of pause": 0, "effect of wipe": 2}
    assert verdict.not_reached == ("effect of pause",)


@pytest.mark.parametrize(("source", "valid"), [("broker-1", False), ("10.0.0.9:4711", True)])
def test_nodes_that_do_not_understand_one_another_have_a_bug(tmp_path, source, valid):
    def traced(node, f, **value):
        row = {"kind": "trace", "time_ns": 1, "node": node, "incarnation": 1, "step": 1, "f": f, "value": value}
        numbers = ("epoch", "queue", "offset", "position", "message", "hash")
        return row | dict.fromkeys(numbers, -1)

    rows = [traced("broker-1", "role"), traced("broker-0", "malformed", source=source, code=9103, error="no position")]
    why = [reason.text for reason in examine_run(make_run(tmp_path, traces=rows)).why]
    assert why == ([] if valid else ["broker-1 sent broker-0 what it can't understand: no position"])


def test_a_run_without_queues_owes_changes_of_objects_instead_of_sends_and_drains(tmp_path):
    for name in ("idle", "both"):
        (tmp_path / name).mkdir()
    (reason,) = examine_run(make_run(tmp_path / "idle", sends=0, drained=False, uses=["objects"])).why
    why = reason.text
    assert "no write of a workload was acknowledged" in why
    run = make_run(tmp_path / "both", sends=0, drained=False, uses=["objects", "queues"])
    assert len(examine_run(run).why) == 2
    recorder = Recorder(tmp_path, lambda: 5)
    asked = recorder.record("op", type="invoke", f="cas", process="p.0", value={"object": "o"})
    recorder.record("op", type="ok", f="cas", op=asked, process="p.0", value={"object": "o"})
    recorder.record("harness", f="end", value={"interrupted": False})
    recorder.close()
    meta = {"seed": 9, "profile": {"strict": True}, "queues": [], "nodes": [], "faults": [], "bounds": {}}
    directory.write_meta(tmp_path, {**meta, "workloads": ["a"], "uses": ["objects"]})
    assert examine_run(tmp_path).why == ()


def test_lost_rows_are_damage_even_when_the_files_agree(tmp_path):
    make_run(tmp_path, rows=99)
    assert examine_run(tmp_path).damage == ("only 10 of 99 recorded rows are left",)


def test_a_history_that_cannot_be_read_is_unknown(tmp_path):
    make_run(tmp_path)
    (tmp_path / STREAM).write_bytes(b"nonsense")
    verdict = judge([examine_run(tmp_path)], engine=Engine.LOCAL)[0]
    assert verdict.validity is Validity.UNKNOWN
    assert directory.read_verdict(tmp_path).validity is Validity.UNKNOWN


def test_a_lost_message_is_invalid_also_in_a_run_that_is_torn(tmp_path):
    recorder = Recorder(tmp_path, lambda: 5)
    for message, offset in ((1, 4), (2, 4)):  # two messages were acknowledged at one place
        row = {"process": "p.0", "queue": 0, "message": message, "hash": message}
        asked = recorder.record("op", type="invoke", f="send", **row)
        recorder.record("op", type="ok", f="send", op=asked, offset=offset, node="broker-0", epoch=1, **row)
    recorder.close()
    directory.write_meta(
        tmp_path, {"seed": 9, "state": "running", "queues": [{"index": 0}], "profile": {"strict": True}}
    )
    verdict = judge([examine_run(tmp_path)], engine=Engine.LOCAL)[0]
    assert verdict.validity is Validity.INVALID
    assert "its last phase was none" in " ".join(verdict.why)
    assert exit_code(verdict) == 1


def a_verdict(validity: Validity, *names: str) -> RunVerdict:
    anomalies = tuple(
        Anomaly(law=L.AVAILABILITY, name=name, explanation="x", lawful=name == A.REDELIVERY) for name in names
    )
    law = Verdict(law=L.AVAILABILITY, validity=validity, anomalies=anomalies)
    return RunVerdict(run="r", seed=0, validity=validity, laws=[law], digest="", engine="local", seconds=0)


def test_not_to_recover_has_its_own_code_only_when_nothing_else_is_wrong():
    assert exit_code(a_verdict(Validity.VALID)) == 0
    assert exit_code(a_verdict(Validity.UNKNOWN)) == 2
    assert exit_code(a_verdict(Validity.INVALID, A.LOST)) == 1
    assert exit_code(a_verdict(Validity.INVALID, A.NOT_RECOVERED)) == 4
    assert exit_code(a_verdict(Validity.INVALID, A.NOT_RECOVERED, A.REDELIVERY)) == 4
    assert exit_code(a_verdict(Validity.INVALID, A.NOT_RECOVERED, A.LOST)) == 1


def test_the_worst_of_many_runs_counts():
    assert worst_code([0, 2, 3, 4, 1]) == 1
    assert worst_code([0, 2, 3, 4]) == 4
    assert worst_code([0, 2, 3]) == 3
    assert worst_code([0, 2]) == 2
    assert worst_code([0, 0]) == 0
    assert worst_code([]) == 2


def test_what_another_process_examined_is_judged_as_if_it_had_been_examined_here(tmp_path):
    prepared = examine_run(make_run(tmp_path))
    here = judge([prepared], engine=Engine.LOCAL)[0]
    there = judge([pickle.loads(pickle.dumps(prepared))], engine=Engine.LOCAL)[0]
    assert here.laws and replace(there, seconds=0.0) == replace(here, seconds=0.0)
    assert there.seconds > prepared.seconds > 0


@pytest.mark.parametrize("source", ["broker-1", "stranger"])
def test_a_run_of_many_rows_is_judged_as_one_that_fits_into_memory(tmp_path, monkeypatch, source):
    trace = {"f": "malformed", "node": "broker-0", "value": {"source": source, "error": "what?"}}
    other = {"f": "role", "node": "broker-1", "process": "probe.x", "value": {"role": "slave"}}
    run = make_run(tmp_path, sends=40, faults=["kill"], effective=["kill"], traces=[other, trace], reach=["x"])
    found = examine_run(run)
    monkeypatch.setattr(pieces, "LARGE_ROWS", 10)
    many = examine_run(run)
    assert [number for number, _ in many.examined] != [number for number, _ in found.examined]
    assert replace(many, examined=found.examined, seconds=0.0) == replace(found, seconds=0.0)
    assert bool(found.why) == (source == "broker-1")
    verdicts = [judge([one], engine=Engine.LOCAL)[0] for one in (found, many)]
    assert verdicts[0].laws == verdicts[1].laws


LOSSY = {"profile": {"flush": "async", "strict": False}}


class Losing:
    """A law that finds so many losses for each policy, and a part of it that finds none."""

    promise = Promise(
        name="keeping",
        place=1,
        meaning="Things are kept.",
        anomalies=(AnomalyKind(name="lost-by-policy", meaning="gone", lawful=True, by_policy=True),),
    )
    needs = Needs(key=Key.RUN, rows=(Reads(kind="op", f=("send",)),), columns=())

    def __init__(self, losses: dict[str, int]) -> None:
        self._losses = losses

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(self.promise)
        for place, (policy, number) in enumerate(self._losses.items()):
            each = np.arange(number) + 1_000 * place

            def tell(at: int, policy: str = policy) -> None:
                found.add("lost-by-policy", f"{at} is gone", at, policy=policy)

            found.add_each("lost-by-policy", each, tell, policy=policy)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return decide(self.promise, partial)


@pytest.fixture
def losing(monkeypatch):
    """Have this law alone."""
    from chaos.judging import engine

    def have(**losses: int) -> None:
        law = Losing({policy.replace("_", " "): number for policy, number in losses.items()})
        known = Registry({("losing", 0): law}, {})
        monkeypatch.setattr(engine, "registry", lambda: known)
        monkeypatch.setattr("chaos.judging.registry.registry", lambda: known)

    return have


def judged(run, **asked):
    return judge([examine_run(run)], engine=Engine.LOCAL, **asked)[0]


def test_what_the_profile_permits_stands_in_the_verdicts_line(tmp_path, losing):
    losing(flush_async_allows_at_2_s=859)
    verdict = judged(make_run(tmp_path, **LOSSY))
    assert (verdict.validity, exit_code(verdict), verdict.anomaly_counts()) == (Validity.VALID, 0, {})
    assert verdict.line == "VALID; 859 lost, as flush async allows at 2 s"
    told = json.loads((tmp_path / directory.VERDICT).read_text())
    read = directory.read_verdict(tmp_path)
    assert told["line"] == verdict.line == read.line
    assert read.qualifiers == ["859 lost, as flush async allows at 2 s"]
    permitted = {"law": "keeping", "name": "lost-by-policy", "policy": "flush async allows at 2 s", "count": 859}
    assert told["by_policy"] == [permitted] and told["no_loss_by_policy"] is False


def test_the_three_most_frequent_reasons_are_named_and_the_rest_is_counted(tmp_path, losing):
    losing(a_allows=5, b_allows=700, c_allows=6, d_allows=1, e_allows=2)
    assert judged(make_run(tmp_path, **LOSSY)).line == (
        "VALID; 700 lost, as b allows; 6 lost, as c allows; 5 lost, as a allows; and 3 more for 2 other reasons"
    )


def test_where_a_law_knows_no_cut_the_weak_settings_are_the_reason(tmp_path, losing):
    losing(**{"": 12})
    run = make_run(tmp_path, profile={"flush": "async", "acks": 1, "strict": False})
    assert judged(run).line == "VALID; 12 lost, as `flush: async, acks: 1` allows"


def test_no_loss_by_policy_makes_it_invalid_and_keeps_saying_so(tmp_path, losing):
    losing(flush_async_allows=30)
    for name in "ab":
        (tmp_path / name).mkdir()
    lossy, strict = make_run(tmp_path / "a", **LOSSY), make_run(tmp_path / "b", no_loss_by_policy=True, **LOSSY)
    line = "INVALID; 30 lost, as flush async allows; --no-loss-by-policy forbids it"
    for verdict in (judged(lossy, no_loss_by_policy=True), judged(strict)):  # asked of the judge, or when it was run
        assert (verdict.line, exit_code(verdict)) == (line, 1)
        assert verdict.anomaly_counts() == {"lost-by-policy": 30}
        assert [law.validity for law in verdict.laws] == [Validity.INVALID]
        assert directory.read_verdict(tmp_path / verdict.run).no_loss_by_policy
    assert judged(lossy).validity is Validity.VALID
    with pytest.raises(BadInput, match="nothing is wrong with it but what its profile permits"):
        failed(strict)


def test_what_is_lost_in_a_damaged_run_may_come_of_the_damage(tmp_path, losing):
    losing(flush_async_allows=3)
    run = make_run(tmp_path, no_loss_by_policy=True, **LOSSY)
    directory.update_meta(run, rows=99)
    assert judged(run).validity is Validity.UNKNOWN


def test_a_run_without_such_losses_is_told_as_ever(tmp_path, losing):
    losing()
    verdict = judged(make_run(tmp_path, no_loss_by_policy=True))
    assert (verdict.line, verdict.permitted, exit_code(verdict)) == ("VALID", (), 0)
