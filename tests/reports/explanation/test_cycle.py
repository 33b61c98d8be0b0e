"""A circle of orders is drawn whole, or as far as it is readable, and what it quotes stays text."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import reports
from chaos.history.directory import read_verdict, write_meta, write_verdict
from chaos.verdict import Anomaly, Order, RunVerdict, Validity, Verdict
from reports.explanation.cycle import MOST, described, draw
from tests.reports.run_report.test_html import HOSTILE, record_run
from tests.reports.timeline.test_page import Page


def circle(count: int, name: str = "transaction") -> list[Order]:
    names = [f"{name} {number}" for number in range(count)]
    return [Order(before=a, after=b, kind="wr: read by", shown=name) for a, b in pairwise([*names, names[0]])]


@pytest.mark.parametrize("count", [2, 3, MOST])
def test_each_order_has_an_arrow_and_its_words(count: int) -> None:
    drawn = str(draw(circle(count), "cycle-1"))
    assert drawn.count("<polygon") == count == drawn.count(">wr: read by<")
    assert all(f">transaction {number}<" in drawn for number in range(count))


def test_of_a_long_circle_one_arrow_stands_for_the_rest() -> None:
    drawn = str(draw(circle(40), "cycle-1"))
    assert drawn.count("<polygon") == MOST and f">by {41 - MOST} more steps<" in drawn
    assert "transaction 38, wr: read by transaction 39" in drawn  # for those who don't see it


def test_it_is_said_in_words() -> None:
    one, two = circle(2)
    words = "transaction 0, wr: read by transaction 1 (transaction); transaction 1, process: followed by transaction 0."
    assert described([one, Order(before=two.before, after=two.after, kind="process: followed by")]) == words


def test_the_report_draws_it_and_hostile_values_stay_text(tmp_path: Path) -> None:
    record_run(tmp_path)
    found = Anomaly(law="isolation", name="G1c", explanation="G1c", rows=(2, 3), cycle=tuple(circle(3, HOSTILE)))
    law = Verdict(law="isolation", validity=Validity.INVALID, anomalies=(found,))
    whole = RunVerdict(
        run="run", seed=1, validity=Validity.INVALID, laws=[law], digest="d", engine="local", seconds=0.1
    )
    write_meta(tmp_path, {"run": "run", "seed": 1, "state": "finished"})
    write_verdict(tmp_path, whole)
    assert read_verdict(tmp_path).laws[0].anomalies[0].cycle == found.cycle
    page = reports.render(tmp_path).read_text("utf-8")
    assert 'id="cycle-1-title"' in page and "<script>alert" not in page
    assert {tag for tag, _ in Page(str(draw(circle(3, HOSTILE), "c"))).tags} <= {
        *("svg", "title", "desc", "rect", "line", "polygon", "g", "text")
    }
