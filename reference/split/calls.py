"""Requests of a node that are under way, and what it does later: one timer for all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from chaos.node import Env
from reference.wire.command import Command
from reference.wire.fields import request_number

A = TypeVar("A")
TIMER = "calls"


class Request(Protocol):
    """What can be asked of another node."""

    def to_command(self, opaque: int) -> Command:
        """Return the command that asks it under this number."""


@dataclass(slots=True)
class _Call:
    """``to``: who is asked; "" for what is only to be done later."""

    to: str
    read: Callable[[Command], Any]
    then: Callable[[Env, Any], None]


class Calls:
    """Each request gets exactly one outcome: what its answer says, or None when the connection broke or no answer came
    in time. Whether it took effect is unknown then."""

    def __init__(self) -> None:
        self._count = 0
        self._under_way: dict[int, _Call] = {}
        self._deadlines: list[tuple[int, int]] = []  # a heap of (deadline, number); answered calls stay in it
        self._due_ns = -1  # for when the timer is set

    def ask(
        self,
        env: Env,
        to: str,
        request: Request,
        read: Callable[[Command], A],
        then: Callable[[Env, A | None], None],
        timeout_ns: int,
    ) -> None:
        """Send a request. ``read`` raises :class:`chaos.node.Malformed` for an answer that can't be understood; such
        a one counts as none."""
        number = self._add(env, _Call(to, read, then), timeout_ns)
        env.send(to, request.to_command(number))

    def later(self, env: Env, delay_ns: int, then: Callable[[Env], None]) -> None:
        """Do something once this much time has passed."""
        self._add(env, _Call("", _nothing, lambda env, _: then(env)), delay_ns)

    def _add(self, env: Env, call: _Call, delay_ns: int) -> int:
        self._count += 1
        number = request_number(env.incarnation, self._count)
        self._under_way[number] = call
        heapq.heappush(self._deadlines, (env.mono_ns() + delay_ns, number))
        self._set_timer(env)
        return number

    def answered(self, env: Env, source: str, message: Command) -> bool:
        """Take an answer; False if it is none to a request that is under way. Raises
        :class:`chaos.node.Malformed`."""
        call = self._under_way.get(message.opaque)
        if call is None or call.to != source:
            return False
        outcome = call.read(message)
        del self._under_way[message.opaque]
        call.then(env, outcome)
        return True

    def timer(self, env: Env, name: str) -> bool:
        """Handle a timer. Return False if it is another part's."""
        if name != TIMER:
            return False
        self._due_ns = -1
        now, late = env.mono_ns(), []
        while self._deadlines and self._deadlines[0][0] <= now:
            call = self._under_way.pop(heapq.heappop(self._deadlines)[1], None)
            if call is not None:
                late.append(call)
        for call in late:
            call.then(env, None)
        self._set_timer(env)
        return True

    def closed(self, env: Env, peer: str) -> None:
        """Give the requests to this node their outcome: none."""
        lost = [number for number, call in self._under_way.items() if call.to == peer]
        for call in [self._under_way.pop(number) for number in lost]:
            call.then(env, None)

    def _set_timer(self, env: Env) -> None:
        deadlines = self._deadlines
        while deadlines and deadlines[0][1] not in self._under_way:
            heapq.heappop(deadlines)
        if deadlines and not 0 <= self._due_ns <= deadlines[0][0]:
            self._due_ns = deadlines[0][0]
            env.set_timer(TIMER, max(0, self._due_ns - env.mono_ns()))


def _nothing(message: Command) -> None:
    """Nobody answers what is only to be done later."""
