"""Reports in a browser: no errors, nothing loaded, readable by everybody, and what the cursor and the buttons do.

Accessibility is judged by axe-core (``tests/axe``, only here); texts in pictures, which it doesn't judge, by the
contrast of the colours that they are drawn with.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

import reports
from chaos.history.directory import write_meta, write_verdict
from chaos.verdict import Anomaly, Permitted, RunVerdict, Validity, Verdict
from reports.run_report import strip_svg
from tests.browser import Browser, needs_browser
from tests.checkers.names import A, L
from tests.reports.run_report.histories import MadeRun, stale_master
from tests.reports.timeline.test_from_run import record

AXE = Path(__file__).parents[2] / "axe" / "axe.min.js"
CSS = Path(reports.__file__).parent / "run_report" / "report.css"
POLICY = "`flush: async` allows at the power cut of 12.0 s"
#: What an impaired reader must be able to tell apart (WCAG 2, AA).
CONTRAST = 4.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """A loss with a causal strip, one that the profile permits, and an object that is not linearizable."""

    loss: Path
    permitted: Path
    register: Path


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    history = MadeRun(tmp_path_factory.mktemp("loss"))
    rows = stale_master(history)
    for second in (0.2, 2.8, 3.2, 5.2):
        for node, end in (("broker-0", 200 if 2.0 < second < 5.0 else 100), ("broker-1", 100)):
            state = {"end": end, "synced": end - 10, "confirm": 100, "first": 0}
            history.recorder.record(
                "poll", time_ns=int((100 + second) * 1e9), type="ok", f="state", node=node, value=state
            )
    history.close()
    lost = Anomaly(
        law=L.DURABILITY, name=A.LOST, explanation="0/1 is gone", rows=(rows["lost"], rows["drain"]), queue=0,
        offset=1, message=1,
    )  # fmt: skip
    objects = tmp_path_factory.mktemp("register")
    anomaly, _ = record(objects)
    other = MadeRun(tmp_path_factory.mktemp("permitted"))
    stale_master(other)
    other.close()
    allowed = replace(lost, name=A.LOST_BY_POLICY, lawful=True, by_policy=True, policy=POLICY)
    return Pages(loss=_page(history.run, lost), permitted=_lossy(other.run, allowed), register=_page(objects, anomaly))


def _lossy(run: Path, anomaly: Anomaly) -> Path:
    """The page of a run that is VALID, since its profile permits what it lost."""
    law = Verdict(
        law=anomaly.law, validity=Validity.VALID, anomalies=(anomaly, replace(anomaly, explanation="0/2 too"))
    )
    apart = Verdict(law=L.PROGRESS, validity=Validity.NOT_APPLICABLE, why="the driver does not report tier")
    permitted = Permitted(law=anomaly.law, name=anomaly.name, policy=anomaly.policy, count=2)
    verdict = RunVerdict(
        run="r", seed=1, validity=Validity.VALID, laws=[law, apart], digest="0" * 64, engine="local", seconds=0.1,
        not_judged=["progress: the driver does not report tier"], permitted=[permitted],
    )  # fmt: skip
    profile = {"flush": "async", "acks": "all"}
    write_meta(run, {"run": "r", "seed": 1, "state": "finished", "profile": profile, "profile_from": {"by": "driver"}})
    write_verdict(run, verdict)
    return reports.render(run)


def _page(run: Path, anomaly: Anomaly) -> Path:
    broken = Verdict(law=anomaly.law, validity=Validity.INVALID, anomalies=(anomaly,), why="")
    apart = Verdict(law=L.PROGRESS, validity=Validity.NOT_APPLICABLE, why="the driver does not report tier")
    verdict = RunVerdict(
        run="r", seed=1, validity=Validity.INVALID, laws=[broken, apart], digest="0" * 64, engine="local", seconds=0.1
    )
    versions, machine = {"stormproof": "0.1.0"}, {"os": "Linux", "cores": 2, "commit": "abc"}
    write_meta(run, {"run": "r", "seed": 1, "state": "finished", "versions": versions, "machine": machine})
    write_verdict(run, verdict)
    return reports.render(run)


@needs_browser
@pytest.mark.parametrize(("dark", "width"), [(False, 1200), (True, 1200), (False, 400), (True, 400)])
def test_everybody_can_read_it_and_nothing_is_loaded(chromium: Browser, pages: Pages, dark: bool, width: int) -> None:
    for page in (pages.loss, pages.permitted, pages.register):
        chromium.open(page, width=width, dark=dark)
        assert chromium.run("document.documentElement.scrollWidth") <= width
        assert (chromium.complaints, chromium.asked) == ([], [page.as_uri()])
        chromium.run(AXE.read_text("utf-8"))
        chromium.run("for (const one of document.querySelectorAll('details')) one.open = true")
        told = chromium.run("axe.run().then((found) => found.violations)")
        assert not [_violation(one) for one in told if one["impact"] in ("serious", "critical")]


def _violation(found: dict[str, Any]) -> tuple[str, list[str]]:
    return found["id"], [node["html"][:200] + node["failureSummary"] for node in found["nodes"][:3]]


@needs_browser
def test_the_cursor_tells_each_node_before_and_after_an_event(chromium: Browser, pages: Pages) -> None:
    chromium.open(pages.loss)
    act = """(() => {
      const next = document.querySelector('[aria-label="next event"]'), table = document.querySelector('.state');
      for (let step = 0; step < 30 && !table.textContent.includes('broker-1: master 2'); step++) next.click();
      const rows = [...table.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent));
      const changed = [...table.querySelectorAll('.changed')].map((cell) => cell.textContent);
      return [rows, changed, document.querySelector('.at').textContent];
    })()"""
    rows, changed, at = chromium.run(act)
    assert rows == [
        ["broker-0", "master", "1", "200", "190", "100", "0", "cut off", "partition"],
        ["broker-1", "slave → master", "1 → 2", "100", "90", "100", "0", "intact", ""],
    ]
    assert changed == ["slave → master", "1 → 2"]
    assert at == "3.000 s, 0.000 s after “cause 1”"


@needs_browser
def test_the_axis_zooms_and_the_keyboard_moves_the_cursor(chromium: Browser, pages: Pages) -> None:
    chromium.open(pages.loss)
    width = "document.querySelector('.panel .stage').getAttribute('width')"
    assert chromium.run(width) == "100%"
    chromium.run("document.querySelector('[aria-label=\"zoom in\"]').click()")
    assert float(chromium.run(width).rstrip("%")) == pytest.approx(140)
    chromium.run("document.querySelector('[aria-label=\"fit the whole run\"]').click()")
    chromium.run("document.querySelector('.axis input').focus()")
    assert chromium.run(width) == "100%"
    before = chromium.run("document.querySelector('.at').textContent")
    chromium.call(
        "Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39
    )
    after = chromium.run("document.querySelector('.at').textContent")
    assert (before != after, bool(re.match(r"-?\d+\.\d{3} s", after))) == (True, True)


@needs_browser
def test_keys_zoom_pan_and_step_and_escape_closes_the_dock(chromium: Browser, pages: Pages) -> None:
    chromium.open(pages.loss)
    stage = "document.querySelector('.panel .stage')"
    state = f"[Math.round(parseFloat({stage}.getAttribute('width'))), {stage}.getAttribute('x').startsWith('0')]"
    assert chromium.run(state) == [100, True]
    chromium.press("w")
    chromium.press("d")
    assert chromium.run(state) == [140, False]
    chromium.press("f")
    assert chromium.run(state) == [100, True]
    dock = "document.querySelector('.dock').hidden"
    top = "document.querySelector('.panel').getBoundingClientRect().y"
    before = chromium.run(top)
    chromium.press("ArrowRight")
    assert (chromium.run(dock), chromium.run(top)) == (False, before), "it is there, and nothing has moved"
    chromium.press("Escape")
    assert chromium.run(dock)


@needs_browser
def test_a_drag_selects_a_range_and_a_double_click_shows_all_again(chromium: Browser, pages: Pages) -> None:
    chromium.open(pages.loss)
    chromium.run("document.querySelector('.panel .plot').scrollIntoView({block: 'center'})")
    box = "const { x, y, width } = document.querySelector('.panel .plot').getBoundingClientRect(); [x, y, width]"
    x, y, width = chromium.run(f"eval({box!r})")
    for kind, share, buttons in (("mousePressed", 0.25, 1), ("mouseMoved", 0.5, 1), ("mouseReleased", 0.5, 0)):
        at = {"x": x + share * width, "y": y + 5, "button": "left", "clickCount": 1, "buttons": buttons}
        chromium.call("Input.dispatchMouseEvent", type=kind, **at)
    zoomed = "parseFloat(document.querySelector('.panel .stage').getAttribute('width'))"
    assert chromium.run(zoomed) == pytest.approx(400, abs=8)
    assert chromium.run("document.querySelector('.dock').hidden"), "a drag is no click"
    chromium.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 9, y=y + 5)
    assert chromium.run("document.querySelector('.tip').textContent").endswith("”")
    for count in (1, 2):
        for kind in ("mousePressed", "mouseReleased"):
            chromium.call("Input.dispatchMouseEvent", type=kind, x=x + 9, y=y + 5, button="left", clickCount=count)
    assert chromium.run(zoomed) == 100


@needs_browser
def test_the_seconds_stay_on_top_and_have_lines_in_every_panel(chromium: Browser, pages: Pages) -> None:
    chromium.open(pages.loss, height=500)
    chromium.run("document.querySelectorAll('.panel')[1].scrollIntoView()")
    top = chromium.run("document.querySelector('.axis-head').getBoundingClientRect().top")
    assert top == pytest.approx(chromium.run("document.querySelector('.top').getBoundingClientRect().height"), abs=2)
    lines = chromium.run("[...document.querySelectorAll('.grid')].map((grid) => grid.childElementCount)")
    assert len(lines) == 1 and lines[0] >= 4
    behind = "panel.querySelector('.plot .grid, .plot use[href=\"#behind\"]').getBoundingClientRect().height"
    heights = chromium.run(f"[...document.querySelectorAll('.axis > .panel')].map((panel) => {behind})")
    assert len(heights) >= 3 and min(heights) >= 20


@needs_browser
def test_on_paper_labels_fit_the_sheet_and_commands_are_left_out(chromium: Browser, pages: Pages) -> None:
    chromium.open(pages.loss)
    wide = (
        "[...document.querySelectorAll('.bar')].map((bar) => "
        "[parseFloat(bar.getAttribute('width')), bar.querySelector('text').textContent.length])"
    )
    chromium.run("dispatchEvent(new Event('beforeprint'))")
    labels = chromium.run(wide)
    assert labels and all(letters * 5 <= share / 100 * 430 for share, letters in labels)
    chromium.call("Emulation.setEmulatedMedia", media="print")
    assert chromium.run("getComputedStyle(document.querySelector('.next')).display") == "none"
    chromium.call("Emulation.setEmulatedMedia", media="")


@needs_browser
def test_a_strip_can_be_saved_as_a_picture_that_stands_by_itself(chromium: Browser, pages: Pages) -> None:
    chromium.open(pages.loss, dark=True)
    act = """new Promise((resolve) => {
      const saved = [];
      HTMLAnchorElement.prototype.click = function () {
        saved.push([this.download, this.href]);
        if (saved.length === 2) resolve(saved);
      };
      for (const button of document.querySelectorAll('#cause-1 > .save button')) button.click();
    })"""
    (svg_name, svg), (png_name, png) = chromium.run(act)
    assert (svg_name, png_name) == ("r-cause-1.svg", "r-cause-1.png")
    picture = ElementTree.fromstring(unquote(svg.partition(",")[2]))
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "sends 0/1" in "".join(picture.itertext())
    image = base64.b64decode(png.partition(",")[2])
    assert image.startswith(b"\x89PNG")
    assert int.from_bytes(image[16:20]) == 2 * int(picture.attrib["width"])
    assert chromium.complaints == []


@needs_browser
def test_an_arrow_of_the_sequence_leads_to_its_row(chromium: Browser, pages: Pages) -> None:
    chromium.open(pages.loss)
    act = """(() => {
      const details = document.querySelector('#cause-1 .sequence').closest('details');
      details.open = true;
      const links = [...details.querySelectorAll('.sequence a')];
      const cut = links.find((one) => one.textContent.includes('cuts its log'));
      cut.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, view: window }));
      const dead = links.filter((one) => !document.getElementById(one.getAttribute('href').slice(1)));
      return [links.length > 5, dead.length, document.querySelector(':target').textContent];
    })()"""
    many, dead, row = chromium.run(act)
    assert (many, dead) == (True, 0)
    assert "truncate" in row and "old_end 200" in row


@needs_browser
def test_a_cause_has_an_address_of_its_own(chromium: Browser, pages: Pages) -> None:
    chromium.open(pages.loss)
    chromium.run("document.querySelector('#cause-1 .anchor').click()")
    assert chromium.run("[location.hash, document.querySelector(':target').id]") == ["#cause-1", "cause-1"]


def _luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(c * 2 for c in digits) if len(digits) == 3 else digits
    shares = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_texts_in_the_time_axis_stand_out_in_light_and_dark() -> None:
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w+)", block))
        for block in re.findall(r":root \{([^}]*)\}", CSS.read_text("utf-8"), re.S)
    )
    for palette in (light, light | dark):
        pairs = [(f"{kind}-ink", kind) for kind in ("fault", "master", "slave", "other", "out")]
        pairs += list(product(("ink", "soft", "link", "bad", "mark"), ("paper", "wash")))
        assert not [(a, b, palette[a]) for a, b in pairs if contrast(palette[a], palette[b]) < CONTRAST]


def test_texts_in_a_causal_strip_stand_out() -> None:
    inks = {strip_svg.INK, strip_svg.SOFT, *strip_svg.INKS.values()}
    assert not [
        (ink, paper)
        for ink, paper in product(inks, (strip_svg.PAPER, strip_svg.MASTER))
        if contrast(ink, paper) < CONTRAST
    ]


@needs_browser
def test_a_permitted_loss_looks_like_no_unqualified_success(chromium: Browser, pages: Pages) -> None:
    chromium.open(pages.permitted)
    seen = "getComputedStyle(document.querySelector('.pill')).backgroundColor"
    colour = chromium.run(seen)
    chromium.run("document.querySelector('.pill').className = 'pill VALID'")
    assert colour != chromium.run(seen)
    words = chromium.run("document.querySelector('.qualifiers').textContent")
    assert words == "2 lost, as flush: async allows at the power cut of 12.0 s"
