"""Delays are kept, transactions decide, and groups are given everything, those that read in order without a jump."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from checkers.deliveries.given import Given
from tests.checkers.histories import History, content, m
from tests.checkers.names import A, L

DELIVERIES, DURABILITY = L.DELIVERIES, L.DURABILITY
GROUP, POP = "library-push", "library-pop"


def run(**meta: Any) -> History:
    history = History(meta={"uses": ["queues", "deliveries"], "tells": ["operations", "final-logs"], **meta})
    history.phase("load")
    return history


def later(history: History, sequence: int, *, f: str = "delay", type: str = "ok", **value: Any) -> None:
    asked = history.invoke(f, process="later.0", queue=0, message=m(sequence), hash=content(m(sequence)), value=value)
    history.complete(asked, type)


def delay(history: History, sequence: int, ms: int, **more: Any) -> None:
    later(history, sequence, delay_ms=ms, **more)


def transact(history: History, sequence: int, decision: str, **more: Any) -> None:
    later(history, sequence, f="transact", decision=decision, **more)


def receive(
    history: History, *stands: tuple[int, int], group: str = GROUP, in_order: bool = False, type: str = "ok"
) -> None:
    """``stands``: sequence and offset of each message that the group is given."""
    value = {"group": group, "in_order": int(in_order)}
    asked = history.invoke("receive", process=f"{group}.0", queue=0, value=value)
    history.complete(asked, type)
    for sequence, offset in stands if type == "ok" else ():
        message = m(sequence)
        history.row(
            "op",
            type="ok",
            op=asked,
            f="delivered",
            process=f"{group}.0",
            queue=0,
            offset=offset,
            message=message,
            hash=content(message),
        )


def end(
    history: History,
    *sequences: int,
    waited: str = "ok",
    received: int = 1,
    group: str = GROUP,
    recovered: bool = True,
    waited_s: float = 10,
    drained: str = "ok",
) -> History:
    """Recover, wait for the group, and read what stands in the queue."""
    history.phase("recover")
    if recovered:
        history.recovered()
    history.phase("drain")
    asked = history.invoke("caught_up", process="watcher.0", queue=0, value={"group": group})
    history.wait(waited_s)
    history.complete(asked, waited, offset=len(sequences), value={"received": received})
    history.drain(*sequences, type=drained)
    history.phase("stop")
    return history


def test_what_came_in_time_to_everybody_is_valid() -> None:
    history = run()
    history.send(0)
    delay(history, 1, 1000)
    transact(history, 2, "commit")
    transact(history, 3, "rollback")
    receive(history, (0, 0), (2, 1))
    history.wait(1)
    receive(history, (1, 2))
    verdict = end(history, 0, 2, 1).expect(DELIVERIES, validity=Validity.VALID)
    assert verdict.counts["delivered"] == 3 and verdict.counts["owed"] == 2 and verdict.counts["rolled_back"] == 1
    assert verdict.counts["groups_awaited"] == 1
    history.expect(DURABILITY, validity=Validity.VALID)  # it knows where these messages came from


def test_a_delayed_message_that_comes_before_its_time() -> None:
    history = run()
    history.send(0)
    delay(history, 1, 1000)
    receive(history, (0, 0), (1, 1))
    verdict = end(history, 0, 1).expect(DELIVERIES, A.TOO_EARLY, validity=Validity.INVALID)
    assert "1 s later at the earliest" in verdict.anomalies[0].explanation and len(verdict.anomalies[0].rows) == 2


def test_clocks_that_a_fault_set_excuse_what_comes_early() -> None:
    history = run()
    history.send(0)
    history.inject("clock", "broker-0", effects={"skews_clocks": ["broker-0"]})
    delay(history, 1, 1000)
    receive(history, (0, 0), (1, 1))
    verdict = end(history, 0, 1).expect(DELIVERIES, validity=Validity.UNKNOWN)
    assert "set clocks" in verdict.why


@pytest.mark.parametrize("type", ["ok", "info", "fail"])
def test_a_message_that_was_rolled_back_comes_never(type: str) -> None:
    history = run()
    history.send(0)
    transact(history, 1, "rollback", type=type)
    receive(history, (0, 0))
    verdict = end(history, 0, 1).expect(DELIVERIES, A.ROLLED_BACK_DELIVERED, validity=Validity.INVALID)
    assert "rolled back, but stands in queue 0 at offset 1" in verdict.anomalies[0].explanation


@pytest.mark.parametrize(("how", "words"), [("delay", "0.5 s later"), ("transact", "transaction that was committed")])
def test_what_was_accepted_and_never_comes(how: str, words: str) -> None:
    def recorded(
        *,
        waited: str = "ok",
        type: str = "ok",
        received: int = 1,
        recovered: bool = True,
        fault: bool = False,
        **meta: Any,
    ) -> History:
        history = run(**meta)
        history.send(0)
        delay(history, 1, 500, type=type) if how == "delay" else transact(history, 1, "commit", type=type)
        if fault:
            history.undo("kill", history.inject("kill", "broker-0"))
        receive(history, (0, 0))
        return end(history, 0, waited=waited, received=received, recovered=recovered)

    verdict = recorded().expect(DELIVERIES, A.NEVER_DELIVERED, validity=Validity.INVALID)
    assert words in verdict.anomalies[0].explanation and len(verdict.anomalies[0].rows) == 3
    lax = {"flush": "async", "acks": "master", "unclean": True, "min_in_sync": 1}
    recorded(profile=lax).expect(DELIVERIES, A.NEVER_DELIVERED)
    silent = {"profile": lax, "tells": ["operations", "final-logs"]}
    by_policy = recorded(fault=True, loss_window_s=1.0, **silent)
    by_policy.expect(DELIVERIES, A.NEVER_DELIVERED_BY_POLICY, validity=Validity.VALID)
    assert "it is unknown" in recorded(fault=True, **silent).expect(DELIVERIES, validity=Validity.UNKNOWN).why
    assert "nobody waited" in recorded(waited="info").expect(DELIVERIES, validity=Validity.UNKNOWN).why
    assert "did not recover" in recorded(recovered=False).expect(DELIVERIES, validity=Validity.UNKNOWN).why
    silent = recorded(received=0).verdict(DELIVERIES)  # a client that reached nobody could not answer a check-back
    assert silent.validity is (Validity.INVALID if how == "delay" else Validity.UNKNOWN)
    recorded(type="info").expect(DELIVERIES, validity=Validity.VALID)  # it may not have been accepted at all


def test_what_need_not_have_come_when_the_wait_ended_is_unknown() -> None:
    for stands in ((0,), (0, 1)):  # the wait ends, and then the message comes, or does not
        history = run()
        history.send(0)
        delay(history, 1, 8_000)  # it may come until 5 s after its time
        receive(history, (0, 0))
        why = end(history, *stands).expect(DELIVERIES, validity=Validity.UNKNOWN).why
        assert "ended before delayed messages had to come to it" in why


def test_no_delay_is_too_long_to_be_kept() -> None:
    history = run()
    delay(history, 0, (1 << 63) - 1)
    receive(history, (0, 0))
    end(history, 0).expect(DELIVERIES, A.TOO_EARLY)


def test_clocks_that_are_set_later_excuse_nothing() -> None:
    history = run()
    delay(history, 0, 1000)
    receive(history, (0, 0))
    history.inject("clock", "broker-0", effects={"skews_clocks": ["broker-0"]})
    end(history, 0).expect(DELIVERIES, A.TOO_EARLY)


def test_a_group_for_which_the_wait_failed_may_lack_everything() -> None:
    history = run()
    history.send(0)
    receive(history, (0, 0))
    asked = history.invoke("caught_up", process="watcher.1", queue=0, value={"group": "silent"})
    history.complete(asked, "info")
    why = end(history, 0).expect(DELIVERIES, validity=Validity.UNKNOWN).why
    assert "group silent was not waited for in queue 0" in why


def test_without_a_final_reading_nobody_knows_what_a_group_lacks() -> None:
    history = run()
    history.send(0)
    history.send(1)
    receive(history, (0, 0))
    why = end(history, drained="info").expect(DELIVERIES, validity=Validity.UNKNOWN).why
    assert "what stands in queue 0 after the run is unknown" in why


def test_a_group_that_is_never_given_what_stands_in_the_queue() -> None:
    history = run()
    history.send(0)
    history.send(1)
    receive(history, (1, 1))
    verdict = end(history, 0, 1).expect(DELIVERIES, A.WITHHELD, validity=Validity.INVALID)
    assert "group library-push was not given it" in verdict.anomalies[0].explanation
    history = run()
    history.send(0)
    history.send(1)
    receive(history, (1, 1))
    verdict = end(history, 0, 1, received=0).expect(DELIVERIES, validity=Validity.UNKNOWN)
    assert "nobody was given anything while it read on" in verdict.why


def test_where_what_was_read_may_be_taken_back_a_group_may_pass_over_what_comes_in_its_place() -> None:
    lax = {"flush": "async", "acks": "master", "unclean": True, "min_in_sync": 1}
    history = run(profile=lax, loss_window_s=1.0)
    history.send(0)
    history.send(1)
    receive(history, (1, 1))
    history.undo("kill", history.inject("kill", "broker-0"))
    why = end(history, 0, 1).expect(DELIVERIES, validity=Validity.UNKNOWN).why
    assert "lets what it has read be taken back" in why


def test_what_is_lost_is_no_business_of_groups() -> None:
    history = run()
    history.send(0)
    history.send(1)
    receive(history, (0, 0))
    end(history, 0).expect(DELIVERIES, validity=Validity.VALID)


def test_a_group_that_reads_in_order_is_given_no_offset_before_one_below_it() -> None:
    history = run()
    for sequence in range(4):
        history.send(sequence)
    receive(history, (0, 0), (1, 1), in_order=True)
    receive(history, (3, 3), in_order=True)
    receive(history, (2, 2), in_order=True)
    verdict = end(history, 0, 1, 2, 3).expect(DELIVERIES, A.OUT_OF_ORDER, validity=Validity.INVALID)
    assert "but neither offset 2, which came at 0.180 s, nor any above it before" in verdict.anomalies[0].explanation


def test_redelivery_begins_anew_below() -> None:
    history = run()
    for sequence in range(3):
        history.send(sequence)
    receive(history, (0, 0), (1, 1), in_order=True)
    receive(history, (0, 0), (1, 1), (2, 2), in_order=True)
    end(history, 0, 1, 2).expect(DELIVERIES, validity=Validity.VALID)


def test_a_delayed_message_may_come_twice() -> None:
    history = run()
    history.send(0)
    delay(history, 1, 0)
    receive(history, (0, 0), (1, 1), (1, 2))
    end(history, 0, 1, 1).expect(DELIVERIES, validity=Validity.VALID)
    history.expect(DURABILITY, validity=Validity.VALID)


def again(history: History, sequence: int, f: str = "receive_again", type: str = "ok") -> None:
    """A pop group is given a message from its own copy, or acknowledges one (``ack``)."""
    more = {"hash": content(m(sequence))} if f == "receive_again" else {}
    asked = history.invoke(f, process="pop.0", queue=0, message=m(sequence), value={"group": POP}, **more)
    history.complete(asked, type)


def test_what_a_group_acknowledged_may_come_again_and_is_counted() -> None:
    history = run()
    for sequence in range(3):
        history.send(sequence)
    receive(history, (0, 0), (1, 1), (2, 2), group=POP)
    again(history, 0, "ack")
    again(history, 1, "ack", "info")
    again(history, 0)
    again(history, 1)
    again(history, 0)
    again(history, 0, "ack")
    verdict = end(history, 0, 1, 2, group=POP).expect(DELIVERIES, validity=Validity.VALID)
    assert {name: verdict.counts[name] for name in ("acks", "given_again", "given_again_after_ack")} == {
        "acks": 2,
        "given_again": 3,
        "given_again_after_ack": 2,
    }


@pytest.mark.parametrize("type", ["ok", "info"])
def test_what_comes_again_is_given_even_if_it_never_came_before(type: str) -> None:
    history = run()
    history.send(0)
    history.send(1)
    receive(history, (0, 0), group=POP)
    again(history, 1, type=type)
    names = () if type == "ok" else (A.WITHHELD,)
    end(history, 0, 1, group=POP).expect(DELIVERIES, *names)
    history.expect(DURABILITY, validity=Validity.VALID)


def test_what_comes_only_from_the_copy_of_a_pop_group_has_come() -> None:
    """The answer with the message itself was lost, and the log was cut before anybody else read it."""
    history = run()
    history.send(0)
    transact(history, 1, "commit")
    transact(history, 2, "rollback")
    receive(history, (0, 0), group=POP)
    again(history, 1)
    again(history, 2)
    verdict = end(history, 0, group=POP).expect(DELIVERIES, A.ROLLED_BACK_DELIVERED)
    assert "was given to group library-pop" in verdict.anomalies[0].explanation


def send_back(history: History, sequence: int, *, type: str = "ok", group: str = GROUP) -> None:
    value = {"group": group}
    asked = history.invoke(
        "send_back", process="back.0", queue=0, message=m(sequence), hash=content(m(sequence)), value=value
    )
    history.complete(asked, type, value={"again_ms": 1000} if type == "ok" else {})


def handed_again(history: History, sequence: int, *, group: str = GROUP) -> None:
    columns = {"message": m(sequence), "hash": content(m(sequence)), "value": {"group": group}}
    history.complete(history.invoke("receive_again", process="back.1", queue=0, **columns), "ok")


def sent_back(*, type: str = "ok", again: str = "", handed: bool = False, **more: Any) -> History:
    """A message is handed out, sent back, and handed out ``again`` to this group or to nobody; ``handed``: also before
    it was sent back."""
    meta = {name: more.pop(name) for name in ("profile", "loss_window_s", "tells") if name in more}
    fault = more.pop("fault", False)
    history = run(**meta)
    history.send(0)
    receive(history, (0, 0))
    if handed:
        handed_again(history, 0)
    send_back(history, 0, type=type)
    if fault:
        history.undo("kill", history.inject("kill", "broker-0"))
    if again:
        handed_again(history, 0, group=again)
    return end(history, 0, **more)


def test_what_was_sent_back_comes_again_to_its_own_group() -> None:
    verdict = sent_back(again=GROUP).expect(DELIVERIES, validity=Validity.VALID)
    assert verdict.counts["sent_back"] == 1
    sent_back(type="info").expect(DELIVERIES, validity=Validity.VALID)  # it may not have been taken back
    sent_back(type="fail").expect(DELIVERIES, validity=Validity.VALID)
    for wrong in (sent_back(), sent_back(again="others"), sent_back(handed=True)):
        verdict = wrong.verdict(DELIVERIES)
        assert [one.name for one in verdict.anomalies if not one.lawful] == [A.NEVER_RETURNED]
        assert "was sent back by group library-push, and taken back at" in verdict.anomalies[0].explanation
        assert len(verdict.anomalies[0].rows) == 2


def test_it_is_unknown_whether_comes_again_what_the_run_did_not_wait_for() -> None:
    for history in (sent_back(waited_s=3), sent_back(received=0), sent_back(waited="info")):
        assert "the run did not wait long enough" in history.verdict(DELIVERIES).why
        assert history.verdict(DELIVERIES).validity is Validity.UNKNOWN
    assert "given again is unknown" in sent_back(recovered=False).expect(DELIVERIES, validity=Validity.UNKNOWN).why


def test_a_weaker_profile_permits_that_it_never_comes_again() -> None:
    lax = {"flush": "async", "acks": "master", "unclean": True, "min_in_sync": 1}
    silent: dict[str, Any] = {"profile": lax, "tells": ["operations", "final-logs"], "fault": True}
    permitted = sent_back(loss_window_s=1.0, **silent)
    permitted.expect(DELIVERIES, A.NEVER_DELIVERED_BY_POLICY, validity=Validity.VALID)
    assert "it is unknown" in sent_back(**silent).expect(DELIVERIES, validity=Validity.UNKNOWN).why
    sent_back(profile=lax).expect(DELIVERIES, A.NEVER_RETURNED)


def test_nothing_delivered_is_unknown_and_so_is_a_group_that_nobody_waited_for() -> None:
    verdict = end(run()).expect(DELIVERIES, validity=Validity.UNKNOWN)
    assert "no group was given a message" in verdict.why
    history = run()
    history.send(0)
    receive(history, (0, 0))
    verdict = end(history, 0, group="another").expect(DELIVERIES, A.WITHHELD, validity=Validity.INVALID)
    assert "group library-push was not waited for in queue 0" in verdict.why


def test_a_run_without_such_messages_is_none_of_its_business() -> None:
    history = History()
    history.master("broker-0", 1)
    history.phase("load")
    history.send(0)
    history.finish(0).expect(DELIVERIES, validity=Validity.NOT_APPLICABLE)


def test_the_law_keeps_the_contract() -> None:
    good, early = run(), run()
    for history in (good, early):
        history.send(0)
        delay(history, 1, 1000)
        history.wait(2 if history is good else 0)
        receive(history, (0, 0), (1, 1))
    known = registry()
    number = next(one for one in known.of(DELIVERIES) if isinstance(known.kernels[one], Given))
    bad = [(end(early, 0, 1).table(), [A.TOO_EARLY])]
    check_law(known.kernels[number], bad=bad, near_miss=[end(good, 0, 1).table()], context=good.context())
