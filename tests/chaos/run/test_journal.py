"""The undo journal: what a killed harness left is known, newest first."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.fault import Undo, Verb
from chaos.run.journal import JOURNAL, Journal
from tests.chaos.run.journals import pending


def _undo(verb: Verb, subject: str) -> Undo:
    return Undo(verb=verb, subject=subject)


def test_what_was_not_undone_is_pending_newest_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path, durable=True)
    journal.planned("fault-0", [_undo(Verb.START, "a"), _undo(Verb.START, "b")])
    journal.planned("fault-1", [_undo(Verb.RESUME, "c")])
    journal.planned("fault-2", [_undo(Verb.CLEAR_RULE, "fault-2-0")])
    journal.done("fault-1")
    assert pending(tmp_path) == [  # readable while the harness still runs, or was killed
        _undo(Verb.CLEAR_RULE, "fault-2-0"),
        _undo(Verb.START, "b"),
        _undo(Verb.START, "a"),
    ]
    journal.close()


@pytest.mark.parametrize("durable", [True, False])
def test_only_a_durable_journal_is_synced(tmp_path: Path, durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    journal = Journal(tmp_path, durable=durable)
    journal.planned("fault-0", [])
    journal.close()
    assert len(synced) == durable


@given(
    st.lists(st.lists(st.builds(Undo, verb=st.sampled_from(Verb), subject=st.text())), max_size=6),
    st.lists(st.booleans(), min_size=12, max_size=12),
    st.data(),
)
def test_wherever_the_journal_is_torn_what_stands_whole_is_pending(
    faults: list[list[Undo]], ends: list[bool], data: st.DataObject
) -> None:
    """Each line is there before its fault is, so that a cut within it takes nothing that was done."""
    with TemporaryDirectory() as directory:
        journal, file = Journal(Path(directory), durable=False), Path(directory) / JOURNAL
        active: dict[int, list[Undo]] = {}
        after = [(0, [])]  # the size of the file after each line, and what is to be undone then
        for number, undo in enumerate(faults):
            journal.planned(f"fault-{number}", undo)
            active[number] = undo
            for done in [old for old in active if ends[2 * number + old % 2]]:
                after.append((file.stat().st_size, _newest_first(active)))
                journal.done(f"fault-{done}")
                del active[done]
            after.append((file.stat().st_size, _newest_first(active)))
        journal.close()
        size = data.draw(st.integers(0, file.stat().st_size))
        file.write_bytes(file.read_bytes()[:size])
        assert pending(Path(directory)) == [steps for end, steps in after if end <= size][-1]


def _newest_first(active: dict[int, list[Undo]]) -> list[Undo]:
    return [step for undo in reversed(active.values()) for step in reversed(undo)]
