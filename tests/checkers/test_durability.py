"""Bad histories first: each way to break durability is found; then what is lawful; then what proves nothing."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, SIZE, History, content, m
from tests.checkers.names import A, L

LAW = L.DURABILITY


def sent(*sequences: int, meta: dict | None = None) -> History:
    history = History(meta=meta or {})
    for node in BROKERS:
        history.trace(node, "start", value={"generation": 1})
    history.phase("load")
    for sequence in sequences:
        history.send(sequence)
    return history


def test_acknowledged_message_that_nobody_finds_is_lost() -> None:
    verdict = sent(0, 1, 2).finish(0, 1).expect(LAW, A.LOST, validity=Validity.INVALID)
    [lost] = verdict.anomalies
    assert (lost.queue, lost.offset, lost.message) == (0, 2, m(2))
    assert "acknowledged" in lost.explanation


def test_what_a_repetition_was_told_to_be_stored_is_held_to_that() -> None:
    """The attempt before it may never have been answered, so nothing else shows that the message was acknowledged."""
    history = sent(0)
    history.send(1, type="info")
    history.send(1, type="info", offset=1)
    [lost] = history.finish(0).expect(LAW, A.LOST, validity=Validity.INVALID).anomalies
    assert (lost.offset, lost.message) == (1, m(1))
    history = sent(0, 1, 2)
    history.send(1, type="info", offset=1)
    for promise in (LAW, L.ORDER, L.AGREEMENT):
        history.finish(0, 1, 2).expect(promise, validity=Validity.VALID)


def test_acknowledged_message_replaced_by_another_is_lost() -> None:
    history = sent(0, 1)
    history.send(2, type="info")
    assert history.finish(0, 2).expect(LAW, A.LOST, A.RECOVERED).anomalies[0].message == m(1)


def test_torn_history_with_whole_finals_still_proves_the_loss() -> None:
    history = sent(0, 1)
    history.recovered()
    for node in BROKERS:
        history.log(node, 0)
        history.node(node)
    history.expect(LAW, A.LOST, validity=Validity.INVALID)


def test_a_drain_that_read_a_hole_is_a_loss_even_if_a_log_holds_the_record() -> None:
    history = sent(0, 1, 2)
    history.phase("recover")
    history.recovered()
    history.phase("drain")
    op = history.invoke("drain", process="drain-0.0", queue=0, offset=0, value={"by": "queue"})
    history.pull(0, 0, process="drain-0-reader.0")
    history.pull(2, 2, process="drain-0-reader.0")
    history.complete(op, offset=3)
    for node in BROKERS:
        history.log(node, 0, 1, 2)
        history.node(node)
    history.expect(LAW, A.LOST)


def test_destroying_every_disk_makes_a_loss_unknown() -> None:
    history = sent(0)
    for node in BROKERS:
        history.inject("wipe", node)
    history.finish().expect(LAW, validity=Validity.UNKNOWN)


def test_more_copies_than_attempts_are_a_duplicate_append() -> None:
    history = sent(0)
    verdict = history.finish(0, 0).expect(LAW, A.DUPLICATE_APPEND)
    assert verdict.anomalies[0].message == m(0)


def test_a_retried_send_may_stand_twice() -> None:
    history = sent()
    history.send(0, type="info")
    history.send(0, offset=1)
    assert history.finish(0, 0).expect(LAW, validity=Validity.VALID).counts["duplicates_by_retry"] == 1


@pytest.mark.parametrize("type", ["info", "fail", "ok"])
def test_a_repetition_of_an_idempotent_producer_gives_no_right_to_a_copy(type: str) -> None:
    def run(*places: int, again: bool = True) -> History:
        history = sent(0)
        history.send(1, type="info")
        op = history.invoke("send", process="producer-0.0", queue=0, message=m(1), hash=content(m(1)))
        history.complete(op, type, value={"again": 1} if again else {}, offset=1 if type == "ok" else -1)
        return history.finish(0, *places)

    recovered = [A.RECOVERED] if type != "ok" else []
    run(1, 1).expect(LAW, A.DUPLICATE_APPEND, *recovered, validity=Validity.INVALID)
    run(1).expect(LAW, *recovered, validity=Validity.VALID)
    if type != "fail":  # its producer promises nothing
        run(1, 1, again=False).expect(LAW, *recovered, validity=Validity.VALID)


def test_a_producer_that_begins_anew_may_store_a_message_once_more() -> None:
    """After another message, a send of unknown outcome is counted in the next epoch: nothing joins it to the first."""
    history = sent(0)
    for again in (0, 1, 0, 1):
        op = history.invoke("send", process="producer-0.0", queue=0, message=m(1), hash=content(m(1)))
        history.complete(op, "info", value={"again": 1} if again else {})
    history.finish(0, 1, 1).expect(LAW, A.RECOVERED, validity=Validity.VALID)
    history.finish(0, 1, 1, 1).expect(LAW, A.DUPLICATE_APPEND, A.RECOVERED)


def test_refused_attempts_give_no_right_to_a_copy() -> None:
    history = sent(0)
    history.send(0, type="fail")
    history.finish(0, 0).expect(LAW, A.DUPLICATE_APPEND)


@pytest.mark.parametrize("stranger", [m(77), -1, m(5, queue=3)])
def test_a_message_that_nobody_sent_here_is_unexpected(stranger: int) -> None:
    history = sent(0)
    op = history.pull(0, 0)
    history.row("op", type="ok", op=op, f="delivered", queue=0, offset=1, message=stranger, hash=content(7))
    history.finish(0).expect(LAW, A.UNEXPECTED)


def test_a_message_whose_send_surely_failed_is_unexpected() -> None:
    history = sent(0)
    history.send(1, type="fail")
    history.finish(0, 1).expect(LAW, A.UNEXPECTED)


def test_another_content_than_sent_is_corrupt() -> None:
    history = sent(0)
    history.pull(0, 0, hashes={0: 12345})
    history.finish(0).expect(LAW, A.CORRUPT)


def test_retention_ahead_of_the_tier_is_early() -> None:
    history = sent(0, 1)
    cas(history, 1, end=1)
    history.trace("broker-1", "retention", position=2 * SIZE, value={"rule": "size", "minimums": {"0": 2}})
    cas(history, 2, end=2)
    history.finish(0, 1).expect(LAW, A.EARLY_RETENTION)


def test_retention_of_more_than_its_size_is_early() -> None:
    history = sent(0)
    inputs = {"retain_bytes": 500, "end": 1000}
    history.trace("broker-1", "retention", position=600, value={"inputs": inputs, "minimums": {}})
    history.finish(0).expect(LAW, A.EARLY_RETENTION)


def test_who_is_to_keep_everything_deletes_nothing_by_size() -> None:
    """0 stands for all. A replica that deleted by it what was acknowledged made that a lawful end of the queue."""

    def run(**rule: str) -> History:
        history = sent(0, 1, 2)
        told = {**rule, "inputs": {"retain_bytes": 0, "end": 300}, "minimums": {"0": 2}}
        history.trace("broker-0", "retention", position=200, value=told)
        history.phase("recover")
        history.recovered()
        history.phase("drain")
        history.drain(2, begin=2)
        return history

    for rule in ({}, {"rule": "size"}):
        (found,) = run(**rule).expect(LAW, A.EARLY_RETENTION, validity=Validity.INVALID).anomalies
        assert "must keep its whole log, but deleted up to position 200" in found.explanation
    run(rule="time").expect(LAW, validity=Validity.VALID)


def test_lawful_retention_without_a_tier_is_no_loss() -> None:
    history = sent(0, 1, 2)
    inputs = {"retain_bytes": 100, "end": 300}
    history.trace("broker-0", "retention", position=200, value={"inputs": inputs, "minimums": {"0": 2}})
    history.phase("recover")
    history.recovered()
    history.phase("drain")
    history.drain(2, begin=2)
    history.expect(LAW, validity=Validity.VALID)


def test_a_minimum_that_no_retention_explains_is_a_loss() -> None:
    history = sent(0, 1, 2)
    history.phase("drain")
    history.drain(2, begin=2)
    history.expect(LAW, A.LOST)


def test_a_raised_minimum_in_a_history_without_traces_is_unknown() -> None:
    history = History()
    history.send(0)
    history.send(1)
    history.phase("drain")
    history.drain(1, begin=1)
    assert "retention" in history.expect(LAW, validity=Validity.UNKNOWN).why


def test_a_group_that_gets_a_message_again_is_only_counted() -> None:
    history = sent(0)
    history.pull(0, 0, group="g")
    history.pull(0, 0, group="g")
    history.finish(0).expect(LAW, A.REDELIVERY, validity=Validity.VALID)


def test_a_good_run_is_valid() -> None:
    verdict = sent(0, 1, 2).finish(0, 1, 2).expect(LAW, validity=Validity.VALID)
    assert verdict.counts["acked"] == 3


@pytest.mark.parametrize("history", [sent().finish(), sent(0), History()], ids=["nothing sent", "no drain", "empty"])
def test_a_run_that_proves_nothing_is_unknown(history: History) -> None:
    history.expect(LAW, validity=Validity.UNKNOWN)


def test_a_drain_that_did_not_reach_what_was_acknowledged_is_no_proof() -> None:
    history = sent(0, 1)
    history.phase("drain")
    history.drain(0)
    history.expect(LAW, validity=Validity.UNKNOWN)


def test_many_losses_are_told_twenty_times_and_counted() -> None:
    history = sent(*range(50))
    verdict = history.finish(0).expect(LAW, A.LOST)
    assert len(verdict.anomalies) == 21
    assert sum(anomaly.count for anomaly in verdict.anomalies) == 49


def cas(history: History, version: int, *, end: int) -> None:
    segments = [{"key": f"k{n}", "base": n, "count": 1} for n in range(end)]
    value = {"version": version, "outcome": "applied", "content": {"start": 0, "end": end, "segments": segments}}
    history.trace("store-0", "store_cas", queue=0, offset=end, position=end * SIZE, epoch=1, value=value)


def test_an_answer_that_tells_no_place_is_no_proof() -> None:
    history = sent(0)
    message = m(1)
    op = history.invoke("send", process="producer-1.0", queue=0, message=message, hash=content(message))
    history.complete(op)
    verdict = history.finish(0).expect(LAW, validity=Validity.UNKNOWN)
    assert "do not report" in verdict.why


def test_a_second_end_of_one_send_is_no_proof() -> None:
    history = sent(0, 1)
    first = next(row["index"] for row in history.rows if row["f"] == "send")
    history.complete(first, "info")
    assert "more than once" in history.finish(0, 1).expect(LAW, A.RECOVERED, validity=Validity.UNKNOWN).why


def trimmed(retain_bytes: int | None, *, dropped: int = 1) -> History:
    """Ten records in two segments of 600 and 400 bytes, of which the first is then trimmed away, or more of them."""
    history = sent(*range(10))
    segments = [{"key": "a", "base": 0, "count": 6, "bytes": 600}, {"key": "b", "base": 6, "count": 4, "bytes": 400}]
    begin = (0, 6, 10)[dropped]
    for version, start, held in ((1, 0, segments), (2, begin, segments[dropped:])):
        told: dict = (
            {"version": version} if retain_bytes is None else {"version": version, "retain_bytes": retain_bytes}
        )
        history.trace("broker-0", "tier_commit", queue=0, offset=10, epoch=1, value=told)
        manifest = {"start": start, "end": 10, "writer": "broker-0", "segments": held}
        value = {"version": version, "outcome": "applied", "content": manifest}
        history.trace("store-0", "store_cas", queue=0, offset=10, epoch=1, value=value)
    history.phase("heal")
    history.recovered()
    history.phase("drain")
    history.drain(*range(begin, 10), begin=begin)
    return history


def trimmed_after(
    held_ms: float, *, dropped: int = 1, fault: str = "", recovered: bool = False, **told: int
) -> History:
    """As :func:`trimmed`, of a tier that keeps for a time: the first segment goes so long after the version that named
    it. ``fault``: one with this effect hits the uploader meanwhile. ``recovered``: that version was found in a later
    life of the store."""
    history = sent(*range(10))
    segments = [{"key": "a", "base": 0, "count": 6, "bytes": 600}, {"key": "b", "base": 6, "count": 4, "bytes": 400}]
    begin = (0, 6, 10)[dropped]
    for version, start, end, held in (
        (1, 0, 6, segments[:1]),
        (2, 0, 10, segments),
        (3, begin, 10, segments[dropped:]),
    ):
        kept = {"version": version, "retain_bytes": 0, "retain_ms": 1000, **told}
        history.trace("broker-0", "tier_commit", queue=0, offset=end, epoch=1, value=kept)
        manifest = {"start": start, "end": end, "writer": "broker-0", "segments": held}
        value = {"version": version, "outcome": "applied", "content": manifest}
        value |= {"recovered": True} if recovered and version == 1 else {}
        history.trace("store-0", "store_cas", queue=0, offset=end, epoch=1, value=value)
        if version == 1 and fault:
            history.inject("clock", "broker-0", effects={fault: ["broker-0"]})
        if version == 2:
            history.wait(held_ms / 1000)
    history.phase("heal")
    history.recovered()
    history.phase("drain")
    history.drain(*range(begin, 10), begin=begin)
    return history


def test_what_no_tier_holds_is_deleted_only_where_that_is_set() -> None:
    """Whoever does not tell the option may have it."""

    def run(**told: bool) -> History:
        history = sent(0, 1, 2)
        inputs = {"retain_bytes": 100, "end": 300, **told}
        history.trace("broker-0", "retention", position=200, value={"inputs": inputs, "minimums": {"0": 2}})
        history.phase("recover")
        history.recovered()
        history.phase("drain")
        history.drain(2, begin=2)
        return history

    bad = run(tiered=False, delete_untiered=False)
    (found,) = bad.expect(LAW, A.EARLY_RETENTION, validity=Validity.INVALID).anomalies
    assert "broker-0 must keep what no tier holds, but deleted up to position 200" in found.explanation
    for lawful in ({"tiered": False, "delete_untiered": True}, {"tiered": False}, {"delete_untiered": False}):
        run(**lawful).expect(LAW, validity=Validity.VALID)


def test_a_trimmed_tier_is_lawful_only_beyond_the_size_that_is_kept() -> None:
    trimmed(500).expect(LAW, validity=Validity.VALID)
    trimmed(1000).expect(LAW, A.EARLY_RETENTION, A.LOST, validity=Validity.INVALID)
    trimmed(0).expect(LAW, A.EARLY_RETENTION, A.LOST, validity=Validity.INVALID)
    trimmed(None).expect(LAW, validity=Validity.UNKNOWN)
    for retain_bytes in (500, 100):  # less than the newest segment, which stays all the same
        trimmed(100).expect(LAW, validity=Validity.VALID)
        verdict = trimmed(retain_bytes, dropped=2).expect(LAW, A.EARLY_RETENTION, A.LOST, validity=Validity.INVALID)
    assert "newest segment" in verdict.anomalies[0].explanation


def test_a_tier_that_keeps_for_a_time_is_trimmed_when_that_is_over() -> None:
    trimmed_after(1000).expect(LAW, validity=Validity.VALID)
    trimmed_after(920).expect(LAW, validity=Validity.VALID)  # clocks may differ
    early = trimmed_after(700).expect(LAW, A.EARLY_RETENTION, validity=Validity.INVALID)
    assert "must keep for 1000 ms what it had held for 740 ms" in early.anomalies[0].explanation
    trimmed_after(0).expect(LAW, A.EARLY_RETENTION, validity=Validity.INVALID)
    # The newest segment stays, however old it is, and without a time everything does.
    trimmed_after(5000, dropped=2).expect(LAW, A.EARLY_RETENTION, A.LOST, validity=Validity.INVALID)
    trimmed_after(5000, retain_ms=0).expect(LAW, A.EARLY_RETENTION, A.LOST, validity=Validity.INVALID)
    # Either rule is enough.
    trimmed_after(0, retain_bytes=500).expect(LAW, validity=Validity.VALID)


def test_a_clock_that_a_fault_skews_and_a_version_of_no_known_time_excuse_an_early_trim() -> None:
    trimmed_after(700, fault="skews_clocks").expect(LAW, validity=Validity.UNKNOWN)
    trimmed_after(700, fault="slows").expect(LAW, A.EARLY_RETENTION, validity=Validity.INVALID)
    trimmed_after(700, recovered=True).expect(LAW, validity=Validity.UNKNOWN)


def test_local_records_of_a_queue_without_any_manifest_are_not_deleted() -> None:
    history = sent(0, 1)
    inputs = {"tiered": True, "end": 10_000, "retain_bytes": 1}
    history.trace("broker-1", "retention", position=200, value={"minimums": {"0": 2, "7": 2}, "inputs": inputs})
    verdict = history.finish(0, 1).expect(LAW, A.EARLY_RETENTION, validity=Validity.INVALID)
    assert [anomaly.queue for anomaly in verdict.anomalies] == [0]
