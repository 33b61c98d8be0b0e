"""The first screen as data: what happened, why, what next; each cause once, each reason once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.history.directory import write_meta, write_verdict
from chaos.judging.registry import registry
from chaos.verdict import Anomaly, RunVerdict, UnknownReason, Validity, Verdict
from reports import render
from reports.in_words import first_screen
from reports.run_report.chain import NOT_KNOWN, StepKind, shown
from reports.run_report.diagnosis import diagnosis
from reports.run_report.headlines import of_violations
from tests.checkers.names import A, L
from tests.reports.run_report.histories import MadeRun, stale_master


def verdict(*anomalies: Anomaly, validity: Validity = Validity.INVALID, why: tuple[str, ...] = ()) -> RunVerdict:
    law = Verdict(law=L.DURABILITY, validity=validity, anomalies=anomalies)
    return RunVerdict(
        run="r", seed=1, validity=validity, laws=[law], digest="0" * 64, engine="local", seconds=0.1, why=why
    )


def lost(rows: dict[str, int]) -> Anomaly:
    return Anomaly(
        law=L.DURABILITY, name=A.LOST, explanation="0/1 is gone.", rows=(rows["lost"], rows["drain"]), queue=0,
        offset=1, message=1,
    )  # fmt: skip


@pytest.mark.parametrize(("confirmed", "why"), [(100, "broker-0 acknowledges up to 200, though only 100 is confirmed"),
                                                (200, NOT_KNOWN)])  # fmt: skip
def test_the_chain_of_a_loss_holds_the_decision_that_contradicted_a_promise(
    tmp_path: Path, confirmed: int, why: str
) -> None:
    run = MadeRun(tmp_path)
    rows = stale_master(run, confirmed=confirmed)
    run.close()
    write_meta(tmp_path, {"run": "r", "seed": 1, "decided_by": {"acked": ["Replication.acknowledged_end"]}})
    write_verdict(tmp_path, verdict(lost(rows)))
    screen = first_screen(tmp_path)
    assert screen.title == "An acknowledged message was lost"
    texts = {step.kind: step.text for step in screen.chain}
    assert texts[StepKind.WHY] == why
    assert texts[StepKind.FAULT] == "Partition of broker-0; broker-0 was the master of epoch 1"
    assert texts[StepKind.REACTION] == "broker-1 becomes master in epoch 2; two masters for 2.0 s"
    assert "1 acknowledged message is on no replica any more: 0/1" in texts[StepKind.OUTCOME]
    assert [step.kind for step in screen.chain][-1] is StepKind.OUTCOME
    told = screen.json["chain"]
    assert [one.get("decided_by") for one in told if one["kind"] == "why"] == (
        [["Replication.acknowledged_end"]] if confirmed == 100 else [[]]
    )
    render(tmp_path)
    (out,) = ElementTree.parse(tmp_path / "junit.xml").iter("system-out")
    lines = (out.text or "").splitlines()
    assert lines[0] == screen.title and f": {why}" in "".join(lines)
    assert [one.command for one in screen.proposals][:2] == ["stormproof explain r", "stormproof shrink r"]


def test_a_deposed_master_that_permits_acks_of_its_own_contradicts_nothing(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    rows = stale_master(run, confirmed=100)
    run.close()
    write_meta(tmp_path, {"run": "r", "seed": 1, "profile": {"acks": 1}})
    write_verdict(tmp_path, verdict(lost(rows)))
    assert NOT_KNOWN in [step.text for step in first_screen(tmp_path).chain]


def test_every_violation_has_a_sentence_with_its_number() -> None:
    for promise in registry().promises:
        for kind in promise.anomalies:
            one, many = of_violations({kind.name: 1}), of_violations({kind.name: 1234})
            assert one[0].isupper() and not one.endswith(".")
            assert "1,234" in many and "{n}" not in many
    assert of_violations({"foreign": 2, A.CONFIRM_BEYOND_SET: 9, A.LOST: 3}) == "3 acknowledged messages were lost"
    assert of_violations({"foreign": 2}) == "A promise was broken: foreign, 2 times"


def test_an_unknown_run_gives_each_reason_once() -> None:
    whole = ("history.arrows: batch 3 is cut off; it is left out", "only 16384 of 36010 recorded rows are left")
    unread = "; ".join(f"queue {queue} was not read" for queue in range(4))
    laws = [
        Verdict(law=L.DURABILITY, validity=Validity.UNKNOWN, why="; ".join([*whole, unread])),
        Verdict(law=L.ORDER, validity=Validity.UNKNOWN, why="; ".join(whole)),
    ]
    why = [*whole, *(f"{law.law}: {law.why}" for law in laws)]
    torn = UnknownReason(
        text=whole[1], title="The recording is damaged: 16,384 of 36,010 rows are left", advice="Record it again."
    )
    reasons = [UnknownReason(text=whole[0]), torn]
    unknown = replace(verdict(validity=Validity.UNKNOWN), laws=laws, why=why)
    found = diagnosis(replace(unknown, reasons=reasons))
    assert found.title == "The recording is damaged: 16,384 of 36,010 rows are left"
    assert found.advice.startswith("Record it again")
    assert [one.text for one in found.reasons] == [*whole, "queue 0 was not read (and so queues 1, 2, 3)"]
    assert (found.reasons[2].promises, found.promises) == ([L.DURABILITY], [L.DURABILITY, L.ORDER])
    assert [one.text for one in found.further] == [found.reasons[0].text, found.reasons[2].text], "the title said it"
    older = diagnosis(unknown)
    assert (older.title, older.reasons, older.further) == (whole[0], found.reasons, found.reasons[1:])
    detailed = diagnosis(replace(unknown, reasons=[replace(torn, detailed=True)]))
    assert detailed.further == detailed.reasons


def test_long_numbers_are_grouped_and_names_are_not() -> None:
    assert shown("up to 106785 of 0/106785 in 20261129T114527, at 12345.678 s") == (
        "up to 106,785 of 0/106785 in 20261129T114527, at 12345.678 s"
    )


def test_a_read_that_its_node_had_not_confirmed_is_the_reason(tmp_path: Path) -> None:
    run = MadeRun(tmp_path)
    rows = stale_master(run)
    early = run.op(
        2.5, "c-0.0", "delivered", "ok", queue=0, message=1, offset=1, node="broker-0", epoch=1, incarnation=1
    )
    run.close()
    write_meta(tmp_path, {"run": "r", "seed": 1, "decided_by": {"delivered": ["Broker.readable_end"]}})
    gone = Anomaly(
        law=L.NO_ROLLBACK, name=A.ROLLBACK, explanation="0/1 was read.", rows=(early, rows["drain"]), queue=0, offset=1,
        message=1,
    )  # fmt: skip
    write_verdict(tmp_path, verdict(gone))
    (why,) = [step for step in first_screen(tmp_path).chain if step.kind is StepKind.WHY]
    assert why.text == "c-0 is given 0/1 at offset 1, though broker-0 has not confirmed it"
    assert (why.decided, why.row) == (("Broker.readable_end",), early)
