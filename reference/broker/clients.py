"""The consumers that a broker knows: who is connected, and in which groups."""

from __future__ import annotations

import json

from chaos.node import Env
from reference.broker.parts import Refused
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import item, listed, read_object, text


class Clients:
    """Whoever sends heartbeats counts until its connection ends or it says goodbye."""

    def __init__(self) -> None:
        self._clients: dict[str, tuple[str, tuple[str, ...]]] = {}  # connection → client id, groups

    def heartbeat(self, env: Env, source: str, message: Command) -> None:
        """34: who consumes in which group."""
        value = {"consumerDataSet": [], **read_object(message.body)}
        groups = tuple(item(consumer, "groupName", str) for consumer in listed(value, "consumerDataSet", dict))
        self._clients[source] = (item(value, "clientID", str), groups)
        env.send(source, message.reply())

    def unregister(self, env: Env, source: str, message: Command) -> None:
        """35."""
        self._clients.pop(source, None)
        env.send(source, message.reply())

    def members(self, env: Env, source: str, message: Command) -> None:
        """38: client ids of a group."""
        group = text(message.fields, "consumerGroup")
        found = sorted(client for client, groups in self._clients.values() if group in groups)
        if not found:
            raise Refused(Response.SYSTEM_ERROR, f"no consumer for this group, {group}")
        env.send(source, message.reply(body=json.dumps({"consumerIdList": found}).encode()))

    def closed(self, peer: str) -> None:
        """Forget the client at the other end of a connection that is gone."""
        self._clients.pop(peer, None)
