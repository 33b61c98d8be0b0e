"""A run says in which format it was recorded: older ones are read for ever, newer ones are refused in one sentence."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from chaos.errors import DamagedHistory
from chaos.history import directory, made, opening, pieces
from chaos.history.columns import GIVEN
from chaos.history.digests import digest
from chaos.history.format import FIELD, FIRST, FORMAT, UnknownFormat
from chaos.history.history import History
from chaos.history.recorder import Recorder
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.verdict import Engine, RunVerdict, Validity
from tests.stormproof.test_bent import calm
from tests.stormproof.test_trouble import stormproof

#: Runs on processes, with a planted bug: of the last version whose runs did not say their format, of the first one
#: whose nodes wrote typed lines, and of the first one whose operations' ends repeat their beginnings.
RECORDED = Path(__file__).parent / "recorded"


#: What is counted in another way since (of records that logs told, those of queues alone; who told confirm offsets, and
#: not how many), or was not counted then.
OTHERWISE = {"records_told", "tiered_records_compared", "confirms", "confirming_nodes", "locks"}


def findings(verdict: RunVerdict) -> list[Any]:
    return [
        (law.law, law.validity, law.why, {n: c for n, c in law.counts.items() if n not in OTHERWISE}, law.anomalies)
        for law in verdict.laws
    ]


def recorded(name: str, place: Path) -> Path:
    (run,) = opening.resolve(str(RECORDED / name), place)
    return run


def recorded_again(run: Path, place: Path) -> str:
    """Return the digest of the rows of a run if they are recorded now."""
    place.mkdir()
    history = History.open(run)
    table = history.table.filter(pc.not_equal(history.table["kind"], "trace"))
    with closing(Recorder(place, lambda: 0)) as recorder:
        for row in table.select(GIVEN).to_pylist():
            index = row.pop("index")
            assert recorder.record(**{**row, "value": json.loads(row["value"] or "null")}) == index
    return digest(History.open(place).table)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return recorded("format_1.zip", tmp_path)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("number", "found"), [(1, 15), (2, 16), (3, 32)])
def test_a_run_of_any_format_is_judged_as_when_it_was_recorded(
    number: int, found: int, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:
        monkeypatch.setattr(pieces, "LARGE_ROWS", 500)
        monkeypatch.setattr(made, "PIECE_BYTES", 1 << 17)
    run = recorded(f"format_{number}.zip", tmp_path)
    assert directory.read_meta(run).json.get(FIELD, FIRST) == number
    typed = [path for path in (run / directory.TRACES).iterdir() if path.read_bytes().startswith(b"=")]
    assert len(typed) == (0 if number == 1 else 5)
    before = directory.read_verdict(run)
    (verdict,) = judge([examine_run(run)], engine=Engine.LOCAL)
    after = directory.read_verdict(run)
    assert verdict.validity is Validity.INVALID
    assert after.digest == recorded_again(run, tmp_path / "again")
    assert (after.digest == before.digest) == (number == 3)  # digests are others since
    assert after.anomaly_counts() == before.anomaly_counts() == {"too-few-in-sync": found}
    told = {law.law for law in before.laws}
    assert [law for law in findings(after) if law[0] in told] == findings(before)


def test_a_new_run_says_its_format(tmp_path: Path) -> None:
    run = calm(tmp_path)
    assert json.loads((run / directory.META).read_text())[FIELD] == FORMAT == 3


def newer(run: Path, number: object = FORMAT + 1) -> Path:
    """The run, as a newer version would have written it."""
    directory.write_meta(run, {**json.loads((run / directory.META).read_text()), FIELD: number})
    return run


def test_a_newer_format_is_one_sentence_whatever_is_asked(old: Path, tmp_path: Path) -> None:
    newer(old)
    for words in (["check", old], ["replay", old], ["explain", old], ["rows", old, "0..1"]):
        done = stormproof(tmp_path, *words)
        assert done.returncode == 3, (words, done.stderr)
        said = " ".join(done.stderr.split())
        assert "in format 4, and this version of Stormproof reads the formats 1 to 3: update Stormproof" in said, words


def test_a_newer_run_among_others_is_listed_and_never_cleaned_away(old: Path) -> None:
    newer(old)
    assert directory.clean(old.parent, keep_failed=False) == [] and old.exists()
    listed = stormproof(old.parent, "runs", old.parent)
    assert listed.returncode == 0 and old.name in listed.stdout


@pytest.mark.parametrize("number", ["2", 0, -1, True, 2.0, None])
def test_what_is_no_format_is_damage(old: Path, number: object) -> None:
    with pytest.raises(DamagedHistory, match="the format must be a whole number"):
        directory.read_meta(newer(old, number))
    assert any("the format must be" in sentence for sentence in examine_run(old).damage)


def test_a_format_that_was_changed_is_damage_and_not_a_newer_one(tmp_path: Path) -> None:
    run = shutil.copytree(calm(tmp_path), tmp_path / "copy")
    text = (run / directory.META).read_text()
    assert f'"{FIELD}": {FORMAT}' in text
    (run / directory.META).write_text(text.replace(f'"{FIELD}": {FORMAT}', f'"{FIELD}": 6'))
    assert any("run.json is not what was written" in sentence for sentence in examine_run(run).damage)
    with pytest.raises(UnknownFormat, match="in format 6"):
        directory.read_meta(newer(run, 6))
