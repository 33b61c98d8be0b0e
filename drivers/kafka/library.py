"""Clients that use a library: Kafka's own in Java, or librdkafka, each in a program that a workload orders."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from chaos.driver import ClientCommand, Dials
from chaos.errors import BadInput
from chaos.ops import QueueRef
from chaos.recipe import Recipe
from drivers._java import client_library
from drivers.kafka import share_groups
from drivers.kafka.client import NOT_APPENDED
from drivers.kafka.cluster import Cluster

JAVA, LIBRDKAFKA = "java", "librdkafka"
LIBRARIES = (JAVA, LIBRDKAFKA)
_DELAY = {"delay": "Kafka delays no message"}
EXTRA = (
    "client: librdkafka is used through confluent-kafka, which is not installed: pip install 'stormproof[librdkafka]'"
)
_MAIN = "stormproof.kafka.Main"
_LIBRDKAFKA = (sys.executable, "-P", str(Path(__file__).with_name("librdkafka_program.py")))


def require(library: str) -> None:
    """Raise :class:`BadInput` for a library that is not installed with Python."""
    if library == LIBRDKAFKA and find_spec("confluent_kafka") is None:
        raise BadInput(EXTRA)


def lacks(library: str, version: str) -> Mapping[str, str]:
    """Return what clients of ``library`` can't be with brokers of this version, and why."""
    first = ".".join(map(str, share_groups.FIRST))
    if not share_groups.has_share_groups(version):
        return {**_DELAY, "pop": f"Kafka {version} has no share groups; they are in {first} and later"}
    if library != JAVA:
        return {**_DELAY, "pop": f"{library} has no consumers of share groups; Kafka's own has: `client: java`"}
    return _DELAY


@dataclass(frozen=True, slots=True)
class Program:
    """A client of ``library``, of the same version as the cluster if it is Kafka's own. ``settings``: those of its
    producers and consumers."""

    library: str
    installed: Recipe
    settings: Mapping[str, object]

    async def command(
        self, network: Dials, name: str, cluster: Cluster, queues: Sequence[QueueRef], orders: Mapping[str, int]
    ) -> ClientCommand:
        """Return how it is started as the client ``name``. Raises :class:`chaos.errors.MachineError` when it was not
        compiled."""
        given = {
            **orders,
            **self.settings,
            "name": name,
            "bootstrap": ",".join([_shown(await network.endpoint(name, broker)) for broker in cluster.brokers]),
            "queues": [{"topic": queue.topic, "queue": queue.queue_id} for queue in queues],
            "members": cluster.has_consumer_protocol,
            "not_appended": sorted(NOT_APPENDED),
        }
        argv = client_library.java(self.installed, _MAIN) if self.library == JAVA else _LIBRDKAFKA
        return ClientCommand(argv=argv, env={client_library.ORDERS: json.dumps(given)})


def _shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"{host}:{port}"
