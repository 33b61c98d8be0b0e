"""etcd's own lock service: a lock is held by a key that lives as long as its lease."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from chaos.driver import Dials
from chaos.ops import Answer, Failed, Unknown
from drivers.etcd.api import call, number, packed

REQUEST_S = 0.5
#: How long to wait for a lock that another client holds.
WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Held:
    """A lock that we hold: the lease's id, and the key in etcd, as JSON holds it."""

    lease: str
    key: str


class EtcdLocks:
    """Implements :class:`chaos.services.Locks`, each under a lease of its own; its token is etcd's revision then."""

    def __init__(self, network: Dials, name: str, nodes: Sequence[str]) -> None:
        self._network = network
        self._name = name
        self._held: dict[str, Held] = {}
        self.nodes = tuple(nodes)

    async def acquire(self, name: str, node: str, *, lease_s: float) -> Answer:
        """Take the lock under a lease. One that etcd makes longer than it was asked for does no harm: we count on the
        shorter time."""
        self._held.pop(name, None)
        try:
            granted = await self._call(node, "lease/grant", {"TTL": math.ceil(lease_s)}, REQUEST_S)
        except Unknown as error:  # nobody waits for anything under that lease
            raise Failed(error.reason, error.answer) from error
        lease = str(granted.get("ID", ""))
        try:
            taken = await self._call(node, "lock/lock", {"name": packed(name), "lease": lease}, WAIT_S)
            held = Held(lease, str(taken["key"]))
            token = number(taken["header"], "revision")
        except Unknown as error:
            await self._give_up(node, lease, error)
        except (LookupError, ValueError) as error:
            raise Unknown(f"damaged answer: {error}", Answer(node=node)) from error
        self._held[name] = held
        return Answer(node=node, value={"token": token})

    async def renew(self, name: str, node: str) -> Answer:
        kept = await self._call(node, "lease/keepalive", {"ID": self._mine(name, node).lease}, REQUEST_S)
        if str(kept.get("TTL", "0")) == "0":
            raise Failed("the lease is over", Answer(node=node))
        return Answer(node=node)

    async def release(self, name: str, node: str) -> Answer:
        held = self._mine(name, node)
        del self._held[name]
        await self._call(node, "lock/unlock", {"key": held.key}, REQUEST_S)
        return Answer(node=node)

    async def _give_up(self, node: str, lease: str, why: Unknown) -> NoReturn:
        """Stop waiting for a lock. Once its lease is revoked we neither hold it nor ever will, and nobody has used it.
        Raises :class:`Failed` then, and ``why`` when that is unknown."""
        try:
            await self._call(node, "lease/revoke", {"ID": lease}, REQUEST_S)
        except (Failed, Unknown):
            raise why from None
        raise Failed(f"not ours within {WAIT_S:g} s: {why.reason}", Answer(node=node))

    def _mine(self, name: str, node: str) -> Held:
        if name not in self._held:
            raise Failed("we don't hold it", Answer(node=node))
        return self._held[name]

    async def _call(self, node: str, path: str, asked: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        return await call(self._network, self._name, node, path, asked, timeout_s)
