"""A name server with a controller in it (RIP-44's ``enableControllerInNamesrv``): one node, one process, one port.

The two know nothing of each other: each gets the messages that are for it, its own timers, and word of connections that
broke. What hits the node hits both.
"""

from __future__ import annotations

from typing import Any

from chaos.node import Env, NodeSpec
from reference.controller.node import Controller
from reference.nameserver import SCAN, NameServer, Routes
from reference.wire.codes import Request
from reference.wire.command import Command
from reference.wire.fields import to_json


class NameServerWithController:
    """A node of the role ``controller``. ``routes`` is a part of the name server, all others are the controller's."""

    def __init__(self, spec: NodeSpec, *, routes: type[Routes] = Routes, **parts: Any) -> None:
        self.controller = Controller(spec, **parts)
        self.nameserver = NameServer(spec, routes=routes)

    def start(self, env: Env) -> None:
        self.controller.start(env)
        self.nameserver.start(env)

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.code == Request.DESCRIBE and not message.is_response and not message.is_oneway:
            description = self.nameserver.describe() | self.controller.describe(env)
            env.send(source, message.reply(body=to_json(description)))
        elif self.nameserver.takes(message) and message.code != Request.DESCRIBE:
            self.nameserver.message(env, source, message)
        else:
            self.controller.message(env, source, message)

    def timer(self, env: Env, name: str) -> None:
        if name == SCAN:
            self.nameserver.timer(env, name)
        else:
            self.controller.timer(env, name)

    def done(self, env: Env, token: int) -> None:
        self.controller.done(env, token)

    def closed(self, env: Env, peer: str) -> None:
        self.nameserver.closed(env, peer)
        self.controller.closed(env, peer)
