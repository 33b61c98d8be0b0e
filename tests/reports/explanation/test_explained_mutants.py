"""Whoever is shown only the explanation of a planted bug can name the planted line: its method is in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import isfunction
from pathlib import Path

import pytest

from benchmarks.mutants import EXPERIMENTS
from reference.mutants import MUTANTS
from reports.explanation.sequence import ARROWS, explain
from stormproof import scenario_run
from stormproof.scenarios import Scenario

#: So many kinds of rows, and so many methods, may stand in an explanation besides those that must.
OTHERS = 5
#: Policy methods that decided the outcome of each mutant's scenario, besides the one that the mutant overrides.
DECIDED: Mapping[str, set[str]] = {
    "ack-before-replication": {"Replicas.candidates", "Replication.truncation_point", "CommitLog.truncate"},
    "truncation-only-in-memory": {"Replicas.candidates", "Replication.truncation_point"},
    "read-without-quorum": {"RaftPolicy.may_vote"},
}
#: Mutant → its scenario, and what its explanation must hold: a kind of row → the words with which one of them is told.
PLANTED: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "ack-before-replication": (
        "stale_master",
        {
            "partition": r"partition of .*broker-\d",
            "send invoke": r"send 0/\d+",
            "append": r"stores 0/\d+ at queue 0, offset \d+ \(epoch 1",
            "acked": r"acknowledges up to \d+, though only \d+ is confirmed",
            "send ok": r"send 0/\d+: ok at offset",
            "applied": r"elects broker-\d \(epoch 2\)",
            "role master": r"master in epoch 2, log ends at \d+",
            "role slave": r"slave of broker-\d in epoch 2",
            "truncate": r"cuts its log from \d+ to \d+",
            "drain ok": r"drain of queue 0: ok at offset",
            "tiered": r"in the end holds 0/\d+",
        },
    ),
    "truncation-only-in-memory": (
        "unreplicated_tail",
        {
            "switch": r"switch of broker-1",
            "partition": r"partition of broker-1",
            "append": r"stores 0/\d+ at queue 0, offset \d+ \(epoch 2",
            "applied": r"elects broker-\d \(epoch 3\)",
            "role master": r"master in epoch 3",
            "role slave": r"slave of broker-\d in epoch 3",
            "truncate": r"cuts its log from \d+ to \d+",
            "confirm": r"confirms up to \d+",
            "kill": r"kill of broker-1",
            "start": r"start",
            "recovered": r"comes back with its log up to \d+, past the \d+ to which it was cut in row \d+",
            "log": r"in the end holds 0/\d+",
        },
    ),
    "read-without-quorum": (
        "register",
        {
            "partition": r"partition of .*controller-\d",
            "raft leader": r"leader of term 2",
            "applied": r"applies entry \d+: register address-\d+ of register-\d",
            "read ok": r"read register-\d .*: ok \(by the leader of term 1, but controller-\d leads term 2",
        },
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("mutant", PLANTED)
def test_the_explanation_of_a_planted_bug_holds_what_was_decided_and_little_else(mutant: str, tmp_path: Path) -> None:
    scenario, _ = PLANTED[mutant]
    file = EXPERIMENTS[scenario]
    asked = Scenario(file=file, on="sim", seeds=(1,), mutant=mutant)
    hold(mutant, scenario_run.execute(asked, file, 1, tmp_path, tmp_path / "lock").directory)


def planted(mutant: str) -> set[str]:
    """The methods that a mutant overrides, by the class that they belong to."""
    (found,) = (one for one in MUTANTS if one.name == mutant)
    classes = [cls for parts in found.parts.values() for cls in parts.values()]
    return {
        f"{cls.__mro__[1].__name__}.{name}" for cls in classes for name, one in vars(cls).items() if isfunction(one)
    }


def hold(mutant: str, run: Path) -> None:
    told = explain(run)
    must = PLANTED[mutant][1]
    missing = [
        what for what, words in must.items()
        if not any(one.what == what and re.search(words, one.text) for one in told.arrows)
    ]  # fmt: skip
    assert missing == []
    assert len({one.what for one in told.arrows} - must.keys()) <= OTHERS
    decided = {method for one in told.arrows for method in one.decided}
    assert planted(mutant) | DECIDED[mutant] <= decided
    assert len(decided - planted(mutant) - DECIDED[mutant]) <= OTHERS
    assert len(told.arrows) <= ARROWS and not told.notes
