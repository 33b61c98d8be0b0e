"""The gallery in the documents: what the first screen of a report says of planted bugs, one for each of six laws; and
what the page about etcd shows of two runs.

Each story in ``docs/runs.md`` is the one that the report of the run tells. With ``STORMPROOF_REWRITE=1``
the page and its pictures, light and dark, are made again (they need Chromium): look at the difference before you commit
it. The first of them is shown on the first page of the docs, too.
"""

from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import reports
from benchmarks.mutants import EXPERIMENTS
from chaos.experiment.reader import load
from chaos.history.directory import read_verdict
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.verdict import Engine, Validity
from drivers.etcd import RECIPES
from reference.mutants import MUTANTS
from stormproof.launch import SIM, Launch, start
from tests.browser import CHROMIUM, browser
from tests.reference.golden import REWRITE

DOCS = Path(__file__).parents[3] / "docs"
PAGE, PICTURES, VERDICT_PICTURES = DOCS / "runs.md", DOCS / "gallery", DOCS / "gallery" / "verdicts"
#: The size of a first screen in pixels, the colours of its picture, and its size in bytes.
WIDTH, HEIGHT, COLOURS, MOST = 1440, 900, 80, 100_000
#: The picture on the first page, its size, and how the dark form of a picture is called.
FIRST, FIRST_SIZE = DOCS / "report.png", (1200, 1150)
DARK = ".dark.png"
#: Pictures of a cause on the page about etcd: the experiment, and where it runs.
FOREIGN = {
    "etcd-lock": pytest.param("lease_lock", "process", marks=pytest.mark.process),
    "etcd-stale-read": pytest.param("serializable_reads", "netns", marks=pytest.mark.netns),
}
#: The part of a page with the first cause, from its number to the calls that contradict one another.
CAUSE = """(() => {
  document.querySelector('.top').remove();
  const card = document.querySelector('.finding'), calls = card.querySelector('.static-timeline');
  card.scrollIntoView();
  const { left, top, right } = card.getBoundingClientRect();
  return [left - 8, top, right + 8, calls.getBoundingClientRect().bottom + 12].map(Math.round);
})()"""
#: A page's size in bytes, and on paper.
PAGE_BYTES, SHEETS = 400_000, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One run; ``remark`` says where to look in its report."""

    mutant: str
    scenario: str
    law: str
    title: str
    remark: str
    seed: int = 1

    @property
    def command(self) -> str:
        return f"stormproof run {self.scenario} --on sim --seed {self.seed} --bug {self.mutant}"


EXHIBITS = (
    Exhibit(
        mutant="ack-before-replication",
        scenario="stale_master",
        law="durability",
        title="Acknowledged messages are lost",
        remark="The missing messages are exactly those that the old master acknowledged while it was cut off; its log "
        "ran ahead of the new master's, and was cut when it came back.",
    ),
    Exhibit(
        mutant="no-truncation-on-rejoin",
        scenario="unreplicated_tail",
        law="agreement",
        title="Two replicas disagree for good",
        remark="The replica that came back kept records that its group had never agreed on. The report says "
        "“meanwhile”, since no row proves that the partition made it keep them.",
    ),
    Exhibit(
        mutant="offset-before-confirm",
        scenario="stale_master",
        law="consumers",
        title="A consumer group goes back",
        remark="No message is missing. What a group had committed was gone after the change of masters.",
    ),
    Exhibit(
        mutant="election-outside-set",
        scenario="switch_storm",
        law="roles",
        title="A replica that was behind is elected",
        remark="The kill took the master away, the election chose a replica outside the in-sync set, and the others "
        "cut their logs to fit its own.",
    ),
    Exhibit(
        mutant="upload-beyond-confirm",
        scenario="quickstart",
        law="upload-bound",
        title="The tier holds what nobody confirmed",
        remark="Two faults were in force and no row shows which of them mattered, so the report names both.",
        seed=2,
    ),
    Exhibit(
        mutant="local-read",
        scenario="register",
        law="linearizable",
        title="A controller answers with an old value",
        remark="Below the first screen each object has a picture of the few calls that contradict each other, and a "
        "timeline of all.",
    ),
)


#: One run for each look of a verdict: what it is of, the planted bug, and how its title begins. The last one loses half
#: of its history.
VERDICTS = {
    "invalid": ("start/stale_master.yaml", 1, "ack-before-replication", "720 acknowledged messages were lost"),
    "valid": ("start/quickstart.yaml", 7, "", "Nothing was lost: "),
    "valid-lossy": ("start/ack_by_master_alone.yaml", 1, "", "716 lost, as the profile permits: "),
    "unknown": ("start/quickstart.yaml", 7, "", "The recording is damaged: "),
}


@pytest.mark.full
@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdicts_look_as_the_gallery_shows_them(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seed, mutant, title = VERDICTS[name]
    monkeypatch.chdir(DOCS.parent)  # commands on the page name the file as it was given
    file = Path("examples") / path
    experiment = load(file, deployment=SIM, mutant=mutant)
    run = start(Launch(experiment=experiment, file=file, deployment=SIM, seed=seed, mutant=mutant, out=tmp_path))
    if name == "unknown":
        os.truncate(run / "history.arrows", (run / "history.arrows").stat().st_size // 2)
    judge([examine_run(run)], engine=Engine.LOCAL)
    page = reports.render(run)
    heading = re.search(r"<h1>(.*?)</h1>", page.read_text("utf-8"), re.S)
    assert heading and heading[1].startswith(title)
    if os.environ.get(REWRITE):
        for width in (WIDTH, 390):
            draw(page, VERDICT_PICTURES / f"{name}-{width}.png", (width, HEIGHT))


@pytest.mark.full
@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.mutant)
def test_the_gallery_tells_what_the_report_says(tmp_path: Path, exhibit: Exhibit) -> None:
    file = EXPERIMENTS[exhibit.scenario]
    experiment = load(file, deployment=SIM, mutant=exhibit.mutant)
    asked = Launch(
        experiment=experiment, file=file, deployment=SIM, seed=exhibit.seed, mutant=exhibit.mutant, out=tmp_path
    )
    run = start(asked)
    judge([examine_run(run)], engine=Engine.LOCAL)
    page = reports.render(run)
    assert exhibit.law in {law.law for law in read_verdict(run).laws if law.validity is Validity.INVALID}
    told = story(page.read_text("utf-8"))
    assert page.stat().st_size <= PAGE_BYTES
    if CHROMIUM:
        assert sheets(page) <= SHEETS
    if os.environ.get(REWRITE):
        draw(page, PICTURES / f"{exhibit.mutant}.png", (WIDTH, HEIGHT))
        if exhibit is EXHIBITS[0]:
            draw(page, FIRST, FIRST_SIZE)
        write(exhibit, told)
    assert section(exhibit, told) in PAGE.read_text("utf-8")


@pytest.mark.full
@pytest.mark.skipif(not RECIPES[0].installed, reason="etcd is not installed: `stormproof install etcd`")
@pytest.mark.parametrize(
    ("name", "scenario", "deployment"),
    [pytest.param(name, *one.values, marks=one.marks) for name, one in FOREIGN.items()],
)
def test_what_etcd_permits_is_found_as_its_page_shows(
    tmp_path: Path, name: str, scenario: str, deployment: str
) -> None:
    line = ("run", f"etcd/{scenario}", "--on", deployment, "--seed", "1", "--engine", "local", "--out", str(tmp_path))
    done = subprocess.run([sys.executable, "-m", "stormproof", *line], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1, done.stdout + done.stderr[-2000:]
    (page,) = tmp_path.glob("*/report.html")
    assert 'class="static-timeline"' in page.read_text("utf-8")
    if os.environ.get(REWRITE):
        draw(page, DOCS / f"{name}.png", (1000, HEIGHT), CAUSE)


def test_the_gallery_shows_each_law_once_with_a_small_picture() -> None:
    assert len({exhibit.law for exhibit in EXHIBITS}) == len(EXHIBITS)
    assert {exhibit.mutant for exhibit in EXHIBITS} <= {planted.name for planted in MUTANTS}
    names = [f"{exhibit.mutant}{form}" for exhibit in EXHIBITS for form in (".png", DARK)]
    assert sorted(each.name for each in PICTURES.glob("*.png")) == sorted(names) and FIRST.with_suffix(DARK).exists()
    assert not [each.name for each in PICTURES.rglob("*.png") if each.stat().st_size > MOST]
    gallery = PAGE.read_text("utf-8").partition("\n## Gallery\n")[2].partition("\n## ")[0]
    assert re.findall(r"^### (.*)$", gallery, re.M) == [exhibit.title for exhibit in EXHIBITS]


def sheets(page: Path) -> int:
    """How many sheets of paper the page takes."""
    with browser() as tab:
        tab.open(page)
        return len(re.findall(rb"/Type\s*/Page\b", tab.printed()))


def story(page: str) -> str:
    """The title of a report, and its steps."""
    title = re.search(r"<h1>(.*?)</h1>", page, re.S)
    steps = re.search(r'<ol class="chain">(.*?)</ol>', page, re.S)
    assert title and steps
    return "\n> ".join([f"**{_text(title[1])}**", *(f"* {_text(one)}" for one in steps[1].split("</li>")[:-1])])


def _text(part: str) -> str:
    part = part.replace("</small>", ":").replace(' <span class="decided">', ", ")
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", part)).replace("\u200b", "").split())


def section(exhibit: Exhibit, told: str) -> str:
    picture = f"![The first screen of the report]({PICTURES.name}/{exhibit.mutant}.png)"
    parts = (
        f"\n### {exhibit.title}",
        f"Promise: {exhibit.law}.",
        f"    {exhibit.command}",
        f"> {told}",
        exhibit.remark,
        picture,
    )
    return "\n\n".join(parts) + "\n"


def write(exhibit: Exhibit, told: str) -> None:
    """Put a section in the place of the one with its title. Raises :class:`ValueError` when there is none."""
    page = PAGE.read_text("utf-8")
    old = re.search(rf"\n### {re.escape(exhibit.title)}\n.*?(?=\n##|\Z)", page, re.S)
    new = section(exhibit, told)
    if old is None:
        raise ValueError(f"{PAGE.name} has no section {exhibit.title!r}: add its heading where it is to stand")
    PAGE.write_text(page.replace(old.group(0), new), "utf-8")


def draw(page: Path, picture: Path, size: tuple[int, int], part: str = "") -> None:
    """Save the first screen, light and dark, with few colours: a picture of text and bars needs no more. ``part``: a
    script that gives the box of what is shown instead."""
    from PIL import Image

    width, height = size
    with browser() as tab:
        for file in (picture, picture.with_suffix(DARK)):
            tab.open(page, width=width, height=height, dark=file != picture)
            box = tab.run(part) if part else (0, 0, *size)
            tab.picture(file)
            shown = Image.open(io.BytesIO(file.read_bytes())).convert("RGB").crop(box)
            shown.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)
