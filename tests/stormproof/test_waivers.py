"""What an experiment waives is shown beside the verdict, within its bound, and what exceeds that stays a violation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from chaos.errors import BadInput
from chaos.experiment.reader import load
from chaos.history.directory import read_meta, read_verdict
from chaos.history.history import History
from chaos.history.run_meta import RunMeta
from chaos.judging.outcome import judge
from chaos.judging.registry import registry
from chaos.judging.run import ExaminedRun, examine_run
from chaos.judging.waiving import waive
from chaos.law import Partial
from chaos.verdict import Anomaly, Engine, RunVerdict, Validity, Verdict
from chaos.waiver import Waiver, problem_of
from checkers.order import DELIVERED
from stormproof import cli

OVER_FULL, REASON = "over-full", "<b>known</b>, and being fixed"
EXPERIMENT = """\
name: waived
system: {reference: {queues: 1}}
duration: 3s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 40}
waive:
"""
ONE = f'  - {{anomaly: over-full, reason: "{REASON}", most: 100000}}\n'


def problems(folder: Path, waived: str) -> list[str]:
    file = folder / "waived.yaml"
    file.write_text(EXPERIMENT + waived)
    with pytest.raises(BadInput) as caught:
        load(file, deployment="sim")
    return [problem.partition(": ")[2] for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("waived", "sentence"),
    [
        ("  - {anomaly: lost, reason: so be it, most: 1}\n", "`lost` can't be waived"),
        ("  - {anomaly: unexpected, reason: so be it, phase: load}\n", "`unexpected` can't be waived"),
        ("  - {anomaly: over-ful, reason: so be it, most: 1}\n", "did you mean 'over-full'"),
        ("  - {anomaly: over-full, reason: so be it}\n", "exactly one of most (how many violations), phase"),
        ("  - {anomaly: over-full, reason: so be it, most: 1, phase: load}\n", "exactly one of most"),
        ("  - {anomaly: over-full, reason: so be it, phase: lod}\n", "unknown phase 'lod'"),
        ("  - {anomaly: over-full, reason: so be it, most: 0}\n", "most"),
        ('  - {anomaly: over-full, reason: " ", most: 1}\n', "expected a sentence in one line"),
        (ONE + ONE, "`over-full` is waived twice"),
    ],
)
def test_a_waiver_that_can_not_be_is_refused_in_a_sentence(tmp_path: Path, waived: str, sentence: str) -> None:
    (problem,) = problems(tmp_path, waived)
    assert sentence in problem and "\n" not in problem, problem


def test_a_forbidden_waiver_ends_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "waived.yaml").write_text(EXPERIMENT + "  - {anomaly: lost, reason: so be it, most: 1}\n")
    assert cli._run(["run", str(tmp_path / "waived.yaml"), "--on", "sim", "--out", str(tmp_path)]) == 3
    assert "waived.yaml:7" in (told := capfd.readouterr().err) and "`lost` can't be waived" in told


@pytest.mark.parametrize("written", [[{"anomaly": "lost", "reason": "so", "most": 1}], ["x"], [{"most": "1"}], [{}]])
def test_a_waiver_in_a_run_that_no_experiment_has_is_damage(written: list[object]) -> None:
    assert problem_of(written) and not problem_of([{"anomaly": "stalled", "reason": "so", "most": 1, "phase": ""}])


@pytest.mark.parametrize(("most", "why", "validity"), [(3, "", "VALID"), (3, "a gap", "UNKNOWN"), (2, "", "INVALID")])
def test_a_law_without_its_waived_violations_is_what_it_would_be(
    tmp_path: Path, most: int, why: str, validity: str
) -> None:
    found = Anomaly(law="order", name=OVER_FULL, explanation="so", rows=(1,))
    law = Verdict(law="order", validity=Validity.INVALID, anomalies=(found, replace(found, rows=(), count=2)), why=why)
    meta = replace(RunMeta(), waivers=(Waiver(anomaly=OVER_FULL, reason="so", most=most),))
    (left,), (waived,) = waive(tmp_path, meta, [law])
    assert left.validity is Validity(validity)
    assert (waived.count, waived.beyond) == ((3, 0) if most == 3 else (0, 3))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("waived")
    (folder / "waived.yaml").write_text(EXPERIMENT + ONE)
    words = ["run", str(folder / "waived.yaml"), "--on", "sim", "--seed", "1", "--engine", "local"]
    assert cli._run([*words, "--out", str(folder / "runs")]) == 0
    return next((folder / "runs").glob("waived-1-*"))


@pytest.fixture(scope="module")
def examined(run: Path) -> ExaminedRun:
    """The run as if two pulls of the load had given too much, and one of the final reading."""
    found, history = examine_run(run), History.open(run)
    drain_ns = history.phases["drain"]
    pulls = [row for row in history.each("op", "pull") if row.type == "ok"]
    early, late = ([row.index for row in pulls if (row.time_ns >= drain_ns) is later] for later in (False, True))
    wrong = [Anomaly(law="order", name=OVER_FULL, explanation="too much", rows=(row,)) for row in (*early[:2], late[0])]
    of_order = next(n for n, law in registry().kernels.items() if law.needs.part == DELIVERED.part)
    return replace(found, examined=[*found.examined, (of_order, Partial(anomalies=wrong))])


def judged(examined: ExaminedRun, *, write: bool = False, reason: str = "so", **bound: Any) -> RunVerdict:
    waivers = (Waiver(anomaly=OVER_FULL, reason=reason, **bound),) if bound else ()
    meta = replace(examined.meta, waivers=waivers)
    return judge([replace(examined, meta=meta)], engine=Engine.LOCAL, write=write)[0]


def test_the_run_notes_what_its_experiment_waives(run: Path) -> None:
    assert read_meta(run).waivers == (Waiver(anomaly=OVER_FULL, reason=REASON, most=100_000),)
    assert not read_verdict(run).waived, "nothing was to be waived"


def test_what_is_waived_stands_beside_the_verdict_everywhere(run: Path, examined: ExaminedRun) -> None:
    (waived,) = judged(examined, write=True, most=3, reason=REASON).waived
    verdict = read_verdict(run)
    assert verdict.validity is Validity.VALID and verdict.waived == [waived] and not verdict.violations
    assert verdict.line == f"VALID; 3 × over-full waived (at most 3): {REASON}"
    assert cli._run(["report", str(run)]) == 0
    page = (run / "report.html").read_text("utf-8")
    assert "&lt;b&gt;known" in page and "<b>known" not in page
    cases = ElementTree.parse(run / "junit.xml")
    assert [one.get("value") for one in cases.iter("property") if one.get("name") == "waived"] == [waived.words]


def test_what_exceeds_the_bound_is_invalid(examined: ExaminedRun) -> None:
    assert judged(examined).validity is Validity.INVALID
    beyond = judged(examined, most=2)
    assert beyond.validity is Validity.INVALID and beyond.anomaly_counts() == {OVER_FULL: 3}
    assert beyond.line == "INVALID; 3 × over-full not covered by its waiver (at most 2)"


def test_a_phase_bounds_a_waiver(examined: ExaminedRun) -> None:
    for phase, count in (("load", 2), ("drain", 1), ("setup", 0)):
        verdict = judged(examined, phase=phase)
        assert verdict.validity is Validity.INVALID, "the others are violations"
        assert (verdict.waived[0].count, verdict.waived[0].beyond) == (count, 3 - count)
    first = [(number, replace(one, anomalies=one.anomalies[:2])) for number, one in examined.examined[-1:]]
    early = replace(examined, examined=[*examined.examined[:-1], *first])
    assert judged(early, phase="load").validity is Validity.VALID
