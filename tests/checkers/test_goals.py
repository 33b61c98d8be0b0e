"""Each goal is seen in a history that reaches it, not in one that comes close; it reads only what it declares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos import plugins
from chaos.errors import BadInput
from chaos.judging import goals
from chaos.judging.declared import Declared
from chaos.judging.shard import Shard
from chaos.law_declaration import declared_rows
from chaos.plugins import PluginKind, spoken
from tests.checkers.histories import History

Story = Callable[[History], object]


def entry(it: History, place: int, node: str = "controller-0", incarnation: int = 1, **value: Any) -> None:
    it.trace(node, "applied", incarnation=incarnation, position=place, epoch=1, value={"entry": value})


def elect(it: History, place: int, master: str, epoch: int, **more: Any) -> None:
    value = {"type": "elect", "master": master, "master_epoch": epoch, "set": [master], "set_epoch": place, **more}
    entry(it, place, **value)


def alter(it: History, place: int, *members: str, epoch: int = 1) -> None:
    entry(it, place, type="alter", set=list(members), set_epoch=place, master_epoch=epoch)


def begun(it: History) -> None:
    elect(it, 1, "broker-0", 1, bootstrap=True)
    alter(it, 2, "broker-0", "broker-1")


def cut(it: History, confirmed: int) -> None:
    it.confirm("broker-0", confirmed)
    it.trace("broker-0", "truncate", position=300, value={"old_end": 500})


def crash(it: History, recovered: int) -> None:
    it.trace("broker-0", "recovered", position=0)
    it.append("broker-0", 0)
    it.append("broker-0", 1)
    it.trace("broker-0", "recovered", incarnation=2, position=recovered)


def joining(it: History, f: str = "", *, after: bool = False) -> None:
    """broker-2 begins anew and gets in sync; another row in between, or behind."""
    begun(it)
    it.trace("broker-2", "bootstrap", position=100)
    steps = [lambda: alter(it, 3, "broker-0", "broker-1", "broker-2")]
    other = (lambda: elect(it, 4, "broker-1", 2)) if f == "elect" else (lambda: it.trace("broker-1", f, position=100))
    for step in [*steps, other] if after else [other, *steps]:
        step()


def switch_to(it: History, node: str) -> None:
    begun(it)
    it.inject("anything", node, effects={"switches_master": [node]})


def applies(it: History, *places: int, lives: tuple[int, ...] = ()) -> None:
    for number, place in enumerate(places):
        entry(it, place, "controller-1", lives[number] if lives else 1, type="noop")


def behind(it: History, entries: int) -> None:
    entry(it, 1, "controller-1", type="noop")
    for place in range(1, entries + 2):
        entry(it, place, type="noop")
    entry(it, 2, "controller-1", type="noop")


def manifest(it: History, version: int, start: int) -> None:
    content = {"version": version, "start": start, "segments": []}
    value = {"version": version, "outcome": "applied", "content": content}
    it.trace("store-0", "store_cas", queue=0, offset=9, position=900, epoch=1, value=value)


def outage(it: History, seconds: float) -> None:
    manifest(it, 1, 0)
    it.wait(seconds / 2)
    it.trace("broker-0", "tier_request", queue=0, value={"request": 7, "verb": "put"})
    it.wait(seconds / 2)
    manifest(it, 2, 0)


def uploads(it: History, *, committed: bool) -> None:
    begun(it)
    it.trace("store-0", "store_put", queue=0, value={"outcome": "created"})
    if committed:
        manifest(it, 1, 0)
    elect(it, 3, "broker-1", 2)


def slow_crash(it: History, *, undone: bool) -> None:
    slow = it.inject("treacle", "broker-0", effects={"slows": ["broker-0"]})
    if undone:
        it.undo("treacle", slow)
    it.inject("bang", "broker-0", effects={"may_crash": ["broker-0"]})


def leaves(it: History, *effects: str) -> None:
    begun(it)
    it.inject("treacle", "broker-1", effects={effect: ["broker-1"] for effect in effects})
    alter(it, 3, "broker-0")


def silent(it: History, wait_s: float) -> None:
    begun(it)
    it.commit(3)
    it.wait(wait_s)
    elect(it, 3, "broker-1", 2)


def answered(it: History, epoch: int) -> None:
    begun(it)
    elect(it, 3, "broker-1", 2)
    it.send(0, epoch=epoch)


def roles(it: History, epoch: int) -> None:
    begun(it)
    it.role("broker-2", "slave", 1)
    elect(it, 3, "broker-1", 2)
    elect(it, 4, "broker-0", 3)
    it.role("broker-2", "slave", epoch)
    it.role("broker-2", "slave", 3)


def leaders(it: History, *effects: str) -> None:
    it.trace("controller-0", "raft", epoch=1, value={"role": "leader"})
    it.inject("treacle", "controller-0", effects={effect: ["controller-0"] for effect in effects})
    it.trace("controller-1", "raft", epoch=2, value={"role": "leader"})


def believers(it: History, *, told: bool) -> None:
    it.master("broker-0", 1)
    if told:
        it.role("broker-0", "slave", 2)
    it.master("broker-1", 2)


def refused(it: History, code: int, op: str = "alter") -> None:
    entry(it, 1, type="none", op=op, code=code)


def leased(it: History, *cut_off: str) -> None:
    """controller-0 leads, some are cut off, and it answers a read."""
    it.trace("controller-1", "raft", epoch=1, value={"role": "follower"})
    it.trace("controller-0", "raft", epoch=1, value={"role": "leader"})
    it.inject("partition", *cut_off, shape="isolate")
    it.wait(0.1)
    it.complete(it.invoke("read", value={"object": "o", "to": "controller-0"}), node="controller-0")


def opens(it: History, *brokers: str) -> None:
    for epoch, broker in enumerate(brokers, 1):
        it.trace(broker, "opened", epoch=epoch, value={"slice": "slice-0", "life": epoch, "ends": {}})


def append_applied(it: History, reason: str | None) -> None:
    for store in ("store-0", "store-1"):
        value = {"group": 3, "log_index": 8, "end": 90, "crc": 1, "accepted": reason is None, "reason": reason}
        it.trace(store, "group_append", epoch=1, position=7, value=value)


def members(it: History, *voters: list[str]) -> None:
    for index, those in enumerate(voters):
        it.trace("store-0", "members", position=index, value={"group": 1, "voters": those, "learners": []})


def held(it: History, source: str) -> None:
    it.trace("store-0", "held", position=0, value={"group": 1, "topic": 4, "end": 9, "digest": "00", "source": source})


def trimmed(it: History, newest_ms: int) -> None:
    for store in ("store-0", "store-1"):
        it.trace(store, "trim", value={"group": 1, "log_index": 5, "topic": 4, "newest_ms": newest_ms})


def learned(it: History, wait_s: float) -> None:
    it.trace("store-0", "map_view", value={"revision": 1, "groups": {}})
    it.trace("broker-0", "map_view", value={"revision": 2, "groups": {"1": 5}})
    it.wait(wait_s)
    it.trace("store-0", "map_view", value={"revision": 2, "groups": {"1": 5}})


def sent_while_down(it: History, *down: str) -> None:
    for meta in ("meta-0", "meta-1"):
        it.trace(meta, "raft", epoch=1, value={"role": "follower"})
    it.trace("store-0", "raft", epoch=1, value={"role": "leader", "group": 1})
    it.inject("bang", *down, effects={"takes_down": [*down]})
    it.wait(3)
    it.send(0)


#: Goal → what reaches it, and what comes close.
STORIES: dict[str, tuple[Story, Story]] = {
    "answer a term late": (lambda it: answered(it, 1), lambda it: answered(it, 2)),
    "controller caught up by snapshot": (lambda it: applies(it, 1, 7), lambda it: applies(it, 1, 7, lives=(1, 2))),
    "controller far behind": (lambda it: behind(it, 9), lambda it: behind(it, 5)),
    "controller restarted from snapshot": (
        lambda it: applies(it, 1, 7, lives=(1, 2)),
        lambda it: applies(it, 1, 1, lives=(1, 2)),
    ),
    "crash while slow": (lambda it: slow_crash(it, undone=False), lambda it: slow_crash(it, undone=True)),
    "election between put and commit": (
        lambda it: uploads(it, committed=False),
        lambda it: uploads(it, committed=True),
    ),
    "election during bootstrap": (lambda it: joining(it, "elect"), lambda it: joining(it, "elect", after=True)),
    "epoch skipped": (lambda it: roles(it, 3), lambda it: roles(it, 2)),
    "group silent through a switch": (lambda it: silent(it, 2), lambda it: silent(it, 0.2)),
    "group without master": (lambda it: entry(it, 1, type="masterless"), begun),
    "group trimmed": (lambda it: trimmed(it, 1000), lambda it: trimmed(it, -1)),
    "map learned late": (lambda it: learned(it, 1.1), lambda it: learned(it, 0.9)),
    "old owner refused": (lambda it: append_applied(it, "fenced"), lambda it: append_applied(it, None)),
    "orphan collected": (
        lambda it: it.trace("store-0", "store_delete", value={"outcome": "deleted"}),
        lambda it: it.trace("store-0", "store_delete", value={"outcome": "absent"}),
    ),
    "owner returned": (
        lambda it: opens(it, "broker-0", "broker-1", "broker-0"),
        lambda it: opens(it, "broker-0", "broker-1", "broker-2"),
    ),
    "read under a lease": (
        lambda it: leased(it, "controller-0"),
        lambda it: leased(it, "controller-0", "controller-1"),
    ),
    "read from tier": (lambda it: it.pull(0, 0, source="tier"), lambda it: it.pull(0, 0)),
    "records lost in a crash": (lambda it: crash(it, 100), lambda it: crash(it, 200)),
    "replica damaged": (lambda it: it.trace("broker-0", "damaged"), lambda it: it.trace("broker-0", "start")),
    "replica made again": (
        lambda it: members(it, ["store-0#1", "store-1#2"], ["store-0#1", "store-1#9"]),
        lambda it: members(it, ["store-0#1", "store-1#2"], ["store-0#1"]),
    ),
    "retention during bootstrap": (
        lambda it: joining(it, "retention"),
        lambda it: joining(it, "retention", after=True),
    ),
    "segment copied": (lambda it: held(it, "tier"), lambda it: held(it, "made")),
    "send of unknown outcome": (lambda it: it.send(0, type="info"), lambda it: it.send(0, type="fail")),
    "sent without controllers": (
        lambda it: sent_while_down(it, "meta-0", "meta-1"),
        lambda it: sent_while_down(it, "meta-0", "store-0"),
    ),
    "slice taken over": (
        lambda it: opens(it, "broker-0", "broker-0", "broker-1"),
        lambda it: opens(it, "broker-0", "broker-0"),
    ),
    "slow replica left the set": (lambda it: leaves(it, "slows"), lambda it: leaves(it, "slows", "takes_down")),
    "stale set refused": (lambda it: refused(it, 2001), lambda it: refused(it, 2001, "elect")),
    "store emptied": (
        lambda it: members(it, ["store-0#1", "store-1#2"], ["store-0#1", "store-2#3"]),
        lambda it: members(it, ["store-0#1", "store-1#2"], ["store-0#1", "store-1#9"]),
    ),
    "switch named a lagging replica": (lambda it: switch_to(it, "broker-2"), lambda it: switch_to(it, "broker-1")),
    "term ended over slow links": (lambda it: leaders(it, "slows"), lambda it: leaders(it, "slows", "isolates")),
    "tier trimmed": (
        lambda it: [manifest(it, number, start) for number, start in ((1, 0), (2, 4))],
        lambda it: [manifest(it, number, 4) for number in (1, 2)],
    ),
    "two believers": (lambda it: believers(it, told=False), lambda it: believers(it, told=True)),
    "upload after a long outage": (lambda it: outage(it, 31), lambda it: outage(it, 29)),
    "unconfirmed tail truncated": (lambda it: cut(it, 300), lambda it: cut(it, 400)),
}


def test_every_goal_has_its_stories_and_is_named_in_the_docs() -> None:
    assert sorted(STORIES) == sorted(goals.names())
    page = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text("utf-8")
    words = " ".join(page.split())
    assert [name for name in goals.names() if f"`{spoken(name)}`" not in words] == []


@pytest.mark.parametrize("goal", STORIES)
def test_a_goal_is_seen_where_it_is_reached_and_nowhere_near(goal: str) -> None:
    for story, times in zip(STORIES[goal], (1, 0), strict=True):
        it = History()
        story(it)
        (found,) = goals.look([it.table()], [goal], it.context())
        assert (found.times, found.why) == (times, "")
        made = goals.load(goal)
        strictly = Declared(Shard(it.table()), made.needs, strict=True)
        assert made.reached(declared_rows(strictly, it.context(), made.reads)) == times


def test_a_goal_that_is_broken_was_not_reached_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    module = plugins.load(PluginKind.GOAL, "two_believers")
    monkeypatch.setattr(module, "_reached", lambda rows: rows.columns.column("hash")[0])
    (found,) = goals.look([History().table()], ["two believers"], History().context())
    assert found.times == 0 and "does not declare" in found.why
    (found,) = goals.look([History().table()], ["to believers"], History().context())
    assert found.times == 0 and found.why == "unknown goal 'to believers'; did you mean 'two believers'?"


def test_a_goal_that_no_evidence_can_show_is_told_before_the_run() -> None:
    assert goals.unseen(["two believers"], ["operations", "roles"]) == []
    assert goals.unseen(["two believers", "send of unknown outcome"], ["operations"]) == [
        "the goal 'two believers' can't be seen: the driver does not report roles"
    ]
    with pytest.raises(BadInput, match="did you mean 'two believers'"):
        goals.unseen(["too believers"], [])
