"""The pictures in ``docs/design/split.md`` show what a run of the split system does.

With ``STORMPROOF_REWRITE=1`` they are drawn again. Compared is what happens and how often; not when, in which order of
nodes that don't wait for each other, nor under which numbers: these change with each entry that is written or left out.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.experiment.reader import load
from chaos.history.history import History
from reports.explanation.chosen import of_rows
from reports.explanation.diagram import draw, write
from reports.explanation.sequence import Explanation
from stormproof.launch import SIM, Launch, start
from tests.reference.golden import REWRITE
from tests.reports.explanation.split_pictures import PICTURES, picture_file, rows_of

ROOT = Path(__file__).parents[3]
FILE = ROOT / "tests" / "scenarios" / "split" / "pictures.yaml"
PAGE = ROOT / "docs" / "design" / "split.md"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    out = tmp_path_factory.mktemp("runs")
    experiment = load(FILE, deployment=SIM)
    run = start(Launch(experiment=experiment, file=FILE, deployment=SIM, seed=1, mutant="", out=out))
    return History.open(run)


def explanation(history: History, name: str) -> Explanation:
    found = of_rows(rows_of(history, name), history, PICTURES[name][0])
    return replace(found, run=Path("RUN"))


def shown(picture: str) -> Counter[str]:
    """Return the words of a picture, without what differs from one version of the system to the next."""
    text = " ".join("".join(one.itertext()) for one in ElementTree.fromstring(picture).iter(f"{SVG}text"))
    return Counter(re.sub(r"\d+(\.\d+)?", "N", re.sub(r"- ?[0-9a-f]{8,}", "-N", text)).split())


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_what_the_system_does(history: History, name: str) -> None:
    file, picture = picture_file(PAGE.parents[1], name), draw(explanation(history, name), {})
    if os.environ.get(REWRITE):
        write(file, explanation(history, name))
    assert shown(picture) == shown(file.read_text("utf-8"))
    assert f"({file.name})" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("name", PICTURES)
def test_all_rows_of_a_picture_are_drawn(history: History, name: str) -> None:
    found = explanation(history, name)
    assert not found.notes and [row for arrow in found.arrows for row in arrow.rows]
    assert any(arrow.source != arrow.target for arrow in found.arrows)
