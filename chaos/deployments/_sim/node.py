"""A simulated server: runs one node's steps in virtual time, and lets it crash, pause and run short of resources.

A step's code runs at one instant, but the node is busy for as long as the step would take; its messages leave at the
end, and whatever comes meanwhile queues up. So a fault can hit the window between a step's effects on the disk and its
messages. What a step means is in :mod:`chaos.shell.step`; what it costs, and when it happens, is here.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from heapq import heappush
from math import log
from random import Random

from chaos.deployments._sim.clock import Clock
from chaos.deployments._sim.disk import Fate, SimDisk
from chaos.deployments._sim.loop import VirtualLoop
from chaos.deployments._sim.network import Pipe, SimNet
from chaos.draws import Draws
from chaos.driver import OnTrace
from chaos.effects.disks import DiskRules
from chaos.node import NOWHERE, Address, Message, Node, NodeSpec, NoDisk
from chaos.shell.step import CLOSED, DONE, MESSAGE, START, TIMER, Event, Life

#: What a step costs in virtual time.
STEP_NS = 10_000
ROW_NS = 1_000
#: Rows that cost no time. What is traced in addition must not change what a seed draws: it would be another history.
FREE_ROWS = frozenset({"vote", "bootstrap_begun"})
SYNC_CALL_NS = 5_000
NS_PER_BYTE = 1
#: How long a sync takes.
SYNC_NS = 100_000
SYNC_MEAN_EXTRA_NS = 300_000
SYNC_MAX_EXTRA_NS = 2_000_000
SYNC_NS_PER_BYTE = 3
#: What a machine can be short of.
CPU, DESCRIPTORS, IO = "cpu", "descriptors", "io"


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
    """One server over all its lives. What one life began ends nowhere once it is over: whatever is scheduled carries
    the number of deaths there had been."""

    is_client = False

    def __init__(
        self,
        spec: NodeSpec,
        build: Callable[[NodeSpec], Node],
        *,
        loop: VirtualLoop,
        net: SimNet,
        draws: Draws,
        on_trace: OnTrace,
        on_crash: Callable[[Crash], None],
    ) -> None:
        self.spec = spec
        self.name = spec.name
        self.pipes: dict[str, Pipe] = {}
        self.alive = False
        self.paused = False
        self.incarnation = 0
        self._harness_error: Exception | None = None
        self.loop = loop
        self.net = net
        self.on_trace = on_trace
        self._on_crash = on_crash
        self._build = build
        self._draws = draws
        self._rng = draws.of(f"{spec.name}/fate")
        #: Draws how long each of its starts takes.
        self.starting = draws.of(f"{spec.name}/starting")
        self.clock = Clock(loop, self._rng)
        self.disk_rules = DiskRules()
        self._ruled = self.disk_rules.by_id
        self.wipe()
        self._life: Life
        self._deaths = 0
        self._work_ns = 0
        self._inbox: deque[Event] = deque()
        self._busy_until_ns = 0
        self._end_posted = False
        #: Syncs under way, each with how long it lasts if no rule slows it: the disk does one after another.
        self._syncs: deque[tuple[int, int]] = deque()
        self._limits: dict[str, int] = {}
        self._late: list[int] = []

    # --- life and death ---

    @property
    def step(self) -> int:
        """The number of the latest step of its latest life."""
        return self._life.step if self.incarnation else 0

    def begin(self) -> None:
        """Start the next life on whatever the disk holds."""
        node = self._build(self.spec)
        self.incarnation += 1
        self._life = Life(
            node,
            self,
            name=self.name,
            incarnation=self.incarnation,
            rng=self._draws.of(f"{self.name}/{self.incarnation}"),
            disk=self.disk if self.spec.disk else NoDisk(),
            clock=self.clock,
        )
        self.alive = True
        self._busy_until_ns = self.loop.now_ns
        self._offer((START,))

    def die(self, fate: Fate = Fate.ANY) -> int:
        """Crash: no node code runs; any prefix of the last step's messages has left. Return how many unsynced changes
        were at stake on the disk."""
        sends = self._life.outbox.take()
        for to, message in sends[: self._rng.randint(0, len(sends))] if sends else ():
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
        for to, message in self._life.outbox.take():
            self.net.send(self, to, message)
        self.disk.settle()
        self.vanish()
        self.net.leave(self, lose_sent=False)
        return True

    def vanish(self) -> None:
        """Forget all that a process holds in memory."""
        self.alive = self.paused = self._end_posted = False
        self._deaths += 1
        self._inbox.clear()
        self._late.clear()
        self._syncs.clear()
        self._work_ns = 0

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

    def _timer_due(self, deaths: int, name: str, ticket: int) -> None:
        if deaths == self._deaths and self._life.timers.get(name) == ticket:
            self._offer((TIMER, name, ticket))

    def _sync_started(self, token: int, pending_bytes: int) -> None:
        extra_ns = min(SYNC_MAX_EXTRA_NS, int(-log(1.0 - self._rng.random()) * SYNC_MEAN_EXTRA_NS))
        self._syncs.append((token, SYNC_NS + extra_ns + pending_bytes * SYNC_NS_PER_BYTE))
        self._work_ns += SYNC_CALL_NS
        if len(self._syncs) == 1:
            self._begin_sync()

    def _begin_sync(self) -> None:
        """Do the first of the syncs that wait, as slowly as the disk's rules are by now: those that queued up behind a
        slow one are fast again once the rule is gone."""
        token, took_ns = self._syncs[0]
        if self._ruled:
            took_ns += self.disk_rules.latency_ns()
        loop = self.loop
        heappush(loop.queue, (loop.now_ns + took_ns, next(loop.ticket), self._sync_done, (self._deaths, token)))

    def _sync_done(self, deaths: int, token: int) -> None:
        if deaths != self._deaths:
            return
        self._syncs.popleft()
        if self._syncs:
            self._begin_sync()
        self._sync_ended(deaths, token)

    def _sync_ended(self, deaths: int, token: int) -> None:
        if deaths != self._deaths:
            return
        if self._hangs:
            self._late.append(token)
        elif self._ruled and self.disk_rules.fails_sync():
            self.die()
        else:
            self.disk.finish(token)
            self._offer((DONE, token))

    # --- what its steps ask for (chaos.shell.step.Host) ---

    def now_ns(self) -> int:
        return self.loop.now_ns

    def record(self, row: Mapping[str, object]) -> None:
        if row["f"] not in FREE_ROWS:
            self._work_ns += ROW_NS
        value = row["value"]
        if value and isinstance(value, dict) and "file" in value:  # the disk knows better what is on it than the node
            value["disk"] = self.disk.durable_size(str(value["file"]))
        try:
            self.on_trace(row)
        except Exception as error:
            self._harness_error = error
            raise

    def start_timer(self, name: str, delay_ns: int) -> int:
        loop = self.loop
        ticket = next(loop.ticket)
        due_ns = loop.now_ns + self.clock.true_ns(delay_ns)
        heappush(loop.queue, (due_ns, ticket, self._timer_due, (self._deaths, name, ticket)))
        return ticket

    def endpoints(self, peer: str) -> tuple[Address, Address]:
        return NOWHERE, NOWHERE

    def disconnect(self, peer: str) -> None:
        self._inbox = deque(e for e in self._inbox if e[0] not in (MESSAGE, CLOSED) or e[1] != peer)
        self.net.close(self, peer)

    # --- limits of the machine's resources, over all lives ---

    def limit(self, kind: str, amount: int) -> bool:
        """Let the machine be short of this; False if it is already."""
        if kind in self._limits:
            return False
        self._limits[kind] = amount
        if kind == DESCRIPTORS:
            self.net.full.add(self.name)
        return True

    def lift(self, kind: str) -> None:
        """Lift the limit of this kind; syncs that hung end now."""
        self._limits.pop(kind, None)
        if kind == DESCRIPTORS:
            self.net.full.discard(self.name)
        if not self._hangs:
            late, self._late = self._late, []
            deaths = self._deaths  # one more after the first sync that fails
            for token in late:
                self._sync_ended(deaths, token)

    @property
    def _hangs(self) -> bool:
        """Whether no sync ends: each opens a file."""
        return bool(self._limits) and (IO in self._limits or DESCRIPTORS in self._limits)

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
            heappush(loop.queue, (at_ns, next(loop.ticket), self._step_over, (self._deaths,)))

    def _step_over(self, deaths: int) -> None:
        """End the step: its messages leave, and the next event is taken."""
        if deaths != self._deaths:
            return
        self._end_posted = False
        if self.paused:
            return
        outbox = self._life.outbox
        if outbox.sends:
            send = self.net.send
            for to, message in outbox.take():
                send(self, to, message)
        while self._inbox and self.alive and not self._take(self._inbox.popleft()):
            pass

    def _take(self, event: Event) -> bool:
        """Run one step; False if there was nothing to do (a timer that was set again meanwhile)."""
        life, disk = self._life, self.disk
        outbox = life.outbox
        handled_bytes = disk.moved_bytes + outbox.sent_bytes
        if self._ruled:
            self.disk_rules.broken = False
        try:
            if not life.take(event):
                return False
        except Exception as error:
            if self._harness_error is not None:  # the recorder failed, not the node
                raise self._harness_error from None
            if not self.disk_rules.broken:  # if it is, the node stops, as it must when its disk fails
                self._report_crash(error)
            self.die()
            return True
        handled_bytes = disk.moved_bytes + outbox.sent_bytes - handled_bytes
        cost_ns = STEP_NS + handled_bytes * NS_PER_BYTE + self._work_ns
        if CPU in self._limits:
            cost_ns = cost_ns * 100 // self._limits[CPU]
        self._work_ns = 0
        self._busy_until_ns = self.loop.now_ns + cost_ns
        if outbox.sends or self._inbox:
            self._post_end()
        return True

    def _report_crash(self, error: Exception) -> None:
        """Report the exception in node code that ends the process."""
        what, at = self._life.crash(error)
        crash = Crash(
            node=self.name,
            incarnation=self.incarnation,
            step=self.step,
            error=what,
            at=at,
            traceback="".join(traceback.format_exception(error)),
        )
        self._on_crash(crash)


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
