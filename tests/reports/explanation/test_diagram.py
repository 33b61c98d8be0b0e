"""The sequence diagram: who takes part, what leads where, and that nothing of a tested system gets out of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.errors import BadInput
from reports.explanation.diagram import draw, lanes, write
from reports.explanation.sequence import Arrow, Explanation
from tests.reports.run_report.test_html import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"


def told(*arrows: Arrow, run: Path = Path("run")) -> Explanation:
    return Explanation(
        run=run, law="durability", name="lost", text="0/1 is gone", number=1, of=1, arrows=arrows, notes=[]
    )


def arrow(row: int, source: str, target: str, what: str, **others: object) -> Arrow:
    return replace(
        Arrow(at_s=row, source=source, target=target, what=what, text=f"{what} happens", rows=(row,), named=False),
        **others,
    )  # type: ignore[arg-type]


SEND = arrow(1, "producer-0", "broker-0", "send invoke")
ACKED = arrow(2, "broker-0", "broker-0", "acked", decided=("Replication.acknowledged_end",), rows=(2, 4))
OK = arrow(5, "broker-0", "producer-0", "send ok", named=True)
CUT = arrow(3, "faults", "broker-0, broker-1", "partition")


def test_faults_and_clients_stand_left_of_the_nodes() -> None:
    elected = arrow(6, "controller-0", "broker-1", "role master")
    assert lanes([SEND, CUT, OK, elected]) == ["faults", "producer-0", "broker-0", "broker-1", "controller-0"]


def test_an_arrow_leads_to_the_first_of_its_rows_that_can_be_read() -> None:
    picture = ElementTree.fromstring(draw(told(SEND, CUT, ACKED, OK), {4: "#row-1-4", 5: "#row-1-5"}))
    found = {link.get("href"): " ".join(link.itertext()) for link in picture.iter(f"{SVG}a")}
    assert list(found) == ["#row-1-4", "#row-1-5"]
    assert "decided by Replication.acknowledged_end" in found["#row-1-4"]
    assert "stormproof explain run --rows 2,4" in found["#row-1-4"]
    assert "partition happens" in "".join(picture.itertext())


def test_a_fault_points_at_each_target_that_takes_part() -> None:
    assert len(re.findall("<path", draw(told(SEND, CUT), {}))) == 2
    both = draw(told(SEND, CUT, arrow(4, "broker-1", "broker-1", "role slave")), {})
    assert len(re.findall("<path", both)) == 3


def test_hostile_names_stay_text() -> None:
    bad = arrow(1, HOSTILE, HOSTILE * 3, HOSTILE, decided=(HOSTILE,))
    picture = ElementTree.fromstring(draw(told(bad), {1: 'x"onclick="y'}))
    assert {each.tag.removeprefix(SVG) for each in picture.iter()} <= {
        "svg", "title", "rect", "line", "text", "a", "g", "circle", "path",
    }  # fmt: skip
    assert not [name for each in picture.iter() for name in each.attrib if name.startswith("on")]


def test_a_file_leads_into_the_report_of_the_run(tmp_path: Path) -> None:
    run = tmp_path / "a run"
    run.mkdir()
    (run / "report.html").write_text('<tr id="row-1-4"><tr id="row-2-4"><tr id="row-2-5">')
    file = write(tmp_path / "why.svg", told(SEND, ACKED, OK, run=run))
    picture = ElementTree.parse(file).getroot()
    assert [link.get("href") for link in picture.iter(f"{SVG}a")] == [
        "a%20run/report.html#row-1-4", "a%20run/report.html#row-2-5",
    ]  # fmt: skip
    with pytest.raises(BadInput, match="cannot write"):
        write(tmp_path / "nowhere" / "why.svg", told(SEND))
