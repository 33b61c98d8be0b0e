"""A topic whose creation was acknowledged is there in the end: as clients are told, and as the last master lists it."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, History
from tests.checkers.names import A, L

TOPICS = L.TOPICS


def create(
    history: History, topic: str = "t", queues: int = 2, *, type: str = "ok", node: str = "broker-0", epoch: int = 1
) -> None:
    asked = history.invoke("create_topic", process="topics.0", value={"topic": topic, "queues": queues})
    history.complete(asked, type, node=node, epoch=epoch)


def find(history: History, queues: int, topic: str = "t", *, type: str = "ok") -> None:
    asked = history.invoke("find_topic", process="topic-reader.0", value={"topic": topic})
    history.complete(asked, type, node="nameserver-0", value={"queues": queues} if type == "ok" else {})


def recover(history: History, recovered: bool = True) -> History:
    history.phase("recover")
    if recovered:
        history.recovered()
    history.phase("drain")
    return history


def last(history: History, master: str = "broker-0", **queues: int) -> History:
    """What replicas list after the run: the master this, the others nothing yet."""
    for node in BROKERS:
        listed = {name: {"queues": count, "first_index": 0} for name, count in queues.items()} if node == master else {}
        history.row("final", f="topics", node=node, value={"topics": listed})
        history.node(node, role="master" if node == master else "slave")
    return history


def run(**meta: Any) -> History:
    history = History(meta={"uses": ["queues", "topics"], **meta})
    history.master("broker-0", 1)
    history.phase("load")
    return history


@pytest.mark.parametrize(("seen", "words"), [(0, "does not exist"), (1, "has 1 queues")])
def test_a_topic_that_is_not_there_or_lacks_a_queue_is_lost(seen: int, words: str) -> None:
    history = run()
    create(history)
    recover(history).wait(5)
    find(history, seen)
    verdict = history.expect(TOPICS, A.TOPIC_LOST, validity=Validity.INVALID)
    assert words in verdict.anomalies[0].explanation and len(verdict.anomalies[0].rows) == 4


def test_a_topic_that_the_last_master_does_not_list_is_lost_though_clients_are_told_of_it() -> None:
    history = run()
    create(history)
    find(recover(history), 2)
    assert "does not know it" in last(history).expect(TOPICS, A.TOPIC_LOST).anomalies[0].explanation


def test_a_topic_that_was_there_and_is_gone_is_lost() -> None:
    history = run()
    create(history)
    find(history, 2)
    find(recover(history), 2)
    history.wait(5)
    find(history, 0)
    history.expect(TOPICS, A.TOPIC_LOST)


def test_a_topic_that_comes_late_is_there() -> None:
    history = run()
    create(history)
    create(history, "u")
    create(history)  # as it is
    find(recover(history), 0)
    find(history.wait(4), 2)
    find(history, 2, "u")
    verdict = last(history, t=2, u=2).expect(TOPICS, validity=Validity.VALID)
    assert verdict.counts == {"created_topics": 2, "found_topics": 2}


@pytest.mark.parametrize("outcome", ["info", "fail"])
def test_a_creation_that_nobody_acknowledged_promises_nothing(outcome: str) -> None:
    history = run()
    create(history)
    create(history, "u", type=outcome)
    recover(history).wait(5)
    find(history, 2)
    find(history, 0, "u")
    history.expect(TOPICS, validity=Validity.VALID)


def test_who_did_not_look_long_enough_or_at_all_knows_nothing() -> None:
    early, never, refused, unrecovered, nothing = run(), run(), run(), run(), run()
    for history in (early, never, refused, unrecovered):
        create(history)
        recover(history, recovered=history is not unrecovered)
    find(early.wait(4), 0)
    find(refused.wait(6), 0, type="fail")
    find(unrecovered.wait(6), 0)
    for history in (early, never, refused, unrecovered, recover(nothing)):
        history.expect(TOPICS, validity=Validity.UNKNOWN)
    bound = run(bounds={"route_s": 3})
    create(bound)
    find(recover(bound).wait(4), 0)
    bound.expect(TOPICS, A.TOPIC_LOST)


def unclean(history: History, epoch: int) -> None:
    """Another master is elected uncleanly."""
    entry = {"type": "elect", "master": "broker-1", "master_epoch": epoch, "previous_set": [], "unclean": True}
    history.trace("controller-0", "applied", position=1, value={"entry": entry})
    history.master("broker-0", epoch - 1)
    history.master("broker-1", epoch)


@pytest.mark.parametrize(("epoch", "name"), [(1, A.TOPIC_LOST_BY_POLICY), (2, A.TOPIC_LOST)])
def test_a_profile_that_permits_losses_permits_those_before_a_cut(epoch: int, name: str) -> None:
    history = run(profile={"unclean": True})
    create(history, epoch=epoch)
    unclean(history, 2)
    find(recover(history).wait(5), 0)
    lost = name == A.TOPIC_LOST
    verdict = history.expect(TOPICS, name, validity=Validity.INVALID if lost else Validity.VALID)
    assert lost or "`unclean: true` allows" in verdict.anomalies[0].policy


def test_what_the_run_itself_destroyed_proves_nothing() -> None:
    history = run()
    create(history)
    history.inject("wipe", *BROKERS)
    find(recover(history).wait(5), 0)
    history.expect(TOPICS, validity=Validity.UNKNOWN)


def test_a_run_without_topics_is_none_of_its_business() -> None:
    history = History()
    history.send(0)
    history.finish(0).expect(TOPICS, validity=Validity.NOT_APPLICABLE)


@pytest.mark.parametrize("outcome", ["ok", "info", "fail", ""])
def test_a_topic_that_a_client_was_shown_is_lost_when_it_is_gone_whatever_its_creation_came_to(outcome: str) -> None:
    history = run()
    if outcome:
        create(history, type=outcome)
    find(history, 2)
    find(recover(history).wait(5), 0)
    (found,) = history.expect(TOPICS, A.TOPIC_LOST, validity=Validity.INVALID).anomalies
    assert ("was shown" in found.explanation) is (outcome != "ok")


def test_a_topic_that_a_client_was_shown_and_that_is_there_or_that_nobody_was_shown_is_not_lost() -> None:
    history = run()
    create(history, type="info")
    find(history, 0)
    find(history, 2)
    create(history, "u", type="info")
    find(history, 0, "u")
    find(recover(history).wait(5), 2)
    find(history, 0, "u")
    assert history.expect(TOPICS, validity=Validity.VALID).counts == {"created_topics": 1, "found_topics": 1}


def test_a_topic_keeps_the_most_queues_that_it_was_ever_given_or_shown_with() -> None:
    history = run()
    create(history, queues=2)
    create(history, queues=4)
    recover(history).wait(6)
    find(history, 2)
    verdict = history.expect(TOPICS, A.TOPIC_LOST)
    assert "with 4 queues was acknowledged" in verdict.anomalies[0].explanation


def test_an_answer_that_tells_no_number_of_queues_tells_nothing() -> None:
    history = run()
    create(history)
    recover(history).wait(6)
    asked = history.invoke("find_topic", process="topic-reader.0", value={"topic": "t"})
    history.complete(asked, node="nameserver-0")
    assert "no client learned" in history.expect(TOPICS, validity=Validity.UNKNOWN).why


def test_a_creation_that_asks_for_no_number_is_of_one_queue_at_least() -> None:
    history = run()
    asked = history.invoke("create_topic", process="topics.0", value={"topic": "t"})
    history.complete(asked, node="broker-0", epoch=1)
    recover(history).wait(6)
    find(history, 0)
    history.expect(TOPICS, A.TOPIC_LOST)


def delete(history: History, topic: str = "t", *, type: str = "ok", epoch: int = 1) -> None:
    asked = history.invoke("delete_topic", process="topic-deleter.0", value={"topic": topic})
    history.complete(asked, type, node="broker-0", epoch=epoch)


@pytest.mark.parametrize("creation", ["ok", "fail"])
def test_a_topic_that_was_deleted_and_is_there_has_returned(creation: str) -> None:
    history = run()
    create(history, type=creation)
    delete(history)
    find(recover(history).wait(5), 2)
    (found,) = history.expect(TOPICS, A.TOPIC_RETURNED, validity=Validity.INVALID).anomalies
    assert "has 2 queues" in found.explanation and len(found.rows) == 4


def test_a_topic_that_was_deleted_and_is_gone_is_as_it_should_be() -> None:
    history = run()
    create(history)
    create(history, "u")
    delete(history)
    recover(history)
    find(history, 2)  # a route may be stale for a while
    find(history.wait(4), 0)
    find(history, 2, "u")
    verdict = history.expect(TOPICS, validity=Validity.VALID)
    assert verdict.counts == {"created_topics": 2, "found_topics": 1, "gone_topics": 1}


@pytest.mark.parametrize("queues", [0, 2])
@pytest.mark.parametrize("outcome", ["info", "fail"])
def test_after_a_deletion_that_nobody_acknowledged_a_topic_may_be_there_or_not(outcome: str, queues: int) -> None:
    history = run()
    create(history)
    create(history, "u")
    delete(history, type=outcome)
    find(recover(history).wait(5), queues)
    find(history, 2, "u")
    assert history.expect(TOPICS, validity=Validity.VALID).counts == {"created_topics": 1, "found_topics": 1}


def test_a_creation_that_may_come_after_the_deletion_explains_the_topic() -> None:
    unclear, later = run(), run()
    create(unclear, type="info")
    for history in (unclear, later):
        create(history, "u")
        create(history)
        delete(history)
    create(later)
    for history in (unclear, later):
        find(recover(history).wait(5), 2)
        find(history, 2, "u")
        history.expect(TOPICS, validity=Validity.VALID)


@pytest.mark.parametrize("deletion", ["ok", "fail", "info"])
def test_a_topic_that_is_made_again_is_there_unless_its_deletion_may_still_come(deletion: str) -> None:
    history = run()
    create(history)
    delete(history, type=deletion)
    create(history)
    create(history, "u")
    find(recover(history).wait(6), 0)
    find(history, 2, "u")
    if deletion == "info":
        history.expect(TOPICS, validity=Validity.VALID)
    else:
        history.expect(TOPICS, A.TOPIC_LOST, validity=Validity.INVALID)


def test_nobody_knows_of_a_deleted_topic_that_was_not_looked_for_late_enough_or_whose_disks_are_gone() -> None:
    early, never, destroyed = run(), run(), run()
    for history in (early, never, destroyed):
        create(history)
        delete(history)
    destroyed.inject("wipe", *BROKERS)
    for history in (early, never, destroyed):
        recover(history)
    find(early.wait(4), 2)
    find(destroyed.wait(5), 2)
    for history in (early, never, destroyed):
        history.expect(TOPICS, validity=Validity.UNKNOWN)


@pytest.mark.parametrize(("epoch", "name"), [(1, A.TOPIC_RETURNED_BY_POLICY), (2, A.TOPIC_RETURNED)])
def test_a_profile_that_permits_losses_permits_to_lose_a_deletion(epoch: int, name: str) -> None:
    history = run(profile={"unclean": True})
    create(history)
    delete(history, epoch=epoch)
    unclean(history, 2)
    find(recover(history).wait(5), 2)
    returned = name == A.TOPIC_RETURNED
    history.expect(TOPICS, name, validity=Validity.INVALID if returned else Validity.VALID)


def test_a_deleted_topic_that_the_last_master_lists_has_returned_though_clients_are_told_that_it_is_gone() -> None:
    for looked in (True, False):
        history = run()
        create(history)
        delete(history)
        recover(history)
        if looked:
            find(history.wait(5), 0)
        (found,) = last(history, t=2).expect(TOPICS, A.TOPIC_RETURNED, validity=Validity.INVALID).anomalies
        assert "the master after the run, lists topic t with 2 queues" in found.explanation


def test_a_deleted_topic_that_no_master_lists_or_two_masters_do_is_gone() -> None:
    gone, two = run(), run()
    for history in (gone, two):
        create(history)
        delete(history)
        find(recover(history).wait(5), 0)
    last(gone).expect(TOPICS, validity=Validity.VALID)
    last(last(two, t=2), "broker-1").expect(TOPICS, validity=Validity.VALID)  # nobody knows who was the master


@pytest.mark.parametrize("by", ["clients", "the master"])
def test_a_topic_with_more_queues_than_anybody_asked_for_is_found(by: str) -> None:
    history = run()
    create(history, queues=1)
    create(history, queues=3, type="fail")
    create(history, queues=2, type="info")
    find(recover(history).wait(5), 3 if by == "clients" else 2)
    (found,) = last(history, t=2 if by == "clients" else 3).expect(TOPICS, A.TOPIC_UNASKED).anomalies
    assert "3 queues, but only 2 queues of it were asked for" in found.explanation


@pytest.mark.parametrize("queues", [1, 2])
def test_a_topic_with_as_many_queues_as_a_creation_of_unknown_outcome_asked_for_is_lawful(queues: int) -> None:
    history = run()
    create(history, queues=1)
    create(history, queues=2, type="info")
    find(recover(history).wait(5), queues)
    last(history, t=queues).expect(TOPICS, validity=Validity.VALID)


def unasked(*, refused: bool = False, shown: bool = False, **meta: Any) -> History:
    """The last master lists a topic u beside those that were created, and the one that it had from the beginning."""
    history = run(**{"queues": [{"index": 0, "topic": "first", "queue_id": 0}], **meta})
    create(history)
    if refused:
        create(history, "u", type="fail")
    find(recover(history), 2)
    if shown:
        find(history, 2, "u")
    return last(history, first=4, t=2, u=2)


def test_a_topic_that_nobody_asked_for_or_that_was_refused_is_found() -> None:
    for history in (unasked(), unasked(refused=True), unasked(shown=True), unasked(refused=True, queues=[])):
        verdict = history.expect(TOPICS, A.TOPIC_UNASKED, validity=Validity.INVALID)
        assert "nobody asked for it" in verdict.anomalies[0].explanation and len(verdict.anomalies) == 1


def test_a_topic_that_may_have_been_there_before_or_come_otherwise_is_lawful() -> None:
    had = unasked(deployment="attach")
    unknown = unasked(queues=[])  # nobody knows which topics the system had from the beginning
    otherwise = unasked(uses=["queues", "topics", "limits"])  # a question may have created it
    for history in (had, unknown, otherwise):
        history.expect(TOPICS, validity=Validity.VALID)
