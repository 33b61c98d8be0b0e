"""What a driver's key-value store may not do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from typing import cast

from chaos.ops import Answer, OpType
from chaos.services import FIRST_SET, FIRST_TEXT, FIRST_VERSION, CanHoldObjects, Objects, set_key, text_key
from chaos.testing._drivers.bench import Bench, Result
from chaos.testing._drivers.forwarder import Loss

NUMBERS = 4
TRIES, RETRY_S = 25, 0.2
REQUESTS = (1, 2)


async def check_objects(bench: Bench) -> None:
    """Make an object, read and change both of its keys; then lose the answers to changes."""
    client = cast(CanHoldObjects, bench.driver).objects(bench.network, "check-objects")
    if not bench.require(bool(client.nodes), "objects: its nodes are empty, so nobody can be asked"):
        return
    unknown = sorted(set(client.nodes) - bench.nodes)
    bench.require(not unknown, f"objects: {', '.join(unknown)} is not a node of the cluster")
    absent = await _read(bench, client, set_key("check-absent"))
    bench.require(_seen(absent) == (None, 0), "objects: read of an absent key must end with value None and version 0")
    store = _Store(bench, client, "check-object")
    for _ in range(2):  # asking again changes nothing
        await store.change("create", lambda node: client.create(store.name, node, numbers=NUMBERS))
    await store.expect_set(list(FIRST_SET), FIRST_VERSION, "after create")
    await store.expect_text(FIRST_TEXT, "after create")
    await store.change("write", lambda node: client.write(text_key(store.name), node, "here"))
    await store.expect_text("here", "after it was written")
    made = await store.compare_and_set(FIRST_VERSION, [1, 3])
    if made:
        text = "objects: compare_and_set ended well without the new version, which is higher by 1"
        bench.require(made.answer.value.get("version") == FIRST_VERSION + 1, text)
    await store.expect_set([1, 3], FIRST_VERSION + 1, "after a compare_and_set to [1, 3]")
    await store.refused(FIRST_VERSION, [1, 2])
    await store.expect_set([1, 3], FIRST_VERSION + 1, "after a compare_and_set at an old version")
    await store.while_answers_get_lost()


class _Store:
    def __init__(self, bench: Bench, client: Objects, name: str) -> None:
        self.name = name
        self._bench = bench
        self._client = client

    async def change(self, what: str, call: Callable[[str], Awaitable[Answer]]) -> Result | None:
        """Ask one node after the other until one does it."""
        nodes = self._client.nodes
        for turn in range(TRIES):
            result = await self._bench.ask(f"objects: {what}", call(nodes[turn % len(nodes)]))
            if result.ok:
                return result
            await asyncio.sleep(RETRY_S)
        text = f"objects: {what} never ended well at any node of a settled system; the last time: {result.reason}"
        self._bench.require(False, text)
        return None

    async def compare_and_set(self, expected: int, value: list[int]) -> Result | None:
        key = set_key(self.name)
        return await self.change(
            "compare_and_set", lambda node: self._client.compare_and_set(key, node, expected=expected, value=value)
        )

    async def refused(self, expected: int, value: list[int]) -> None:
        """Check that some node refuses this, and says that it was the version."""
        said = False
        for node in self._client.nodes:
            call = self._client.compare_and_set(set_key(self.name), node, expected=expected, value=value)
            result = await self._bench.ask("objects: compare_and_set at an old version", call)
            self._bench.require(not result.ok, "objects: compare_and_set at an old version ended well")
            said |= result.type is OpType.FAIL and bool(result.answer.value.get("refused"))
        text = "objects: no node answered compare_and_set at an old version with Failed whose value has refused = True"
        self._bench.require(said, text)

    async def expect_set(self, value: list[int], version: int, when: str) -> None:
        seen = _seen(await _read(self._bench, self._client, set_key(self.name)))
        text = f"objects: {when} read says {seen[0]} at version {seen[1]}, expected {value} at version {version}"
        self._bench.require(seen == (value, version), text)

    async def expect_text(self, value: str, when: str) -> None:
        seen = (await _read(self._bench, self._client, text_key(self.name))).value.get("value")
        self._bench.require(seen == value, f"objects: {when} read says {seen!r}, expected {value!r}")

    async def while_answers_get_lost(self) -> None:
        """Check that no write whose answer was lost ends as Failed when it can be read afterwards."""
        network = self._bench.network
        for loss, which, node in product(Loss, REQUESTS, self._client.nodes):
            name = f"check-{loss.name.lower()}-{which}-{node}"
            client = cast(CanHoldObjects, self._bench.driver).objects(network, name)
            network.lose(name, which, loss)
            what = f"objects: write, with request {which} of it lost ({loss})"
            result = await self._bench.ask(what, client.write(text_key(self.name), node, name))
            if result.type is OpType.FAIL:
                text = f"{what} ended as Failed, but it was written; raise Unknown when nobody can know"
                seen = (await _read(self._bench, self._client, text_key(self.name))).value.get("value")
                self._bench.require(seen != name, text)


async def _read(bench: Bench, client: Objects, key: str) -> Answer:
    """Return what some node reads under this key; an empty answer, and a problem noted, when none does."""
    for turn in range(TRIES):
        result = await bench.ask("objects: read", client.read(key, client.nodes[turn % len(client.nodes)]))
        if result.ok:
            return result.answer
        await asyncio.sleep(RETRY_S)
    bench.require(False, f"objects: read never ended well on a settled system; the last time: {result.reason}")
    return Answer()


def _seen(answer: Answer) -> tuple[object, object]:
    value = answer.value.get("value")
    return list(value) if isinstance(value, tuple) else value, answer.value.get("version")
