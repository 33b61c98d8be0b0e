"""Clients of a split cluster: a queue is known by the name of its slice, and by its rank there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from chaos.ops import QueueRef
from drivers._remoting import client, topics
from drivers.split.places import Places


class QueueClient(client.QueueClient):
    """A client of queues. Whoever makes one says where queues lie (:meth:`placed`)."""

    _places: Places

    def placed(self, places: Places) -> Self:
        """Take this for where queues lie, and return the client."""
        self._places = places
        return self

    def _group(self, queue: QueueRef) -> str:
        return self._places.broker(queue)

    def _place(self, queue: QueueRef) -> tuple[str, int]:
        return self._places.broker(queue), self._places.rank(queue)

    def _extra(self, node: str, source: str) -> Mapping[str, str]:
        return {"demandSource": source} if source else {}


class TopicClient(topics.TopicClient, QueueClient):
    """The same, of topics."""
