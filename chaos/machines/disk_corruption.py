"""How deployments harm a disk, wherever it is: what happens around the few things that are done at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Protocol

from chaos.effects.corruption import AtDisk, Harm, Mark
from chaos.fault import NotNow


class _Host(Protocol):
    """What a deployment gives for it."""

    async def kill(self, node: str) -> Mapping[str, object]: ...

    async def _life_of(self, node: str) -> int:
        """Return the incarnation of a node that runs, else 0."""

    async def _at_disk(self, node: str, do: AtDisk, arguments: Mapping[str, Any]) -> Any:
        """Call :func:`chaos.effects.corruption.at_disk` where the disk of this node is."""


class HarmsDisks:
    """Implements ``CanHarmDisks`` and ``CanRollBackDisks`` for a :class:`_Host`."""

    async def mark_disk(self: _Host, node: str) -> Mark:
        incarnation = await self._life_of(node)
        if not incarnation:
            raise NotNow(f"{node} is not running")
        return Mark(incarnation=incarnation, files=await self._at_disk(node, AtDisk.MARK, {}))

    async def harm_disk(self: _Host, node: str, marked: Mark, harm: Harm) -> Mapping[str, object]:
        if await self._life_of(node) != marked.incarnation:
            raise NotNow(f"{node} does not run any more as it did when its disk was marked")
        ended = await self.kill(node)
        done = await self._at_disk(node, AtDisk.HARM, {"marked": dict(marked.files), "harm": asdict(harm)})
        if not done:
            raise NotNow(f"nothing on the disk of {node} is old enough and is called {harm.files}")
        return {**ended, "harmed": done}

    async def copy_disk(self: _Host, node: str) -> Mapping[str, object]:
        ended = await self.kill(node)
        return {**ended, "copied": await self._at_disk(node, AtDisk.COPY, {})}

    async def roll_back_disk(self: _Host, node: str) -> Mapping[str, object]:
        ended = await self.kill(node)
        restored = await self._at_disk(node, AtDisk.PUT_BACK, {})
        if not restored["changed"]:
            raise NotNow(f"the disk of {node} still holds what it held when it was copied")
        return {**ended, "put_back": restored}
