"""What the tutorial shows is what its commands print."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests import tutorial

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs/tutorial.md").read_text("utf-8")
PAGE = tutorial.parse(TEXT)
#: So many words may be new before the reader's first own experiment, besides those of everybody who runs a broker.
MOST_WORDS = 12
KNOWN = {"acknowledged", "load", "master", "slave", "node", "offset", "queue"}


@pytest.fixture
def environment() -> dict[str, str]:
    """Our own ``stormproof`` first, and no width or colours of a terminal."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")}
    return {**kept, "PATH": path}


def test_the_planted_bug_is_found_as_the_tutorial_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    """The run with the bug, and what comes after it without another run or report; the rest is among the full tests."""
    planted = next(number for number, one in enumerate(PAGE.commands) if "--bug" in one.line)
    brief = [one for one in PAGE.commands[planted:] if not one.line.startswith("stormproof report")]
    assert [one.line.split()[1] for one in brief] == ["run", "$?", "explain"]
    page = replace(PAGE, commands=tuple(brief))
    assert tutorial.misfits(page, tutorial.run(page, tmp_path, environment)) == []


def test_the_numbers_of_its_prose_stand_in_what_it_shows() -> None:
    assert tutorial.unshown(TEXT) == []


def test_a_number_that_nothing_shows_is_seen() -> None:
    text = "# 1. A\n\n1. Python 3.11 prints 1,200 in 3 s, not 7 ([b](c9.md), `stormproof run --seeds 0..99`).\n"
    shown = "```console\n$ x\nlost 1200\nat: 3s\n```\n"
    assert tutorial.unshown(text + shown) == ["7"]
    assert tutorial.renumbered("Of 1,200, 3 s.\n" + shown, ["lost 1200"], ["lost 80"]) == "Of 80, 3 s.\n" + shown


def test_it_brings_twelve_new_words_at_most() -> None:
    """Each is in italics where it is new. What else the glossary has is not said, but for words of any broker."""
    prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", tutorial.FENCE.sub("", TEXT))
    new = re.findall(r"(?<!\*)\*([a-z ]+)\*(?!\*)", prose)
    assert len(new) == len(set(new)) and len(set(new) - {"italics"}) <= MOST_WORDS
    words = re.findall(r"^\| ([a-z, ]+) \|", (ROOT / "docs/concepts.md").read_text("utf-8"), re.MULTILINE)
    glossary = {word for row in words[1:] for word in row.split(", ")} | {"law", "evidence", "target", "shape", "row"}
    said = {word for word in glossary if re.search(rf"\b{word}s?\b", prose, re.IGNORECASE)}
    assert said - KNOWN <= {one.removesuffix("s") for one in new}


@pytest.mark.full
def test_every_command_of_the_tutorial_prints_what_it_shows(tmp_path: Path, environment: dict[str, str]) -> None:
    assert tutorial.misfits(PAGE, tutorial.run(PAGE, tmp_path, environment)) == []


@pytest.mark.full
def test_every_message_of_the_troubleshooting_page_is_real(tmp_path: Path, environment: dict[str, str]) -> None:
    page = tutorial.parse((ROOT / "docs/troubleshooting.md").read_text("utf-8"))
    assert tutorial.misfits(page, tutorial.run(page, tmp_path, environment)) == []


def test_another_output_is_seen(tmp_path: Path, environment: dict[str, str]) -> None:
    text = '```console\n$ printf "one\\ntwo  2\\nthree 3\\n"\none\n...\nthree 4\n$ (exit 3)\n$ echo $?\n3\n```\n'
    page = tutorial.parse(text)
    printed = tutorial.run(page, tmp_path, environment)
    assert printed == [["one", "two  2", "three 3"], [], ["3"]]
    (wrong,) = tutorial.misfits(page, printed)
    assert "the page says:\none\n...\nthree 4\nit prints:\none\ntwo  2\nthree 3" in wrong
    mended = tutorial.rewritten(text, page, printed)
    assert "\none\n...\nthree 3\n$" in mended
    assert tutorial.misfits(tutorial.parse(mended), printed) == []


def test_left_out_lines_stand_for_any_number() -> None:
    assert tutorial.fits(["a", "...", "d"], ["a", "d"])
    assert tutorial.fits(["a", "..."], ["a", "b"])
    assert not tutorial.fits(["a"], ["a", "b"])
    assert not tutorial.fits(["...", "c"], ["a", "b"])
    assert tutorial.fits(["run first-1-20260101T000000"], ["run  first-1-20270202T111111 "])
