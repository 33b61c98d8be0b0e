"""The reference system: controllers, name servers, brokers and an object store, in the shape of RocketMQ 5."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from chaos.node import Node, NodeSpec
from reference.wire.codec import RemotingCodec

#: Role → module and class of its node. Modules are imported when a node of that role is built.
ROLES = {
    "controller": ("reference.controller.node", "Controller"),
    "nameserver": ("reference.nameserver", "NameServer"),
    "broker": ("reference.broker.node", "Broker"),
    "objectstore": ("reference.objectstore.node", "ObjectStore"),
}
#: Those with the option ``metadata``.
METADATA_ROLES = ROLES | {
    "controller": ("reference.metadata.nodes", "MetadataController"),
    "nameserver": ("reference.metadata.nodes", "MetadataNameServer"),
    "broker": ("reference.metadata.nodes", "MetadataBroker"),
}
#: That of an object store with the option ``store``: its objects stand in a real one.
GATEWAY = ("reference.objectstore.gateway", "Gateway")
#: Those with the option ``embedded``.
EMBEDDED_ROLES = ROLES | {"controller": ("reference.embedded", "NameServerWithController")}


def build(spec: NodeSpec) -> Node:
    """Make the node of this role; with ``spec.mutant`` set, parts of it are that mutant's.

    Raises ``ValueError`` for a role that doesn't exist.
    """
    if spec.role not in ROLES:
        raise ValueError(f"{spec.name}: role must be one of {', '.join(ROLES)}, not {spec.role!r}")
    parts: dict[str, type] = {}
    is_gateway = spec.role == "objectstore" and bool(spec.options.get("store"))
    if spec.mutant:
        from reference import mutants  # every part of the system: nodes of the correct one load only their own

        parts = mutants.parts(spec.mutant, "gateway" if is_gateway else spec.role)
        if spec.options.get("embedded"):
            parts = mutants.parts(spec.mutant, "nameserver") | parts
    if spec.role == "broker" and "log_version" in spec.options:
        parts = import_module("reference.broker.versions").parts_of(spec.options) | parts
    module, name = GATEWAY if is_gateway else _roles(spec)[spec.role]
    node = parts.pop("node") if "node" in parts else getattr(import_module(module), name)
    built: Node = node(spec, **parts)
    return built


def _roles(spec: NodeSpec) -> Mapping[str, tuple[str, str]]:
    """Return the roles for these options. Raises ``ValueError`` for options that can't be had together."""
    if not spec.options.get("embedded"):
        return METADATA_ROLES if spec.options.get("metadata") else ROLES
    if spec.options.get("metadata"):
        raise ValueError(f"{spec.name}: a controller within a name server (embedded) keeps no metadata; leave out one")
    return EMBEDDED_ROLES


def codec(mutant: str) -> RemotingCodec:
    """Return the codec of a cluster's nodes; with ``mutant`` set, it may be that mutant's."""
    if not mutant:
        return RemotingCodec()
    from reference import mutants

    return mutants.codec(mutant)
