"""Workloads on logs, groups and transactions, against the toy in the simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from chaos.driver import Network
from chaos.experiment.model import FaultSpec, Schedule
from chaos.ops import Answer, QueueRef, Unknown
from chaos.plugins import PluginKind
from chaos.testing._bench import Made
from chaos.verdict import Validity
from chaos.workload import Load, Use
from nemesis import kill, pause
from tests.drivers.toy_logs import QUEUES, ToyLogs, ToyProducer
from tests.workloads.played import Played, judged
from workloads import group, list_append, log, transactions

#: What existing promises say of a run of each of them.
KEPT = ("durability", "no-rollback", "order", "consumers", "progress", "availability")
TRANSACTOR = "transactor-0"


def assert_kept(played: Played, but: Sequence[str] = ()) -> None:
    assert {name: names for name, names in played.violations.items() if name not in but} == {}
    kept = {*KEPT} - {*but}
    assert {name: played.validity(name) for name in kept} == dict.fromkeys(kept, Validity.VALID)


@pytest.mark.parametrize("workload", [log, group, transactions, list_append])
@pytest.mark.parametrize("fault", [kill, pause])
def test_promises_are_kept_while_a_node_does_not_answer(workload: ModuleType, fault: ModuleType) -> None:
    played = judged(ToyLogs(), workload.create(workload.Options()), seconds=6.0, faults=[at_2_s(fault)])
    assert_kept(played)
    assert played.play.summary.effective_faults


def at_2_s(fault: ModuleType) -> FaultSpec:
    """The master suffers a fault for two seconds."""
    name = fault.__name__.rpartition(".")[2]
    use = Made(
        kind=PluginKind.FAULT, name=name, options=None, make=lambda: fault.create(fault.Options(target="master"))
    )
    return FaultSpec(use=use, schedule=Schedule(at_s=(2.0,)), for_s=2.0)


# Logs


def test_readers_of_logs_record_what_they_were_given_and_where_they_go_on() -> None:
    played = judged(ToyLogs(), log.create(log.Options()), seconds=4.0)
    assert_kept(played)
    polls = {row["index"]: row for row in played.rows("poll", "invoke")}
    following = {row["op"]: row["value"]["following"] for row in played.rows("poll", "ok")}
    given = [row for row in played.rows("delivered") if row["op"] in polls]
    assert {row["queue"] for row in given} == {queue.index for queue in QUEUES}
    for row in given:
        at = polls[row["op"]]["value"]["positions"][str(row["queue"])]
        assert at <= row["offset"] < following[row["op"]][str(row["queue"])]


def test_readers_of_logs_move_about() -> None:
    played = judged(ToyLogs(), log.create(log.Options(assign=0.3, seek=0.3)), seconds=4.0)
    assert_kept(played)
    assert {len(row["value"]["queues"]) for row in played.rows("assign", "ok")} == {1, 2, 3}
    moved = [(row["value"].get("asked", -1), row["offset"]) for row in played.rows("seek", "ok")]
    assert any(asked == -1 < at for asked, at in moved) and all(at == asked for asked, at in moved if asked >= 0)


def test_keys_are_drawn_by_zipfs_law() -> None:
    played = judged(ToyLogs(), log.create(log.Options(readers=0, keys=100, rate_per_s=300.0)), seconds=4.0)
    drawn = Counter(row["value"]["key"] for row in played.rows("send", "ok"))
    assert drawn[0] > 1.3 * drawn[1] > 1.3 * drawn[4] and max(drawn) > 50
    assert all(row["queue"] == row["value"]["key"] % 3 for row in played.rows("send", "ok"))


def test_a_final_reader_passes_all_that_anybody_has_read() -> None:
    played = judged(ToyLogs(), log.create(log.Options()), seconds=3.0)
    last = [row for row in played.rows("poll", "ok") if row["process"].startswith("log-final-reader")][-1]
    ends = {row["queue"]: row["offset"] for row in played.rows("drain", "ok")}
    assert last["value"]["following"] == {str(queue): end for queue, end in ends.items()}


# Groups


def test_members_come_and_go_and_each_rebalance_is_recorded() -> None:
    played = judged(ToyLogs(), group.create(group.Options(change_s=1.0)), seconds=15.0)
    assert_kept(played)
    assert played.rows("leave", "ok")
    told = [row for f in ("join", "heartbeat") for row in played.rows(f, "ok")]
    assert any(row["value"].get("rejoin") for row in told) and any(row["value"]["lost"] for row in told)
    owned: dict[int, dict[int, set[str]]] = {}
    for row in told:
        for queue in row["value"]["queues"]:
            owned.setdefault(row["value"]["generation"], {}).setdefault(queue, set()).add(row["process"])
    assert len(owned) > 5
    assert all(len(members) == 1 for queues in owned.values() for members in queues.values())
    assert max(map(len, owned.values())) == 3


def test_a_member_that_stood_still_is_refused() -> None:
    played = judged(ToyLogs(), group.create(group.Options(change_s=1.5, leaves=0.0, crashes=0.0)), seconds=15.0)
    assert_kept(played)
    refused = [row for row in played.rows("commit", "fail") if row["value"].get("fenced")]
    current = max(row["value"]["generation"] for row in played.rows("join", "ok"))
    assert refused and all(row["value"]["generation"] < current for row in refused)


# Transactions


@pytest.fixture(scope="module")
def transacted() -> Played:
    return judged(ToyLogs(), transactions.create(transactions.Options(crashes=0.1, races=0.1, fences=0.1)))


def by_txn(played: Played, f: str) -> dict[int, list[dict[str, Any]]]:
    """The ends of operations of this name, by the number of their transaction."""
    found: dict[int, list[dict[str, Any]]] = {}
    for row in played.rows(f):
        if row["type"] != "invoke" and "txn" in row["value"]:
            found.setdefault(row["value"]["txn"], []).append(row)
    return found


def test_messages_and_offsets_end_as_their_transaction_does(transacted: Played) -> None:
    assert_kept(transacted)
    ends = {number: row for number, (row,) in by_txn(transacted, "txn").items()}
    assert sorted(ends) == [*range(len(ends))]
    assert {row["type"] for row in ends.values()} == {"ok", "fail"}
    for f in ("send", "commit"):
        rows = by_txn(transacted, f)
        assert any(len({row["queue"] for row in steps}) > 1 for steps in rows.values()) or f == "commit"
        for number, steps in rows.items():
            assert {row["type"] for row in steps} == {ends[number]["type"]}
            assert all(row["index"] < ends[number]["index"] for row in steps)
    for row in transacted.rows("send", "fail"):
        assert row["offset"] == -1 and (row["value"].get("stored", -1) >= 0 or row["value"].get("fenced"))


def test_what_was_read_in_a_transaction_is_what_its_messages_were_made_of(transacted: Played) -> None:
    polls = {row["index"]: row["value"]["txn"] for row in transacted.rows("poll", "invoke") if "txn" in row["value"]}
    read: dict[int, set[tuple[int, int]]] = {}
    for row in transacted.rows("delivered"):
        if row["op"] in polls:
            read.setdefault(polls[row["op"]], set()).add((row["queue"], row["offset"]))
    made = by_txn(transacted, "send")
    commits = {number: steps[0] for number, steps in by_txn(transacted, "commit").items() if steps[0]["type"] == "ok"}
    assert len(commits) > 10
    once: Counter[tuple[int, ...]] = Counter()
    for number, commit in commits.items():
        inputs = {tuple(row["value"]["input"]) for row in made[number]}
        assert inputs == read[number] and max(offset for _, offset in inputs) + 1 <= commit["value"]["asked"]
        once.update(inputs)
    assert set(once.values()) == {1}


def test_a_producer_is_fenced_once_another_has_taken_its_id_over(transacted: Played) -> None:
    taken = {
        row["value"]["epoch"]: row for row in transacted.rows("take_over", "ok") if row["value"]["id"] == TRANSACTOR
    }
    asked = {row["value"]["txn"]: row["value"] for row in transacted.rows("txn", "invoke")}
    late = Counter(
        (row["type"], row["value"].get("fenced"))
        for row in transacted.rows("end_txn")
        if row["type"] != "invoke" and (of := asked[row["value"]["txn"]])["id"] == TRANSACTOR
        and (successor := taken.get(of["epoch"] + 1)) and successor["index"] < row["op"]
    )  # fmt: skip
    assert late[("fail", True)] == sum(late.values()) > 0


def test_nothing_stays_open_when_the_load_has_ended(transacted: Played) -> None:
    last = [row for row in transacted.rows("take_over", "ok") if row["process"].startswith(f"{TRANSACTOR}-last")]
    assert len(last) == 1 and last[0]["index"] < min(row["index"] for row in transacted.rows("drain"))


def test_transactions_are_had_in_one_queue_too() -> None:
    class One(ToyLogs):
        def queues(self) -> tuple[QueueRef, ...]:
            return QUEUES[:1]

    played = judged(One(), transactions.create(transactions.Options()), seconds=5.0)
    assert_kept(played, but=("consumers",))
    assert played.rows("txn", "ok") and played.rows("txn", "fail") and not played.rows("commit")


class Unheard(ToyLogs):
    """Each third answer about the end of a transaction is lost."""

    def transactions(self, network: Network, name: str, *, id: str) -> ToyProducer:
        return self.Producer(network, name, "node-0", id=id)

    class Producer(ToyProducer):
        async def end(self, *, commit: bool) -> Answer:
            ended = await super().end(commit=commit)
            if self.number % 3 == 0:
                raise Unknown("lost")
            return ended


def test_what_is_in_a_transaction_is_unknown_where_its_end_is() -> None:
    played = judged(Unheard(), transactions.create(transactions.Options(attempts=1)), seconds=5.0)
    assert_kept(played)
    ends = {number: row["type"] for number, (row,) in by_txn(played, "txn").items()}
    unknown = {number for number, type in ends.items() if type == "info"}
    sent = by_txn(played, "send")
    assert unknown and {row["type"] for number in unknown for row in sent[number]} == {"info"}
    assert any("stored" in row["value"] for number in unknown for row in sent[number])


def test_an_end_is_asked_for_again_where_it_is_unknown() -> None:
    class Once(Unheard):
        class Producer(ToyProducer):
            unheard: int = 0

            async def end(self, *, commit: bool) -> Answer:
                ended = await super().end(commit=commit)
                if self.unheard < self.number:
                    self.unheard = self.number
                    raise Unknown("lost")
                return ended

    played = judged(Once(), transactions.create(transactions.Options(crashes=0.0, races=0.0, fences=0.0)), seconds=4.0)
    assert_kept(played)
    assert {row["type"] for row in played.rows("txn") if row["type"] != "invoke"} == {"ok", "fail"}


@pytest.mark.parametrize(
    ("bug", "promise", "violation"),
    [
        ("aborted-readable", "durability", "unexpected"),
        ("open-readable", "durability", "unexpected"),
        ("torn", "durability", "lost"),
        ("hanging", "durability", "lost"),
        ("fenced-writes", "durability", "lost"),
        ("offset-without-output", "consumers", "never-committed"),
        ("output-without-offset", "consumers", "commit-regression"),
    ],
)
def test_broken_transactions_break_promises_that_all_messages_have(bug: str, promise: str, violation: str) -> None:
    options = transactions.Options(crashes=0.1, races=0.1, fences=0.1)
    played = judged(ToyLogs(bug), transactions.create(options), seconds=4.0)
    assert violation in played.violations[promise]


# Lists


@pytest.fixture(scope="module")
def appended() -> Played:
    return judged(ToyLogs(), list_append.create(list_append.Options(aborts=0.2)))


def lists(played: Played) -> dict[int, list[int]]:
    """What each queue held in the end of what was appended."""
    sent = {row["message"] for row in played.rows("send") if "txn" in row["value"]}
    drained = [row for row in played.rows("delivered") if row["process"].startswith("list-drain-")]
    drained = [row for row in drained if row["message"] in sent]
    found: dict[int, list[int]] = {}
    for row in sorted(drained, key=lambda row: (row["queue"], row["offset"])):
        found.setdefault(row["queue"], []).append(row["message"] & list_append.LAST)
    return found


def test_each_list_that_was_read_is_a_beginning_of_the_last_one(appended: Played) -> None:
    assert_kept(appended)
    last = lists(appended)
    reads = [step for row in appended.rows("txn", "ok") for step in row["value"]["micro"] if step[0] == "r"]
    assert any(values for _, _, values in reads)
    assert all(values == last[key][: len(values)] for _, key, values in reads)


def test_lists_hold_what_was_appended_in_committed_transactions(appended: Played) -> None:
    steps = {
        type: {(key, value) for row in appended.rows("txn", type) for what, key, value in row["value"]["micro"]
               if what == "append"}
        for type in ("ok", "fail")
    }  # fmt: skip
    assert {(key, value) for key, values in lists(appended).items() for value in values} == steps["ok"]
    assert steps["fail"]


def test_a_transaction_is_planned_when_it_begins(appended: Played) -> None:
    begun = {row["index"]: row["value"]["micro"] for row in appended.rows("txn", "invoke")}
    for row in appended.rows("txn", "ok"):
        planned = begun[row["op"]]
        assert [step[:2] for step in planned] == [step[:2] for step in row["value"]["micro"]]
        assert all((value is None) == (what == "r") for what, _, value in planned)


def test_messages_of_other_workloads_are_in_no_list() -> None:
    class Both:
        uses = (Use.QUEUES, Use.TRANSACTIONS)

        def __init__(self) -> None:
            self.all = [list_append.create(list_append.Options()), log.create(log.Options(rate_per_s=20.0))]

        async def run(self, load: Load) -> None:
            await load.gather(*(one.run(load) for one in self.all))

        async def drain(self, load: Load) -> None:
            await load.gather(*(one.drain(load) for one in self.all))

    played = judged(ToyLogs(), Both(), seconds=5.0)
    assert_kept(played)
    mine = {
        tuple(step[1:]) for row in played.rows("txn", "ok") for step in row["value"]["micro"] if step[0] == "append"
    }
    reads = [step for row in played.rows("txn", "ok") for step in row["value"]["micro"] if step[0] == "r"]
    assert {(key, value) for _, key, values in reads for value in values} <= mine
    assert [row for row in played.rows("send", "ok") if "txn" not in row["value"]]
