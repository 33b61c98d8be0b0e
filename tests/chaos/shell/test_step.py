"""What a step means, whatever shell runs it: order of sends, holds, timers, rows and crashes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from chaos.node import NOWHERE, Address, Env, Malformed
from chaos.plain import PlainMessage
from chaos.shell.step import CLOSED, DONE, MESSAGE, START, TIMER, Life
from tests.free_events import Free

ASK = PlainMessage(kind=1, body=b"12345")


class Host:
    """Does nothing but remember what it was asked for."""

    def __init__(self) -> None:
        self.rows: list[Mapping[str, Any]] = []
        self.timers: list[tuple[str, int]] = []
        self.disconnected: list[str] = []

    def now_ns(self) -> int:
        return 77

    def record(self, row: Mapping[str, object]) -> None:
        self.rows.append(row)

    def endpoints(self, peer: str) -> tuple[Address, Address]:
        return NOWHERE, NOWHERE

    def start_timer(self, name: str, delay_ns: int) -> int:
        self.timers.append((name, delay_ns))
        return len(self.timers)

    def disconnect(self, peer: str) -> None:
        self.disconnected.append(peer)

    def mono_ns(self) -> int:
        return 5

    def wall_ns(self) -> int:
        return 6


class Scripted:
    """Runs, in each step, the next piece of a script, and remembers the events."""

    def __init__(self, *script: Callable[[Env], object]) -> None:
        self.script = list(script)
        self.events: list[tuple[object, ...]] = []

    def _step(self, env: Env, *event: object) -> None:
        self.events.append(event)
        if self.script:
            self.script.pop(0)(env)

    def start(self, env: Env) -> None:
        self._step(env, "start")

    def message(self, env: Env, source: str, message: PlainMessage) -> None:
        self._step(env, "message", source, message)

    def timer(self, env: Env, name: str) -> None:
        self._step(env, "timer", name)

    def done(self, env: Env, token: int) -> None:
        self._step(env, "done", token)

    def closed(self, env: Env, peer: str) -> None:
        self._step(env, "closed", peer)


def life(*script: Callable[[Env], object]) -> tuple[Life, Scripted, Host]:
    node, host = Scripted(*script), Host()
    disk: Any = object()
    return Life(node, host, name="n", incarnation=3, rng=Random("9/n/3"), disk=disk, clock=host), node, host


def sends(*messages: tuple[str, int, int | None]) -> Callable[[Env], None]:
    """A step that sends: to whom, the message's kind, the token that it waits for."""

    def step(env: Env) -> None:
        for to, code, after in messages:
            env.send(to, PlainMessage(kind=code), after=after)

    return step


def left(it: Life) -> list[tuple[str, int]]:
    return [(to, message.kind) for to, message in it.outbox.take()]


def test_each_event_is_a_step_and_calls_the_node_once() -> None:
    it, node, _ = life(lambda env: env.set_timer("t", 10))
    events = [(START,), (MESSAGE, "a", ASK), (TIMER, "t", 1), (DONE, 4), (CLOSED, "a")]
    assert all(it.take(event) for event in events) and it.step == 5
    assert node.events == [("start",), ("message", "a", ASK), ("timer", "t"), ("done", 4), ("closed", "a")]


def test_messages_leave_in_the_order_of_the_sends_and_wait_for_their_sync() -> None:
    it, _, _ = life(sends(("a", 1, None), ("b", 2, 1), ("b", 3, None), ("a", 4, 2), ("c", 5, None), ("b", 6, 2)))
    it.take((START,))
    assert left(it) == [("a", 1), ("c", 5)], "what waits holds back later messages to the same peer only"
    it.take((DONE, 1))
    assert left(it) == [("b", 2), ("b", 3)]
    it.take((DONE, 2))
    assert left(it) == [("b", 6), ("a", 4)] and not it.outbox.held, "peers in the order in which they began to wait"


def test_a_sync_that_is_done_holds_nothing_back_and_its_messages_leave_before_those_of_the_step() -> None:
    it, _, _ = life(sends(("a", 1, 7)), sends(("b", 2, 7), ("a", 3, None)))
    it.take((START,))
    it.take((DONE, 7))
    assert left(it) == [("a", 1), ("b", 2), ("a", 3)]


def test_what_goes_to_a_closed_peer_is_dropped() -> None:
    it, _, host = life(sends(("a", 1, 1), ("b", 2, 1), ("a", 3, None), ("c", 4, None)), lambda env: env.close("c"))
    it.take((START,))
    it.take((CLOSED, "a"))
    assert left(it) == [] and host.disconnected == ["c"], "c was closed by the node"
    it.take((DONE, 1))
    assert left(it) == [("b", 2)]


def test_a_timer_counts_once_and_only_as_it_was_set_last() -> None:
    def twice(env: Env) -> None:
        env.set_timer("t", 1)
        env.set_timer("t", 2)
        env.set_timer("u", 3)
        env.cancel_timer("u")
        env.cancel_timer("never set")

    it, node, host = life(twice)
    it.take((START,))
    assert host.timers == [("t", 1), ("t", 2), ("u", 3)]
    assert [it.take((TIMER, name, ticket)) for name, ticket in (("t", 1), ("u", 3), ("t", 2), ("t", 2))] == [
        False,
        False,
        True,
        False,
    ]
    assert node.events == [("start",), ("timer", "t")] and it.step == 2, "what is void is no step"


def test_a_timer_may_be_set_anew_by_its_own_step() -> None:
    it, node, _ = life(lambda env: env.set_timer("t", 1), lambda env: env.set_timer("t", 1))
    it.take((START,))
    assert it.take((TIMER, "t", 1)) and it.take((TIMER, "t", 2)) and not it.take((TIMER, "t", 2))
    assert len(node.events) == 3


def test_a_row_says_who_when_and_in_which_step() -> None:
    it, _, host = life(lambda env: env.trace(Free("a", epoch=1, hash=2, x="y")))
    it.take((START,))
    assert host.rows == [
        {
            "kind": "trace",
            "time_ns": 77,
            "node": "n",
            "incarnation": 3,
            "step": 1,
            "f": "a",
            "epoch": 1,
            "queue": -1,
            "offset": -1,
            "position": -1,
            "message": -1,
            "hash": 2,
            "value": {"x": "y"},
        }
    ]


def test_the_node_sees_its_own_clocks_and_the_randomness_of_its_life() -> None:
    seen: list[object] = []

    def look(env: Env) -> None:
        seen.extend((env.name, env.incarnation, env.mono_ns(), env.wall_ns(), env.rng.random()))

    life(look)[0].take((START,))
    assert seen == ["n", 3, 5, 6, Random("9/n/3").random()]


def test_an_exception_of_the_nodes_code_is_traced_with_its_innermost_frames() -> None:
    def fails(env: Env) -> None:
        raise TypeError("a mistake")

    it, _, host = life(fails)
    with pytest.raises(TypeError) as error:
        it.take((START,))
    what, at = it.crash(error.value)
    assert what == "TypeError: a mistake" and at.startswith("test_step.py:") and ", test_step.py:" in at
    assert [(row["f"], row["step"], row["value"]) for row in host.rows] == [("crash", 1, {"error": what, "at": at})]


def test_bodies_count_when_they_are_sent_held_or_not() -> None:
    it, _, _ = life(lambda env: (env.send("a", ASK), env.send("a", ASK, after=1), env.send("a", ASK)))
    it.take((START,))
    assert it.outbox.sent_bytes == 15


def _does_not_understand(env: Env) -> None:
    raise Malformed("it makes no sense " + "x" * 1000)


def test_a_request_that_can_not_be_understood_is_answered() -> None:
    it, _node, host = life(_does_not_understand)
    it.take((MESSAGE, "client", PlainMessage(kind=1, number=7)))
    ((to, answer),) = it.outbox.take()
    assert isinstance(answer, PlainMessage)
    assert (to, answer.number, answer.is_response) == ("client", 7, True)
    assert answer.error.startswith("it makes no sense")
    assert len(answer.error) == 300
    assert [row["f"] for row in host.rows] == ["malformed"]
    assert host.disconnected == []


@pytest.mark.parametrize("flag", ["is_oneway", "is_response"])
def test_any_other_message_that_can_not_be_understood_ends_its_connection(flag: str) -> None:
    it, node, host = life(_does_not_understand)
    it.take((MESSAGE, "peer", replace(PlainMessage(kind=1), **{flag: True})))
    assert it.outbox.take() == []
    assert host.disconnected == ["peer"]
    assert node.events[-1] == ("closed", "peer")


def test_few_refusals_are_traced() -> None:
    it, _node, host = life(*[_does_not_understand] * 150)
    for _ in range(150):
        it.take((MESSAGE, "client", ASK))
        assert len(it.outbox.take()) == 1
    assert len(host.rows) == 100


@pytest.mark.parametrize("acts", [lambda env: env.trace(Free("x")), lambda env: env.send("peer", ASK)])
def test_who_has_begun_to_act_on_what_it_does_not_understand_has_failed(acts: Callable[[Env], object]) -> None:
    def half(env: Env) -> None:
        acts(env)
        raise Malformed("too late")

    it, _node, _host = life(half)
    with pytest.raises(Malformed, match="too late"):
        it.take((MESSAGE, "client", ASK))


def test_other_errors_are_the_nodes_own() -> None:
    def fails(env: Env) -> None:
        raise ValueError("a bug")

    it, _node, _host = life(fails)
    with pytest.raises(ValueError, match="a bug"):
        it.take((MESSAGE, "client", ASK))
