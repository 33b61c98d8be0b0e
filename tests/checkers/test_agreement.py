"""Two messages at one place, in every pair of witnesses; and what is lawful for a deposed master's tail."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, REPORTED, SIZE, History
from tests.checkers.names import A, L

LAW = L.AGREEMENT


def replicated(*sequences: int) -> History:
    history = History()
    history.phase("load")
    history.master("broker-0", 1)
    for sequence in sequences:
        for node in BROKERS:
            history.append(node, sequence)
            history.confirm(node, (sequence + 1) * SIZE)
        history.send(sequence)
    return history


def test_two_acknowledgements_of_one_offset_conflict() -> None:
    history = replicated(0)
    history.send(1, offset=0)
    history.finish(0).expect(LAW, A.OFFSET_CONFLICT, validity=Validity.INVALID)


def test_a_read_that_differs_from_the_acknowledgement_conflicts() -> None:
    history = replicated(0)
    history.pull(0, 5)
    history.finish(0).expect(LAW, A.OFFSET_CONFLICT)


def test_replicas_that_confirmed_different_records_diverge_even_if_truncated_later() -> None:
    history = History()
    history.append("broker-0", 0, 0)
    history.confirm("broker-0", SIZE)
    history.append("broker-1", 1, 0, epoch=2)
    history.confirm("broker-1", SIZE, 2)
    history.trace("broker-0", "truncate", position=0, epoch=2)
    history.send(1, 0)
    history.expect(LAW, A.REPLICA_DIVERGENCE)


def test_final_logs_that_differ_diverge() -> None:
    history = replicated(0, 1)
    history.finish(0, 1)
    history.log("broker-2", 0, 9)
    history.expect(LAW, A.REPLICA_DIVERGENCE)


def test_a_tiered_record_that_differs_conflicts() -> None:
    history = replicated(0).finish(0)
    history.row("final", f="tiered", queue=0, offset=0, hash=4711, message=7)
    history.expect(LAW, A.OFFSET_CONFLICT)


def test_an_unconfirmed_tail_of_a_deposed_master_is_lawful() -> None:
    history = replicated(0)
    history.append("broker-0", 7, 1)  # never confirmed, cut off on rejoining
    history.append("broker-1", 1, 1, epoch=2)
    history.confirm("broker-1", 2 * SIZE, 2)
    history.trace("broker-0", "truncate", position=SIZE, epoch=2)
    history.append("broker-0", 1, 1, epoch=2)
    history.confirm("broker-0", 2 * SIZE, 2)
    history.send(1)
    history.finish(0, 1).expect(LAW, validity=Validity.VALID)


def test_an_unconfirmed_tail_is_gone_when_the_replica_begins_anew_above_it() -> None:
    history = replicated(0)
    history.append("broker-1", 7, 1)
    history.append("broker-0", 1, epoch=2)
    history.confirm("broker-0", 2 * SIZE, 2)
    history.trace("broker-1", "bootstrap", position=4 * SIZE, epoch=2)
    history.confirm("broker-1", 5 * SIZE, 2)
    history.send(1)
    history.finish(0, 1).expect(LAW, validity=Validity.VALID)


def test_a_record_lost_in_a_crash_was_not_confirmed_by_a_confirm_of_the_next_life() -> None:
    history = replicated(0)
    history.append("broker-2", 9, 1)
    history.trace("broker-2", "recovered", position=SIZE, incarnation=2, step=1, value={"confirm": SIZE, "first": 0})
    history.append("broker-2", 1, 1, incarnation=2, step=2)
    history.confirm("broker-2", 2 * SIZE, incarnation=2, step=3)
    history.send(1)
    history.finish(0, 1).expect(LAW, validity=Validity.VALID)


def test_replicas_of_one_log_derive_the_same_offsets() -> None:
    history = replicated(0).finish(0)
    for node, offset in (("broker-0", 4), ("broker-1", 3)):
        history.row("final", f="offsets", node=node, value={"groups": {"g": {"0": offset}}})
    history.expect(LAW, A.METADATA_CONFLICT)


def test_a_replica_that_is_behind_may_know_older_offsets() -> None:
    history = replicated(0).finish(0)
    history.node("broker-3", confirm=0)
    for node in BROKERS:
        history.row("final", f="offsets", node=node, value={"groups": {"g": {"0": 4}}})
    history.row("final", f="offsets", node="broker-3", value={"groups": {}})
    history.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize(("at", "lawful"), [(40, True), (0, False)])
def test_a_replica_that_lacks_no_record_of_offsets_knows_them_however_far_it_is(at: int, lawful: bool) -> None:
    history = replicated(0).finish(0)
    history.node("broker-3", confirm=50)
    for node in BROKERS:
        history.row(
            "final", f="log", node=node, position=at, hash=7, value={"system": "offsets", "size": 30}
        )  # fmt: skip
        history.row("final", f="offsets", node=node, value={"groups": {"g": {"0": 4}}})
    history.row("final", f="offsets", node="broker-3", value={"groups": {}})
    if lawful:
        history.expect(LAW, validity=Validity.VALID)
    else:
        history.expect(LAW, A.METADATA_CONFLICT)


def test_system_records_stand_at_the_same_positions() -> None:
    history = replicated(0).finish(0)
    for node, content in (("broker-0", 11), ("broker-1", 12)):
        history.row("final", f="log", node=node, position=900, hash=content, value={"system": "topic"})
    history.expect(LAW, A.REPLICA_DIVERGENCE)


@pytest.mark.parametrize(("profile", "names"), [({"acks": "master"}, []), ({"min_in_sync": 1}, [A.OFFSET_CONFLICT])])
def test_a_conflict_with_an_old_answer_is_permitted_only_by_a_cut(profile: dict, names: list[str]) -> None:
    history = History(meta={"profile": profile, "tells": [*set(REPORTED) - {"elections"}]})
    history.phase("load")
    history.master("broker-0", 1)
    history.append("broker-0", 0)
    history.send(0)
    history.master("broker-1", 2)
    history.trace("broker-0", "truncate", position=0, epoch=2)
    for node in BROKERS:
        history.append(node, 1, 0, epoch=2)
        history.confirm(node, SIZE, 2)
    history.send(1, 0, node="broker-1", epoch=2)
    history.finish(1)
    for row in history.rows:
        row["epoch"] = 2 if row["f"] in ("log", "delivered") else row["epoch"]
    verdict = history.expect(LAW, *names)
    assert bool(verdict.counts.get("permitted_by_policy")) is not bool(names)


def test_a_good_run_is_valid_and_an_empty_one_unknown() -> None:
    replicated(0, 1).finish(0, 1).expect(LAW, validity=Validity.VALID)
    History().expect(LAW, validity=Validity.UNKNOWN)
    bare = History()
    bare.send(0)
    assert "log" in bare.expect(LAW, validity=Validity.UNKNOWN).why


def test_a_broker_that_joined_must_hold_the_same_as_all_others() -> None:
    def run(*sequences: int, read: bool = True) -> History:
        history = History()
        history.send(0)
        history.send(1)
        history.row("harness", f="node_added", node="broker-3", value={"role": "broker"})
        history.finish(0, 1)
        if read:
            history.log("broker-3", *sequences)
            history.node("broker-3", confirm=len(sequences) * SIZE)
        return history

    run(0, 1).expect(LAW, validity=Validity.VALID)
    run(0, 7).expect(LAW, A.REPLICA_DIVERGENCE, validity=Validity.INVALID)
    verdict = run(read=False).expect(LAW, validity=Validity.UNKNOWN)
    assert "broker-3" in verdict.why


def committed(history: History, offset: int = 4) -> History:
    """A group's offset took effect on two replicas, by the record at position 40."""
    for node in ("broker-0", "broker-1"):
        history.trace(node, "commit", queue=0, offset=offset, position=40, value={"group": "g"})
    return history


@pytest.mark.parametrize(("offset", "names"), [(4, ()), (3, (A.OFFSETS_LOST,)), (-1, (A.OFFSETS_LOST,))])
def test_a_group_that_all_replicas_have_forgotten_is_found(offset: int, names: tuple[str, ...]) -> None:
    history = committed(replicated(0)).finish(0)
    for node in BROKERS:
        history.row("final", f="offsets", node=node, value={"groups": {"g": {"0": offset}} if offset >= 0 else {}})
    history.expect(LAW, *names)


@pytest.mark.parametrize(
    ("begun", "groups", "names"),
    [(50, {"g": {"0": 4}}, ()), (50, {}, (A.OFFSETS_LOST,)), (40, {}, ()), (50, None, ())],
)
def test_a_replica_that_begins_anew_is_given_the_offsets_below(
    begun: int, groups: dict[str, dict[str, int]] | None, names: tuple[str, ...]
) -> None:
    history = committed(replicated(0))
    told = {} if groups is None else {"groups": groups}
    history.trace("broker-2", "bootstrap", position=begun, value={"queues": {"0": 0}, **told})
    history.finish(0).expect(LAW, *names)


@pytest.mark.parametrize(("clean", "names"), [(False, []), (True, [A.OFFSETS_LOST])])
def test_an_offset_may_be_lost_by_an_unclean_election_alone(clean: bool, names: list[str]) -> None:
    history = committed(replicated(0))
    history.meta["profile"] = {"unclean": True}
    entry = {"type": "elect", "master": "broker-1", "master_epoch": 2, "previous_set": ["broker-1"]}
    history.trace("controller-0", "applied", position=1, value={"entry": entry | {"unclean": not clean}})
    history.master("broker-1", 2)
    history.finish(0)
    for node in BROKERS:
        history.row("final", f="offsets", node=node, value={"groups": {}})
    history.expect(LAW, *names)


@pytest.mark.parametrize("holds", [True, False])
def test_a_group_has_a_log_of_its_own_in_which_its_replicas_must_hold_the_same(holds: bool) -> None:
    """Queue 0 is the first group's, queue 1 the second one's, and both logs begin at position 0."""
    history = History()
    for queue, node in ((0, "broker-0"), (1, "broker-2")):
        history.send(0, queue=queue, node=node)
    history.phase("recover")
    history.recovered()
    for number, node in enumerate(("broker-0", "broker-1", "broker-2", "broker-3")):
        queue = number // 2
        if holds or node != "broker-3":
            history.log(node, 0, queue=queue)
        first, end = 0, SIZE
        history.node(node, first=first, end=end, confirm=end, group=f"group-{queue}", maximums={str(queue): 1})
    history.meta["brokers"] = ["broker-0", "broker-1", "broker-2", "broker-3"]
    if holds:
        history.expect(LAW, validity=Validity.VALID)
    else:
        history.expect(LAW, A.REPLICA_DIVERGENCE)


@pytest.mark.parametrize(
    ("odd", "names"),
    [
        ("", ()),
        ("record", (A.REPLICA_DIVERGENCE,)),
        ("table", (A.METADATA_CONFLICT,)),
        ("offset", (A.METADATA_CONFLICT, A.OFFSETS_LOST)),
    ],
)
def test_what_replicas_derive_is_compared_within_their_group(odd: str, names: tuple[str, ...]) -> None:
    """Both groups have a record of the system's own at one position, and a table that only this group has."""
    history = History()
    nodes = ("broker-0", "broker-1", "broker-2", "broker-3")
    for queue, node in ((0, "broker-0"), (1, "broker-2")):
        history.send(0, queue=queue, node=node)
        history.trace(node, "commit", queue=queue, offset=4, position=40, value={"group": "g"})
    history.phase("recover")
    history.recovered()
    for number, node in enumerate(nodes):
        queue, is_odd = number // 2, node == "broker-3"
        history.log(node, 0, queue=queue)
        content = 70 + queue + (odd == "record" and is_odd)
        history.row("final", f="log", node=node, position=30, hash=content, value={"system": "offsets", "size": 20})
        offsets = {str(queue): 3 if odd == "offset" and is_odd else 4}
        history.row("final", f="offsets", node=node, value={"groups": {"g": offsets}})
        topics = {f"t{queue}": {"queues": 2 if odd == "table" and is_odd else 1}}
        history.row("final", f="topics", node=node, value={"topics": topics})
        told = {"maximums": {str(queue): 1}, "group": f"group-{queue}"}
        history.node(node, first=0, end=SIZE, confirm=SIZE, **told)
    history.meta["brokers"] = [*nodes]
    history.expect(LAW, *names)


def test_records_of_the_system_alone_prove_nothing_of_queues() -> None:
    history = History()
    history.send(0)
    history.finish(0, logs=False)
    history.row("final", f="log", node="broker-0", epoch=1, position=0, value={"system": "topic", "size": 1})
    assert "no replica reported what its log holds" in history.expect(LAW, validity=Validity.UNKNOWN).why


def test_answers_of_one_queue_prove_nothing_of_the_log_of_another_one() -> None:
    silent = replicated(0)
    silent.send(0, queue=1)
    verdict = silent.finish(0).expect(LAW, validity=Validity.UNKNOWN)
    assert verdict.why == "no replica reported what its log holds of queue 1"
    unread = replicated(0)
    unread.append("broker-0", 0, queue=2)
    assert "no answer reported what an offset holds of queue 2" in unread.finish(0).expect(LAW).why
    apart = replicated(0)
    apart.send(0, offset=7, queue=3)
    apart.append("broker-0", 0, queue=3)
    verdict = apart.finish(0).expect(LAW, validity=Validity.UNKNOWN)
    assert verdict.why == "no answer and no log reported the same offset of queue 3"
