"""A client of RIP-18's metadata in the reference system: the controllers' entries, and the views of all others."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chaos.driver import Network
from chaos.ops import Answer, Failed, Unknown
from chaos.workload import body_hash
from drivers._remoting.requests import ask, number
from reference.wire.codes import Request, Response
from reference.wire.command import Command

REQUEST_S = 1.0
#: A change that ended in one of these did not happen: it was refused before it was logged, or when it was applied.
REFUSED = frozenset(
    {
        Response.REQUEST_CODE_NOT_SUPPORTED,
        Response.NO_PERMISSION,
        Response.INVALID_PARAMETER,
        Response.CONTROLLER_NOT_LEADER,
        Response.METADATA_CONFLICT,
    }
)
#: By kind of entry: its value for a number, and the member that the number is read from.
KINDS: Mapping[str, tuple[Callable[[int], Mapping[str, object]], str]] = {
    "topic": (lambda number: {"queues": number}, "queues"),
    "route": (lambda number: {"master": f"broker-{number}", "epoch": number}, "epoch"),
    "group": (lambda number: {"retries": number}, "retries"),
    "owner": (lambda number: {"broker": f"broker-{number}"}, "broker"),
}


class MetadataClient:
    """Implements :class:`chaos.services.Metadata`."""

    kinds = tuple(KINDS)

    def __init__(self, network: Network, name: str, controllers: Sequence[str], viewers: Sequence[str]) -> None:
        self._network = network
        self._name = name
        self.nodes = tuple(controllers)
        self.viewers = tuple(viewers)

    async def read(self, key: str, node: str) -> Answer:
        kind, value, versions = await self._get(key, node)
        return Answer(node=node, value={**versions, "value": _number(kind, value)})

    async def view(self, key: str, node: str) -> Answer:
        kind, value, versions = await self._get(key, node)
        versions["content"] = -1 if value is None else body_hash(_canonical(value))
        return Answer(node=node, value={**versions, "value": _number(kind, value)})

    async def write(self, key: str, node: str, value: int | None) -> Answer:
        return await self._put(key, node, value, -1)

    async def compare_and_set(self, key: str, node: str, *, expected: int, value: int | None) -> Answer:
        return await self._put(key, node, value, expected)

    async def _get(self, key: str, node: str) -> tuple[str, object, dict[str, int]]:
        """Return its kind, its value, and its version and revision. Raises :class:`Failed` whatever goes wrong."""
        kind, _, name = key.partition("/")
        try:
            answer = await self._request(node, Command(code=Request.METADATA_GET, fields={"kind": kind, "name": name}))
            if answer.code != Response.SUCCESS:
                raise Failed(f"code {answer.code}: {answer.remark}", Answer(node=node))
            value = json.loads(answer.body) if answer.body else None
        except Unknown as error:
            raise Failed(error.reason, Answer(node=node)) from error
        except ValueError as error:
            raise Failed(f"damaged answer: {error}", Answer(node=node)) from error
        return kind, value, _versions(answer)

    async def _put(self, key: str, node: str, value: int | None, expected: int) -> Answer:
        kind, _, name = key.partition("/")
        body = b"" if value is None else _canonical(KINDS[kind][0](value))
        fields = {"kind": kind, "name": name, "expectedVersion": str(expected)}
        answer = await self._request(node, Command(code=Request.METADATA_PUT, fields=fields, body=body))
        if answer.code == Response.SUCCESS:
            return Answer(node=node, value=_versions(answer))
        reason = f"code {answer.code}: {answer.remark}"
        if answer.code in REFUSED:
            refused = {"refused": True} if answer.code == Response.METADATA_CONFLICT else {}
            raise Failed(reason, Answer(node=node, value=refused))
        raise Unknown(reason, Answer(node=node))

    async def _request(self, node: str, message: Command) -> Command:
        try:
            return await ask(self._network.connect(self._name, node), message, REQUEST_S)
        except (Failed, Unknown) as error:
            raise type(error)(error.reason, Answer(node=node)) from error


def _versions(answer: Command) -> dict[str, int]:
    return {name: number(answer.fields, name) for name in ("version", "revision")}


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _number(kind: str, value: Any) -> int | None:
    """Return the number that a value of this kind was made from, None for no value; -1 for one that was not made so."""
    if value is None:
        return None
    found = value.get(KINDS[kind][1]) if isinstance(value, dict) else None
    if isinstance(found, str):
        found = int(digits) if (digits := found.rpartition("-")[2]).isdecimal() else None
    return found if type(found) is int else -1
