"""Nothing of a tested system gets out of the text or attribute that it is drawn as; texts and axes keep their room."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markupsafe import Markup

from chaos.errors import BadInput
from reports import svg
from reports.printable import printable
from reports.svg import Scale, element

REPORTS = Path(__file__).parents[2] / "reports"
NAMESPACE = "{http://www.w3.org/2000/svg}"
TAGS = "svg|g|a|rect|text|tspan|path|line|circle|poly[a-z]+|title|desc|div|span|ol|li"
HOSTILE = '</text></svg><script>alert(1)</script>" onload="alert(1)\u202e\x00\ud800&amp;'


@given(st.text(st.characters(), min_size=1))
@example(HOSTILE)
@example("]]>")
@example("<!--")
def test_any_text_is_that_text_wherever_it_stands(words: str) -> None:
    drawn = svg.picture(
        100,
        50,
        "it",
        words,
        [svg.text(1, 2, words, svg.hint(words), data_words=words), element("g", element("g", words), href=[words] * 2)],
        words=words,
    )
    root = ElementTree.fromstring(drawn)
    tags = [one.tag.removeprefix(NAMESPACE) for one in root.iter()]
    assert tags == ["svg", "title", "desc", "rect", "text", "title", "g", "g"]
    desc, text, inner = (root.find(f".//{NAMESPACE}{name}") for name in ("desc", "text", "g/{*}g"))
    assert desc is not None and text is not None and inner is not None
    shown = printable(words)
    assert [one.text or "" for one in (desc, text, inner)] == [shown] * 3
    assert text.attrib == {"x": "1", "y": "2", "fill": svg.INK, "data-words": shown}
    assert not {name for one in root.iter() for name in one.attrib if name.startswith("on")}


def test_elements_are_taken_as_they_are_and_texts_are_not() -> None:
    inside = element("b", "a < b")
    assert element("p", inside, "<b>") == "<p><b>a &lt; b</b>&lt;b&gt;</p>"
    assert element("p", title=Markup("<b>\"'")) == '<p title="&lt;b&gt;&#34;&#39;"></p>'


def test_attributes_are_named_as_svg_names_them() -> None:
    drawn = element("path", class_="a", stroke_width=1.5, viewBox="0 0 1 1", x=2.04, y=-3.0, href=None)
    assert drawn == '<path class="a" stroke-width="1.5" viewBox="0 0 1 1" x="2" y="-3"/>'
    assert element("text", data_labels=["long", "sh\nort"]) == '<text data-labels="long\nsh\ufffdort"></text>'


def test_a_text_keeps_to_its_room() -> None:
    assert [svg.cut("broker-12", letters) for letters in (9, 8, 1.5, 0)] == ["broker-12", "broker-…", "…", "…"]
    assert svg.wrapped("one two three four", 9, 2) == ["one two", "three…"]
    assert svg.wrapped("", 9) == [""]


def test_ticks_are_round() -> None:
    assert list(svg.ticks(0.0, 6.0, 6)) == [0, 1, 2, 3, 4, 5, 6]
    assert [f"{at:g}" for at in svg.ticks(1.19, 1.33, 6)] == ["1.2", "1.25", "1.3"]
    assert [f"{at:g}" for at in svg.ticks(-1.0, 20.0, 11)] == [
        "0",
        "2",
        "4",
        "6",
        "8",
        "10",
        "12",
        "14",
        "16",
        "18",
        "20",
    ]
    assert list(svg.ticks(3.0, 3.0, 6)) == [3.0]


def test_what_lies_outside_of_a_scale_is_at_its_end() -> None:
    scale = Scale(first=2.0, last=4.0, start=10, length=100)
    assert [scale.place(value) for value in (1.0, 2.0, 2.5, 4.0, 9.0)] == [10, 10, 35, 110, 110]
    assert re.findall(r">([\d.]+) s<", "".join(scale.axis(0, 5, 4))) == ["2", "2.5", "3", "3.5", "4"]


def test_a_picture_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    drawn = svg.picture(10, 10, "it", "nothing", [])
    assert ElementTree.parse(svg.write(tmp_path / "x.svg", drawn)).getroot().tag == f"{NAMESPACE}svg"
    with pytest.raises(BadInput, match=r"cannot write .*x\.svg"):
        svg.write(tmp_path / "nowhere" / "x.svg", drawn)


def test_no_other_module_of_reports_writes_tags() -> None:
    wrong = [
        f"{path.relative_to(REPORTS)}: {found}"
        for path in sorted(REPORTS.rglob("*.py"))
        if path != REPORTS / "svg.py"
        for found in re.findall(rf"</?(?:{TAGS})[ >/]", path.read_text("utf-8"))
    ]
    assert not wrong
