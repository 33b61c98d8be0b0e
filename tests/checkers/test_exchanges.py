"""Items without offsets: what was put in comes out, in the order of its key; then what proves nothing."""

from __future__ import annotations

from random import Random

import pytest

from chaos.testing.laws import check_law
from chaos.verdict import Validity, Verdict
from checkers.deliveries.by_key import ByKey
from checkers.durability.accounts import Accounts
from tests.checkers.histories import History, content
from tests.checkers.names import A, L

META = {"tells": ["exchanges"], "uses": ["exchanges"], "deployment": "", "brokers": []}
VALID, INVALID, UNKNOWN = Validity.VALID, Validity.INVALID, Validity.UNKNOWN


class Exchange:
    """Writes what clients of a queue or a store did, without offsets."""

    def __init__(self, *puts: int, f: str = "enqueue", key: str = "") -> None:
        self.history = History(meta=META)
        self.history.phase("load")
        for number in puts:
            self.put(number, f=f, key=key)

    def begin(self, number: int, *, f: str = "enqueue", key: str = "") -> int:
        value = {"item": str(number), **({"key": key} if key else {})}
        return self.history.invoke(f, process="client-0.0", queue=0, message=number, hash=content(number), value=value)

    def put(self, number: int, type: str = "ok", *, f: str = "enqueue", key: str = "") -> int:
        return self.history.complete(self.begin(number, f=f, key=key), type)

    def ask(self, client: int = 1, f: str = "dequeue") -> int:
        return self.history.invoke(f, process=f"client-{client}.0", queue=0)

    def given(self, op: int, *numbers: int, client: int = 1) -> Exchange:
        """The answer to a request, or, if ``op`` is -1, items that were pushed."""
        if op >= 0:
            self.history.complete(op, "ok" if numbers else "fail")
        for number in numbers:
            self.history.row(
                "op",
                type="ok",
                op=op,
                f="came_out",
                process=f"client-{client}.0" if op >= 0 else f"pushed-{client}.0",
                queue=0,
                message=number,
                hash=content(number),
                value={"item": str(number)},
            )
        return self

    def take(self, *numbers: int, client: int = 1) -> Exchange:
        return self.given(self.ask(client), *numbers, client=client)

    def push(self, *numbers: int, client: int = 1) -> Exchange:
        return self.given(-1, *numbers, client=client)

    def read(self, *numbers: int) -> Exchange:
        return self.given(self.ask(f="get_all"), *numbers)

    def emptied(self) -> Exchange:
        op = self.history.invoke("emptied", process="import.0", queue=0, value={"by": "a test"})
        self.history.complete(op)
        return self

    def durability(self, *names: str, validity: Validity) -> Verdict:
        return self.history.expect(L.DURABILITY, *names, validity=validity)

    def deliveries(self, *names: str, validity: Validity) -> Verdict:
        return self.history.expect(L.DELIVERIES, *names, validity=validity)


# What is wrong


def test_an_acknowledged_item_that_an_emptied_queue_never_gave_is_lost() -> None:
    [lost] = Exchange(0, 1, 2).take(0, 2).emptied().durability(A.LOST, validity=INVALID).anomalies
    assert (lost.message, lost.queue) == (1, 0)
    assert lost.explanation.startswith("Item 1 was acknowledged at ")


def test_an_acknowledged_item_that_a_later_read_of_everything_lacks_is_lost() -> None:
    [lost] = Exchange(0, 1, f="put").read(0).durability(A.LOST, validity=INVALID).anomalies
    assert lost.message == 1


def test_an_item_that_one_of_two_reads_lacks_is_lost_whichever_that_is() -> None:
    Exchange(0, 1, f="put").read(0, 1).read(1).durability(A.LOST, validity=INVALID)
    Exchange(0, 1, f="put").read(0).read(0, 1).durability(A.LOST, validity=INVALID)


@pytest.mark.parametrize("come", [Exchange.take, Exchange.push])
def test_what_nobody_put_in_must_not_come_out(come: object) -> None:
    exchange = Exchange(0)
    come(exchange, 0, 7)  # type: ignore[operator]
    [found] = exchange.durability(A.UNEXPECTED, validity=INVALID).anomalies
    assert "Item 7 came out" in found.explanation and "it was never put in" in found.explanation


def test_what_is_put_in_only_later_must_not_come_out() -> None:
    exchange = Exchange(0).take(0, 1)
    exchange.put(1)
    exchange.durability(A.UNEXPECTED, validity=INVALID)


def test_what_was_surely_refused_must_not_come_out() -> None:
    exchange = Exchange(0)
    exchange.put(1, "fail")
    [found] = exchange.take(0, 1).durability(A.UNEXPECTED, validity=INVALID).anomalies
    assert "refused" in found.explanation


def test_an_item_that_overtakes_another_one_of_its_key_is_out_of_order() -> None:
    exchange = Exchange(0, 1, key="k").take(1).take(0)
    [found] = exchange.deliveries(A.OUT_OF_ORDER, validity=INVALID).anomalies
    assert found.message == 1 and "before item 0" in found.explanation


def test_so_is_one_that_another_client_was_given_before_the_first_had_asked() -> None:
    Exchange(0, 1, key="k").take(1, client=1).take(0, client=2).deliveries(A.OUT_OF_ORDER, validity=INVALID)


def test_so_is_one_of_the_same_answer() -> None:
    Exchange(0, 1, key="k").take(1, 0).deliveries(A.OUT_OF_ORDER, validity=INVALID)


def test_giving_both_again_in_order_does_not_heal_the_disorder() -> None:
    """OpenChaos's checker finds the sequence of the enqueues in what came out, and passes this."""
    Exchange(0, 1, key="k").take(1).take(0).take(0, 1).deliveries(A.OUT_OF_ORDER, validity=INVALID)


def test_a_send_of_unknown_outcome_must_not_overtake_what_was_acknowledged_before_it() -> None:
    exchange = Exchange(0, key="k")
    exchange.put(1, "info", key="k")
    exchange.take(1).take(0).deliveries(A.OUT_OF_ORDER, validity=INVALID)


# What is allowed


def test_all_that_was_put_in_came_out() -> None:
    verdict = Exchange(0, 1, key="k").take(0).take(1).durability(validity=VALID)
    assert (verdict.counts["acknowledged"], verdict.counts["read"], verdict.counts["lost"]) == (2, 2, 0)
    Exchange(0, 1, f="put").read(1, 0).durability(validity=VALID)
    Exchange(0, 1, key="k").take(0).take(1).deliveries(validity=VALID)


def test_an_item_may_come_out_again_and_so_may_one_of_unknown_outcome() -> None:
    exchange = Exchange(0)
    exchange.put(1, "info")
    exchange.begin(2)
    again = exchange.take(0, 1).take(0, 2).durability(A.REDELIVERY, A.RECOVERED, validity=VALID)
    assert sorted(one.name for one in again.anomalies) == [A.RECOVERED, A.RECOVERED, A.REDELIVERY]


def test_two_reads_of_a_store_give_everything_twice_and_one_must_not_hide_it() -> None:
    Exchange(0, f="put").read(0).read(0).durability(validity=VALID)
    Exchange(0, f="put").read(0, 0).durability(A.REDELIVERY, validity=VALID)


def test_a_read_need_not_have_what_is_acknowledged_after_it_began() -> None:
    exchange = Exchange(0, f="put")
    op = exchange.ask(f="get_all")
    exchange.put(1, f="put")
    exchange.given(op, 0).read(0, 1).durability(validity=VALID)


def test_what_was_refused_or_is_unknown_need_not_come_out() -> None:
    exchange = Exchange(0)
    exchange.put(1, "fail")
    exchange.put(2, "info")
    exchange.take(0).emptied().durability(validity=VALID)


def test_items_that_were_put_in_at_the_same_time_have_no_order() -> None:
    exchange = Exchange(2, key="k")
    ops = [exchange.begin(number, key="k") for number in (0, 1)]
    for op in ops:
        exchange.history.complete(op)
    exchange.take(2).take(1).take(0).deliveries(validity=VALID)


def test_items_of_two_keys_have_no_order() -> None:
    exchange = Exchange(0, key="a")
    exchange.put(1, key="b")
    exchange.take(1).take(0).deliveries(validity=VALID)


def test_a_lost_item_is_no_disorder_and_giving_from_an_earlier_place_again_is_none() -> None:
    """OpenChaos's checker calls a lost item disorder."""
    Exchange(0, 1, 2, key="k").take(0).take(2).deliveries(validity=VALID)
    Exchange(0, 1, key="k").take(0, 1).take(0, client=2).take(1, client=2).deliveries(validity=VALID)


# What proves nothing


def test_what_never_came_out_is_lost_only_if_the_queue_was_read_to_its_end() -> None:
    verdict = Exchange(0, 1, 2).take(0).take().durability(validity=UNKNOWN)
    assert "2 acknowledged items did not come out" in verdict.why
    exchange = Exchange(0).take(0).emptied()
    exchange.put(1)
    exchange.durability(validity=UNKNOWN)


def test_a_dequeue_without_an_answer_may_have_taken_what_is_missing() -> None:
    exchange = Exchange(0, 1).take(0)
    exchange.ask(client=2)
    assert "without an answer" in exchange.emptied().durability(validity=UNKNOWN).why


def test_a_store_must_be_read_after_what_it_is_to_hold() -> None:
    Exchange(0, f="put").durability(validity=UNKNOWN)
    Exchange(0, f="put").read().durability(validity=UNKNOWN)
    exchange = Exchange(0, f="put").read(0)
    exchange.put(1, f="put")
    exchange.durability(validity=UNKNOWN)


def test_nothing_acknowledged_and_nothing_at_all_prove_nothing() -> None:
    exchange = Exchange()
    exchange.durability(validity=UNKNOWN)
    exchange.put(0, "info")
    exchange.take(0).durability(A.RECOVERED, validity=UNKNOWN)


def test_the_order_in_which_clients_recorded_at_the_same_time_proves_no_disorder() -> None:
    assert "nothing shows in which order" in Exchange(0, 1, key="k").push(1).push(0).deliveries(validity=UNKNOWN).why
    exchange = Exchange(0, 1, key="k")
    early, late = exchange.ask(1), exchange.ask(2)
    exchange.given(late, 1, client=2).given(early, 0, client=1).deliveries(validity=UNKNOWN)


def test_after_a_dequeue_without_an_answer_no_disorder_is_proven() -> None:
    exchange = Exchange(0, 1, key="k")
    exchange.ask(client=2)
    exchange.take(1).take(0).deliveries(validity=UNKNOWN)


def test_keys_need_something_that_came_out_and_an_unordered_run_owes_nothing() -> None:
    Exchange(0, key="k").deliveries(validity=UNKNOWN)
    Exchange(0).take(0).deliveries(validity=Validity.NOT_APPLICABLE)


def test_other_laws_do_not_judge_what_they_cannot_see_and_runs_with_offsets_are_not_accounted_so() -> None:
    exchange = Exchange(0, 1).take(0, 1).emptied()
    for law in (L.ORDER, L.AVAILABILITY, L.PROGRESS, L.CONSUMERS, L.LINEARIZABLE):
        exchange.history.expect(law, validity=Validity.NOT_APPLICABLE)
    usual = History()
    usual.phase("load")
    usual.send(0)
    verdict = usual.finish(0).expect(L.DURABILITY, validity=VALID)
    assert not any("exchanges" in part for part in verdict.unjudged), "no driver could report them"
    assert usual.verdict(L.DELIVERIES).why == "no workload uses deliveries"


# The contract


def test_both_keep_the_contract_of_laws() -> None:
    good = [Exchange(0, 1, key="k").take(0).take(1).emptied(), Exchange(*range(300), key="k").push(*range(300))]
    lost = Exchange(0, 1, 2, key="k").take(0).take(2).emptied()
    unread, astray = Exchange(0, 1, f="put").read(0), Exchange(0, 1, key="k").take(0, 1, 7)
    overtaken = Exchange(0, 1, key="k").take(1).take(0)
    context = good[0].history.context()
    check_law(
        Accounts(),
        bad=[(one.history.table(), [A.LOST]) for one in (lost, unread)] + [(astray.history.table(), [A.UNEXPECTED])],
        near_miss=[one.history.table() for one in (*good, overtaken)],
        context=context,
    )
    check_law(
        ByKey(),
        bad=[(overtaken.history.table(), [A.OUT_OF_ORDER])],
        near_miss=[one.history.table() for one in (*good, lost, astray)],
        context=context,
    )


# Against the definition


def proven_inversions(exchange: Exchange) -> set[tuple[int, int]]:
    """Pairs of items of one key, the second of which came out first, from the definition: it was put in after the
    first one was acknowledged, and every time that the first one came out lies behind one at which it did."""
    rows = exchange.history.rows
    began = {row["message"]: row["index"] for row in rows if (row["f"], row["type"]) == ("enqueue", "invoke")}
    acked = {row["message"]: row["index"] for row in rows if (row["f"], row["type"]) == ("enqueue", "ok")}
    outs: dict[int, list[dict[str, object]]] = {}
    for row in rows:
        if row["f"] == "came_out":
            outs.setdefault(row["message"], []).append(row)

    def behind(late: dict, early: dict) -> bool:
        asked = late["op"]
        if asked < 0:
            return False
        return bool(asked > early["index"] or (early["op"] >= 0 and late["process"] == early["process"]
                                               and late["index"] > early["index"]))  # fmt: skip

    pairs = set()
    for one, two in ((a, b) for a in outs for b in outs if a in acked and acked[a] < began[b]):
        early = min(outs[two], key=lambda row: row["index"])
        if all(behind(late, early) for late in outs[one]):
            pairs.add((one, two))
    return pairs


def test_random_histories_of_one_key_are_judged_as_the_definition_has_it() -> None:
    invalid = unknown = 0
    for seed in range(400):
        rng, exchange, waiting = Random(seed), Exchange(), []
        for number in range(rng.randint(2, 7)):
            exchange.put(number, rng.choice(["ok", "ok", "ok", "info"]), key="k")
            waiting.append(number)
            rng.random() < 0.2 and waiting.append(number)
            if rng.random() < 0.4:
                rng.shuffle(waiting)
            while waiting and rng.random() < 0.5:
                client = rng.randint(1, 2)
                if rng.random() < 0.3:
                    exchange.push(waiting.pop(0), client=client)
                elif rng.random() < 0.5 and len(waiting) > 1:
                    one, two = exchange.ask(1), exchange.ask(2)
                    exchange.given(two, waiting.pop(0), client=2).given(one, waiting.pop(0), client=1)
                else:
                    exchange.take(waiting.pop(0), client=client)
        verdict = exchange.history.verdict(L.DELIVERIES)
        overtaken = {two for _, two in proven_inversions(exchange)}
        assert {one.message for one in verdict.anomalies} == overtaken, (seed, exchange.history.rows)
        invalid, unknown = invalid + bool(overtaken), unknown + (verdict.validity is UNKNOWN)
    assert invalid > 20 and unknown > 40
