"""Texts and sets as plain keys of etcd. A set has its key's own version: 1 when made, one more at each change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from chaos.driver import Dials
from chaos.ops import Answer, Failed
from chaos.services import FIRST_SET, FIRST_TEXT, set_key, text_key
from drivers.etcd.api import call, look, number, packed, unpacked

REQUEST_S = 1.0


class EtcdObjects:
    """Implements :class:`chaos.services.Objects`. With ``serializable``, a node answers reads from what it has."""

    def __init__(self, network: Dials, name: str, nodes: Sequence[str], *, serializable: bool) -> None:
        self._network = network
        self._name = name
        self._serializable = serializable
        self.nodes = tuple(nodes)

    async def create(self, name: str, node: str, *, numbers: int) -> Answer:
        """Create both keys in one transaction, unless they are there."""
        first = {text_key(name): FIRST_TEXT, set_key(name): json.dumps(FIRST_SET)}
        absent = [_compares(key, 0) for key in first]
        await self._call(node, "txn", {"compare": absent, "success": [_puts(key, first[key]) for key in first]})
        return Answer(node=node)

    async def read(self, key: str, node: str) -> Answer:
        asked = {"key": packed(key), "serializable": self._serializable}
        found = await look(self._network, self._name, node, "kv/range", asked, REQUEST_S)
        try:
            return Answer(node=node, value=_value(found, key))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise Failed(f"damaged answer: {error}", Answer(node=node)) from error

    async def write(self, key: str, node: str, value: str) -> Answer:
        await self._call(node, "put", {"key": packed(key), "value": packed(value)})
        return Answer(node=node)

    async def compare_and_set(self, key: str, node: str, *, expected: int, value: Sequence[int]) -> Answer:
        asked = {"compare": [_compares(key, expected)], "success": [_puts(key, json.dumps(sorted(value)))]}
        if not (await self._call(node, "txn", asked)).get("succeeded"):
            raise Failed(f"the version is not {expected}", Answer(node=node, value={"refused": True}))
        return Answer(node=node, value={"version": expected + 1})

    async def _call(self, node: str, what: str, asked: dict[str, Any]) -> dict[str, Any]:
        return await call(self._network, self._name, node, f"kv/{what}", asked, REQUEST_S)


def _value(found: dict[str, Any], key: str) -> dict[str, object]:
    pairs = found.get("kvs", [])
    is_set = key == set_key(key.rpartition("/")[0])
    if not pairs:
        return {"value": None, "version": 0} if is_set else {"value": None}
    text = unpacked(pairs[0].get("value", ""))
    return {"value": sorted(json.loads(text)), "version": number(pairs[0], "version")} if is_set else {"value": text}


def _compares(key: str, version: int) -> dict[str, str]:
    return {"key": packed(key), "target": "VERSION", "result": "EQUAL", "version": str(version)}


def _puts(key: str, value: str) -> dict[str, Any]:
    return {"requestPut": {"key": packed(key), "value": packed(value)}}
