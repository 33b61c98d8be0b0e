"""RIP-19's split of compute and storage: brokers without a disk over stores that keep many Raft groups, and meta nodes
that agree on who is who.
"""

from __future__ import annotations

from importlib import import_module

from chaos.node import Node, NodeSpec
from reference.wire.codec import RemotingCodec

#: Role → module and class of its node. Modules are imported when a node of that role is built.
ROLES = {
    "meta": ("reference.split.meta.node", "Meta"),
    "store": ("reference.split.store.node", "Store"),
    "broker": ("reference.split.broker.node", "Broker"),
    "nameserver": ("reference.split.nameserver", "NameServer"),
    "objectstore": ("reference.objectstore.node", "ObjectStore"),
}


def build(spec: NodeSpec) -> Node:
    """Make the node of this role; with ``spec.mutant`` set, parts of it are that planted bug's.

    Raises ``ValueError`` for a role that doesn't exist.
    """
    if spec.role not in ROLES:
        raise ValueError(f"{spec.name}: role must be one of {', '.join(ROLES)}, not {spec.role!r}")
    parts: dict[str, type] = {}
    if spec.mutant:
        from reference.split import mutants  # every part of the system: nodes of the correct one load only their own

        parts = mutants.parts(spec.mutant, spec.role)
    module, name = ROLES[spec.role]
    node = parts.pop("node") if "node" in parts else getattr(import_module(module), name)
    built: Node = node(spec, **parts)
    return built


def codec(mutant: str) -> RemotingCodec:
    """Return the codec of a cluster's nodes; with ``mutant`` set, it may be that planted bug's."""
    if not mutant:
        return RemotingCodec()
    from reference.split import mutants

    return mutants.codec(mutant)
