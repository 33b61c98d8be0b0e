"""The option ``tier`` with a real store: where the objects of a run stand, and how they go when it has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from chaos.driver import Network
from drivers._remoting.collecting import fetch
from reference.objectstore.address import StoreAddress
from reference.wire.codes import Request
from reference.wire.command import Command

#: A broker waits so much longer for the gateway than that may try a request.
BROKERS_WAIT_MS = 500
#: What the node needs to have installed where it runs.
LIBRARY = "obstore"


@dataclass(frozen=True, slots=True, kw_only=True)
class RealTier:
    """``store``: the URL of a real store. ``single_writer``: nobody else writes under the prefix of a run, so that it
    may lack conditional writes. ``timeout_ms``: how long a request may be tried. ``keep``: objects stay after a run."""

    store: str
    single_writer: bool = False
    timeout_ms: int = 3000
    keep: bool = False

    @classmethod
    def of(cls, tier: bool | Mapping[str, object]) -> RealTier | None:
        """Read the option ``tier``; None where it names no real store. Raises ``ValueError``, which repeats no value:
        one may be a secret that stands where none belongs."""
        if isinstance(tier, bool):
            return None
        known = {field.name: field.type for field in fields(cls)}
        if wrong := sorted(map(str, tier.keys() - known.keys())):
            raise ValueError(f"tier: there is no {wrong[0][:40]!a}; it is true, false or has {', '.join(known)}")
        if "store" not in tier:
            raise ValueError("tier: store is missing, the URL of a real store")
        for name, value in tier.items():
            if type(value).__name__ != known[name]:
                raise ValueError(f"tier: {name} must be {known[name]}")
        found = cls(**tier)  # type: ignore[arg-type]
        if not 100 <= found.timeout_ms <= 600_000:
            raise ValueError("tier: timeout_ms is from 100 to 600000")
        StoreAddress.of(found.store)
        return found

    def options(self, prefix: str) -> dict[str, object]:
        """Return those of the gateway's node."""
        return {
            "store": self.store,
            "prefix": prefix,
            "single_writer": self.single_writer,
            "timeout_ms": self.timeout_ms,
        }


async def clear(network: Network, stores: Sequence[str]) -> None:
    """Have gateways refuse all requests and delete all that stands under their prefix."""
    for store in stores:
        await fetch(network, store, Command(code=Request.STORE_CLEAR))
