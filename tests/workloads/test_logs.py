"""Workloads on logs, groups and transactions, against the toy in the simulator."""

from __future__ import annotations

from collections import Counter

from chaos.testing.workloads import check_workload
from chaos.verdict import Validity
from tests.drivers.toy_logs import QUEUES, ToyLogs
from tests.workloads.played import Played, judged
from workloads import group, log

#: What existing promises say of a run of each of them.
KEPT = ("durability", "no-rollback", "order", "consumers", "progress", "availability")


def assert_kept(played: Played) -> None:
    assert played.violations == {}
    assert {name: played.validity(name) for name in KEPT} == dict.fromkeys(KEPT, Validity.VALID)


# Logs


def test_readers_of_logs_record_what_they_were_given_and_where_they_go_on() -> None:
    played = judged(ToyLogs(), log.create(log.Options()))
    assert_kept(played)
    polls = {row["index"]: row for row in played.rows("poll", "invoke")}
    following = {row["op"]: row["value"]["following"] for row in played.rows("poll", "ok")}
    given = [row for row in played.rows("delivered") if row["op"] in polls]
    assert {row["queue"] for row in given} == {queue.index for queue in QUEUES}
    for row in given:
        at = polls[row["op"]]["value"]["positions"][str(row["queue"])]
        assert at <= row["offset"] < following[row["op"]][str(row["queue"])]


def test_readers_of_logs_move_about() -> None:
    played = judged(ToyLogs(), log.create(log.Options(assign=0.3, seek=0.3)))
    assert_kept(played)
    assert {len(row["value"]["queues"]) for row in played.rows("assign", "ok")} == {1, 2, 3}
    moved = [(row["value"].get("asked", -1), row["offset"]) for row in played.rows("seek", "ok")]
    assert any(asked == -1 < at for asked, at in moved) and all(at == asked for asked, at in moved if asked >= 0)


def test_keys_are_drawn_by_zipfs_law() -> None:
    played = judged(ToyLogs(), log.create(log.Options(readers=0, keys=100)))
    drawn = Counter(row["value"]["key"] for row in played.rows("send", "ok"))
    assert drawn[0] > 1.3 * drawn[1] > 1.3 * drawn[4] and max(drawn) > 50
    assert all(row["queue"] == row["value"]["key"] % 3 for row in played.rows("send", "ok"))


def test_a_final_reader_passes_all_that_anybody_has_read() -> None:
    played = judged(ToyLogs(), log.create(log.Options()), seconds=3.0)
    last = [row for row in played.rows("poll", "ok") if row["process"].startswith("log-final-reader")][-1]
    ends = {row["queue"]: row["offset"] for row in played.rows("drain", "ok")}
    assert last["value"]["following"] == {str(queue): end for queue, end in ends.items()}


def test_logs_are_read_on_after_a_node_hung() -> None:
    report = check_workload(log, ToyLogs)
    assert report.ended["poll", "ok"] and report.ended["poll", "info"]


# Groups


def test_members_come_and_go_and_each_rebalance_is_recorded() -> None:
    played = judged(ToyLogs(), group.create(group.Options(change_s=1.5)), seconds=30.0)
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
    played = judged(ToyLogs(), group.create(group.Options(change_s=1.5, leaves=0.0, crashes=0.0)), seconds=30.0)
    assert_kept(played)
    refused = [row for row in played.rows("commit", "fail") if row["value"].get("fenced")]
    current = max(row["value"]["generation"] for row in played.rows("join", "ok"))
    assert refused and all(row["value"]["generation"] < current for row in refused)


def test_a_group_goes_on_after_a_node_hung() -> None:
    report = check_workload(group, ToyLogs)
    assert report.ended["poll", "ok"] and report.ended["commit", "ok"] and report.ended["join", "ok"]
