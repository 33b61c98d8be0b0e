"""``stormproof demo``: the correct system survives, the planted bug is caught; a sentence and a page at the end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.judging import class_archive
from stormproof import cli
from stormproof.commands import demo
from stormproof.commands._single import Ended


def test_the_demo_needs_no_java_and_ends_with_a_sentence_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(class_archive, "_version", lambda java: -1)
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert re.findall(r"^stormproof ([^#]+?) *#", readme, re.MULTILINE) == ["demo"], "run each here that it proposes"
    assert cli._run(["demo"]) == 0
    *lines, sentence, page = capsys.readouterr().out.splitlines()
    assert sentence == (
        "The correct system: nothing was lost: 1,739 acknowledged writes survived 7 faults and 5 masters. With one"
        " planted bug: 720 acknowledged messages were lost. This page shows how:"
    )
    assert Path(page).is_file() and page.startswith("runs/stale-master-1-")
    assert [line[:1] for line in lines if line.startswith(("✓", "✕"))] == ["✓", "✕"]


@pytest.mark.parametrize(("correct", "broken", "code"), [(0, 0, 3), (1, 1, 1), (2, 1, 2), (3, 1, 3), (0, 2, 3)])
def test_what_came_out_otherwise_is_no_success(
    correct: int, broken: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo._conclude(Ended(code=correct), Ended(code=broken)) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: the ")
