"""Bad histories of the tier: beyond the confirm offset, two uploaders, gaps and overlaps, stale views."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, SIZE, History, content, m
from tests.checkers.names import A, L

BOUND, UPLOADER = L.UPLOAD_BOUND, L.SINGLE_UPLOADER
CONTINUITY, METADATA = L.TIER_CONTINUITY, L.TIER_METADATA


class Tiered(History):
    """A master that uploads records one by one; versions count up on their own."""

    version: int = 0

    def begin(self, count: int = 4, *, synced: tuple[str, ...] = BROKERS) -> Tiered:
        self.phase("load")
        self.master("broker-0", 1)
        for sequence in range(count):
            for node in BROKERS:
                self.append(node, sequence)
        for node in synced:
            self.trace(node, "synced", position=count * SIZE)
        self.confirm("broker-0", count * SIZE, value={"set": list(BROKERS), "proposed": []})
        return self

    def upload(
        self,
        end: int,
        *,
        node: str = "broker-0",
        epoch: int = 1,
        start: int = 0,
        segments: list[tuple[int, int]] | None = None,
        position: int = -1,
        request: bool = True,
    ) -> int:
        self.version += 1
        position = end * SIZE if position < 0 else position
        same: dict[str, Any] = {"queue": 0, "offset": end, "position": position, "epoch": epoch}
        if request:
            for verb in ("put", "cas"):
                self.trace(node, "tier_request", queue=0, epoch=epoch, value={"verb": verb, "key": f"k{start}"})
            self.trace(node, "tier_commit", **same, value={"version": self.version, "confirm": position})
        parts = [(start, end - start)] if segments is None else segments
        held = [{"key": f"k{base}", "base": base, "count": count} for base, count in parts]
        manifest = {"start": start, "end": end, "writer": node, "confirm": position, "segments": held}
        value = {"version": self.version, "outcome": "applied", "caller": node, "content": manifest}
        at = self.trace("store-0", "store_cas", hash=self.version, value=value, **same)
        return self.view(node, self.version, end, epoch) and at

    def view(self, node: str, version: int, end: int, epoch: int = 1, *, hash: int = -1) -> int:
        digest = version if hash < 0 else hash
        return self.trace(node, "tier_view", queue=0, offset=end, epoch=epoch, hash=digest, value={"version": version})

    def finals(self, *sequences: int, start: int = 0, versions: dict[str, int] | None = None) -> Tiered:
        self.phase("recover")
        self.recovered()
        self.phase("drain")
        self.phase("collect")
        for node in BROKERS:
            self.log(node, *range(4))
            self.node(node, confirm=4 * SIZE, minimums={"0": 0})
            version = (versions or {}).get(node, self.version)
            ends = {row["hash"]: row["offset"] for row in self.rows if row["f"] == "store_cas"}
            told = {"version": version}
            self.row("final", f="view", node=node, queue=0, offset=ends[version], hash=version, value=told)
        end = start + len(sequences)
        manifest = {"start": start, "end": end}
        told = {"version": self.version, "content": manifest}
        self.row("final", f="manifest", queue=0, offset=end, hash=self.version, value=told)
        for offset, sequence in enumerate(sequences, start):
            message = m(sequence)
            self.row("final", f="tiered", queue=0, offset=offset, message=message, hash=content(message))
        return self


def good() -> Tiered:
    history = Tiered().begin()
    history.upload(2)
    history.upload(4, segments=[(0, 2), (2, 2)])
    return history


@pytest.mark.parametrize("law", [BOUND, UPLOADER, CONTINUITY, METADATA])
def test_a_good_run_is_valid_and_an_empty_one_unknown(law: str) -> None:
    good().finals(0, 1, 2, 3).expect(law, validity=Validity.VALID)
    History().expect(law, validity=Validity.UNKNOWN)
    without = History(meta={"nodes": [{"name": "broker-0", "role": "broker"}]})
    without.send(0)
    assert "no tiered storage" in without.expect(law, validity=Validity.NOT_APPLICABLE).why


# Upload bound


def test_a_manifest_beyond_the_confirm_offset_of_its_step_is_found() -> None:
    history = Tiered().begin()
    history.upload(5)
    history.confirm("broker-0", 9 * SIZE)  # too late
    history.expect(BOUND, A.UPLOAD_BEYOND_CONFIRM)


def test_a_manifest_that_lowers_its_own_position_to_what_is_confirmed_is_found() -> None:
    history = Tiered().begin(2)
    history.append("broker-0", 2)
    history.upload(3, position=2 * SIZE)
    history.confirm("broker-0", 3 * SIZE)  # too late
    history.expect(BOUND, A.UPLOAD_BEYOND_CONFIRM, A.POSITION_MISSTATED)


@pytest.mark.parametrize("by", [1, -1])
def test_a_manifest_that_names_another_position_than_its_last_records_is_found(by: int) -> None:
    history = Tiered().begin()
    history.upload(3, position=3 * SIZE + by)
    history.expect(BOUND, A.POSITION_MISSTATED)


def test_a_record_that_was_cut_off_and_written_anew_elsewhere_ends_where_it_stands_now() -> None:
    history = Tiered().begin()
    history.trace("broker-0", "truncate", position=3 * SIZE, epoch=1)
    history.append("broker-0", 9, 3, position=3 * SIZE + 7)
    history.confirm("broker-0", 5 * SIZE)
    history.upload(4, position=4 * SIZE + 7)
    history.append("broker-0", 9, 3, position=9 * SIZE)  # too late to be the one that went up
    assert not history.verdict(BOUND).anomalies


def test_who_takes_over_leaves_the_position_as_it_is() -> None:
    history = good()
    history.trace("broker-1", "synced", position=4 * SIZE)
    history.confirm("broker-1", 4 * SIZE, 2)
    history.upload(4, node="broker-1", epoch=2, segments=[(0, 2), (2, 2)])
    assert not history.verdict(BOUND).anomalies
    history.upload(4, node="broker-1", epoch=2, segments=[(0, 2), (2, 2)], position=4 * SIZE - 1)
    history.expect(BOUND, A.POSITION_MISSTATED)


def test_a_confirm_offset_that_the_set_has_not_on_disk_supports_nothing() -> None:
    history = Tiered().begin(synced=("broker-0", "broker-1"))
    history.trace("broker-2", "synced", position=SIZE)
    history.upload(4)
    history.trace("broker-2", "synced", position=4 * SIZE)
    verdict = history.expect(BOUND, A.UPLOAD_BEYOND_CONFIRM)
    assert "broker-2" in verdict.anomalies[0].explanation


def test_a_confirm_offset_of_an_earlier_life_supports_nothing() -> None:
    history = Tiered().begin()
    history.trace("broker-0", "recovered", incarnation=2, step=1, position=2 * SIZE, value={"confirm": 2 * SIZE})
    same = {"queue": 0, "offset": 4, "position": 4 * SIZE, "epoch": 2}
    history.trace("broker-0", "tier_commit", incarnation=2, step=2, **same, value={"version": 1})
    history.expect(BOUND, A.UPLOAD_BEYOND_CONFIRM)


@pytest.mark.parametrize("begun", [3, 4])
def test_a_log_that_begins_anew_is_confirmed_up_to_where_it_begins_and_no_further(begun: int) -> None:
    history = Tiered().begin()
    history.trace("broker-0", "recovered", incarnation=2, step=1, position=0, value={"confirm": 0})
    history.trace("broker-0", "bootstrap", incarnation=2, step=2, position=begun * SIZE, value={"queues": {"0": begun}})
    same = {"queue": 0, "offset": 4, "position": 4 * SIZE, "epoch": 2}
    history.trace("broker-0", "tier_commit", incarnation=2, step=3, **same, value={"version": 1})
    if begun < 4:
        history.expect(BOUND, A.UPLOAD_BEYOND_CONFIRM)
    else:
        assert not history.verdict(BOUND).anomalies


def _cut_back_to_where_the_log_begins(position: int, *, epochs: list[list[int]], before: int = -1) -> Tiered:
    """Offset 2 was appended twice, in epoch 1 and, after an unclean election, in epoch 2, where it ends 7 bytes later.
    An empty replica begins at offset 3, is elected uncleanly, and cuts the tier back to there."""
    history = Tiered(meta={"profile": {"unclean": True}}).begin(3)
    history.recovered()
    history.log("broker-0", 0)
    history.append("broker-1", 8, 2, epoch=2, position=2 * SIZE + 7)
    history.confirm("broker-1", 3 * SIZE + 7, 2)
    if before >= 0:  # what the empty replica had before its disk was lost
        history.append("broker-2", 9, 2, epoch=3, position=before)
    history.trace("broker-2", "recovered", incarnation=2, step=1, position=0, value={"confirm": 0})
    begun = {"queues": {"0": 3}, "epochs": epochs}
    history.trace("broker-2", "bootstrap", incarnation=2, step=2, position=3 * SIZE + 7, value=begun)
    same = {"queue": 0, "offset": 3, "position": position, "epoch": 3}
    history.trace("broker-2", "tier_commit", incarnation=2, step=3, **same, value={"version": 1})
    held = {"start": 0, "end": 3, "writer": "broker-2", "segments": [{"key": "k0", "base": 0, "count": 3}]}
    history.trace("store-0", "store_cas", hash=1, value={"version": 1, "outcome": "applied", "content": held}, **same)
    history.row("final", f="tiered", queue=0, offset=0, message=m(0), hash=content(m(0)))
    return history


@pytest.mark.parametrize("before", [-1, 5 * SIZE])
def test_who_cuts_the_tier_back_to_where_its_log_begins_never_had_the_last_record(before: int) -> None:
    """The record is the one of the history that the log goes on from, in the log of another replica."""
    second = [[1, 0], [2, 2 * SIZE + 7]]
    _cut_back_to_where_the_log_begins(3 * SIZE + 7, epochs=second, before=before).expect(BOUND, validity=Validity.VALID)
    _cut_back_to_where_the_log_begins(3 * SIZE, epochs=[[1, 0]], before=before).expect(BOUND, validity=Validity.VALID)


@pytest.mark.parametrize("before", [-1, 5 * SIZE])
def test_a_cut_to_where_the_log_begins_that_gives_another_position_is_found(before: int) -> None:
    second = [[1, 0], [2, 2 * SIZE + 7]]
    _cut_back_to_where_the_log_begins(3 * SIZE, epochs=second, before=before).expect(BOUND, A.POSITION_MISSTATED)
    if before >= 0:
        lost = _cut_back_to_where_the_log_begins(before + SIZE, epochs=second, before=before)
        lost.expect(BOUND, A.POSITION_MISSTATED, A.UPLOAD_BEYOND_CONFIRM)


def test_a_cut_to_a_record_that_nobody_appended_in_that_history_is_no_proof() -> None:
    history = _cut_back_to_where_the_log_begins(3 * SIZE + 7, epochs=[[5, 0]])
    assert "reported nothing of the record" in history.expect(BOUND, validity=Validity.UNKNOWN).why


def test_a_log_that_was_lost_since_it_began_anew_is_its_own_witness() -> None:
    """It begins at the first record, and holds what it has appended there."""
    history = _cut_back_to_where_the_log_begins(3 * SIZE + 7, epochs=[[1, 0], [2, 2 * SIZE + 7]])
    history.rows = history.rows[:-3]
    history.trace("broker-2", "recovered", incarnation=3, step=1, position=0, value={"confirm": 0})
    for sequence in range(3):
        history.append("broker-2", 20 + sequence, sequence, epoch=4, incarnation=3, step=2)
    history.confirm("broker-2", 3 * SIZE, 4, incarnation=3, step=3)
    history.upload(3, node="broker-2", epoch=4, request=False)
    same = {"queue": 0, "offset": 3, "position": 3 * SIZE, "epoch": 4}
    history.trace("broker-2", "tier_commit", incarnation=3, step=4, **same, value={"version": 1})
    assert not history.verdict(BOUND).anomalies


def test_a_manifest_that_contradicts_its_own_confirm_is_found() -> None:
    history = good()
    row = history.rows[history.upload(4, segments=[(0, 2), (2, 2)])]
    row["value"] = row["value"].replace('"confirm": 400', '"confirm": 300')
    history.finals(0, 1, 2, 3).expect(BOUND, A.UPLOAD_BEYOND_CONFIRM)


def test_a_tiered_record_that_no_confirmed_log_holds_is_found() -> None:
    good().finals(0, 1, 2, 9).expect(BOUND, A.TIER_LOG_MISMATCH)


def test_a_falling_end_of_the_tier_is_found() -> None:
    history = good()
    history.upload(3)
    history.finals(0, 1, 2).expect(BOUND, A.TIER_OFFSET_REGRESSION)


# Continuity


@pytest.mark.parametrize(
    ("segments", "name"),
    [
        ([(0, 2), (3, 1)], A.TIER_GAP),
        ([(0, 2), (1, 3)], A.TIER_OVERLAP),
        ([(0, 2)], A.TIER_GAP),
        ([(0, 5)], A.TIER_OVERLAP),
    ],
)
def test_segments_that_do_not_meet_are_found(segments: list[tuple[int, int]], name: str) -> None:
    history = Tiered().begin()
    history.upload(4, segments=segments)
    history.finals(0, 1, 2, 3).expect(CONTINUITY, name)


def test_offsets_that_no_object_or_two_objects_hold_are_found() -> None:
    good().finals(0, 1, 2, 3, start=0).expect(CONTINUITY)
    missing = good().finals(0, 1, 2, 3)
    missing.rows = [row for row in missing.rows if (row["f"], row["offset"]) != ("tiered", 1)]
    missing.expect(CONTINUITY, A.TIER_MISSING_OBJECT)
    twice = good().finals(0, 1, 2, 3)
    twice.row("final", f="tiered", queue=0, offset=1, message=m(1), hash=content(m(1)))
    twice.expect(CONTINUITY, A.TIER_OVERLAP)


def test_a_local_log_that_begins_above_the_tier_leaves_a_gap() -> None:
    history = Tiered().begin()
    history.upload(2)
    history.trace("broker-1", "retention", position=3 * SIZE, value={"minimums": {"0": 3}})
    history.upload(4, segments=[(0, 2), (2, 2)])
    history.finals(0, 1, 2, 3).expect(CONTINUITY, A.TIER_GAP)


def test_an_empty_replica_that_begins_above_the_tier_leaves_a_gap() -> None:
    def begun(offset: int) -> Tiered:
        history = Tiered().begin()
        history.upload(2)
        history.trace("broker-1", "bootstrap", position=offset * SIZE, value={"queues": {"0": offset}})
        history.upload(4, segments=[(0, 2), (2, 2)])
        return history.finals(0, 1, 2, 3)

    begun(2).expect(CONTINUITY)
    begun(3).expect(CONTINUITY, A.TIER_GAP)


def test_a_tier_that_began_too_late_leaves_a_gap_once_the_logs_are_gone() -> None:
    history = Tiered().begin()
    history.upload(4, start=2)
    history.finals(2, 3, start=2)
    for row in history.rows:
        if (row["kind"], row["f"]) == ("final", "node"):
            row["value"] = row["value"].replace('"minimums": {"0": 0}', '"minimums": {"0": 2}')
    history.expect(CONTINUITY, A.TIER_GAP)


def test_an_object_deleted_while_the_manifest_names_it_is_found() -> None:
    history = good()
    told = {"key": "k0", "caller": "broker-0", "outcome": "deleted"}
    history.trace("store-0", "store_delete", queue=0, value=told)
    history.finals(0, 1, 2, 3).expect(CONTINUITY, A.TIER_MISSING_OBJECT)


def stored(history: Tiered, f: str, outcome: str, *, key: str = "k0", life: int = 1) -> None:
    history.trace("store-0", f, queue=0, incarnation=life, value={"key": key, "outcome": outcome})


def test_what_the_store_has_written_is_there_until_it_is_deleted() -> None:
    history = good()
    for f, outcome in (("store_get", "absent"), ("store_put", "created"), ("store_get", "found")):
        stored(history, f, outcome, key="lost")
    stored(history, "store_put", "created", key="other")
    history.finals(0, 1, 2, 3).expect(CONTINUITY, validity=Validity.VALID)
    stored(history, "store_get", "absent", key="lost", life=2)  # a crash may leave a deletion untold
    stored(history, "store_delete", "deleted", key="other")
    stored(history, "store_get", "absent", key="other")
    history.expect(CONTINUITY, validity=Validity.VALID)
    stored(history, "store_get", "absent", key="lost")
    verdict = history.expect(CONTINUITY, A.TIER_MISSING_OBJECT, validity=Validity.INVALID)
    assert "lost" in verdict.anomalies[0].explanation and len(verdict.anomalies[0].rows) == 2


def test_an_applied_manifest_is_there_in_the_end_if_the_store_was_read_to_its_end() -> None:
    def without(*, complete: bool = True, recovered: bool = True) -> Tiered:
        history = good().finals(0, 1, 2, 3)
        gone = {"manifest", "tiered"} | (set() if recovered else {"recovered"})
        history.rows[:] = [row for row in history.rows if row["f"] not in gone]
        if complete:
            history.row("final", f="complete", node="store-0")
        return history

    without().expect(CONTINUITY, A.TIER_MISSING_OBJECT, validity=Validity.INVALID)
    without(complete=False).expect(CONTINUITY, validity=Validity.UNKNOWN)
    without(recovered=False).expect(CONTINUITY, validity=Validity.UNKNOWN)


def test_a_tier_read_that_differs_from_the_local_one_is_found() -> None:
    history = good()
    history.pull(0, 0, 1, source="local")
    history.pull(0, 0, 7, source="tier")
    verdict = history.finals(0, 1, 2, 3).expect(CONTINUITY, A.TIER_READ_MISMATCH)
    assert verdict.anomalies[0].offset == 1


def test_what_was_read_may_have_been_lost_and_its_offset_given_to_another_where_the_profile_permits_it() -> None:
    def run(*, cut: bool) -> Tiered:
        history = good()
        history.meta["profile"] = {"unclean": True}
        history.pull(0, 0, 7, source="local")
        if cut:
            elected_uncleanly(history)
        history.pull(0, 0, 1, source="tier")
        return history.finals(0, 1, 2, 3)

    assert run(cut=True).expect(CONTINUITY, validity=Validity.VALID).counts["conflicts_by_policy"] == 1
    run(cut=False).expect(CONTINUITY, A.TIER_READ_MISMATCH)


def elected_uncleanly(history: Tiered) -> None:
    entry = {"type": "elect", "master": "broker-1", "master_epoch": 2, "previous_set": ["broker-0"], "unclean": True}
    history.trace("controller-0", "applied", position=1, value={"entry": entry})
    history.master("broker-1", 2)


@pytest.mark.parametrize(("law", "anomaly"), [(BOUND, A.UPLOAD_BEYOND_CONFIRM), (L.NO_ROLLBACK, A.CONFIRM_BEYOND_SET)])
def test_the_trace_of_a_node_on_a_lost_host_may_lack_its_end(law: str, anomaly: str) -> None:
    """What it had on its disk when the host was lost, nobody knows: neither that it had enough, nor that it hadn't."""
    history = Tiered(meta={"deployment": "ssh"}).begin(synced=("broker-0", "broker-1"))
    history.trace("broker-2", "synced", position=2 * SIZE)
    history.upload(4)
    history.expect(law, anomaly, validity=Validity.INVALID)
    history.row("harness", f="host_lost", value={"what": "host h2 with broker-2 could not be reached"})
    assert "may lack its end" in history.expect(law, validity=Validity.UNKNOWN).why


# Metadata


def test_a_view_that_differs_from_the_store_is_found() -> None:
    history = good()
    history.view("broker-1", 1, 2, hash=99)
    history.expect(METADATA, A.METADATA_DIVERGENCE)


def test_a_view_of_a_version_that_never_was_is_found() -> None:
    history = good()
    history.view("broker-1", 7, 9)
    history.expect(METADATA, A.METADATA_DIVERGENCE)


def test_a_view_that_is_still_stale_after_recovery_is_found() -> None:
    good().finals(0, 1, 2, 3, versions={"broker-2": 1}).expect(METADATA, A.METADATA_DIVERGENCE)


def _lost_answer(*, after_s: float) -> Tiered:
    """The uploader gets no answer to its last commit, and the drain begins that much later."""
    history = good()
    history.upload(4, segments=[(0, 2), (2, 2)])
    assert history.rows.pop()["f"] == "tier_view"
    history.now_ns += round(after_s * 1e9)
    return history.finals(0, 1, 2, 3, versions=dict.fromkeys(BROKERS, 2))


def _stale_view_of_a_queue_that_these_have(*holders: str, unclean: bool = True) -> Tiered:
    """broker-2 knows version 1 only; after recovery some replicas, or none, still have the queue."""
    history = good()
    if unclean:
        elected_uncleanly(history)
    history.finals(0, 1, 2, 3, versions={"broker-2": 1})
    history.meta["profile"] = {"unclean": unclean}
    for row in history.rows:
        if (row["kind"], row["f"]) == ("final", "node"):
            maximums = {"0": 4} if row["node"] in holders else {}
            row["value"] = json.dumps(json.loads(row["value"]) | {"maximums": maximums})
    return history


def test_nobody_takes_over_the_manifest_of_a_queue_that_was_lost_where_that_may_be() -> None:
    verdict = _stale_view_of_a_queue_that_these_have().expect(METADATA, validity=Validity.VALID)
    assert verdict.counts["lost_queues"] == 1
    _stale_view_of_a_queue_that_these_have(unclean=False).expect(METADATA, A.METADATA_DIVERGENCE)
    for holder in BROKERS:
        _stale_view_of_a_queue_that_these_have(holder).expect(METADATA, A.METADATA_DIVERGENCE)


def _named(topic: str, queue_id: int, *, recovered: bool = True, **told: tuple[int, int]) -> Tiered:
    """The manifest of queue 0 gives this name; after recovery each replica tells of topics (first queue, count)."""
    history = good().finals(0, 1, 2, 3)
    final = next(row for row in history.rows if (row["kind"], row["f"]) == ("final", "manifest"))
    value = json.loads(final["value"])
    value["content"] |= {"topic": topic, "queue_id": queue_id}
    final["value"] = json.dumps(value)
    topics = {name: {"first_index": first, "queues": count} for name, (first, count) in told.items()}
    for node in BROKERS:
        history.row("final", f="topics", node=node, value={"topics": topics})
    if not recovered:
        history.rows = [row for row in history.rows if (row["kind"], row["f"]) != ("harness", "recovered")]
    return history


def test_a_manifest_that_names_a_queue_whose_number_went_to_another_is_found() -> None:
    _named("lost", 0, late=(0, 2)).expect(METADATA, A.METADATA_DIVERGENCE)
    _named("late", 1, late=(0, 2)).expect(METADATA, A.METADATA_DIVERGENCE)
    _named("late", 0, other=(0, 1), late=(1, 2)).expect(METADATA, A.METADATA_DIVERGENCE)


def test_a_manifest_names_the_queue_that_has_its_number_or_one_that_is_lost() -> None:
    _named("late", 0, late=(0, 2)).expect(METADATA, validity=Validity.VALID)
    _named("late", 1, late=(-1, 2)).expect(METADATA, validity=Validity.VALID)
    _named("lost", 0, other=(1, 1 << 60)).expect(METADATA, validity=Validity.VALID)
    _named("lost", 0).expect(METADATA, validity=Validity.VALID)
    assert not _named("lost", 0, recovered=False, late=(0, 2)).verdict(METADATA).anomalies


def test_a_replica_that_does_not_tell_its_queues_has_lost_none() -> None:
    history = good().finals(0, 1, 2, 3, versions={"broker-2": 1})
    history.meta["profile"] = {"unclean": True}
    history.expect(METADATA, A.METADATA_DIVERGENCE)


def test_the_store_and_every_view_of_a_lost_queue_hold_what_was_committed() -> None:
    history = _stale_view_of_a_queue_that_these_have()
    final = next(row for row in history.rows if (row["kind"], row["f"]) == ("final", "manifest"))
    final.update(hash=1, offset=2, value=final["value"].replace('"version": 2', '"version": 1'))
    history.expect(METADATA, A.METADATA_DIVERGENCE)
    history = _stale_view_of_a_queue_that_these_have()
    history.view("broker-1", 1, 2, hash=99)
    history.expect(METADATA, A.METADATA_DIVERGENCE)


def test_a_commit_whose_answer_was_lost_just_before_the_drain_may_be_unknown_to_all() -> None:
    _lost_answer(after_s=14).expect(METADATA, validity=Validity.VALID)
    _lost_answer(after_s=16).expect(METADATA, A.METADATA_DIVERGENCE)


def test_a_store_that_forgot_a_commit_is_not_excused_by_a_lost_answer() -> None:
    history = _lost_answer(after_s=14)
    final = next(row for row in history.rows if (row["kind"], row["f"]) == ("final", "manifest"))
    final.update(hash=2, value=final["value"].replace('"version": 3', '"version": 2'))
    history.expect(METADATA, A.METADATA_DIVERGENCE)


def test_a_queue_that_an_uploader_gave_up_is_a_contradiction() -> None:
    history = good()
    history.trace("broker-0", "tier_stop", queue=0, epoch=1, value={"reason": "T is past the log"})
    history.finals(0, 1, 2, 3).expect(BOUND, A.TIER_LOG_MISMATCH, validity=Validity.INVALID)


def test_a_manifest_that_claims_any_number_is_found_and_not_counted_out() -> None:
    history = good()
    history.upload(1 << 50, position=4 * SIZE)
    history.finals(0, 1, 2, 3)
    final = next(row for row in history.rows if (row["kind"], row["f"]) == ("final", "manifest"))
    final["value"] = final["value"].replace('"end": 4', f'"end": {1 << 50}')
    history.expect(CONTINUITY, A.TIER_MISSING_OBJECT, validity=Validity.INVALID)


def test_a_replica_that_never_heard_of_a_manifest_is_found() -> None:
    history = good().finals(0, 1, 2, 3)
    history.rows = [row for row in history.rows if (row["f"], row["node"]) != ("view", "broker-2")]
    verdict = history.expect(METADATA, A.METADATA_DIVERGENCE, validity=Validity.INVALID)
    assert "broker-2 knows no manifest" in verdict.anomalies[0].explanation


def test_what_a_member_has_cut_off_again_supports_no_confirm_offset() -> None:
    history = Tiered().begin()
    history.trace("broker-2", "truncate", position=SIZE, epoch=1)
    history.confirm("broker-0", 4 * SIZE, value={"set": list(BROKERS), "proposed": []})
    history.upload(4)
    verdict = history.expect(BOUND, A.UPLOAD_BEYOND_CONFIRM)
    assert "broker-2" in verdict.anomalies[0].explanation


def test_a_disk_that_is_wiped_after_its_word_was_counted_is_no_violation() -> None:
    history = Tiered().begin()
    history.trace("broker-2", "recovered", position=0, incarnation=2, value={"confirm": 0})
    history.confirm("broker-0", 4 * SIZE, value={"set": list(BROKERS), "proposed": []})
    history.upload(4)
    history.finals(0, 1, 2, 3).expect(BOUND, validity=Validity.VALID)


def test_a_tier_that_nobody_could_read_is_no_proof() -> None:
    history = good()
    history.meta["uses"] = ["queues", "tier-reads"]
    history.finals(0, 1, 2, 3)
    assert "through the tier" in history.expect(CONTINUITY, validity=Validity.UNKNOWN).why
    history.pull(0, 0, 1, source="tier")
    history.expect(CONTINUITY, validity=Validity.VALID)
