"""The reference system: controllers, name servers, brokers and an object store, in the shape of RocketMQ 5."""

from __future__ import annotations

from importlib import import_module

from chaos.node import Node, NodeSpec


def build(spec: NodeSpec) -> Node:
    """Make the node of this role; with ``spec.mutant`` set, parts of it are replaced by that mutant's.

    Raises ``ValueError`` for a role that doesn't exist. Imports only what the role needs.
    """
    parts: dict[str, type] = {}
    if spec.mutant:
        parts = import_module("reference.mutants").parts(spec.mutant, spec.role)
    if spec.role == "controller":
        from reference.controller import Controller

        return Controller(spec, **parts)
    if spec.role == "nameserver":
        from reference.nameserver import NameServer

        return NameServer(spec, **parts)
    if spec.role == "broker":
        from reference.broker import Broker

        return Broker(spec, **parts)
    if spec.role == "objectstore":
        from reference.objectstore import ObjectStore

        return ObjectStore(spec, **parts)
    raise ValueError(f"{spec.name}: role must be controller, nameserver, broker or objectstore, not {spec.role!r}")
