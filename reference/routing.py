"""What a name server answers clients, wherever it knows it from: which brokers serve a topic, and who is master."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chaos import events
from chaos.node import Env
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import text, to_json


@dataclass(frozen=True, slots=True)
class Place:
    """Where a brokerName is served: the epoch of its master, and node names by broker id; ``master`` is "" while there
    is none."""

    cluster: str
    epoch: int
    master: str
    addresses: Mapping[str, str]


class RouteServer:
    """A node that answers clients. A subclass says what it knows."""

    def __init__(self) -> None:
        self._traced: dict[str, tuple[int, Mapping[str, str]]] = {}
        self._handlers: dict[int, Callable[[Env, str, Command], Command]] = {
            Request.GET_ROUTEINFO_BY_TOPIC: self._on_route,
            Request.GET_BROKER_CLUSTER_INFO: self._on_cluster,
            Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._on_topics,
            Request.DESCRIBE: self._on_describe,
        }

    # What it knows

    def places(self) -> Mapping[str, Place]:
        """Return the places of all brokerNames."""
        raise NotImplementedError

    def queues_of(self, topic: str) -> Mapping[str, Mapping[str, Any]]:
        """Return what routes say of a topic, by the brokerNames that have queues of it."""
        raise NotImplementedError

    def topics(self) -> Iterable[str]:
        """Return all topics that are served somewhere."""
        raise NotImplementedError

    # The node

    def takes(self, message: Command) -> bool:
        """Return whether this is a request for a name server."""
        return not message.is_response and message.code in self._handlers

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.is_response:
            return
        handler = self._handlers.get(message.code)
        if handler is None:
            remark = f"request code {message.code} is not for a name server"
            answer = message.reply(Response.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        else:
            answer = handler(env, source, message)
        self._trace_changes(env)
        if not message.is_oneway:
            env.send(source, answer)

    def _trace_changes(self, env: Env) -> None:
        for name, place in self.places().items():
            now = (place.epoch, place.addresses)
            if self._traced.get(name) != now:
                self._traced[name] = now
                brokers = sorted(place.addresses.values())
                env.trace(events.Route(epoch=place.epoch, group=name, master=place.master, brokers=brokers))

    # Requests

    def _on_route(self, env: Env, source: str, message: Command) -> Command:
        topic = text(message.fields, "topic", Response.SYSTEM_ERROR)
        found = sorted(self.queues_of(topic).items())
        if not found:
            return message.reply(Response.TOPIC_NOT_EXIST, remark=f"No topic route info in name server for {topic}")
        places = self.places()
        brokers = [_broker_data(name, places[name]) for name, _ in found]
        queues = [{"brokerName": name, **config} for name, config in found]
        body = {"brokerDatas": brokers, "filterServerTable": {}, "queueDatas": queues, "topicQueueMappingByBroker": {}}
        return message.reply(body=to_json(body))

    def _on_cluster(self, env: Env, source: str, message: Command) -> Command:
        table: dict[str, Any] = {}
        clusters: dict[str, list[str]] = {}
        for name, place in sorted(self.places().items()):
            if place.addresses:
                table[name] = _broker_data(name, place)
                clusters.setdefault(place.cluster, []).append(name)
        return message.reply(body=to_json({"brokerAddrTable": table, "clusterAddrTable": clusters}))

    def _on_topics(self, env: Env, source: str, message: Command) -> Command:
        return message.reply(body=to_json({"topicList": sorted(self.topics())}))

    def _on_describe(self, env: Env, source: str, message: Command) -> Command:
        return message.reply(body=to_json(self.describe()))

    def describe(self) -> dict[str, Any]:
        """Return what this name server says of itself."""
        routes = {
            name: {"master": place.master, "epoch": place.epoch, "brokers": sorted(place.addresses.values())}
            for name, place in sorted(self.places().items())
        }
        return {"routes": routes}


def _broker_data(name: str, place: Place) -> dict[str, Any]:
    known = {"brokerName": name, "cluster": place.cluster, "enableActingMaster": False}
    return {"brokerAddrs": place.addresses, **known}
