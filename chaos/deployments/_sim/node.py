"""A simulated server: runs one node's steps in virtual time, and lets it crash, pause and mistake the time.

A step's code runs at one instant, but the node is busy for as long as the step would take; its messages leave at the
end, and whatever comes meanwhile queues up. So a fault can hit the window between a step's effects on the disk and its
messages.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heappush
from math import log
from pathlib import Path
from random import Random
from typing import Any

from chaos.deployments._sim.disk import Fate, SimDisk
from chaos.deployments._sim.loop import VirtualLoop
from chaos.deployments._sim.network import Pipe, SimNet
from chaos.driver import OnTrace
from chaos.effects.disks import DiskRules
from chaos.node import Message, Node, NodeSpec

#: What a step costs in virtual time.
STEP_NS = 10_000
ROW_NS = 1_000
SYNC_CALL_NS = 5_000
NS_PER_BYTE = 1
#: How long a sync takes.
SYNC_NS = 100_000
SYNC_MEAN_EXTRA_NS = 300_000
SYNC_MAX_EXTRA_NS = 2_000_000
SYNC_NS_PER_BYTE = 3
#: Virtual time begins here; each machine's wall clock is off by a few milliseconds.
WALL_EPOCH_NS = 1_767_225_600 * 1_000_000_000
WALL_ERROR_NS = 5_000_000
DRIFT_PPM = 50

#: How many frames of a traceback a trace row tells.
CRASH_FRAMES = 4

#: Kinds of pressure on a machine.
CPU, DESCRIPTORS, IO = "cpu", "descriptors", "io"

START, MESSAGE, TIMER, DONE, CLOSED = range(5)
Event = tuple[Any, ...]


class Clock:
    """A machine's two clocks: monotonic, with drift, and wall, which can also jump."""

    def __init__(self, loop: VirtualLoop, rng: Random) -> None:
        self._loop = loop
        self._usual_ppm = rng.randint(-DRIFT_PPM, DRIFT_PPM)
        self._ppm = self._usual_ppm
        self._base_ns = rng.randint(1, 10**13)
        self._since_ns = loop.now_ns
        self._wall_offset_ns = WALL_EPOCH_NS - self._base_ns + rng.randint(-WALL_ERROR_NS, WALL_ERROR_NS)
        self._jumped_ns = 0

    def mono_ns(self) -> int:
        passed_ns = self._loop.now_ns - self._since_ns
        return self._base_ns + passed_ns + passed_ns * self._ppm // 1_000_000

    def wall_ns(self) -> int:
        return self.mono_ns() + self._wall_offset_ns + self._jumped_ns

    def true_ns(self, delay_ns: int) -> int:
        """How long this clock takes to show that ``delay_ns`` have passed."""
        return max(0, delay_ns) * 1_000_000 // (1_000_000 + self._ppm)

    def skew(self, *, jump_ns: int, drift_ppm: int) -> None:
        """Jump from where the wall clock is now; drift by this much beyond the usual."""
        self._base_ns, self._since_ns = self.mono_ns(), self._loop.now_ns
        self._jumped_ns += jump_ns
        self._ppm = max(-900_000, self._usual_ppm + drift_ppm)

    def reset(self) -> None:
        self.skew(jump_ns=-self._jumped_ns, drift_ppm=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A node that died of an exception of its own; ``at`` are its innermost frames, the last one first."""

    node: str
    incarnation: int
    step: int
    error: str
    at: str
    traceback: str

    def __str__(self) -> str:
        return f"{self.node}, life {self.incarnation}, step {self.step}: {self.error} at {self.at}"


class SimNode:
    """One server over all its lives. ``life`` changes when it dies, so that what its dead self began ends nowhere."""

    is_client = False

    def __init__(
        self,
        spec: NodeSpec,
        build: Callable[[NodeSpec], Node],
        *,
        loop: VirtualLoop,
        net: SimNet,
        seed: int,
        on_trace: OnTrace,
        on_crash: Callable[[Crash], None],
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.pipes: dict[str, Pipe] = {}
        self.alive = False
        self.paused = False
        self.incarnation = 0
        self.step = 0
        self.rows = 0
        self.synced = 0
        self.harness_error: Exception | None = None
        self.loop = loop
        self.net = net
        self.on_trace = on_trace
        self._on_crash = on_crash
        self._build = build
        self._seed = seed
        self._rng = Random(f"{seed}/{spec.name}/fate")
        self.clock = Clock(loop, self._rng)
        self.disk_rules = DiskRules()
        self._ruled = self.disk_rules.by_id
        self.wipe()
        self.life = 0
        self.timers: dict[str, int] = {}
        self.sends: list[tuple[str, Message]] = []
        self.work_ns = 0
        self.held: dict[str, deque[tuple[int, Message]]] = {}
        self._inbox: deque[Event] = deque()
        self._busy_until_ns = 0
        self._end_posted = False
        self._sync_ends_ns = 0
        self._pressure: dict[str, int] = {}
        self._late: list[int] = []

    # --- life and death ---

    def begin(self) -> None:
        """Start the next life on whatever the disk holds."""
        self._node = self._build(self.spec)
        self.incarnation += 1
        self.step = self.rows = self.synced = 0
        self.alive = True
        self._env = SimEnv(self)
        self._busy_until_ns = self.loop.now_ns
        self._offer((START,))

    def die(self, fate: Fate = Fate.ANY) -> int:
        """Crash: no node code runs; any prefix of the last step's messages has left. Return how many unsynced changes
        were at stake on the disk."""
        leaving = self.sends[: self._rng.randint(0, len(self.sends))] if self.sends else []
        for to, message in leaving:
            self.net.send(self, to, message)
        at_stake = self.disk.crash(self._rng, fate)
        self.vanish()
        self.net.leave(self, lose_sent=self._rng.random() < 0.5)
        return at_stake

    def end(self) -> bool:
        """End in good order: the last step's messages leave, and the disk keeps all that was written. One whose syncs
        hang is killed in the end, and one whose syncs fail has crashed; False then."""
        if self._hangs or (self._ruled and self.disk_rules.fails_sync()):
            self.die()
            return False
        for to, message in self.sends:
            self.net.send(self, to, message)
        self.disk.settle()
        self.vanish()
        self.net.leave(self, lose_sent=False)
        return True

    def vanish(self) -> None:
        """Forget all that a process holds in memory."""
        self.alive = self.paused = self._end_posted = False
        self.life += 1
        self.timers.clear()
        self.sends.clear()
        self.held.clear()
        self._inbox.clear()
        self._late.clear()
        self._sync_ends_ns = 0
        self.work_ns = 0

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        self.disk = SimDisk(self._sync_started, rules=self.disk_rules, rng=self._rng)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """Go on where it stopped: the messages of the unfinished step leave; backlog and overdue timers come in any
        order, but each peer's bytes in theirs."""
        self.paused = False
        self._inbox = deque(_shuffled(self._inbox, self._rng))
        self._post_end()

    # --- what comes in ---

    def arrive(self, source: str, message: Message) -> None:
        self._offer((MESSAGE, source, message))

    def lost(self, peer: str, refused: bool) -> None:
        if self.alive:
            self._offer((CLOSED, peer))

    def forget(self, peer: str) -> None:
        """Drop what this peer's connection has brought but nobody has read."""
        self._inbox = deque(e for e in self._inbox if e[0] not in (MESSAGE, CLOSED) or e[1] != peer)
        self.held.pop(peer, None)
        self.sends = [(to, message) for to, message in self.sends if to != peer]

    def timer_due(self, life: int, name: str, ticket: int) -> None:
        if life == self.life and self.timers.get(name) == ticket:
            self._offer((TIMER, name, ticket))

    def _sync_started(self, token: int, pending_bytes: int) -> None:
        extra_ns = min(SYNC_MAX_EXTRA_NS, int(-log(1.0 - self._rng.random()) * SYNC_MEAN_EXTRA_NS))
        took_ns = SYNC_NS + extra_ns + pending_bytes * SYNC_NS_PER_BYTE
        if self._ruled:
            took_ns += self.disk_rules.latency_ns()
        loop = self.loop
        ends_ns = self._sync_ends_ns = max(self._sync_ends_ns, loop.now_ns) + took_ns
        self.work_ns += SYNC_CALL_NS
        heappush(loop.queue, (ends_ns, next(loop.ticket), self._sync_ended, (self.life, token)))

    def _sync_ended(self, life: int, token: int) -> None:
        if life == self.life and self._hangs:
            self._late.append(token)
        elif life == self.life and self._ruled and self.disk_rules.fails_sync():
            self.die()
        elif life == self.life:
            self.disk.finish(token)
            self._offer((DONE, token))

    # --- pressure on the machine, over all lives ---

    def press(self, kind: str, amount: int) -> bool:
        """Begin pressure of this kind; False if there is some already."""
        if kind in self._pressure:
            return False
        self._pressure[kind] = amount
        if kind == DESCRIPTORS:
            self.net.full.add(self.name)
        return True

    def release(self, kind: str) -> None:
        self._pressure.pop(kind, None)
        if kind == DESCRIPTORS:
            self.net.full.discard(self.name)
        if not self._hangs:
            late, self._late = self._late, []
            life = self.life  # which ends with the first sync that fails
            for token in late:
                self._sync_ended(life, token)

    @property
    def _hangs(self) -> bool:
        """Whether no sync ends: they open files."""
        return bool(self._pressure) and (IO in self._pressure or DESCRIPTORS in self._pressure)

    # --- steps ---

    def _offer(self, event: Event) -> None:
        """Take the event now if the node is idle, else when it has time."""
        if self.paused or self._end_posted or self._inbox:
            self._inbox.append(event)
        elif self.loop.now_ns < self._busy_until_ns:
            self._inbox.append(event)
            self._post_end()
        else:
            self._take(event)

    def _post_end(self) -> None:
        if not self._end_posted:
            self._end_posted = True
            loop = self.loop
            at_ns = max(loop.now_ns, self._busy_until_ns)
            heappush(loop.queue, (at_ns, next(loop.ticket), self._end, (self.life,)))

    def _end(self, life: int) -> None:
        """The step is over: its messages leave, and the next event is taken."""
        if life != self.life:
            return
        self._end_posted = False
        if self.paused:
            return
        if self.sends:
            leaving, self.sends = self.sends, []
            send = self.net.send
            for to, message in leaving:
                send(self, to, message)
        while self._inbox and self.alive and not self._take(self._inbox.popleft()):
            pass

    def _take(self, event: Event) -> bool:
        """Run one step; False if there was nothing to do (a timer that was set anew meanwhile)."""
        kind = event[0]
        if kind == TIMER:
            if self.timers.get(event[1]) != event[2]:
                return False
            del self.timers[event[1]]
        self.step += 1
        disk = self.disk
        moved, rows = disk.moved_bytes, self.rows
        if self._ruled:
            self.disk_rules.broken = False
        try:
            if kind == MESSAGE:  # most steps are
                self._node.message(self._env, event[1], event[2])
            else:
                self._dispatch(kind, event)
        except Exception as error:
            if self.harness_error is not None:  # the recorder failed, not the node
                raise self.harness_error from None
            if self.disk_rules.broken:  # it stops, as it must when its disk fails
                self.die()
            else:
                self._crash(error)
            return True
        moved = disk.moved_bytes - moved
        cost_ns = STEP_NS + (self.rows - rows) * ROW_NS + moved * NS_PER_BYTE + self.work_ns
        if CPU in self._pressure:
            cost_ns = cost_ns * 100 // self._pressure[CPU]
        self.work_ns = 0
        self._busy_until_ns = self.loop.now_ns + cost_ns
        if self.sends or self._inbox:
            self._post_end()
        return True

    def _dispatch(self, kind: int, event: Event) -> None:
        node, env = self._node, self._env
        if kind == TIMER:
            node.timer(env, event[1])
        elif kind == DONE:
            self.synced = event[1]
            if self.held:
                self._let_go()
            node.done(env, event[1])
        elif kind == CLOSED:
            self.held.pop(event[1], None)
            node.closed(env, event[1])
        else:
            node.start(env)

    def _let_go(self) -> None:
        """Queue the messages whose sync is done, each peer's in order."""
        for peer in list(self.held):
            waiting = self.held[peer]
            while waiting and waiting[0][0] <= self.synced:
                self.sends.append((peer, waiting.popleft()[1]))
            if not waiting:
                del self.held[peer]

    def _crash(self, error: Exception) -> None:
        """An exception in node code ends the process."""
        frames = traceback.extract_tb(error.__traceback__)[: -CRASH_FRAMES - 1 : -1]
        crash = Crash(
            node=self.name,
            incarnation=self.incarnation,
            step=self.step,
            error=f"{type(error).__name__}: {error}",
            at=", ".join(f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames),
            traceback="".join(traceback.format_exception(error)),
        )
        self._on_crash(crash)
        self._env.trace("crash", error=crash.error, at=crash.at)
        self.die()


class SimEnv:
    """Implements :class:`chaos.node.Env` for one life of a node."""

    __slots__ = ("_host", "disk", "incarnation", "mono_ns", "name", "rng", "wall_ns")

    def __init__(self, host: SimNode) -> None:
        self._host = host
        self.name = host.name
        self.incarnation = host.incarnation
        self.rng = Random(f"{host._seed}/{host.name}/{host.incarnation}")
        self.disk = host.disk
        self.mono_ns = host.clock.mono_ns
        self.wall_ns = host.clock.wall_ns

    def send(self, to: str, message: Message, *, after: int | None = None) -> None:
        host = self._host
        for name, value in message.fields.items():
            if value.__class__ is not str:
                raise TypeError(f"message {message.code} to {to}: field {name} is {value!r}, but fields are strings")
        host.work_ns += len(message.body) * NS_PER_BYTE
        held = host.held.get(to) if host.held else None
        if held is not None:
            held.append((after or 0, message))
        elif after is not None and after > host.synced:
            host.held[to] = deque(((after, message),))
        else:
            host.sends.append((to, message))

    def close(self, peer: str) -> None:
        self._host.forget(peer)
        self._host.net.close(self._host, peer)

    def set_timer(self, name: str, delay_ns: int) -> None:
        host = self._host
        loop = host.loop
        ticket = host.timers[name] = next(loop.ticket)
        due_ns = loop.now_ns + host.clock.true_ns(delay_ns)
        heappush(loop.queue, (due_ns, ticket, host.timer_due, (host.life, name, ticket)))

    def cancel_timer(self, name: str) -> None:
        self._host.timers.pop(name, None)

    def trace(
        self,
        f: str,
        *,
        epoch: int = -1,
        queue: int = -1,
        offset: int = -1,
        position: int = -1,
        message: int = -1,
        hash: int = -1,
        **value: object,
    ) -> None:
        host = self._host
        host.rows += 1
        row: Mapping[str, object] = {
            "kind": "trace",
            "time_ns": host.loop.now_ns,
            "node": self.name,
            "incarnation": self.incarnation,
            "step": host.step,
            "f": f,
            "epoch": epoch,
            "queue": queue,
            "offset": offset,
            "position": position,
            "message": message,
            "hash": hash,
            "value": value,
        }
        try:
            host.on_trace(row)
        except Exception as error:
            host.harness_error = error
            raise


def _shuffled(events: Iterable[Event], rng: Random) -> Iterable[Event]:
    """Mix the events of different origins; keep the order of each peer's messages and of the syncs."""
    origins: dict[tuple[int, object], deque[Event]] = {}
    turns = []
    for event in events:
        kind = event[0]
        origin = (MESSAGE, event[1]) if kind == CLOSED else (kind, "" if kind == DONE else event[1])
        origins.setdefault(origin, deque()).append(event)
        turns.append(origin)
    rng.shuffle(turns)
    return [origins[origin].popleft() for origin in turns]
