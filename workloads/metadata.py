"""Metadata is made, changed and deleted through the servers of its log, and read through every node.

The entries are topics, routes, subscription groups and owners of offsets.

Reads and changes through the servers of the log are operations on objects, for the law ``linearizable``: half of the
entries are changed by compare-and-set on their version (the model ``replica-info``, whose epoch is the version), the
others are overwritten (``register``). What any other node answers is its view, for the law ``watched-views``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from chaos.ops import Answer, Failed, Unknown
from chaos.services import CanKeepMetadata, Metadata
from chaos.workload import Load, Outcome, Use, Worker
from workloads._objects import RETRY_S, Guide, names_node

COMPARED, OVERWRITTEN = "replica-info", "register"
#: Of the changes, this share deletes; of the compare-and-sets, this share comes right after a read.
DELETIONS, FRESH = 0.2, 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``clients`` together do ``rate_per_s`` operations on ``entries`` of each kind: a share of ``writes`` changes
    them, a share of ``views`` asks nodes that follow, the rest reads from the servers of the log. At the end each
    entry is read from every node; a view that is not up to date is waited for as long as ``drain_s``."""

    clients: int = field(default=16, metadata={"within": range(1, 1001)})
    entries: int = field(default=2, metadata={"within": range(1, 101)})
    rate_per_s: float = 100.0
    writes: float = 0.3
    views: float = 0.4
    drain_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry, and the model that operations on it follow."""

    key: str
    model: str


@dataclass(slots=True)
class MetadataLoad:
    options: Options
    needs: Sequence[type] = (CanKeepMetadata,)
    uses: Sequence[Use] = (Use.OBJECTS, Use.METADATA)
    #: Those whose state at the beginning is known.
    _entries: list[Entry] = field(default_factory=list)
    _numbers: int = 0

    async def run(self, load: Load) -> None:
        kinds = load.metadata("metadata-kinds").kinds
        entries = [
            Entry(f"{kind}/metadata-{number}", OVERWRITTEN if number % 2 else COMPARED)
            for kind in kinds
            for number in range(self.options.entries)
        ]
        await load.gather(
            *(self._begin(load, entry) for entry in entries),
            *(self._use(load, number) for number in range(self.options.clients)),
        )

    async def _begin(self, load: Load, entry: Entry) -> None:
        """Find out in which state the entry is before anybody changes it: none, where the cluster is new."""
        name = f"{entry.key}-finder"
        client = load.metadata(name)
        found: Answer | None = None
        turn = 0
        while found is None and not load.stopping:
            try:
                found = await client.read(entry.key, client.nodes[turn % len(client.nodes)])
            except (Failed, Unknown):
                turn += 1
                await load.sleep(RETRY_S)
        if found is None:
            return
        value = found.value["value"]
        members = [] if value is None else [value]
        state = [found.value["version"], *members] if entry.model == COMPARED else [value]

        async def known() -> Answer:
            return Answer(node=client.nodes[turn % len(client.nodes)])

        await Worker(load, name).do("create", known, object=entry.key, init={entry.model: state}, part="")
        self._entries.append(entry)

    async def _use(self, load: Load, number: int) -> None:
        """Do one operation after the other, evenly spaced; after a long one go on at the same pace."""
        client = _Client(load, f"metadata-client-{number}", self)
        rng = load.rng(f"metadata-client-{number}/pace")
        gap_ns = round(1e9 * self.options.clients / self.options.rate_per_s)
        due_ns = load.now_ns() + round(gap_ns * rng.random())
        while not load.stopping:
            wait_ns = due_ns - load.now_ns()
            due_ns = max(due_ns, load.now_ns()) + round(gap_ns * (0.5 + rng.random()))
            if wait_ns > 0:
                await load.sleep(wait_ns / 1e9)
            if self._entries and not load.stopping:
                await client.operate(rng.choice(self._entries))

    async def drain(self, load: Load) -> None:
        """Read each entry from every server of the log, then from each view until it is as new."""
        deadline_ns = load.now_ns() + round(self.options.drain_s * 1e9)
        await load.gather(*(self._read_all(load, entry, deadline_ns) for entry in self._entries))

    async def _read_all(self, load: Load, entry: Entry, deadline_ns: int) -> None:
        client = _Client(load, f"{entry.key}-reader", self)
        newest = 0
        for node in client.metadata.nodes:
            outcome = await client.read(entry, node)
            while not outcome.ok and load.now_ns() < deadline_ns:
                await load.sleep(RETRY_S)
                outcome = await client.read(entry, node)
            newest = max(newest, client.versions.get(entry.key, 0))
        for node in client.metadata.viewers:
            while True:
                is_last = load.now_ns() >= deadline_ns
                outcome = await client.view(entry, node)
                version = outcome.answer.value.get("version")
                if is_last or (outcome.ok and isinstance(version, int) and version >= newest):
                    break
                await load.sleep(RETRY_S)

    def next_number(self) -> int:
        """Return a value that nobody has written before."""
        self._numbers += 1
        return self._numbers


class _Client:
    """One client. ``versions``: what it knows of entries from the answers to its own calls."""

    def __init__(self, load: Load, name: str, workload: MetadataLoad) -> None:
        self.metadata: Metadata = load.metadata(name)
        self.versions: dict[str, int] = {}
        self._workload = workload
        self._worker = Worker(load, name)
        self._rng: Random = load.rng(name)
        self._guide = Guide(self.metadata.nodes, self._rng)

    async def operate(self, entry: Entry) -> None:
        """Do one operation that the seed draws. Who compares has read the entry: mostly just before, else some time
        ago, when its version may have been another one."""
        options, drawn = self._workload.options, self._rng.random()
        if drawn < options.views:
            await self.view(entry, self._rng.choice(self.metadata.viewers))
        elif drawn >= options.views + options.writes:
            await self.read(entry, self._guide.any())
        elif entry.model == OVERWRITTEN:
            await self._overwrite(entry)
        else:
            if entry.key not in self.versions or self._rng.random() < FRESH:
                await self.read(entry, self._guide.any())
            if entry.key in self.versions:
                await self._compare_and_set(entry)

    async def read(self, entry: Entry, node: str) -> Outcome:
        async def read() -> Answer:
            with names_node(node):
                answer = await self.metadata.read(entry.key, node)
            value, version = answer.value["value"], answer.value["version"]
            versions: dict[str, Any] = {"revision": answer.value["revision"], "version": version}
            if entry.model == OVERWRITTEN:
                return replace(answer, value=versions | {"address": value})
            return replace(answer, value=versions | {"epoch": version, "members": [] if value is None else [value]})

        outcome = await self._worker.do("read", read, object=entry.key, model=entry.model, to=node)
        self._learn(entry, outcome)
        return outcome

    async def view(self, entry: Entry, node: str) -> Outcome:
        async def view() -> Answer:
            with names_node(node):
                return await self.metadata.view(entry.key, node)

        return await self._worker.do("view", view, object=entry.key, to=node)

    async def _overwrite(self, entry: Entry) -> None:
        node, number = self._guide.leader(), self._next()

        async def write() -> Answer:
            with names_node(node):
                return await self.metadata.write(entry.key, node, number)

        asked: dict[str, Any] = {"object": entry.key, "model": entry.model, "to": node, "address": number}
        outcome = await self._worker.do("write", write, **asked)
        self._guide.learn(node, took=outcome.ok)

    async def _compare_and_set(self, entry: Entry) -> None:
        node, expected, number = self._guide.leader(), self.versions.pop(entry.key), self._next()

        async def change() -> Answer:
            with names_node(node):
                answer = await self.metadata.compare_and_set(entry.key, node, expected=expected, value=number)
            return replace(answer, value={"epoch": answer.value["version"], **answer.value})

        asked: dict[str, Any] = {"object": entry.key, "model": entry.model, "to": node, "expected": expected}
        asked["members"] = [] if number is None else [number]
        outcome = await self._worker.do("cas", change, **asked)
        self._learn(entry, outcome)
        self._guide.learn(node, took=outcome.ok or bool(outcome.answer.value.get("refused")))

    def _learn(self, entry: Entry, outcome: Outcome) -> None:
        version = outcome.answer.value.get("version")
        if outcome.ok and isinstance(version, int):
            self.versions[entry.key] = version

    def _next(self) -> int | None:
        """Return what to put: a new number, or nothing, which deletes."""
        return None if self._rng.random() < DELETIONS else self._workload.next_number()


def create(options: Options) -> MetadataLoad:
    return MetadataLoad(options)
