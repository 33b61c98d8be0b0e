"""A small system with every power, whose driver is right: what ``check_driver`` finds in it is planted by a test.

Its nodes share one memory, so that there is nothing to replicate and nothing to recover.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from chaos.driver import (
    ClusterSpec,
    ClusterView,
    Disconnected,
    Evidence,
    Network,
    Profile,
    Record,
    ReplicaGroup,
    TierRule,
)
from chaos.effects.links import HARNESS
from chaos.node import Env, NodeSpec
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown
from chaos.plain import PlainMessage
from chaos.services import FIRST_SET, FIRST_TEXT, FIRST_VERSION
from chaos.workload import body_hash
from tests.free_events import Free

PACKAGE = "stormproof_toy_with_powers"
sys.modules[PACKAGE] = sys.modules[__name__]
ASK_S = 0.5
GROUP = "p-0"


@dataclass
class Memory:
    """All that the system knows."""

    log: list[tuple[int, bytes]] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    sets: dict[str, tuple[int, list[int]]] = field(default_factory=dict)
    leader: str = "node-0"
    epoch: int = 1
    out: set[str] = field(default_factory=set)  # who is not in sync
    rule: str = ""
    hits: int = 0


MEMORIES: list[Memory] = []


class Node:
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def start(self, env: Env) -> None:
        self._memory.out.discard(env.name)
        env.trace(Free("role", epoch=self._memory.epoch, role="master" if env.name == self._memory.leader else "slave"))

    def message(self, env: Env, source: str, message: PlainMessage) -> None:
        asked = json.loads(message.body)
        env.trace(Free("asked", what=asked["do"]))
        answer = getattr(self, asked.pop("do"))(**asked)
        env.send(source, message.reply(body=json.dumps(answer).encode()))

    def send(self, key: str, body: str) -> int:
        self._memory.log.append((int(key, 16), bytes.fromhex(body)))
        self._memory.hits += bool(self._memory.rule)
        return len(self._memory.log) - 1

    def pull(self, offset: int, limit: int) -> dict[str, Any]:
        log = self._memory.log
        found = [[at, log[at][0], log[at][1].hex()] for at in range(offset, min(len(log), offset + limit))]
        return {"found": found, "end": len(log)}

    def commit(self, group: str, offset: int) -> None:
        self._memory.offsets[group] = offset

    def committed(self, group: str) -> int:
        return self._memory.offsets.get(group, -1)

    def state(self) -> dict[str, Any]:
        return {"leader": self._memory.leader, "epoch": self._memory.epoch, "out": sorted(self._memory.out)}

    def switch(self, target: str) -> None:
        self._memory.leader, self._memory.epoch = target, self._memory.epoch + 1

    def remove(self, gone: str) -> bool:
        if gone == self._memory.leader:
            return False
        self._memory.out.add(gone)
        return True

    def rule(self, rule: str) -> None:
        self._memory.rule, self._memory.hits = rule, 0

    def hits(self) -> int:
        return self._memory.hits

    def create(self, name: str) -> None:
        self._memory.texts.setdefault(f"{name}/text", FIRST_TEXT)
        self._memory.sets.setdefault(f"{name}/set", (FIRST_VERSION, list(FIRST_SET)))

    def read(self, key: str) -> dict[str, Any]:
        if key in self._memory.texts:
            return {"value": self._memory.texts[key]}
        version, value = self._memory.sets.get(key, (0, None))
        return {"value": value, "version": version}

    def write(self, key: str, value: str) -> None:
        self._memory.texts[key] = value

    def compare_and_set(self, key: str, expected: int, value: list[int]) -> int:
        if self._memory.sets[key][0] != expected:
            return 0
        self._memory.sets[key] = (expected + 1, value)
        return expected + 1

    def timer(self, env: Env, name: str) -> None: ...

    def done(self, env: Env, token: int) -> None: ...

    def closed(self, env: Env, peer: str) -> None: ...


def build(spec: NodeSpec) -> Node:
    return Node(MEMORIES[int(str(spec.options["memory"]))])


async def ask(network: Network, client: str, node: str, do: str, **what: object) -> Any:
    """Raises what a client raises."""
    message = PlainMessage(kind=1, body=json.dumps({"do": do, **what}).encode())
    try:
        return json.loads((await network.connect(client, node).request(message, ASK_S)).body)
    except TimeoutError as error:
        raise Unknown("timeout") from error
    except Disconnected as error:
        raise (Unknown if error.sent else Failed)(str(error)) from error


@dataclass
class ToyClient:
    network: Network
    name: str
    leader: str

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        offset = await ask(self.network, self.name, self.leader, "send", key=key, body=body.hex())
        return Answer(node=self.leader, offset=offset)

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        got = await ask(self.network, self.name, self.leader, "pull", offset=offset, limit=limit)
        messages = tuple(
            Delivered(offset=at, message=key, hash=body_hash(bytes.fromhex(body))) for at, key, body in got["found"]
        )
        following = offset + len(messages)
        return Answer(node=self.leader, minimum=0, maximum=got["end"], following=following, messages=messages)

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        await ask(self.network, self.name, self.leader, "commit", group=group, offset=offset)
        return Answer(node=self.leader, offset=offset)

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        offset = await ask(self.network, self.name, self.leader, "committed", group=group)
        return Answer(node=self.leader, offset=offset)

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        got = await ask(self.network, self.name, self.leader, "pull", offset=0, limit=0)
        return Answer(node=self.leader, minimum=0, maximum=got["end"])

    def close(self) -> None: ...


@dataclass
class ToyObjects:
    network: Network
    name: str
    nodes: tuple[str, ...]

    async def create(self, name: str, node: str, *, numbers: int) -> Answer:
        await ask(self.network, self.name, node, "create", name=name)
        return Answer(node=node)

    async def read(self, key: str, node: str) -> Answer:
        return Answer(node=node, value=await ask(self.network, self.name, node, "read", key=key))

    async def write(self, key: str, node: str, value: str) -> Answer:
        await ask(self.network, self.name, node, "write", key=key, value=value)
        return Answer(node=node)

    async def compare_and_set(self, key: str, node: str, *, expected: int, value: Any) -> Answer:
        what = {"key": key, "expected": expected, "value": list(value)}
        version = await ask(self.network, self.name, node, "compare_and_set", **what)
        if not version:
            raise Failed("another version", Answer(node=node, value={"refused": True}))
        return Answer(node=node, value={"version": version})


class Toy:
    """The driver. ``memory`` may be looked into by tests, never by the driver. ``package`` builds its nodes."""

    package: ClassVar[str] = PACKAGE

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        MEMORIES.append(self.memory)
        self._number = len(MEMORIES) - 1
        self.known = ("node-0", "node-1", "node-2")

    def broker(self, node: str, mutant: str) -> NodeSpec:
        return NodeSpec(name=node, role="broker", package=self.package, options={"memory": self._number})

    def cluster(self, mutant: str) -> ClusterSpec:
        store = NodeSpec(name="store-0", role="store", package=self.package, options={"memory": self._number})
        nodes = [*(self.broker(name, mutant) for name in self.known), store]
        return ClusterSpec(nodes=nodes, codec=None)

    def queues(self) -> tuple[QueueRef, ...]:
        return (QueueRef(index=0, topic="t", queue_id=0),)

    def profile(self) -> Profile:
        return Profile()

    def client(self, network: Network, name: str) -> ToyClient:
        return ToyClient(network, name, "node-0")

    def objects(self, network: Network, name: str) -> ToyObjects:
        return ToyObjects(network, name, self.known)

    async def _state(self, network: Network) -> dict[str, Any]:
        for name in self.known:
            try:
                state: dict[str, Any] = await ask(network, HARNESS, name, "state")
            except (Failed, Unknown):
                continue
            return state
        return {}

    def group(self, state: Mapping[str, Any]) -> ReplicaGroup:
        in_sync = tuple(name for name in self.known if name not in state["out"])
        return ReplicaGroup(
            name=GROUP, replicas=self.known, leader=state["leader"], epoch=state["epoch"], in_sync=in_sync
        )

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        state = await self._state(network)
        if record:
            op = record("poll", type="invoke", f="state", node="node-0")
            record("poll", type="ok", f="state", node="node-0", op=op, value=state)
        if not state:
            return ClusterView(groups=(ReplicaGroup(name=GROUP, replicas=self.known),), tier=("store-0",))
        settled = not state["out"]
        return ClusterView(groups=(self.group(state),), tier=("store-0",), settled=settled, newcomers=self.newcomers())

    async def collect(self, network: Network, record: Record) -> None:
        for name in self.known:
            try:
                await ask(network, HARNESS, name, "state")
            except (Failed, Unknown):
                continue
            record("final", f="log", node=name, offset=0)
            record("final", f="complete", node=name)

    # Powers

    async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        await ask(network, HARNESS, "node-0", "switch", target=target)
        return {"to": target}

    async def force_switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        return await self.switch(network, target, group)

    async def remove_broker(self, network: Network, node: str) -> Mapping[str, object]:
        if not await ask(network, HARNESS, "node-0", "remove", gone=node):
            raise Failed("it leads")
        return {"removed": node}

    def newcomers(self) -> tuple[str, ...]:
        return ("node-3",)[len(self.known) - 3 :]

    async def welcome(self, network: Network, node: str) -> Mapping[str, object]:
        self.known = (*self.known, node)
        return {"joined": True}

    async def break_tier(self, network: Network, rule_id: str, rule: TierRule) -> None:
        await ask(network, HARNESS, "store-0", "rule", rule=rule_id)

    async def mend_tier(self, network: Network, rule_id: str) -> None:
        await ask(network, HARNESS, "store-0", "rule", rule="")

    async def tier_hits(self, network: Network, rule_id: str) -> int:
        hits: int = await ask(network, HARNESS, "store-0", "hits")
        return hits

    def events(self) -> tuple[str, ...]:
        return ("role", "asked")

    def evidence(self) -> frozenset[Evidence]:
        return frozenset({Evidence.POLLS, Evidence.FINAL_LOGS, Evidence.ROLES})
