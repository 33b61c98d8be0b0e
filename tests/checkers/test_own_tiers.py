"""Histories of replicas with a tier of their own each: what it holds in the end against the logs, and by itself."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, REPORTED, SIZE, History, content, m
from tests.checkers.names import A, L

LAWS = (L.UPLOAD_BOUND, L.TIER_CONTINUITY, L.TIER_METADATA)
OF_OWN_TIERS = {*REPORTED, "tier-content"} - {"tier", "confirm", "roles"}
META = {
    "nodes": [{"name": name, "role": "broker"} for name in BROKERS],
    "tells": sorted(OF_OWN_TIERS),
}


def held(*sequences: int, node: str = "broker-0", start: int = 0, end: int = -1, minimum: int = 0) -> History:
    """Three equal logs of four messages; the tier of one broker holds these from ``start`` on, and says so, or that it
    ends at ``end``."""
    history = History(meta=META)
    history.phase("recover")
    history.recovered()
    history.phase("drain")
    history.phase("collect")
    for name in BROKERS:
        history.log(name, *range(4))
        history.node(name, confirm=4 * SIZE, minimums={"0": minimum}, maximums={"0": 4})
    for offset, sequence in enumerate(sequences, start):
        message = m(sequence)
        history.row("final", f="tiered", node=node, queue=0, offset=offset, message=message, hash=content(message))
    last = start + len(sequences) if end < 0 else end
    history.row("final", f="tier_queue", node=node, queue=0, value={"minimum": start, "maximum": last})
    return history


@pytest.mark.parametrize("law", LAWS)
def test_a_tier_that_holds_what_the_logs_hold_is_valid(law: str) -> None:
    held(0, 1, 2, 3).expect(law, validity=Validity.VALID)
    held(1, 2, start=1).expect(law, validity=Validity.VALID)  # it began late, and is not at the end yet


@pytest.mark.parametrize("law", LAWS)
def test_a_tier_of_which_nothing_was_read_is_unknown(law: str) -> None:
    history = held(0, 1)
    history.rows = [row for row in history.rows if row["f"] not in ("tiered", "tier_queue")]
    history.expect(law, validity=Validity.UNKNOWN)


@pytest.mark.parametrize("law", LAWS)
def test_where_nobody_tells_of_the_tier_no_law_applies(law: str) -> None:
    history = held(0, 1)
    history.meta = {**META, "tells": sorted(OF_OWN_TIERS - {"tier-content"})}
    history.expect(law, validity=Validity.NOT_APPLICABLE)


@pytest.mark.parametrize("law", [L.TIER_CONTINUITY, L.TIER_METADATA])
def test_a_tier_that_could_not_be_read_is_unknown_whatever_others_hold(law: str) -> None:
    history = held(0, 1, 2, 3)
    history.row("final", f="tier_unread", node="broker-1", value={"reason": "its host is gone"})
    assert "the tier of broker-1 was not read" in history.expect(law, validity=Validity.UNKNOWN).why


def test_a_tier_with_another_record_than_the_logs_is_found() -> None:
    held(0, 1, 7, 3).expect(L.UPLOAD_BOUND, A.TIER_LOG_MISMATCH)
    history = held(0, 1, 2, 3, node="broker-1")  # another replica's tier is right, and told first
    history.row("final", f="tiered", node="broker-2", queue=0, offset=2, message=m(7), hash=content(m(7)))
    history.expect(L.UPLOAD_BOUND, A.TIER_LOG_MISMATCH)


def test_a_tier_that_goes_on_where_all_logs_end_is_found() -> None:
    held(0, 1, 2, 3, 4).expect(L.UPLOAD_BOUND, A.UPLOAD_BEYOND_CONFIRM)


def test_where_a_replica_was_not_read_to_its_end_nobody_knows_what_was_confirmed() -> None:
    history = held(0, 1, 2, 3, 4)
    history.rows = [row for row in history.rows if (row["f"], row["node"]) != ("complete", "broker-2")]
    history.expect(L.UPLOAD_BOUND, validity=Validity.UNKNOWN)


def test_a_tier_that_lacks_what_it_claims_is_found() -> None:
    held(0, 1, end=4).expect(L.TIER_CONTINUITY, A.TIER_GAP)
    history = held(0, 1, 2, 3)
    history.rows = [row for row in history.rows if (row["f"], row["offset"]) != ("tiered", 1)]
    history.expect(L.TIER_CONTINUITY, A.TIER_GAP)


def test_a_tier_that_holds_an_offset_twice_is_found() -> None:
    history = held(0, 1, 2)
    history.row("final", f="tiered", node="broker-0", queue=0, offset=1, message=m(1), hash=content(m(1)))
    history.expect(L.TIER_CONTINUITY, A.TIER_OVERLAP)
    other = held(0, 1, 2)  # that another replica's tier holds it too is as it should be
    other.row("final", f="tiered", node="broker-1", queue=0, offset=1, message=m(1), hash=content(m(1)))
    other.expect(L.TIER_CONTINUITY, validity=Validity.VALID)


def test_a_log_that_begins_after_the_end_of_its_tier_is_found() -> None:
    held(0, 1, minimum=3).expect(L.TIER_CONTINUITY, A.TIER_GAP)
    held(0, 1, 2, minimum=3).expect(L.TIER_CONTINUITY, validity=Validity.VALID)


def test_a_tier_that_all_share_is_held_against_each_log() -> None:
    """It is that of no node."""
    for law in LAWS:
        held(0, 1, 2, 3, node="").expect(law, validity=Validity.VALID)
    held(0, 1, 7, 3, node="").expect(L.UPLOAD_BOUND, A.TIER_LOG_MISMATCH)
    found = held(0, 1, 2, 3, 4, node="").expect(L.UPLOAD_BOUND, A.UPLOAD_BEYOND_CONFIRM)
    assert "Queue 0: the tier holds offset 4" in found.anomalies[0].explanation
    held(0, 1, node="", end=4).expect(L.TIER_CONTINUITY, A.TIER_GAP)
    held(0, 1, node="", minimum=2).expect(L.TIER_CONTINUITY, validity=Validity.VALID)
    (late, *_) = held(0, 1, node="", minimum=3).expect(L.TIER_CONTINUITY, A.TIER_GAP).anomalies
    assert "The log of broker-" in late.explanation
    history = held(0, 1, node="")
    history.row("final", f="tier_unread", value={"reason": "it is gone"})
    for law in (L.TIER_CONTINUITY, L.TIER_METADATA):
        assert "the tier was not read" in history.expect(law, validity=Validity.UNKNOWN).why


def test_what_a_power_cut_may_have_taken_from_all_logs_may_have_been_uploaded_in_time() -> None:
    history = held(0, 1, 2, 3, 4)
    history.meta = {**META, "profile": {"flush": "async"}, "deployment": "netns", "loss_window_s": 60.0}
    history.undo("kill", history.inject("kill", *BROKERS))
    history.expect(L.UPLOAD_BOUND, A.UPLOAD_BEYOND_CONFIRM)  # a kill takes nothing
    process = history.inject("lose_unsynced", *BROKERS, effects={"takes_down": [*BROKERS]})
    shown = {"phase": "undo", "effective": True, "proof": {name: {"blocks_lost": 2} for name in BROKERS}}
    history.row("fault", type="ok", f="lose_unsynced", process=process, value=shown)
    assert "all logs have lost it" in history.expect(L.UPLOAD_BOUND, validity=Validity.UNKNOWN).why


@pytest.mark.parametrize(
    ("about", "kind", "law", "anomaly"),
    [
        ("content", "dangling", L.TIER_CONTINUITY, A.TIER_MISSING_OBJECT),
        ("content", "overlap", L.TIER_CONTINUITY, A.TIER_OVERLAP),
        ("metadata", "contradiction", L.TIER_METADATA, A.METADATA_DIVERGENCE),
    ],
)
def test_damage_of_its_files_is_told(about: str, kind: str, law: str, anomaly: str) -> None:
    history = held(0, 1, 2, 3)
    value = {"about": about, "kind": kind, "text": "a file: it is not as it should be"}
    history.row("final", f="tier_damage", node="broker-0", queue=0, value=value)
    history.expect(law, anomaly)
    for other in set(LAWS) - {law}:
        history.expect(other, validity=Validity.VALID)
