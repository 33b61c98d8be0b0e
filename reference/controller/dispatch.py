"""How requests reach the log: two ways behind one interface.

:class:`Pipeline` hands each request to Raft at once, so that many are under way and each is answered when it is done.
:class:`SingleQueue` does one after the other, as RocketMQ's controller does with its one event thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from chaos.node import Env
from reference.controller.liveness import Agenda, Scan, Watch
from reference.controller.replicas import Outcome
from reference.raft.member import Raft
from reference.wire.codes import Response

#: Events that may wait in the single queue, as many as in RocketMQ's.
MAX_EVENTS = 1024

#: Makes an entry when its turn has come, so that it says who lives then.
Entry = Callable[[Env], bytes]
#: Gets the outcome of a write, or None when that can't be known any more.
Written = Callable[[Env, Outcome | None], None]
#: Gets the response code that refuses a read, or success: the state may be read now.
Read = Callable[[Env, int], None]

NOT_LEADER = Outcome(Response.CONTROLLER_NOT_LEADER, "The controller is not in leader state")


class Dispatch(Protocol):
    def __init__(self, raft: Raft) -> None: ...

    def write(self, env: Env, entry: Entry, then: Written, *, own: bool = False) -> None:
        """Have an entry logged; this node leads. ``own``: the controller's own entries are never refused as busy."""

    def read(self, env: Env, then: Read) -> None:
        """Run ``then`` once the state is at least as new as all that was done before this call."""


class Pipeline:
    """A bounded number of writes and reads is under way; beyond it the answer is "busy"."""

    def __init__(self, raft: Raft) -> None:
        self._raft = raft

    def write(self, env: Env, entry: Entry, then: Written, *, own: bool = False) -> None:
        if self._raft.is_handing_over or (not own and not self._raft.has_room):
            then(env, _busy(self._raft.under_way()))
            return
        self._raft.propose(env, entry(env), lambda env, outcome, _: then(env, _known(outcome)))

    def read(self, env: Env, then: Read) -> None:
        if not self._raft.can_read:
            then(env, Response.SYSTEM_BUSY)
            return
        self._raft.read(env, lambda env, safe: then(env, Response.SUCCESS if safe else NOT_LEADER.code))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    entry: Entry
    then: Written


class SingleQueue:
    """One event at a time, on the leader only; the next one begins when the entry of the one before was applied. A read
    logs an entry that changes nothing (RocketMQ's ``isProcessReadEvent``; without that a deposed leader's answers may
    be stale)."""

    def __init__(self, raft: Raft) -> None:
        self._raft = raft
        self._events: deque[_Event] = deque()

    def write(self, env: Env, entry: Entry, then: Written, *, own: bool = False) -> None:
        self._take(env, _Event(entry=entry, then=then), own=own)

    def read(self, env: Env, then: Read) -> None:
        def ended(env: Env, outcome: Outcome | None) -> None:
            then(env, NOT_LEADER.code if outcome is None else outcome.code)

        self._take(env, _Event(entry=_nothing, then=ended), own=False)

    def _take(self, env: Env, event: _Event, *, own: bool) -> None:
        if not self._raft.is_leader:
            event.then(env, NOT_LEADER)
        elif len(self._events) >= MAX_EVENTS and not own:
            event.then(env, _busy(len(self._events)))
        else:
            self._events.append(event)
            if len(self._events) == 1:
                self._begin(env)

    def _begin(self, env: Env) -> None:
        """Log the event at the head. Who leads no more, or hands over, has logged none of those that wait."""
        if self._raft.is_leader and not self._raft.is_handing_over:
            self._raft.propose(env, self._events[0].entry(env), self._ended)
            return
        events, self._events = self._events, deque()
        refusal = _busy(len(events)) if self._raft.is_leader else NOT_LEADER
        for event in events:
            event.then(env, refusal)

    def _ended(self, env: Env, outcome: object, index: int) -> None:
        event = self._events.popleft()
        event.then(env, _known(outcome))
        if self._events:
            self._begin(env)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """A way to build a controller: how requests reach the log, and how silence is noticed."""

    dispatch: type[Dispatch]
    watch: type[Watch]


PARALLEL, CLASSIC = "parallel", "classic"
MODES: Mapping[str, Mode] = {
    PARALLEL: Mode(dispatch=Pipeline, watch=Agenda),
    CLASSIC: Mode(dispatch=SingleQueue, watch=Scan),
}


def mode_of(options: Mapping[str, object]) -> Mode:
    """Return the mode that a controller's options name. Raises ``ValueError``."""
    name = options.get("mode", PARALLEL)
    if name not in MODES:
        raise ValueError(f"a controller's mode must be {' or '.join(MODES)}, not {name!r}")
    return MODES[str(name)]


def _nothing(env: Env) -> bytes:
    return b""


def _known(outcome: object) -> Outcome | None:
    return outcome if isinstance(outcome, Outcome) else None


def _busy(under_way: int) -> Outcome:
    return Outcome(Response.SYSTEM_BUSY, f"busy: {under_way} requests are under way; ask again later")
