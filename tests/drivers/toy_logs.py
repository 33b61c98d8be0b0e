"""The toy with three queues that are logs: readers with positions, groups with members, and transactions.

One of :data:`tests.drivers.toy_log_node.BUGS` can be planted: ``ToyLogs("aborted-readable")``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.driver import Evidence, Network, Record
from chaos.node import NodeSpec
from chaos.ops import Answer, Delivered, Failed, QueueRef
from chaos.workload import body_hash
from tests.drivers import toy_log_node
from tests.drivers.toy import MEMORIES, Toy, ToyClient, ask
from tests.drivers.toy_log_node import SESSION_S, LogNode, Logs

PACKAGE = "stormproof_toy_with_logs"
sys.modules[PACKAGE] = sys.modules[__name__]
QUEUES = tuple(QueueRef(index=index, topic="t", queue_id=index) for index in range(toy_log_node.QUEUES))


def build(spec: NodeSpec) -> LogNode:
    memory = MEMORIES[int(str(spec.options["memory"]))]
    assert isinstance(memory, Logs)
    return LogNode(memory, str(spec.options.get("bug", "")))


def messages_of(got: Mapping[str, Any]) -> tuple[Delivered, ...]:
    return tuple(
        Delivered(queue=queue, offset=at, message=key, hash=body_hash(bytes.fromhex(body)))
        for queue, at, key, body in got["found"]
    )


def by_index(offsets: Mapping[QueueRef, int]) -> dict[str, int]:
    return {str(queue.index): offset for queue, offset in offsets.items()}


def fenced(node: str) -> Failed:
    return Failed("fenced", Answer(node=node, value={"fenced": True}))


class Asking:
    """A client of the leader."""

    network: Network
    name: str
    leader: str

    async def ask(self, do: str, **what: object) -> Any:
        return await ask(self.network, self.name, self.leader, do, **what)

    def close(self) -> None: ...


class LogClient(Asking, ToyClient):
    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        offset, leader = await self.ask("take", queue=queue.index, key=key, body=body.hex())
        return Answer(node=leader, offset=offset)

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        mine = str(queue.index)
        got = await self.ask("read_on", positions={mine: offset}, limit=limit)
        ends = {"minimum": 0, "maximum": got["ends"][mine], "following": got["following"][mine]}
        return Answer(node=self.leader, messages=messages_of(got), **ends)

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        await self.ask("store", group=group, offsets={queue.index: offset})
        return Answer(node=self.leader, offset=offset)

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        return Answer(node=self.leader, offset=await self.ask("stored", group=group, queue=queue.index))

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        return await self.pull(queue, 0, limit=0)


@dataclass
class Positions(Asking):
    """A client with positions."""

    network: Network
    name: str
    leader: str
    positions: dict[str, int] = field(default_factory=dict)

    def answer(self, **more: Any) -> Answer:
        value = {**more.pop("value", {}), "following": dict(self.positions)}
        return Answer(node=self.leader, value=value, **more)

    async def poll(self, limit: int) -> Answer:
        got = await self.ask("poll", positions=self.positions, limit=limit)
        self.positions = got["following"]
        return self.answer(messages=messages_of(got))


@dataclass
class ToyReader(Positions):
    async def assign(self, queues: Sequence[QueueRef]) -> Answer:
        self.positions = {str(queue.index): self.positions.get(str(queue.index), 0) for queue in queues}
        return self.answer()

    async def seek(self, queue: QueueRef, offset: int) -> Answer:
        mine = str(queue.index)
        at = offset if offset >= 0 else (await self.ask("read_on", positions={mine: 0}, limit=0))["ends"][mine]
        self.positions[mine] = at
        return self.answer(offset=at)


@dataclass
class ToyProducer(Asking):
    network: Network
    name: str
    leader: str
    id: str = ""
    epoch: int = -1
    number: int = 0

    async def ask_owner(self, do: str, **what: object) -> Any:
        return await self.ask(do, id=self.id, epoch=self.epoch, **what)

    async def take_over(self) -> Answer:
        self.epoch = await self.ask("take_over", id=self.id)
        return Answer(node=self.leader, value={"epoch": self.epoch})

    async def begin(self) -> Answer:
        if not await self.ask_owner("begin", number=self.number + 1):
            raise fenced(self.leader)
        self.number += 1
        return Answer(node=self.leader)

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        offset = await self.ask_owner("append_in", queue=queue.index, key=key, body=body.hex())
        if offset < 0:
            raise fenced(self.leader)
        return Answer(node=self.leader, offset=offset)

    async def commit_offsets(self, group: str, offsets: Mapping[QueueRef, int]) -> Answer:
        if not await self.ask_owner("store_in", group=group, offsets=by_index(offsets)):
            raise fenced(self.leader)
        return Answer(node=self.leader)

    async def end(self, *, commit: bool) -> Answer:
        if not await self.ask_owner("end", number=self.number, commit=commit):
            raise fenced(self.leader)
        return Answer(node=self.leader)


@dataclass
class ToyMember(Positions):
    group: str = ""
    generation: int = -1
    session_s: float = SESSION_S

    def _adopt(self, told: Mapping[str, Any]) -> Answer:
        value = dict(told)
        stored = value.pop("stored")
        self.generation = value["generation"]
        self.positions = {queue: self.positions.get(queue, at) for queue, at in stored.items()}
        return self.answer(value=value)

    async def join(self, topics: Sequence[str]) -> Answer:
        self.positions = {}
        return self._adopt(await self.ask("join", group=self.group, member=self.name))

    async def heartbeat(self) -> Answer:
        told = await self.ask("heartbeat", group=self.group, member=self.name)
        if told is None:
            raise fenced(self.leader)
        return self._adopt(told)

    async def commit(self, offsets: Mapping[QueueRef, int]) -> Answer:
        mine = {"group": self.group, "member": self.name, "generation": self.generation}
        if not await self.ask("store_of_member", offsets=by_index(offsets), **mine):
            raise fenced(self.leader)
        return Answer(node=self.leader)

    async def leave(self) -> Answer:
        await self.ask("leave", group=self.group, member=self.name)
        self.positions = {}
        return self.answer()


class ToyLogs(Toy):
    """The driver."""

    package = PACKAGE

    def __init__(self, bug: str = "") -> None:
        super().__init__(Logs())
        self._bug = bug

    def broker(self, node: str, mutant: str) -> NodeSpec:
        options = {"memory": self._number, "bug": mutant or self._bug}
        return NodeSpec(name=node, role="broker", package=PACKAGE, options=options)

    def queues(self) -> tuple[QueueRef, ...]:
        return QUEUES

    def client(self, network: Network, name: str) -> LogClient:
        return LogClient(network, name, "node-0")

    def log_reader(self, network: Network, name: str) -> ToyReader:
        return ToyReader(network, name, "node-0")

    def transactions(self, network: Network, name: str, *, id: str) -> ToyProducer:
        return ToyProducer(network, name, "node-0", id=id)

    def group_member(self, network: Network, name: str, group: str) -> ToyMember:
        return ToyMember(network, name, "node-0", group=group)

    async def collect(self, network: Network, record: Record) -> None:
        """Record nothing: what a log holds of aborted transactions nobody is to read."""

    def evidence(self) -> frozenset[Evidence]:
        return frozenset()
