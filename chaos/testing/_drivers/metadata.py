"""What a driver's metadata may not do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from chaos.ops import Answer, OpType
from chaos.services import CanKeepMetadata, Metadata
from chaos.testing._drivers.bench import Bench, Result

TRIES, RETRY_S = 50, 0.2


async def check_metadata(bench: Bench, driver: CanKeepMetadata) -> None:
    """Make, change and delete an entry of each kind, and wait until each node that follows shows it."""
    client = driver.metadata(bench.network, "check-metadata")
    complete = bool(client.nodes and client.viewers and client.kinds)
    if not bench.require(complete, "metadata: its nodes, viewers or kinds are empty, so that nothing can be asked"):
        return
    unknown = sorted({*client.nodes, *client.viewers} - bench.nodes)
    bench.require(not unknown, f"metadata: {', '.join(unknown)} is not a node of the cluster")
    for kind in client.kinds:
        entry = _Entry(bench, client, f"{kind}/check-metadata")
        await entry.expect(None, 0, "before it was made")
        await entry.change("compare_and_set", lambda key, node: client.compare_and_set(key, node, expected=0, value=3))
        await entry.expect(3, 1, "after it was made")
        await entry.refused(expected=0, value=4)
        await entry.change("write", lambda key, node: client.write(key, node, 5))
        await entry.expect(5, 2, "after it was overwritten")
        await entry.change("write", lambda key, node: client.write(key, node, None))
        await entry.expect(None, 3, "after it was deleted")


class _Entry:
    def __init__(self, bench: Bench, client: Metadata, key: str) -> None:
        self._bench = bench
        self._client = client
        self._key = key

    async def change(self, what: str, call: Callable[[str, str], Awaitable[Answer]]) -> Result | None:
        """Ask one node after the other until one does it."""
        nodes, reason = self._client.nodes, ""
        for turn in range(TRIES):
            result = await self._bench.ask(f"metadata: {what}", call(self._key, nodes[turn % len(nodes)]))
            if result.ok:
                return result
            reason = result.reason
            await asyncio.sleep(RETRY_S)
        self._bench.require(False, f"metadata: {what} never ended well on a settled system; the last time: {reason}")
        return None

    async def refused(self, *, expected: int, value: int) -> None:
        """Check that a compare-and-set at an old version says that it was refused, at the node that takes changes."""
        results = []
        for node in self._client.nodes:
            asked = self._client.compare_and_set(self._key, node, expected=expected, value=value)
            results.append(await self._bench.ask("metadata: compare_and_set", asked))
        said = any(one.type is OpType.FAIL and one.answer.value.get("refused") is True for one in results)
        text = "metadata: a compare_and_set at an old version must raise Failed with refused = True"
        self._bench.require(said and not any(one.ok for one in results), text)

    async def expect(self, value: int | None, version: int, when: str) -> None:
        """Check that all servers of the log show this at once, and each viewer soon."""
        for node in self._client.nodes:
            found = await self._bench.ask("metadata: read", self._client.read(self._key, node))
            self._require(node, found, value, version, when)
        for node in self._client.viewers:
            for _ in range(TRIES):
                found = await self._bench.ask("metadata: view", self._client.view(self._key, node))
                if found.ok and found.answer.value.get("version") == version:
                    break
                await asyncio.sleep(RETRY_S)
            self._require(node, found, value, version, when)

    def _require(self, node: str, found: Result, value: int | None, version: int, when: str) -> None:
        shown = found.answer.value.get("value"), found.answer.value.get("version")
        text = f"metadata: {node} shows {self._key} as {shown} {when}, expected {(value, version)}; {found.reason}"
        self._bench.require(found.ok and shown == (value, version), text.rstrip("; "))
