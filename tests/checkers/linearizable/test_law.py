"""What clients saw of the controllers' objects: histories that no order explains, and those that only look like it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chaos.errors import MachineError
from chaos.judging.divided import parted
from chaos.judging.engine import judge_rows
from chaos.judging.plan import WHOLE, plan
from chaos.judging.registry import Registry
from chaos.judging.shard import Shard
from chaos.law import Deferred, Partial
from chaos.law_declaration import declared_rows, kernel_of
from chaos.testing.laws import check_law
from chaos.verdict import Anomaly, Validity, Verdict
from checkers.linearizable.history import Result, Undecided
from checkers.linearizable.law import Linearizable
from tests.checkers.histories import History, table_of
from tests.checkers.names import A, L

LAW = L.LINEARIZABLE
INIT = {"replica-info": [1, 1], "register": ["nowhere"], "fenced-lock": [-1, 1]}


class Objects(History):
    """Clients of one object, "o". A method that ends in ``began`` leaves its operation open; :meth:`end` ends it."""

    clients: int = 0

    def made(self, name: str = "o") -> Objects:
        self.meta["uses"] = ["objects"]
        op = self.invoke("create", process="maker", value={"object": name, "init": INIT})
        self.complete(op, process="maker", f="create")
        return self

    def began(self, f: str, model: str, name: str = "o", **value: Any) -> tuple[int, dict[str, Any]]:
        self.clients += 1
        told = {"object": name, "model": model, "to": "controller-1", **value}
        return self.invoke(f, process=f"client-{self.clients}", value=told), told

    def end(self, began: tuple[int, dict[str, Any]], type: str = "ok", **value: Any) -> None:
        op, told = began
        columns = {name: self.rows[op][name] for name in ("f", "process")}
        self.complete(op, type, node="controller-1", value={**told, **value}, **columns)

    def read(self, epoch: int, *members: int) -> None:
        self.end(self.began("read", "replica-info"), epoch=epoch, members=list(members))

    def change(self, expected: int, *members: int, epoch: int = 0) -> None:
        began = self.began("cas", "replica-info", expected=expected, members=list(members))
        self.end(began, epoch=epoch or expected + 1)

    def read_address(self, address: str | None) -> None:
        self.end(self.began("read", "register"), address=address)

    def write(self, address: str, type: str = "ok") -> None:
        self.end(self.began("write", "register", address=address), type)

    def take(self, holder: int, token: int, type: str = "ok") -> None:
        self.end(self.began("acquire", "fenced-lock", holder=holder), type, token=token)

    def give_back(self, holder: int, token: int, type: str = "ok") -> None:
        self.end(self.began("release", "fenced-lock", holder=holder, token=token), type)

    def anomaly(self) -> Anomaly:
        (found,) = self.expect(LAW, A.NOT_LINEARIZABLE, validity=Validity.INVALID).anomalies
        return found


def test_a_run_without_such_a_workload_is_left_alone() -> None:
    history = History()
    history.send(0)
    verdict = history.expect(LAW, validity=Validity.NOT_APPLICABLE)
    assert verdict.why == "no workload changed objects"


def test_a_workload_that_completed_nothing_is_unknown() -> None:
    history = Objects(meta={"uses": ["objects"]})
    history.send(0)
    assert "no operation" in history.expect(LAW, validity=Validity.UNKNOWN).why
    history = Objects().made()
    history.began("read", "replica-info")
    history.end(history.began("read", "register"), "fail", reason="not leader")
    assert "no operation" in history.expect(LAW, validity=Validity.UNKNOWN).why


def test_laws_about_queues_are_owed_nothing_by_a_run_without_queues() -> None:
    for uses, validity in ((["objects"], Validity.NOT_APPLICABLE), (["objects", "queues"], Validity.UNKNOWN)):
        history = Objects().made()
        history.send(0, process="probe.0")
        history.meta["uses"] = uses
        for law in (L.DURABILITY, L.CONSUMERS):
            history.expect(law, validity=validity)


def test_no_rows_at_all_are_unknown() -> None:
    assert Linearizable().judge(Partial()).validity is Validity.UNKNOWN


def test_changes_and_reads_in_order_are_valid() -> None:
    history = Objects().made()
    history.read(1, 1)
    history.change(1, 1, 2)
    history.read(2, 1, 2)
    history.change(2, 1, 3)
    history.read_address("nowhere")
    history.write("a")
    history.read_address("a")
    verdict = history.expect(LAW, validity=Validity.VALID)
    assert (verdict.counts["objects"], verdict.counts["completed"]) == (3, 7)


def test_a_stale_read_is_told_with_what_it_missed() -> None:
    history = Objects().made()
    history.change(1, 1, 2)
    history.change(2, 1, 3)
    history.change(3, 1, 4)
    history.read(3, 1, 3)
    anomaly = history.anomaly()
    assert anomaly.explanation == (
        "The set of o is not linearizable: "
        "client-2 changed epoch 2 to epoch 3 {1, 3} through controller-1 (asked at 0.040 s, answered at 0.050 s); "
        "then client-3 changed epoch 3 to epoch 4 {1, 4} through controller-1 (asked at 0.060 s, answered at 0.070 s); "
        "then client-4 read epoch 3 {1, 3} from controller-1 (asked at 0.080 s, answered at 0.090 s)."
    )
    assert anomaly.rows == (4, 5, 6, 7, 8, 9)


def test_a_read_beside_the_change_may_see_either_state() -> None:
    for seen in ((1, 1), (2, 1, 2)):
        history = Objects().made()
        change = history.began("cas", "replica-info", expected=1, members=[1, 2])
        read = history.began("read", "replica-info")
        history.end(change, epoch=2)
        history.end(read, epoch=seen[0], members=list(seen[1:]))
        history.expect(LAW, validity=Validity.VALID)


def test_two_changes_of_one_epoch_are_a_lost_update() -> None:
    history = Objects().made()
    history.change(1, 1, 2)
    history.change(1, 1, 3, epoch=3)
    assert "changed epoch 1 to epoch 3" in history.anomaly().explanation


def test_two_contents_of_one_epoch_are_two_truths() -> None:
    history = Objects().made()
    history.change(1, 1, 2)
    history.read(2, 1, 3)
    assert "{1, 2}" in history.anomaly().explanation


def test_an_epoch_that_nobody_made_is_not_explained() -> None:
    history = Objects().made()
    history.read(7, 1)
    assert "read epoch 7 {1}" in history.anomaly().explanation


def test_a_refusal_is_an_observation() -> None:
    history = Objects().made()
    history.end(history.began("cas", "replica-info", expected=1, members=[1]), "fail", refused=True)
    assert "learned from controller-1 that the epoch was not 1" in history.anomaly().explanation
    history = Objects().made()
    history.end(history.began("cas", "replica-info", expected=1, members=[1]), "fail", reason="not leader")
    history.read(1, 1)
    history.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize("took_effect", [False, True])
def test_an_unclear_change_may_have_happened_or_not(took_effect: bool) -> None:
    history = Objects().made()
    history.end(history.began("cas", "replica-info", expected=1, members=[1, 2]), "info", reason="timeout")
    history.began("write", "register", address="b")  # cut off with the harness
    history.read(*((2, 1, 2) if took_effect else (1, 1)))
    history.read_address("b" if took_effect else "nowhere")
    verdict = history.expect(LAW, validity=Validity.VALID)
    assert verdict.counts["unclear"] == 2


def test_what_an_unclear_change_did_stays_done() -> None:
    history = Objects().made()
    history.write("b", "info")
    history.read_address("b")
    history.read_address("nowhere")
    assert 'perhaps wrote "b"' in history.anomaly().explanation


def test_an_object_that_is_gone_is_not_explained() -> None:
    history = Objects().made()
    history.read_address(None)
    assert "read null" in history.anomaly().explanation


def test_a_lock_has_one_holder() -> None:
    history = Objects().made()
    history.take(2, 2)
    history.take(3, 4)
    explanation = history.anomaly().explanation
    assert "client-1 took the lock with token 2" in explanation and "client-2 took" in explanation


def test_a_lock_is_given_back_before_it_is_taken_again() -> None:
    history = Objects().made()
    history.take(2, 2)
    history.give_back(2, 2)
    history.take(3, 4)
    history.expect(LAW, validity=Validity.VALID)


def test_tokens_grow() -> None:
    history = Objects().made()
    history.take(2, 5)
    history.give_back(2, 5)
    history.take(3, 4)
    assert "token 4" in history.anomaly().explanation


def test_a_lock_that_an_unclear_call_took_is_given_back_by_the_same_client() -> None:
    history = Objects().made()
    history.take(2, 2, "info")
    history.give_back(2, 2)
    history.take(3, 4)
    history.give_back(3, 4, "info")
    history.take(2, 6)
    history.expect(LAW, validity=Validity.VALID)


def test_objects_are_judged_apart() -> None:
    history = Objects().made().made("p")
    history.change(1, 1, 2)
    history.end(history.began("read", "replica-info", "p"), epoch=1, members=[1])
    history.expect(LAW, validity=Validity.VALID)


def test_an_answer_that_tells_nothing_and_an_object_without_a_beginning_are_gaps() -> None:
    history = Objects().made()
    history.read(1, 1)
    history.end(history.began("read", "replica-info"))
    assert "does not say what it saw" in history.expect(LAW, validity=Validity.UNKNOWN).why
    history = Objects().made()
    history.read(1, 1)
    history.end(history.began("read", "register", "stray"), address="a")
    assert "began" in history.expect(LAW, validity=Validity.UNKNOWN).why


def test_what_no_search_could_decide_is_unknown_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(history: Any, **budget: Any) -> Result:
        undecided = Undecided(key="o", reason="time", placed=3, of=5)
        return Result(id=history.id, valid=None, ms=0, configs=0, peak_mib=0, undecided=(undecided,))

    monkeypatch.setattr("checkers.linearizable.law.sequential.examine", gives_up)
    history = Objects().made()
    history.read(1, 1)
    asked: list[str] = []

    def search(histories: Any) -> list[Result]:
        asked.extend(one.id for one in histories)
        return [gives_up(one) for one in histories]

    verdict = judged(Linearizable(search=search), history)
    assert verdict.validity is Validity.UNKNOWN and "o (replica-info)" in verdict.why and "3 of 5" in verdict.why
    assert asked == ["o (fenced-lock)", "o (register)", "o (replica-info)"]

    def no_java(histories: Any) -> list[Result]:
        raise MachineError("no Java here")

    verdict = judged(Linearizable(search=no_java), history)
    assert verdict.validity is Validity.UNKNOWN and "time; no Java here; 3 of 5" in verdict.why


def judged(law: Linearizable, history: History) -> Verdict:
    """What the law says of a history that is one shard."""
    known = Registry({("law", 0): kernel_of(law)}, {})
    (verdict,) = judge_rows([(WHOLE, history.table())], history.context(), known)
    return verdict


def test_what_nobody_settles_is_unknown() -> None:
    partial = Partial(counts={"completed": 1}, deferred=(Deferred(about="o (register)", given={}),))
    verdict = Linearizable().judge(partial)
    assert verdict.validity is Validity.UNKNOWN and verdict.why == "o (register) was not decided"


def test_what_is_settled_later_is_what_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = Objects().made(), Objects().made()
    for history in (good, bad):
        history.change(1, 1, 2)
        history.write("a")
        history.take(2, 2)
    bad.read(1, 1)
    at_once = [judged(Linearizable(), history) for history in (good, bad)]
    monkeypatch.setattr("checkers.linearizable.law.EASY", 0)
    monkeypatch.setattr("checkers.linearizable.law.EASY_EACH", 0)
    law = Linearizable()
    partial = law.examine(declared_rows(Shard(bad.table()), bad.context(), law.reads))
    assert len(partial.deferred) == 3 and not partial.anomalies
    assert [judged(law, history) for history in (good, bad)] == at_once
    assert [verdict.validity for verdict in at_once] == [Validity.VALID, Validity.INVALID]


@pytest.mark.parametrize("most", [1, 200, 1_000])
def test_objects_are_judged_in_shards_as_in_one(most: int) -> None:
    history = Objects()
    history.phase("load")
    for number in range(30):
        history.made(f"o{number}")
    for number in range(300):
        name = f"o{number % 30}"
        wrong = number == 250
        history.end(history.began("write", "register", name, address=f"{number}"))
        history.end(history.began("read", "register", name), address="wrong" if wrong else f"{number}")
    known = Registry({("law", 0): kernel_of(Linearizable())}, {})
    table, context = history.table(), history.context()
    shards = list(parted([table], plan(known.kernels, context.meta), most))
    assert len(shards) > 9 or most > 1
    assert judge_rows(shards, context, known) == judge_rows([(WHOLE, table)], context, known)


@pytest.mark.parametrize("renamed", ["p", None])
def test_an_end_that_names_another_object_than_its_beginning_is_a_gap(renamed: str | None) -> None:
    """A stranger's: whatever shard it stands in, nobody takes the call for one without an end."""
    history = Objects().made().made("p")
    history.read_address("nowhere")
    op, value = history.began("read", "register")
    last = history.complete(op, value={**value, "address": "wrong"})
    ended = {"model": "register", "address": "wrong", **({"object": renamed} if renamed else {})}
    history.rows[last]["value"] = json.dumps(ended)
    known = Registry({("law", 0): kernel_of(Linearizable())}, {})
    table, context = table_of(history.rows), history.context()
    shards = list(parted([table], plan(known.kernels, context.meta), 1))
    (verdict,) = judge_rows(shards, context, known)
    assert verdict.validity is not Validity.VALID
    if renamed:
        assert f"that ended in row {last} is not known" in verdict.why


def test_the_law_keeps_the_contract() -> None:
    good, bad = Objects().made(), Objects().made()
    for history in (good, bad):
        history.read(1, 1)
        history.change(1, 1, 2)
    good.read(2, 1, 2)
    bad.read(1, 1)
    context = good.context()
    check_law(Linearizable(), bad=[(bad.table(), [A.NOT_LINEARIZABLE])], near_miss=[good.table()], context=context)
