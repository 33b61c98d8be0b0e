"""Reads, writes and compare-and-sets on a key-value store, sent to any of its servers.

Nobody but the workload changes the objects, so the history holds every change, and the law ``linearizable`` can demand
one order that explains all of it. An object has a set of members whose version is its epoch (read, and changed by
compare-and-set: the model ``replica-info``) and a text, its address (read and written: the model ``register``). A
refused compare-and-set is an observation too: the epoch was another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from chaos.ops import Answer
from chaos.services import FIRST_TEXT, FIRST_VERSION, CanHoldObjects, Objects, text_key
from chaos.workload import Load, Outcome, Use, Worker
from workloads._objects import FIRST_MEMBER, RETRY_S, Guide, change_set, make, names_node, read_set

SET, ADDRESS = "replica-info", "register"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``clients`` together do ``rate_per_s`` operations on ``objects`` whose sets have up to ``members``; a share of
    ``writes`` of them are changes, the rest reads. ``drain_s`` bounds the reads of every object from every
    server at the end."""

    clients: int = field(default=24, metadata={"within": range(1, 1001)})
    objects: int = field(default=4, metadata={"within": range(1, 1001)})
    members: int = field(default=5, metadata={"within": range(2, 101)})
    rate_per_s: float = 100.0
    writes: float = 0.4
    drain_s: float = 20.0


@dataclass(slots=True)
class Register:
    options: Options
    needs: Sequence[type] = (CanHoldObjects,)
    uses: Sequence[Use] = (Use.OBJECTS,)
    _made: list[str] = field(default_factory=list)
    _addresses: int = 0

    async def run(self, load: Load) -> None:
        await load.gather(
            *(self._make(load, f"register-{number}") for number in range(self.options.objects)),
            *(self._use(load, number) for number in range(self.options.clients)),
        )

    async def drain(self, load: Load) -> None:
        """Read both keys of every object from each server."""
        deadline_ns = load.now_ns() + round(self.options.drain_s * 1e9)
        await load.gather(*(self._read_all(load, name, deadline_ns) for name in self._made))

    async def _make(self, load: Load, name: str) -> None:
        maker = f"{name}-maker"
        init = {SET: (FIRST_VERSION, FIRST_MEMBER), ADDRESS: (FIRST_TEXT,)}
        if await make(load, load.objects(maker), Worker(load, maker), name, init, numbers=self.options.members):
            self._made.append(name)

    async def _use(self, load: Load, number: int) -> None:
        """Do one operation after the other, evenly spaced; after a long one go on at the same pace."""
        client = _Client(load, f"register-client-{number}", self)
        rng = load.rng(f"register-client-{number}/pace")
        gap_ns = round(1e9 * self.options.clients / self.options.rate_per_s)
        due_ns = load.now_ns() + round(gap_ns * rng.random())
        while not load.stopping:
            wait_ns = due_ns - load.now_ns()
            due_ns = max(due_ns, load.now_ns()) + round(gap_ns * (0.5 + rng.random()))
            if wait_ns > 0:
                await load.sleep(wait_ns / 1e9)
            if self._made and not load.stopping:
                await client.operate(rng.choice(self._made))

    async def _read_all(self, load: Load, name: str, deadline_ns: int) -> None:
        client = _Client(load, f"{name}-reader", self)
        for node in client.objects.nodes:
            for read in (client.read_set, client.read_address):
                while not (await read(name, node)).ok and load.now_ns() < deadline_ns:
                    await load.sleep(RETRY_S)

    def next_address(self) -> str:
        """Return a value that nobody has written before."""
        self._addresses += 1
        return f"address-{self._addresses}"


class _Client:
    """One client. It knows an object's epoch from the answers to its own calls."""

    def __init__(self, load: Load, name: str, workload: Register) -> None:
        self.objects: Objects = load.objects(name)
        self._workload = workload
        self._worker = Worker(load, name)
        self._rng: Random = load.rng(name)
        self._guide = Guide(self.objects.nodes, self._rng)
        self._epochs: dict[str, int] = {}

    async def operate(self, name: str) -> None:
        """Do one operation that the seed draws. A client that doesn't know the set's epoch reads it first."""
        changes = self._rng.random() < self._workload.options.writes
        if self._rng.random() < 0.4:
            await (self._write_address(name) if changes else self.read_address(name, self._guide.any()))
        elif changes and name in self._epochs:
            await self._change_set(name)
        else:
            await self.read_set(name, self._guide.any())

    async def read_set(self, name: str, node: str) -> Outcome:
        async def read() -> Answer:
            return await read_set(self.objects, name, node)

        outcome = await self._worker.do("read", read, object=name, model=SET, to=node)
        epoch = outcome.answer.value.get("epoch")
        if outcome.ok and isinstance(epoch, int):
            self._epochs[name] = epoch
        return outcome

    async def _change_set(self, name: str) -> None:
        node, expected = self._guide.leader(), self._epochs.pop(name)
        others = range(FIRST_MEMBER + 1, self._workload.options.members + 1)
        members = [FIRST_MEMBER, *(member for member in others if self._rng.random() < 0.5)]

        async def change() -> Answer:
            return await change_set(self.objects, name, node, expected=expected, members=members)

        asked: dict[str, Any] = {"expected": expected, "members": members}
        outcome = await self._worker.do("cas", change, object=name, model=SET, to=node, **asked)
        epoch = outcome.answer.value.get("epoch")
        if outcome.ok and isinstance(epoch, int):
            self._epochs[name] = epoch
        self._guide.learn(node, took=outcome.ok or bool(outcome.answer.value.get("refused")))

    async def read_address(self, name: str, node: str) -> Outcome:
        async def read() -> Answer:
            with names_node(node):
                answer = await self.objects.read(text_key(name), node)
            return replace(answer, value={"address": answer.value["value"]})

        return await self._worker.do("read", read, object=name, model=ADDRESS, to=node)

    async def _write_address(self, name: str) -> None:
        node, address = self._guide.leader(), self._workload.next_address()

        async def write() -> Answer:
            with names_node(node):
                return await self.objects.write(text_key(name), node, address)

        outcome = await self._worker.do("write", write, object=name, model=ADDRESS, to=node, address=address)
        self._guide.learn(node, took=outcome.ok)


def create(options: Options) -> Register:
    return Register(options)
