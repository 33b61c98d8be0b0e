"""A world in which nothing happens by itself: messages wait until they are delivered, timers until they are fired.

Only what a node does at once (a timer of delay zero, a disk that isn't held) is done within the command that caused it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chaos.deployments._sim.disk import Fate
from chaos.node import Node
from reference.wire.command import Command
from tests.reference.golden import Scenario
from tests.reference.raftnet import MS, World, WorldEnv

MOST_DELIVERIES = 1000
Played = Mapping[str, Callable[[str, Command], None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A message under way."""

    source: str
    to: str
    message: Command


class StepEnv(WorldEnv):
    """Timers of delay zero run at once; the others note when they are due."""

    def __init__(self, world: StepWorld, name: str, incarnation: int) -> None:
        super().__init__(world, name, incarnation)
        self.due: dict[str, int] = {}

    def set_timer(self, name: str, delay_ns: int) -> None:
        if delay_ns <= 0:
            super().set_timer(name, 0)
        else:
            self.timers[name] = self.world.number()
            self.due[name] = self.world.now + delay_ns


class StepWorld(World):
    """``held`` are the messages under way, oldest first; those of one connection keep their order. Who is ``played``
    is no node: what is sent there arrives at once."""

    env_class = StepEnv

    def __init__(self, make: dict[str, Callable[[], Node]], played: Played) -> None:
        self.played = played
        self.held: list[Held] = []
        self.slow_disks: set[str] = set()
        self.syncing: list[tuple[str, int]] = []
        super().__init__(1, make)

    def settle(self) -> None:
        """Do all that is to be done at once; no time passes."""
        while self.heap:
            heapq.heappop(self.heap)[2]()

    def on_sync(self, name: str, token: int) -> None:
        env = self.envs[name]
        env.pending.add(token)
        if name in self.slow_disks:
            self.syncing.append((name, token))
        else:
            self.at(0, lambda: env.synced(token))

    def finish_syncs(self, name: str) -> None:
        mine = [token for node, token in self.syncing if node == name]
        self.syncing = [(node, token) for node, token in self.syncing if node != name]
        for token in mine:
            self.envs[name].synced(token)
        self.settle()

    def fire_timer(self, node: str, timer: str) -> None:
        """Let time pass until the timer is due, and fire it. Raises ``ValueError`` when it isn't set."""
        env = self.envs[node]
        if timer not in env.timers:
            raise ValueError(f"{node} has set no timer {timer}, only {', '.join(sorted(env.timers))}")
        self.now = max(self.now, env.due.pop(timer))
        env.fire(timer, env.timers[timer])
        self.settle()

    def crash(self, name: str) -> None:
        """All that was not synced is gone, and so is what was under way. The next life has a quick disk."""
        del self.envs[name]
        self.slow_disks.discard(name)
        self.disks[name].crash(self.rng, Fate.LOST)
        self.syncing = [(node, token) for node, token in self.syncing if node != name]
        for other in self.names(but=name):
            self.cut(name, other)
        self.settle()

    def cut(self, one: str, other: str) -> None:
        self.held = [it for it in self.held if {it.source, it.to} != {one, other}]
        super().cut(one, other)

    def transmit(self, source: str, to: str, message: Command) -> None:
        if to in self.played:
            self.played[to](source, message)
        elif (source, to) not in self.blocked and (to not in self.make or to in self.envs):
            self.held.append(Held(source=source, to=to, message=message))


class StepScenario(Scenario):
    """The commands that move messages, disks, time and lives; what a message and a row say is the protocol's."""

    def __init__(self) -> None:
        super().__init__()
        self.world: StepWorld
        self._told = 0

    def say(self, held: Held) -> str:
        """What a message says; "" hides it."""
        raise NotImplementedError

    def row(self, node: str, f: str, value: dict[str, object]) -> str:
        """What a trace row says; "" hides it."""
        raise NotImplementedError

    def begin(self, make: dict[str, Callable[[], Node]], played: Played | None = None) -> None:
        self.world = StepWorld(make, played or {})
        self.settle()

    def settle(self) -> None:
        """Let all that happens at once happen, and tell of it."""
        self.world.settle()
        self.tell_rows()

    def tell_rows(self) -> None:
        """Tell of what the nodes have traced up to now."""
        rows = self.world.traces[self._told :]
        self._told = len(self.world.traces)
        for node, _, f, value in rows:
            if line := self.row(node, f, value):
                self.lines.append(f"  {line}")

    def _matching(self, words: tuple[str, ...]) -> Callable[[Held], bool]:
        """``a -> b``, ``a ->``, ``-> b`` or nothing: from where to where."""
        source, arrow, to = " ".join(words).partition("->")
        if words and not arrow:
            raise ValueError(f"expected A -> B, got {' '.join(words)!r}")
        source, to = source.strip(), to.strip()
        return lambda held: source in ("", held.source) and to in ("", held.to)

    def _take(self, matches: Callable[[Held], bool]) -> Held | None:
        held = next((held for held in self.world.held if matches(held)), None)
        if held is not None:
            self.world.held.remove(held)
        return held

    def show(self, held: Held, how: str = "") -> None:
        if line := self.say(held):
            self.lines.append(f"{held.source} → {held.to}  {how}{line}")

    def do_deliver(self, *words: str, count: str = "0") -> None:
        """Deliver messages, and those that they bring about, until none is left; or only the first ``count``."""
        matches = self._matching(words)
        for _ in range(int(count) or MOST_DELIVERIES):
            held = self._take(matches)
            if held is None:
                if int(count):
                    raise ValueError("there is no such message")
                return
            self.show(held)
            self.arrive_at(held)
            self.settle()
        if not int(count):
            raise ValueError(f"there is no end of messages after {MOST_DELIVERIES}")

    def arrive_at(self, held: Held) -> None:
        if held.to in self.world.envs:
            self.world.nodes[held.to].message(self.world.envs[held.to], held.source, held.message)

    def do_drop(self, *words: str) -> None:
        """Lose the messages that are under way now."""
        matches = self._matching(words)
        while (held := self._take(matches)) is not None:
            self.show(held, "lost: ")

    def do_messages(self) -> None:
        """What is under way."""
        for held in self.world.held:
            self.show(held)

    def do_cut(self, one: str, other: str) -> None:
        """Nothing passes between the two from now on, and what is under way is lost."""
        self.world.block(one, other)
        self.world.cut(one, other)
        self.settle()

    def do_heal(self) -> None:
        self.world.blocked.clear()

    def do_hold_disk(self, node: str) -> None:
        """Its syncs end no more until ``sync``."""
        self.world.slow_disks.add(node)

    def do_sync(self, node: str) -> None:
        self.world.slow_disks.discard(node)
        self.world.finish_syncs(node)
        self.settle()

    def do_crash(self, node: str) -> None:
        """It ends, and loses what was not synced."""
        self.world.crash(node)
        self.settle()

    def do_restart(self, node: str) -> None:
        self.world.start(node)
        self.settle()

    def do_wait(self, ms: str) -> None:
        """Time passes, and nothing happens."""
        self.world.now += int(ms) * MS

    def do_fire(self, node: str, timer: str) -> None:
        """Time passes until this timer is due, and it fires."""
        self.world.fire_timer(node, timer)
        self.settle()
