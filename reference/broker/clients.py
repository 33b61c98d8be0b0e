"""The consumers that a broker knows: who is connected, and in which groups."""

from __future__ import annotations

import json
from collections.abc import Sequence

from chaos.node import Env
from reference.broker.parts import Refused
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import item, listed, optional_text, read_object, text


class Clients:
    """A client that sends heartbeats counts until its connection ends or it says goodbye. All consumers of a group are
    notified when one comes or goes, so that they share its queues again at once: clients ask only each 20 s by
    themselves."""

    def __init__(self) -> None:
        self._clients: dict[str, tuple[str, tuple[str, ...]]] = {}  # connection → client id, groups

    def heartbeat(self, env: Env, source: str, message: Command) -> None:
        """34: who consumes in which group."""
        value = {"consumerDataSet": [], **read_object(message.body)}
        groups = tuple(item(consumer, "groupName", str) for consumer in listed(value, "consumerDataSet", dict))
        client = item(value, "clientID", str)
        env.send(source, message.reply())
        self._set(env, source, client, groups)

    def unregister(self, env: Env, source: str, message: Command) -> None:
        """35: a consumer leaves its group, or, where no group is named, the whole client does. Of the producers of a
        client nothing is known here."""
        consumer, producer = (optional_text(message.fields, name) for name in ("consumerGroup", "producerGroup"))
        env.send(source, message.reply())
        client, groups = self._clients.get(source, ("", ()))
        stay = consumer or producer
        self._set(env, source, client, tuple(one for one in groups if one != consumer) if stay else ())

    def members(self, env: Env, source: str, message: Command) -> None:
        """38: client ids of a group."""
        group = text(message.fields, "consumerGroup")
        found = sorted(client for client, groups in self._clients.values() if group in groups)
        if not found:
            raise Refused(Response.SYSTEM_ERROR, f"no consumer for this group, {group}")
        env.send(source, message.reply(body=json.dumps({"consumerIdList": found}).encode()))

    def closed(self, env: Env, peer: str) -> None:
        """Forget the client at the other end of a connection that is gone."""
        self._set(env, peer, "", ())

    def _set(self, env: Env, connection: str, client: str, groups: Sequence[str]) -> None:
        before_client, before = self._clients.pop(connection, ("", ()))
        if groups:
            self._clients[connection] = client, tuple(groups)
        if (client, tuple(groups)) == (before_client, before):
            return
        for group in dict.fromkeys((*before, *groups)):
            if (client, group in groups) != (before_client, group in before):
                self._notify(env, group)

    def _notify(self, env: Env, group: str) -> None:
        """40: the members of this group have changed."""
        notice = Command(code=Request.NOTIFY_CONSUMER_IDS_CHANGED, flags=ONEWAY, fields={"consumerGroup": group})
        for connection, (_, groups) in self._clients.items():
            if group in groups:
                env.send(connection, notice)
