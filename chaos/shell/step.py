"""The steps of a node: what sends, holds, timers and trace rows mean, once for the simulator and for real processes.

A shell gives a :class:`Life` one event after the other; each is one step of the node's code. What a step has sent
stands in the life's outbox until the shell lets it leave. The order is always the same: the rows of a step are
recorded, then its messages leave, in the order in which they were sent. Imports only the standard library.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Protocol

from chaos import events
from chaos.node import Address, Disk, Env, Malformed, Message, Node

#: An event is a tuple: its kind, then ``source, message`` for a message, ``name, ticket`` for a timer, ``token`` for a
#: sync that is done, ``peer`` for a connection that is closed.
START, MESSAGE, TIMER, DONE, CLOSED = range(5)
Event = tuple[Any, ...]
#: How many frames of a traceback the trace row of a crash holds.
CRASH_FRAMES = 4
#: How many refused messages a life traces: who sends more of them must not fill the disk.
REFUSALS_TRACED = 100


class Host(Protocol):
    """What a shell does for its node; everything else that a node may do is the same in all shells."""

    def now_ns(self) -> int:
        """Return the time of the run, for trace rows."""

    def record(self, row: Mapping[str, object]) -> None:
        """Keep a trace row. It must be kept before any message of the step leaves."""

    def start_timer(self, name: str, delay_ns: int) -> int:
        """Offer ``(TIMER, name, ticket)`` when ``delay_ns`` of the node's monotonic clock have passed; return the
        ticket, a number that is never used again."""

    def disconnect(self, peer: str) -> None:
        """Drop the connection with this peer and all that it has brought."""

    def endpoints(self, peer: str) -> tuple[Address, Address]:
        """See :meth:`chaos.node.Env.endpoints`."""


class Clock(Protocol):
    def mono_ns(self) -> int: ...

    def wall_ns(self) -> int: ...


class Outbox:
    """What a node has sent and no shell has taken yet, in order.

    ``sends``: messages that leave when the step is over. ``held``: by peer, messages that wait, each with the token of
    the sync that must be done before (0: it only waits for those before it). ``sent_bytes`` counts the sizes of all
    messages ever sent, held ones included.
    """

    __slots__ = ("held", "sends", "sent_bytes", "synced")

    def __init__(self) -> None:
        self.sends: list[tuple[str, Message]] = []
        self.held: dict[str, deque[tuple[int, Message]]] = {}
        self.synced = 0
        self.sent_bytes = 0

    def hold(self, to: str, message: Message, after: int | None) -> None:
        """Put a message behind those that wait for the same peer, or have it wait for its own sync."""
        held = self.held.get(to)
        if held is not None:
            held.append((after or 0, message))
        elif after is not None and after > self.synced:
            self.held[to] = deque(((after, message),))
        else:
            self.sends.append((to, message))

    def sync_done(self, token: int) -> None:
        """Queue the messages that waited for this sync: peer by peer, each peer's in order."""
        self.synced = token
        for peer in list(self.held):
            waiting = self.held[peer]
            while waiting and waiting[0][0] <= token:
                self.sends.append((peer, waiting.popleft()[1]))
            if not waiting:
                del self.held[peer]

    def forget(self, peer: str) -> None:
        """Drop all that would go to this peer."""
        self.held.pop(peer, None)
        self.sends = [(to, message) for to, message in self.sends if to != peer]

    def take(self) -> list[tuple[str, Message]]:
        """Return the messages that leave now; the outbox keeps those that are held."""
        sends, self.sends = self.sends, []
        return sends


class Life:
    """One life of a node, from its start to its crash. ``step`` counts its steps."""

    __slots__ = ("_env", "_node", "_refused", "outbox", "step", "timers", "traced")

    def __init__(
        self, node: Node, host: Host, *, name: str, incarnation: int, rng: Random, disk: Disk, clock: Clock
    ) -> None:
        self.step = 0
        #: The last step that traced anything.
        self.traced = 0
        self.outbox = Outbox()
        #: By name, the ticket of each timer that is set. One that was set again or cancelled has another or none.
        self.timers: dict[str, int] = {}
        self._node = node
        self._refused = 0
        self._env = StepEnv(self, host, name=name, incarnation=incarnation, rng=rng, disk=disk, clock=clock)

    def take(self, event: Event) -> bool:
        """Run one step; False if there was nothing to do, since the timer was set again or cancelled meanwhile.

        Raises whatever the node's code raises.
        """
        kind = event[0]
        if kind == MESSAGE:  # most steps are
            self.step += 1
            try:
                self._node.message(self._env, event[1], event[2])
            except Malformed as error:
                if self.outbox.sends or self.traced == self.step:
                    raise  # it had begun to act on what it did not understand
                self._refused += 1
                refuse(self._node, self._env, event[1], event[2], error, traced=self._refused <= REFUSALS_TRACED)
        elif kind == TIMER:
            name = event[1]
            if self.timers.get(name) != event[2]:
                return False
            del self.timers[name]
            self.step += 1
            self._node.timer(self._env, name)
        else:
            self.step += 1
            self._take_rare(event)
        return True

    def _take_rare(self, event: Event) -> None:
        if event[0] == DONE:
            self.outbox.sync_done(event[1])
            self._node.done(self._env, event[1])
        elif event[0] == CLOSED:
            self.outbox.held.pop(event[1], None)
            self._node.closed(self._env, event[1])
        else:
            self._node.start(self._env)

    def crash(self, error: Exception) -> tuple[str, str]:
        """Trace that this exception of the node's code ends its life; return what it says, and its innermost frames,
        the last one first."""
        frames = traceback.extract_tb(error.__traceback__)[: -CRASH_FRAMES - 1 : -1]
        what = f"{type(error).__name__}: {error}"
        at = ", ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
        self._env.trace(events.Crash(error=what, at=at))
        return what, at


def refuse(node: Node, env: Env, source: str, message: Message, error: Malformed, *, traced: bool = True) -> None:
    """Refuse a message that the node can't understand: answer a request, end the connection otherwise. ``traced``:
    trace it."""
    if traced:
        env.trace(events.MalformedMessage(source=source, code=message.kind, error=str(error)))
    if message.is_response or message.is_oneway:
        env.close(source)
        node.closed(env, source)
    else:
        env.send(source, message.refused(error))


class StepEnv:
    """Implements :class:`chaos.node.Env` for one life of a node, in every shell."""

    __slots__ = ("_host", "_life", "_outbox", "disk", "incarnation", "mono_ns", "name", "rng", "wall_ns")

    def __init__(
        self, life: Life, host: Host, *, name: str, incarnation: int, rng: Random, disk: Disk, clock: Clock
    ) -> None:
        self._life = life
        self._outbox = life.outbox
        self._host = host
        self.name = name
        self.incarnation = incarnation
        self.rng = rng
        self.disk = disk
        self.mono_ns = clock.mono_ns
        self.wall_ns = clock.wall_ns

    def send(self, to: str, message: Message, *, after: int | None = None) -> None:
        outbox = self._outbox
        outbox.sent_bytes += message.size
        if after is None and not outbox.held:
            outbox.sends.append((to, message))
        else:
            outbox.hold(to, message, after)

    def close(self, peer: str) -> None:
        self._outbox.forget(peer)
        self._host.disconnect(peer)

    def endpoints(self, peer: str) -> tuple[Address, Address]:
        return self._host.endpoints(peer)

    def set_timer(self, name: str, delay_ns: int) -> None:
        self._life.timers[name] = self._host.start_timer(name, delay_ns)

    def cancel_timer(self, name: str) -> None:
        self._life.timers.pop(name, None)

    def trace(self, event: events.Event) -> None:
        self._life.traced = self._life.step
        self._host.record(event.row(self._host.now_ns(), self.name, self.incarnation, self._life.step))
