"""Gives a node a message as shells do: what it can't understand is refused for it."""

from __future__ import annotations

from chaos.node import Env, Malformed, Node
from chaos.shell.step import refuse
from reference.wire.command import Command


def deliver(node: Node, env: Env, source: str, message: Command) -> None:
    acted = getattr(env, "acted", 0)
    try:
        node.message(env, source, message)
    except Malformed as error:
        assert getattr(env, "acted", 0) == acted, "it had begun to act on what it did not understand"
        refuse(node, env, source, message, error)
