"""Planted bugs of a split cluster. Each is a class that overrides one named policy method of the correct system."""

from __future__ import annotations

from reference.mutants._planted import CODEC, NODE, WIRE, Planted
from reference.split.mutants import brokers, groups, objects, owners, stores
from reference.wire.codec import RemotingCodec

MUTANTS: tuple[Planted, ...] = (*owners.MUTANTS, *brokers.MUTANTS, *groups.MUTANTS, *stores.MUTANTS, *objects.MUTANTS)


def parts(mutant: str, role: str) -> dict[str, type]:
    """Return the classes that a node of this role is built with. Raises ``KeyError`` for a name that is no planted
    bug's."""
    return dict({planted.name: planted for planted in MUTANTS}[mutant].parts.get(role, {}))


def codec(mutant: str) -> RemotingCodec:
    """Return the frames as this planted bug's nodes read and write them. Raises ``KeyError``."""
    planted: RemotingCodec = parts(mutant, WIRE).get(CODEC, RemotingCodec)()
    return planted


__all__ = ["MUTANTS", "NODE", "Planted", "codec", "parts"]
