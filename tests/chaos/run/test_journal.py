"""The undo journal: what a killed harness left is known, newest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.fault import Undo, Verb
from chaos.run.journal import JOURNAL, Journal, pending


def _undo(verb: Verb, subject: str) -> Undo:
    return Undo(verb=verb, subject=subject)


def test_nothing_is_pending_without_a_journal(tmp_path: Path) -> None:
    assert pending(tmp_path) == []


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


def test_a_torn_or_damaged_line_hides_no_other(tmp_path: Path) -> None:
    journal = Journal(tmp_path, durable=False)
    journal.planned("fault-0", [_undo(Verb.START, "a")])
    journal.close()
    with (tmp_path / JOURNAL).open("a") as file:
        file.write('[1]\n{"injection":"fault-9","undo":[["no-such-verb","x"]]}\n{"injection":"fault-1","undo":[["sta')
    assert pending(tmp_path) == [_undo(Verb.START, "a")]


@pytest.mark.parametrize("durable", [True, False])
def test_only_a_durable_journal_is_synced(tmp_path: Path, durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    journal = Journal(tmp_path, durable=durable)
    journal.planned("fault-0", [])
    journal.close()
    assert len(synced) == durable
