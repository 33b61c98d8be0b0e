"""The undo journal: what a killed harness left is known, newest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.fault import Undo, Verb
from chaos.run.journal import Journal
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
