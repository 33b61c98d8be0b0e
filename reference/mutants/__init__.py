"""Planted bugs. Each is a class that overrides one named policy method of the correct system, which knows none of it.

They audit the laws: a law that misses its mutants proves nothing. Add one by writing the class in the module of its
promise and an entry in that module's ``MUTANTS``; ``make test`` then demands that it is found.
"""

from __future__ import annotations

from reference.mutants import (
    acks,
    availability,
    consumers,
    controllers,
    deliveries,
    disks,
    gateway,
    in_sync,
    limits,
    log,
    metadata,
    pipelining,
    plain,
    progress,
    readers,
    roles,
    tier,
    topics,
    views,
    votes,
    wire,
)
from reference.mutants._planted import CODEC, NODE, WIRE, Planted
from reference.wire.codec import RemotingCodec

#: Every planted bug, in the order of the laws.
MUTANTS: tuple[Planted, ...] = (
    *log.MUTANTS,
    *in_sync.MUTANTS,
    *acks.MUTANTS,
    *wire.MUTANTS,
    *tier.MUTANTS,
    *roles.MUTANTS,
    *disks.MUTANTS,
    *controllers.MUTANTS,
    *votes.MUTANTS,
    *consumers.MUTANTS,
    *deliveries.MUTANTS,
    *topics.MUTANTS,
    *progress.MUTANTS,
    *readers.MUTANTS,
    *availability.MUTANTS,
    *metadata.MUTANTS,
    *pipelining.MUTANTS,
    *views.MUTANTS,
    *limits.MUTANTS,
    *plain.MUTANTS,
)


def parts(mutant: str, role: str) -> dict[str, type]:
    """Return the classes that a node of this role is built with. Raises ``KeyError`` for a name that is no mutant."""
    every = (*MUTANTS, *gateway.MUTANTS)
    return dict({planted.name: planted for planted in every}[mutant].parts.get(role, {}))


def codec(mutant: str) -> RemotingCodec:
    """Return the frames as this mutant's nodes read and write them. Raises ``KeyError`` for a name that is no
    mutant."""
    planted: RemotingCodec = parts(mutant, WIRE).get(CODEC, RemotingCodec)()
    return planted


__all__ = ["MUTANTS", "NODE", "Planted", "codec", "parts"]
