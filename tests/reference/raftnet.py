"""A small seeded world for controllers and name servers: virtual time, breakable ordered links, disks that forget."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from chaos.deployments._sim.disk import SimDisk
from chaos.events import Event
from chaos.node import NOWHERE, Address, Node
from reference.wire.command import Command
from tests.free_events import fields_of, name_of
from tests.reference.seam import deliver

MS = 1_000_000


class WorldEnv:
    """The environment of one life of one node; a crash makes it deaf and mute."""

    def __init__(self, world: World, name: str, incarnation: int) -> None:
        self.world, self.name, self.incarnation = world, name, incarnation
        self.rng = Random(f"{world.seed}/{name}/{incarnation}")
        self.disk = world.disks[name]
        self.timers: dict[str, int] = {}
        self.pending: set[int] = set()
        self.held: dict[str, list[tuple[int | None, Command]]] = {}
        self.acted = 0  # how often the node has sent or traced something

    @property
    def live(self) -> bool:
        return self.world.envs.get(self.name) is self

    def send(self, to: str, message: Command, *, after: int | None = None) -> None:
        self.acted += 1
        queue = self.held.setdefault(to, [])
        queue.append((after if after in self.pending else None, message))
        self.release()

    def release(self) -> None:
        for to, queue in self.held.items():
            while queue and (queue[0][0] is None or queue[0][0] not in self.pending):
                self.world.transmit(self.name, to, queue.pop(0)[1])

    def endpoints(self, peer: str) -> tuple[Address, Address]:
        return NOWHERE, NOWHERE

    def close(self, peer: str) -> None:
        self.world.cut(self.name, peer)

    def set_timer(self, name: str, delay_ns: int) -> None:
        number = self.timers[name] = self.world.number()
        self.world.at(delay_ns, lambda: self.fire(name, number))

    def fire(self, name: str, number: int) -> None:
        if self.live and self.timers.get(name) == number:
            if self.name in self.world.paused:
                self.world.at(10 * MS, lambda: self.fire(name, number))
                return
            del self.timers[name]
            self.world.nodes[self.name].timer(self, name)

    def cancel_timer(self, name: str) -> None:
        self.timers.pop(name, None)

    def mono_ns(self) -> int:
        return self.world.now

    def wall_ns(self) -> int:
        return self.world.now

    def trace(self, event: Event) -> None:
        self.acted += 1
        self.world.traces.append((self.name, self.incarnation, name_of(event), fields_of(event)))

    def synced(self, token: int) -> None:
        if not self.live:
            return
        self.pending.discard(token)
        self.disk.finish(token)
        self.release()
        self.world.nodes[self.name].done(self, token)


class World:
    """Nodes by name. ``run`` moves time; ``clients`` receive what is sent to a name that is no node."""

    env_class = WorldEnv

    def __init__(self, seed: int, make: dict[str, Callable[[], Node]]) -> None:
        self.seed, self.make = seed, make
        self.rng = Random(seed)
        self.now = 0
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.counter = 0
        self.nodes: dict[str, Any] = {}
        self.envs: dict[str, WorldEnv] = {}
        self.lives: dict[str, int] = {}
        self.traces: list[tuple[str, int, str, dict[str, Any]]] = []
        self.inbox: list[tuple[str, str, Command]] = []
        self.blocked: set[tuple[str, str]] = set()
        self.paused: set[str] = set()
        self.connection: dict[frozenset[str], int] = {}
        self.arrival: dict[tuple[str, str], int] = {}
        self.delay_ms = (1, 5)
        self.disks: dict[str, SimDisk] = {}
        for name in make:
            self.disks[name] = SimDisk(lambda token, size, name=name: self.on_sync(name, token))
            self.start(name)

    def number(self) -> int:
        self.counter += 1
        return self.counter

    def at(self, delay_ns: int, call: Callable[[], None]) -> None:
        heapq.heappush(self.heap, (self.now + max(0, delay_ns), self.number(), call))

    def run(self, ms: int, until: Callable[[], bool] | None = None) -> None:
        end = self.now + ms * MS
        while self.heap and self.heap[0][0] <= end:
            if until is not None and until():
                return
            self.now, _, call = heapq.heappop(self.heap)
            call()
        self.now = end

    def on_sync(self, name: str, token: int) -> None:
        env = self.envs[name]
        env.pending.add(token)
        due = max(self.arrival.get((name, "disk"), 0) + 1, self.now + self.rng.randint(1, 8) * MS)
        self.arrival[name, "disk"] = due
        self.at(due - self.now, lambda: env.synced(token))

    def start(self, name: str) -> None:
        self.lives[name] = self.lives.get(name, 0) + 1
        self.nodes[name] = self.make[name]()
        env = self.envs[name] = self.env_class(self, name, self.lives[name])
        self.nodes[name].start(env)

    def crash(self, name: str) -> None:
        del self.envs[name]
        self.disks[name].crash(self.rng)
        for other in self.names(but=name):
            self.cut(name, other)

    def names(self, but: str = "") -> Iterable[str]:
        return [name for name in self.make if name != but]

    def cut(self, one: str, other: str) -> None:
        """Break the connection: what is under way is lost and both ends hear of it."""
        pair = frozenset((one, other))
        self.connection[pair] = self.connection.get(pair, 0) + 1
        for here, there in ((one, other), (other, one)):
            self.at(MS, lambda here=here, there=there: self.tell_closed(here, there))

    def tell_closed(self, name: str, peer: str) -> None:
        if name in self.envs:
            self.nodes[name].closed(self.envs[name], peer)

    def block(self, one: str, other: str) -> None:
        self.blocked |= {(one, other), (other, one)}

    def isolate(self, name: str) -> None:
        for other in self.names(but=name):
            self.block(name, other)

    def heal(self) -> None:
        self.blocked.clear()
        self.paused.clear()
        for name in self.make:
            if name not in self.envs:
                self.start(name)

    def transmit(self, source: str, to: str, message: Command) -> None:
        if to not in self.make:
            self.inbox.append((source, to, message))
            return
        if (source, to) in self.blocked or to not in self.envs:
            return
        connection = self.connection.get(frozenset((source, to)), 0)
        due = max(self.arrival.get((source, to), 0) + 1, self.now + self.rng.randint(*self.delay_ms) * MS)
        self.arrival[source, to] = due
        self.at(due - self.now, lambda: self.arrive(source, to, message, connection))

    def arrive(self, source: str, to: str, message: Command, connection: int) -> None:
        if self.connection.get(frozenset((source, to)), 0) != connection or (source, to) in self.blocked:
            return
        if to in self.paused:
            self.at(10 * MS, lambda: self.arrive(source, to, message, connection))
        elif to in self.envs:
            deliver(self.nodes[to], self.envs[to], source, message)
