"""Gives a node a message as shells do: what it can't understand is refused for it."""

from __future__ import annotations

from chaos.node import Env, Malformed, Message, Node
from chaos.shell.step import refuse


def deliver(node: Node, env: Env, source: str, message: Message) -> None:
    try:
        node.message(env, source, message)
    except Malformed as error:
        refuse(node, env, source, message, error)
