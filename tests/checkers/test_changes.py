"""A run whose traces tell manifests by their changes is judged as one whose traces tell them whole."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from chaos.judging.outcome import judge
from chaos.judging.shard import Shard
from chaos.verdict import Engine, RunVerdict, Validity
from checkers._facts import retention
from reference.objectstore.changes import Traced
from tests.checkers.histories import History
from tests.checkers.recorded import Recording, recording


def by_changes(run: Recording) -> list[dict[str, object]]:
    """Tell manifests as the store does; returns what was told by changes."""
    known: dict[int, Traced] = {}
    found = []
    for row in run.rows:
        if row["f"] != "store_cas":
            continue
        content = row["v"]["content"]
        changes = known[row["queue"]].changes(content) if row["queue"] in known else None
        if changes is not None:
            del row["v"]["content"]
            row["v"]["changes"] = changes
            found.append(changes)
        if row["v"]["outcome"] == "applied":
            known[row["queue"]] = Traced.of(row["hash"], content)
    return found


def judged(run: Recording, directory: Path) -> RunVerdict:
    return judge([run.write(directory)], engine=Engine.LOCAL)[0]


def test_the_verdicts_are_those_of_whole_manifests(tmp_path: Path) -> None:
    whole, told = recording(), recording().copy()
    changes = by_changes(told)
    assert len(changes) > 10
    wanted, found = judged(whole, tmp_path / "whole"), judged(told, tmp_path / "told")
    assert found.laws == wanted.laws and found.digest == wanted.digest
    assert found.validity is Validity.VALID


def test_manifests_that_grow_and_are_trimmed_are_restored() -> None:
    rng, history = Random(1), History()
    known: dict[int, Traced] = {}
    wanted, short, begin, end = [], 0, 0, 0
    for version in range(200):
        begin, end = rng.randrange(begin, end + 1), end + rng.randrange(4)
        queue, segments = rng.randrange(2), [{"base": base} for base in range(begin, end)]
        content = {"start": begin, "segments": segments, "version": version}
        changes = known[queue].changes(content) if queue in known else None
        told = {"content": content} if changes is None else {"changes": changes}
        outcome = rng.choice(["applied", "conflict"])
        history.trace("store-0", "store_cas", queue=queue, hash=version, value={**told, "outcome": outcome})
        if outcome == "applied":
            known[queue] = Traced.of(version, content)
        wanted.append(content)
        short += changes is not None and changes["kept"][0] > 0
    rows = Shard(history.table())
    assert [retention.content(rows, at) for at in rows.where(f="store_cas").tolist()] == wanted
    assert short > 10


@pytest.mark.parametrize("harm", ["since", "kept"])
def test_changes_of_a_manifest_that_is_not_there_are_never_valid(tmp_path: Path, harm: str) -> None:
    told = recording().copy()
    changes = by_changes(told)
    changes[len(changes) // 2][harm] = 5 if harm == "since" else [0, 1_000]
    found = judged(told, tmp_path / "told")
    assert found.validity is Validity.UNKNOWN
    assert any("that the history lacks" in why for why in found.why)
