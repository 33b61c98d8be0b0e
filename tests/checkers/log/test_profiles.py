"""What a weaker profile permits to be lost is not held against readers, but only for what is in danger then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.history.run_meta import RunMeta
from chaos.verdict import Validity
from tests.checkers.log.logs import CONTEXT, Logs, X, judged

USES = ["queues", "logs", "transactions"]
WEAK = replace(CONTEXT, meta=RunMeta.of({"uses": USES, "profile": {"flush": "async"}, "loss_window_s": 1.0}))


def power_cut(history: Logs) -> Logs:
    """All of the only broker's disk that was not flushed is lost."""
    effects = {"takes_down": ["broker-0"], "may_crash": ["broker-0"]}
    process = history.inject("lose_unsynced", "broker-0", effects=effects)
    history.rows[-1]["value"] = history.rows[-1]["value"].replace(
        '{"seen": true}', '{"broker-0": {"files_lost": 0, "blocks_lost": 3}}'
    )
    assert "blocks_lost" in history.rows[-1]["value"]
    history.undo("lose_unsynced", process)
    return history


def lost(*, wait_s: float = 0.0, read_again: bool = True) -> Logs:
    """Message 1 is read, and gone after a power cut; message 2 has its offset then."""
    history = Logs().put((0, 0))
    history.wait(5)
    history.put((1, 1)).poll({X: [(0, 0), (1, 1)]})
    history.wait(wait_s)
    power_cut(history).put((1, 2), (2, 3))
    history.poll({X: [(1, 2), (2, 3)] if read_again else [(2, 3)]})
    return history.read_all((0, 0), (1, 2), (2, 3))


@pytest.mark.parametrize("read_again", [True, False])
def test_what_a_power_cut_took_is_not_missed(read_again: bool) -> None:
    verdict = judged(lost(read_again=read_again), WEAK)
    assert verdict.validity is Validity.VALID, verdict
    assert verdict.counts["permitted_by_policy"]


def test_what_was_safe_by_then_is_missed() -> None:
    found = judged(lost(wait_s=5.0), WEAK)
    assert {"inconsistent-offsets", "nonmonotonic-poll"} <= {one.name for one in found.anomalies}
    assert found.validity is Validity.INVALID


def test_a_strict_profile_permits_none_of_it() -> None:
    assert {"inconsistent-offsets", "nonmonotonic-poll"} <= {one.name for one in judged(lost()).anomalies}


def test_what_a_run_destroyed_in_all_its_copies_is_unknown() -> None:
    def wiped(*, is_hit: bool) -> Logs:
        history = Logs().put((0, 0), (1, 1))
        if is_hit:
            history.undo("wipe", history.inject("wipe", "broker-0", effects={"loses_disk": ["broker-0"]}))
        return history.read_all((0, 0), end=2)

    known = replace(CONTEXT, meta=RunMeta.of({"uses": USES, "brokers": ["broker-0"]}))
    assert judged(wiped(is_hit=False), known).validity is Validity.INVALID
    found = judged(wiped(is_hit=True), known)
    assert found.validity is Validity.UNKNOWN and "unseen was found, but" in found.why and not found.anomalies
