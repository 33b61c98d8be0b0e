"""A small cluster for broker tests, in the simulator: one controller, brokers and, if wanted, an object store. Parts
of the brokers can be replaced (``PARTS``), to make narrow windows wide."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos.deployments import sim
from chaos.driver import ClusterSpec, Disconnected
from chaos.fault import Undo, Verb
from chaos.node import NodeSpec
from reference.broker.node import Broker
from reference.broker.versions import parts_of
from reference.controller.node import Controller
from reference.objectstore.node import ObjectStore
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request
from reference.wire.command import Command

TOPIC = "storm"
PACKAGE = __name__
PARTS: dict[str, Any] = {}


def build(spec: NodeSpec) -> Any:
    if spec.role == "controller":
        return Controller(spec)
    if spec.role == "objectstore":
        return ObjectStore(spec)
    return Broker(spec, **{**parts_of(spec.options), **PARTS})


class Cluster:
    """A cluster in the simulator, its trace, and a client that asks one node at a time."""

    def __init__(
        self, *, brokers: int = 3, seed: int = 1, tier: bool = False, first: Sequence[int] = (), **options: object
    ) -> None:
        """``first``: the numbers of brokers whose logs have the first version."""
        self.world = sim.create(run_id="test", directory=Path("/nonexistent"), seed=seed)
        self.trace: list[Mapping[str, Any]] = []
        self.brokers = tuple(f"broker-{number}" for number in range(brokers))
        settings: dict[str, object] = {
            "controllers": ["controller-0"],
            "topics": {TOPIC: 2},
            "segment_bytes": 4096,
            "min_in_sync": min(2, brokers),
            "ack_timeout_ms": 1000,
            "objectstore": "store-0" if tier else "",
            "tier_segment_bytes": 1024,
            "tier_max_age_ms": 200,
            **options,
        }
        nodes = [self._spec("controller-0", "controller", {})]
        nodes += [self._spec("store-0", "objectstore", {})] if tier else []
        nodes += [
            self._spec(name, "broker", {**settings, "log_version": 1 if number in first else 2})
            for number, name in enumerate(self.brokers)
        ]
        self._cluster = ClusterSpec(nodes=nodes, codec=RemotingCodec())
        self._sent = 0

    def _spec(self, name: str, role: str, options: Mapping[str, object]) -> NodeSpec:
        return NodeSpec(name=name, role=role, package=PACKAGE, options=options)

    def run(self, test: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start, wait until every replica is in sync, and run the test in virtual time; no node may crash."""

        async def main() -> int:
            await self.world.start(self._cluster, self.trace.append)
            await self.settled(self.brokers)
            await test()
            await self.world.stop()
            return 0

        self.world.execute(main())
        assert self.world.crashes == []

    # Asking

    async def ask(self, node: str, code: int, fields: Mapping[str, str], body: bytes = b"") -> Command | None:
        """None when there is no answer."""
        request = Command(code=code, fields=fields, body=body)
        try:
            return await self.world.connect("client", node).request(request, 3.0)
        except (TimeoutError, Disconnected):
            return None

    async def send(self, node: str, queue: int = 0, body: bytes = b"") -> Command | None:
        self._sent += 1
        key = f"i\x01x\x02UNIQ_KEY\x01{self._sent:032X}\x02"
        fields = {"a": "p", "b": TOPIC, "c": "", "d": "4", "e": str(queue), "f": "0", "g": "0", "h": "0", "i": key}
        return await self.ask(node, Request.SEND_MESSAGE_V2, fields, body or b"body-%d" % self._sent)

    async def pull(self, node: str, offset: int, queue: int = 0, **more: str) -> Command | None:
        fields = {"consumerGroup": "g", "topic": TOPIC, "queueId": str(queue), "queueOffset": str(offset)}
        return await self.ask(node, Request.PULL_MESSAGE, {**fields, "maxMsgNums": "32", "sysFlag": "0", **more})

    async def state(self, node: str, code: int = Request.DESCRIBE, **fields: str) -> dict[str, Any]:
        answer = await self.ask(node, code, fields)
        return json.loads(answer.body) if answer is not None and answer.code == 0 else {}

    async def log(self, node: str) -> list[list[Any]]:
        """Every record of a replica."""
        rows: list[list[Any]] = []
        position, end = -1, 0
        while position < end:
            part = await self.state(node, Request.READ_LOG, position=str(position))
            rows, position, end = rows + part["records"], part["next"], part["end"]
        return rows

    async def master(self, within_s: float = 20.0) -> str:
        for _ in range(round(within_s / 0.05)):
            states = [(await self.state(name), name) for name in self.brokers]
            ready = [
                (state["epoch"], name) for state, name in states if state.get("role") == "master" and state["ready"]
            ]
            if ready:
                return max(ready)[1]
            await asyncio.sleep(0.05)
        raise AssertionError("no master")

    async def settled(self, members: tuple[str, ...], within_s: float = 30.0) -> str:
        """Wait until the SyncStateSet is exactly that and everybody has everything; returns the master."""
        told: dict[str, Any] = {}
        for _ in range(round(within_s / 0.05)):
            master = await self.master()
            told = {name: await self.state(name) for name in members}
            same = {(state.get("end"), state.get("confirm")) for state in told.values()}
            state = told.get(master, {})
            complete = len(same) == 1 and state.get("end") == state.get("confirm") and state.get("queues")
            if complete and sorted(state.get("set", ())) == sorted(members):
                return master
            await asyncio.sleep(0.05)
        raise AssertionError(f"not settled: {told}")

    async def settled_set(self, members: tuple[str, ...], within_s: float = 30.0) -> None:
        """Wait until the SyncStateSet is exactly that, while traffic goes on."""
        for _ in range(round(within_s / 0.05)):
            states = [await self.state(name) for name in self.brokers]
            if any(sorted(state.get("set", ())) == sorted(members) for state in states):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"the set never became {members}")

    # Faults

    async def start(self, node: str) -> None:
        await self.world.undo(Undo(verb=Verb.START, subject=node))

    def damage(self, node: str, path: str = "", at: int = 500) -> None:
        """Flip a bit on a node's disk, in the first segment of its log unless told otherwise."""
        disk = self.world._nodes[node].disk
        path = path or disk.list("log/")[0]
        byte = disk.read(path, at, 1)[0]
        disk.write(path, at, bytes([byte ^ 1]))

    def rows(self, f: str, node: str = "") -> list[Mapping[str, Any]]:
        return [row for row in self.trace if row["f"] == f and node in ("", row["node"])]
