"""Small nodes for tests of the simulator, and a busy run of them that prints a digest of its full trace."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.deployments import sim
from chaos.driver import ClusterSpec, Disconnected
from chaos.effects.links import Drop, LinkRule
from chaos.fault import NotNow, Undo, Verb
from chaos.node import Env, NodeSpec
from chaos.plain import PlainMessage
from chaos.tasks import Group, gather
from tests.free_events import Free

PACKAGE = "tests.chaos.deployments.sim_toys"
ECHO, WRITE, GOSSIP, FAIL, LATER, COUNT = range(1, 7)


class Echo:
    """Answers at once. ``FAIL`` raises, ``LATER`` answers by a timer."""

    def __init__(self, spec: NodeSpec) -> None:
        self.peers = [str(name) for name in spec.options.get("peers", ())]  # type: ignore[attr-defined]
        self.later: list[tuple[str, PlainMessage]] = []

    def start(self, env: Env) -> None:
        env.trace(Free("start", wall=env.wall_ns()))

    def message(self, env: Env, source: str, message: PlainMessage) -> None:
        env.trace(Free("got", source=source, code=message.kind, text=message.body.decode()))
        if message.kind == FAIL:
            raise ValueError("asked to fail")
        if message.kind == LATER:
            self.later.append((source, message))
            env.set_timer("later", int(message.fields["delay_ns"]))
        elif message.kind == GOSSIP and not message.is_response:
            for peer in self.peers:
                env.send(peer, PlainMessage(kind=COUNT, is_oneway=True, body=message.body))
            env.send(source, message.reply())
        elif not message.is_oneway:
            env.send(source, message.reply(body=message.body))

    def timer(self, env: Env, name: str) -> None:
        env.trace(Free("timer", name=name, mono=env.mono_ns()))
        for source, message in self.later:
            env.send(source, message.reply())
        self.later.clear()

    def done(self, env: Env, token: int) -> None:
        raise AssertionError("this node never syncs")

    def closed(self, env: Env, peer: str) -> None:
        env.trace(Free("closed", peer=peer))


class Writer(Echo):
    """Appends each written body to a file and answers after the sync; ticks and gossips by itself."""

    def start(self, env: Env) -> None:
        size = env.disk.size("log")
        env.trace(Free("start", position=size, content=env.disk.read("log").decode() if size > 0 else ""))
        env.set_timer("tick", 5_000_000)

    def message(self, env: Env, source: str, message: PlainMessage) -> None:
        if message.kind == WRITE:
            end = max(0, env.disk.size("log"))
            env.disk.write("log", end, message.body)
            env.trace(Free("append", position=end, size=len(message.body)))
            env.send(source, message.reply(body=str(end).encode()), after=env.disk.sync(["log"]))
        else:
            super().message(env, source, message)

    def timer(self, env: Env, name: str) -> None:
        env.set_timer("tick", env.rng.randint(1_000_000, 10_000_000))
        for peer in self.peers:
            env.send(peer, PlainMessage(kind=COUNT, is_oneway=True, body=env.name.encode()))

    def done(self, env: Env, token: int) -> None:
        env.trace(Free("synced", position=env.disk.size("log"), token=token))


def build(spec: NodeSpec) -> Echo:
    return {"echo": Echo, "writer": Writer}[spec.role](spec)


class NoCodec:
    def encode(self, message: PlainMessage) -> bytes:
        raise NotImplementedError

    def decode(self, buffer: bytearray) -> list[PlainMessage]:
        raise NotImplementedError


def cluster(role: str = "echo", count: int = 1) -> ClusterSpec:
    names = [f"{role}-{i}" for i in range(count)]
    specs = [
        NodeSpec(name=n, role=role, package=PACKAGE, options={"peers": [p for p in names if p != n]}) for n in names
    ]
    return ClusterSpec(nodes=specs, codec=NoCodec())


class World:
    """A simulated cluster and all its trace rows."""

    def __init__(self, spec: ClusterSpec, seed: int = 1) -> None:
        self.sim = sim.create(run_id="toy", directory=Path("/nonexistent"), seed=seed)
        self.rows: list[dict[str, Any]] = []
        self.spec = spec

    def run(self, script: Callable[[World], Coroutine[Any, Any, None]]) -> World:
        async def main() -> int:
            await self.sim.start(self.spec, lambda row: self.rows.append(dict(row)))
            await script(self)
            await self.sim.stop()
            return 7

        assert self.sim.execute(main()) == 7
        return self

    def of(self, f: str, node: str = "") -> list[dict[str, Any]]:
        return [row for row in self.rows if row["f"] == f and node in ("", row["node"])]

    async def ask(
        self, node: str, code: int, body: bytes = b"", *, timeout_s: float = 1.0, **fields: str
    ) -> PlainMessage:
        return await self.sim.connect("client", node).request(
            PlainMessage(kind=code, body=body, fields=fields), timeout_s
        )


async def busy(world: World) -> None:
    """Load with every fault that the simulator has."""

    async def client(name: str) -> None:
        for number in range(150):
            node = f"writer-{number % 3}"
            try:
                await world.sim.connect(name, node).request(
                    PlainMessage(kind=WRITE, body=f"{name}.{number};".encode()), 0.2
                )
            except (Disconnected, TimeoutError) as error:
                world.rows.append({"f": "error", "node": node, "text": str(error), "at": world.sim.now_ns()})
            await asyncio.sleep(0.004)

    async def faults() -> None:
        for number in range(5):
            await asyncio.sleep(0.05)
            await world.sim.kill(f"writer-{number % 3}")
            await world.sim.pause(f"writer-{(number + 1) % 3}")
            sides = frozenset({"writer-0"}), frozenset({"*"})
            await world.sim.set_rule("cut", LinkRule(*sides, Drop()))
            await world.sim.hang_io(f"writer-{(number + 2) % 3}")
            with suppress(NotNow):  # it is down now and then
                await world.sim.set_clock("writer-2", jump_ns=10**9, drift_ppm=100_000)
            await asyncio.sleep(0.05)
            for verb in Verb:
                kind = "/io" if verb is Verb.RELEASE else ""
                for subject in ["cut"] if verb is Verb.CLEAR_RULE else [f"writer-{i}{kind}" for i in range(3)]:
                    await world.sim.undo(Undo(verb=verb, subject=subject))

    async with Group() as group:
        group.start(faults())
        await gather(*(client(f"client-{i}") for i in range(4)))


def digest(seed: int) -> str:
    world = World(cluster("writer", 3), seed).run(busy)
    assert len(world.rows) > 1000 and len(world.of("start")) == 8 and not world.sim.crashes
    return hashlib.sha256(json.dumps(world.rows, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    print(digest(int(sys.argv[1])))
