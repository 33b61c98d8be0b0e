"""What an explanation must hold: of a written history row by row, and that no more is told than rows link."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from chaos.errors import BadInput
from chaos.history.directory import write_meta, write_verdict
from chaos.history.history import History
from chaos.history.run_meta import RunMeta
from chaos.verdict import Anomaly, Validity
from reports.explanation.chosen import of_rows
from reports.explanation.sequence import ARROWS, Arrow, explain, fold, sequence
from stormproof import cli
from tests.checkers.histories import SIZE, content, m
from tests.checkers.histories import History as MadeHistory
from tests.reports.run_report.test_html import judged, record_run
from tests.stormproof import small_runs

BOTH = ["broker-0", "broker-1"]


def recorded(
    history: MadeHistory, deployment: str = "sim", decided_by: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> History:
    return History.of(history.recorded(), RunMeta(deployment=deployment, decided_by=decided_by))


def elect(history: MadeHistory, master: str, epoch: int) -> int:
    entry = {"type": "elect", "group": "g", "master": master, "master_epoch": epoch, "set": BOTH, "set_epoch": epoch}
    return history.trace("controller-0", "applied", position=epoch, epoch=1, value={"entry": entry})


def lost(*rows: int) -> Anomaly:
    return Anomaly(law="durability", name="lost", explanation="", rows=rows, queue=0, offset=1, message=m(1))


def stale_master() -> tuple[MadeHistory, Anomaly, dict[str, int]]:
    """broker-0 acknowledges message 1 alone while it is cut off, and cuts it off its log when it comes back. Returns
    the anomaly and the rows that its explanation must hold, by what they are."""
    history, must = MadeHistory(), {}
    must["elects 1"], must["master of 1"] = elect(history, "broker-0", 1), history.master("broker-0", 1)
    history.phase("load")
    for node in BOTH:
        history.append(node, 0)
    history.send(0)
    history.inject("kill", "broker-2")
    must["fault"] = len(history.rows)
    cut_off = history.inject("partition", "broker-0", shape="isolate")
    must["call"] = history.invoke("send", process="producer-1.0", queue=0, message=m(1), hash=content(m(1)))
    must["stored"] = history.append("broker-0", 1)
    must["synced"] = history.trace("broker-0", "synced", position=2 * SIZE)
    must["acked"] = history.trace("broker-0", "acked", epoch=1, position=2 * SIZE, value={"confirm": SIZE})
    must["answer"] = history.complete(must["call"], offset=1, position=SIZE, node="broker-0", epoch=1, incarnation=1)
    must["elects 2"] = elect(history, "broker-1", 2)
    history.master("broker-1", 2, start=SIZE)
    history.undo("partition", cut_off)
    must["slave of 2"] = history.role("broker-0", "slave", 2)
    must["cut"] = history.trace("broker-0", "truncate", epoch=2, position=SIZE, value={"old_end": 2 * SIZE})
    history.phase("drain")
    must["drain begins"] = len(history.rows)
    must["drain ends"] = history.drain(0)
    return history, lost(must["answer"], must["drain ends"]), must


def test_a_lost_message_is_followed_back_to_the_fault_and_to_who_acknowledged_too_soon() -> None:
    history, told, must = stale_master()
    arrows, left_out = sequence(told, recorded(history))
    assert [arrow.rows for arrow in arrows] == [(row,) for row in sorted(must.values())]
    assert left_out == 0
    texts = {arrow.rows[0]: (arrow.source, arrow.target, arrow.text) for arrow in arrows}
    assert texts[must["fault"]] == ("faults", "broker-0", "partition of broker-0")
    assert texts[must["acked"]][2] == f"acknowledges up to {2 * SIZE}, though only {SIZE} is confirmed"
    assert texts[must["answer"]] == ("broker-0", "producer-1", "send 0/1: ok at offset 1")
    assert texts[must["slave of 2"]][:2] == ("controller-0", "broker-0")
    assert texts[must["cut"]][2] == f"cuts its log from {2 * SIZE} to {SIZE}"
    assert {arrow.rows[0] for arrow in arrows if arrow.named} == {
        must[name] for name in ("call", "answer", "drain begins", "drain ends")
    }


@pytest.mark.parametrize(
    ("node", "blocks", "given", "tied"),
    [
        ("broker-0", 3, False, True),
        ("", 3, False, True),
        ("broker-1", 3, False, False),
        ("broker-0", 0, False, False),
        ("broker-0", 3, True, False),
    ],
)
def test_without_traces_a_power_cut_leads_to_the_loss_of_what_it_took(
    node: str, blocks: int, given: bool, tied: bool
) -> None:
    history = MadeHistory()
    history.phase("load")
    sent = history.send(1, node=node)
    cut = len(history.rows)
    process = history.inject("lose_unsynced", "broker-0", effects={"may_crash": ["broker-0"]})
    injected = json.loads(history.rows[-1]["value"])
    proof = {"broker-0": {"files_lost": 0, "blocks_lost": blocks}}
    history.rows[-1]["value"] = json.dumps({**injected, "proof": proof})
    history.undo("lose_unsynced", process)
    if given:
        history.pull(1, 1)
    history.phase("drain")
    drained = history.drain(2)
    arrows, _ = sequence(lost(sent, drained), recorded(history, "process"))
    assert [arrow.text for arrow in arrows if arrow.source == "faults"] == ["lose_unsynced of broker-0"] * tied
    assert (cut in {arrow.rows[0] for arrow in arrows}) is tied


def test_a_log_that_grew_again_past_its_cut_is_told() -> None:
    history, told, must = stale_master()
    cut = must["cut"]
    came_back = history.trace("broker-0", "recovered", incarnation=2, epoch=1, position=2 * SIZE)
    final = history.row("final", f="log", node="broker-0", queue=0, offset=1, position=SIZE, message=m(1), epoch=1)
    told = replace(told, name="replica-divergence", rows=(must["answer"], final))
    arrows, _ = sequence(told, recorded(history))
    (found,) = (arrow for arrow in arrows if arrow.rows == (came_back,))
    assert f"up to {2 * SIZE}, past the {SIZE} to which it was cut in row {cut}" in found.text


def test_an_arrow_names_the_methods_that_decided_what_its_row_tells() -> None:
    history, told, must = stale_master()
    known = {"acked": ("A.b",), "role slave": ("C.d", "C.e"), "role": ("H.i",), "applied elect": ("F.g",)}
    arrows, _ = sequence(told, recorded(history, decided_by=known))
    assert {arrow.rows[0]: arrow.decided for arrow in arrows if arrow.decided} == {
        must["acked"]: ("A.b",), must["slave of 2"]: ("C.d", "C.e"), must["elects 1"]: ("F.g",),
        must["elects 2"]: ("F.g",), must["master of 1"]: ("H.i",),
    }  # fmt: skip


def test_without_traces_there_are_operations_and_faults_only() -> None:
    history, told, must = stale_master()
    history.rows = [row for row in history.rows if row["kind"] != "trace"]
    rows = recorded(history)
    arrows, _ = sequence(told, rows)
    assert not rows.has_traces
    assert {row for arrow in arrows for row in arrow.rows} == {
        must[name] for name in ("fault", "call", "answer", "drain begins", "drain ends")
    }


def arrow(row: int, what: str = "confirm", *, source: str = "a", named: bool = False) -> Arrow:
    return Arrow(at_s=row, source=source, target="b", what=what, text=what, rows=(row,), named=named)


def test_alike_arrows_become_one() -> None:
    folded, left_out = fold([arrow(1), arrow(2), arrow(3, named=True), arrow(4), arrow(5, "truncate"), arrow(6)])
    assert [(one.rows, one.count) for one in folded] == [((1, 2), 2), ((3,), 1), ((4,), 1), ((5,), 1), ((6,), 1)]
    assert folded[0].phrase == "confirm … 2 times" and left_out == 0
    assert folded[0].link("RUN") == "stormproof explain RUN --rows 1..2"
    assert replace(folded[0], rows=(1, 7)).link("RUN") == "stormproof explain RUN --rows 1,7"


def test_of_too_many_arrows_those_stay_that_the_law_names_or_that_decided() -> None:
    many = [arrow(row, f"step-{row}", source=f"node-{row}") for row in range(2 * ARROWS)]
    many += [arrow(100, "truncate"), arrow(101, named=True)]
    folded, left_out = fold(many)
    assert len(folded) == ARROWS and left_out == len(many) - ARROWS
    assert [one.rows[0] for one in folded[-2:]] == [100, 101]


def test_rows_of_any_run_are_drawn(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run, picture = small_runs.planted(tmp_path).directory, tmp_path / "rows.svg"
    assert cli._run(["explain", str(run), "--rows", "0..30", "--svg", str(picture)]) == 0
    assert capfd.readouterr().out.strip() == str(picture)
    assert f"Rows of {run.name}" in picture.read_text("utf-8") and "--rows 30" in picture.read_text("utf-8")


def test_of_many_chosen_rows_alike_ones_are_folded(tmp_path: Path) -> None:
    history = History.open(small_runs.planted(tmp_path).directory)
    few, many = (of_rows(history.of_table(history.table)[:rows], history) for rows in (ARROWS, 10 * ARROWS))
    assert [arrow.rows for arrow in few.arrows] == [(row,) for row in range(ARROWS)] and not few.notes
    assert len(many.arrows) == ARROWS and "of these rows are not drawn" in many.notes[0]


def test_the_command_prints_text_markdown_and_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = small_runs.planted(tmp_path).directory
    assert cli._run(["explain", str(run)]) == 0
    text = capfd.readouterr().out
    assert text.startswith(f"{small_runs.ANOMALY} ({small_runs.LAW}), violation 1 of 1: ")
    assert "partition of broker-0" in text and "master in epoch 2" in text
    assert cli._run(["explain", str(run), small_runs.ANOMALY, "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    named = {row for one in told["arrows"] if one["named"] for row in one["rows"]}
    (violation,) = (one for law in json.loads((run / "verdict.json").read_text())["laws"] for one in law["anomalies"])
    assert set(violation["rows"]) <= named and told["of"] == 1
    assert cli._run(["explain", str(run), "--markdown"]) == 0
    table = [line for line in capfd.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(table) == len(told["arrows"]) + 1
    assert all(f"stormproof explain {run.name} --rows " in line for line in table[1:])
    assert cli._run(["explain", str(run), "--svg", str(tmp_path / "why.svg")]) == 0
    assert capfd.readouterr().out == f"{tmp_path / 'why.svg'}\n"
    assert "</svg>" in (tmp_path / "why.svg").read_text()
    assert cli._run(["explain", str(run), "--svg", str(tmp_path / "why.svg"), "--json"]) == 3
    for word in ("2", "0", "lost", "²"):
        assert cli._run(["explain", str(run), word]) == 3
        assert f"named: {small_runs.ANOMALY}" in capfd.readouterr().err


def test_a_run_without_a_violation_is_one_sentence(tmp_path: Path) -> None:
    record_run(tmp_path)
    write_meta(tmp_path, {"run": "r", "seed": 7})
    write_verdict(tmp_path, judged(Validity.VALID))
    with pytest.raises(BadInput, match="is VALID: only a violation can be explained"):
        explain(tmp_path)
