"""What many rows say together: causes, what preceded them, coverage, saturation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.errors import DamagedHistory
from reports.sweeps import html
from reports.sweeps.row import Failure, Row, Seen, read, write
from reports.sweeps.saturation import saturation
from reports.sweeps.table import as_object, causes_in_words, heat, tabulate

LOST = Failure(law="durability", anomalies=("lost",), origin="a log was cut", at_s=5.0, faults=1)
READ = Failure(law="agreement", anomalies=("differs",), origin="a log was cut", at_s=6.0, faults=1)
EARLY = Failure(law="order", anomalies=("swapped",), origin="neither", at_s=0.5, faults=0)


def row(
    seed: int,
    *failures: Failure,
    events: Mapping[str, float] | None = None,
    states: tuple[str, ...] = ("calm",),
    hits: Mapping[str, int] | None = None,
) -> Row:
    return Row(
        file=0,
        seed=seed,
        verdict="INVALID" if failures else "VALID",
        code=1 if failures else 0,
        digest=f"digest {seed}",
        failures=failures,
        seen=Seen(events=events or {}, states=states, hits=hits or {}),
        simulated_s=seed / 10,
    )


def table_of(*rows: Row):
    return tabulate(rows, ["storm"], "", len(rows))


def test_signatures_that_the_same_runs_have_are_one_cause() -> None:
    (both,) = table_of(row(1, LOST, READ), row(2, READ, LOST), row(3)).causes
    assert [law for law, _, _ in both.signatures] == ["agreement", "durability"]
    assert both.runs == ((0, 1), (0, 2)) and str(both.overall) == "2 of 3"
    apart = table_of(row(1, LOST, READ), row(2, READ), row(3)).causes
    assert [len(one.runs) for one in apart] == [2, 1]


def test_failures_without_any_fault_come_first_and_are_the_example() -> None:
    first, second = table_of(row(1, LOST), row(2, LOST), row(3, EARLY)).causes
    assert (first.faultless, first.example) == (1, (0, 3))
    assert (second.faultless, second.runs) == (0, ((0, 1), (0, 2)))


def test_what_always_came_before_is_told_with_both_probabilities_and_a_passing_run() -> None:
    rows = [
        row(1, LOST, events={"kill": 1.0, "load": 0.0, "cut": 4.0}),
        row(2, LOST, events={"kill": 2.0, "load": 0.0, "cut": 4.0}),
        row(3, events={"kill": 1.0, "load": 0.0}),
        row(4, events={"load": 0.0}),
    ]
    (cause,) = table_of(*rows).causes
    cut, kill = cause.candidates  # and not `load`, which every run has
    assert (cut.event, cut.always, str(cut.failure_given_event), cut.passing) == ("cut", True, "2 of 2", None)
    assert (kill.event, str(kill.event_given_failure), str(kill.failure_given_event)) == ("kill", "2 of 2", "2 of 3")
    assert kill.passing == (0, 3)


def test_what_came_after_the_failure_did_not_precede_it() -> None:
    rows = [row(1, LOST, events={"alarm": 5.5}), row(2), row(3)]
    assert table_of(*rows).causes[0].candidates == []
    rows[0] = row(1, LOST, events={"alarm": 4.5})
    assert [one.event for one in table_of(*rows).causes[0].candidates] == ["alarm"]


def test_runs_that_are_unknown_or_broke_the_harness_are_causes_by_their_reason() -> None:
    unknown = Row(file=0, seed=1, verdict="UNKNOWN", code=2, told={"why": ["no kill took effect"]})
    error = Row(file=0, seed=2, verdict="ERROR", code=3, told={"why": ["no port is free"]})
    found = table_of(unknown, error, row(3)).causes
    assert [one.signatures[0] for one in found] == [
        ("ERROR", (), "no port is free"),
        ("UNKNOWN", (), "no kill took effect"),
    ]
    assert all(not one.candidates for one in found)


def test_coverage_counts_hits_by_fault_role_and_moment_and_shows_what_never_was() -> None:
    kill = {"kill|master|steady": 2}
    (one,) = table_of(row(1, hits=kill), row(2, hits={**kill, "kill|master|no master": 1})).covered
    assert (one.fault, one.role, one.moments["steady"], one.moments["no master"]) == ("kill", "master", 4, 1)
    assert one.moments["two masters"] == 0


def test_the_table_does_not_depend_on_the_order_of_rows_nor_on_how_long_they_took() -> None:
    rows = [row(seed, *([LOST] if seed % 3 == 0 else []), events={"kill": 1.0}) for seed in range(20)]
    told = table_of(*rows)
    Random(7).shuffle(rows)
    again = table_of(*rows)
    assert as_object(told) == as_object(again)
    assert told.digest == again.digest != table_of(*rows[1:]).digest


def test_saturation_bounds_the_chance_of_a_new_state_and_the_bound_holds() -> None:
    calm = saturation([row(seed) for seed in range(250)])[0]
    assert (calm.states, calm.new, calm.single.hits) == (1, (1, 0, 0), 0)
    assert calm.bound == pytest.approx(0.0237, abs=1e-3)  # 125 seeds, of which none saw anything new
    ever_new = saturation([row(seed, states=(f"state {seed}",)) for seed in range(40)])[0]
    assert ever_new.single.value == 1.0 and ever_new.bound == 1.0
    held = 0
    for trial in range(100):  # each seed sees 3 of 40 states, some of them rare
        draw, weights = Random(trial), [0.5**n for n in range(40)]
        seeds = [tuple(map(str, draw.choices(range(40), weights, k=3))) for _ in range(60)]
        known = {int(state) for one in seeds for state in one}
        missing = 1 - (sum(weights[n] for n in known) / sum(weights)) ** 3
        held += missing <= saturation([row(n, states=one) for n, one in enumerate(seeds)])[0].bound
    assert held >= 95


def test_a_row_comes_back_as_it_was_written_and_what_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "0-1.json"
    kept = row(1, LOST, events={"kill": 1.0}, hits={"kill|master|steady": 1})
    write(path, kept)
    assert read(path) == kept
    for text in ("{", "{}", "[]", '{"file": 0}'):
        path.write_text(text)
        with pytest.raises(DamagedHistory, match=r"0-1\.json"):
            read(path)


def test_the_page_shows_all_of_it_escapes_values_and_links_to_reports(tmp_path: Path) -> None:
    hostile = Failure(law="<b>law", anomalies=("<i>",), origin="x", at_s=1.0, faults=1)
    failed = row(1, hostile, events={"<script>": 0.5}, hits={"kill|<u>|steady": 1})
    run = tmp_path / "runs" / "0-1" / "storm & co"
    run.mkdir(parents=True)
    (run / "report.html").write_text("")
    failed = Row(**{**{name: getattr(failed, name) for name in Row.__slots__}, "run": "runs/0-1/storm & co"})
    text = html.write(tmp_path, tabulate([failed, row(2)], ["storm"], "", 5)).read_text()
    assert "3 of 5 have not run" in text and 'href="runs/0-1/storm%20%26%20co/report.html"' in text
    for tag in ("<b>law", "<i>", "<script", "<u>"):
        assert tag not in text
    assert "&lt;script&gt;" in text and "always" in text and "at most" in text
    assert "Shrunk:" not in text
    small = run.with_name("storm & co-shrunk")
    (small / "storm-1").mkdir(parents=True)
    for name in ("minimal.yaml", "minimal.json", "storm-1/report.html"):
        (small / name).write_text("")
    text = html.write(tmp_path, tabulate([failed, row(2)], ["storm"], "", 5)).read_text()
    assert 'href="runs/0-1/storm%20%26%20co-shrunk/storm-1/report.html"' in text and "co-shrunk/minimal.yaml" in text


def test_what_one_decision_broke_is_one_cause_however_it_showed() -> None:
    acked: dict[str, Any] = {
        "decided_by": "Replication.acknowledged_end",
        "title": "9 acknowledged messages were lost",
        "story": "kill → a log was cut",
        "chain": ({"kind": "why", "at_s": 1.0, "text": "it acknowledges too much"},),
    }
    rows = [row(1, replace(LOST, **acked), replace(READ, **acked)), row(2, replace(EARLY, **acked)), row(3, READ)]
    told = table_of(*rows, row(4))
    one, other = told.causes
    assert one.first is not None and one.first.decided_by == acked["decided_by"]
    assert (one.title, len(one.runs), len(one.signatures)) == (acked["title"], 2, 3)
    assert other.first is not None and (other.first.decided_by, other.runs) == ("", ((0, 3),))
    assert causes_in_words(told) == "2 causes in 3 of 4 runs"
    shown = as_object(told)["clusters"][0]
    assert {name: shown[name] for name in acked} == {**acked, "chain": list(acked["chain"])}


def test_the_heat_of_a_cell_grows_with_its_count() -> None:
    assert heat(0, 0) == heat(0, 9) == 0.0 and heat(1000, 1000) == 1.0
    assert 0.0 < heat(1, 1000) < heat(10, 1000) < heat(100, 1000) < 1.0
    hits = {"kill|master|steady": 1000, "kill|slave|no master": 1}
    text = html.page(Path("."), table_of(row(1, hits=hits)))
    assert text.count('style="--heat: 60%">1,000<') == 1 and text.count('style="--heat: 0%"><small>never') == 10


def test_a_failed_run_says_in_json_what_happened() -> None:
    failed = replace(row(1, LOST), told={"title": "7 lost", "story": "a → b", "chain": [], "run": "elsewhere"})
    lost, calm = as_object(table_of(failed, row(2)))["runs"]
    assert (lost["title"], lost["story"], lost["chain"], lost["run"]) == ("7 lost", "a → b", [], "")
    assert "story" not in calm
