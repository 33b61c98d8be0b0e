"""The program in ``jvm/stormproof/rocketmq``, with the jars of an installed version of RocketMQ: a client of whatever
speaks its protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from chaos.driver import ClientCommand
from chaos.node import Address
from chaos.recipe import Recipe
from drivers._java import client_library
from drivers._java.client_library import CLIENTS, ORDERS
from drivers._java.recipes import GRPC

MAIN = "stormproof.rocketmq.Main"


def library_command(
    installed: Recipe,
    orders: Mapping[str, int],
    *,
    name: str,
    nameservers: Sequence[Address],
    queues: Sequence[tuple[str, str, int]],
    proxies: Sequence[Address] = (),
) -> ClientCommand:
    """Return how the program is started as the client ``name``. ``queues``: topic, brokerName and queue id of each, by
    their numbers in the history. Raises :class:`chaos.errors.MachineError` when it was not compiled."""
    given = {
        **orders,
        "name": name,
        "nameservers": ";".join(map(shown, nameservers)),
        "proxies": ";".join(map(shown, proxies)),
        "queues": [{"topic": topic, "broker": broker, "queue": queue} for topic, broker, queue in queues],
    }
    argv = java(installed, MAIN, pops=bool(orders.get("pop")))
    return ClientCommand(argv=argv, env={ORDERS: json.dumps(given)})


def java(installed: Recipe, program: str, *, pops: bool = False) -> Sequence[str]:
    """Return how a program is started. The gRPC client comes before the jars of the programs, which hold other builds
    of some of its classes; it is left out where nobody uses it. Raises :class:`chaos.errors.MachineError`."""
    logging = (
        f"-Drmq.logback.configurationFile={installed.folder / CLIENTS / 'logback.xml'}",
        f"-Drocketmq.logback.configurationFile={installed.folder / CLIENTS / 'logback-grpc.xml'}",
    )
    grpc = f"{installed.folder / GRPC}/*:" if pops else ""
    return client_library.java(installed, program, flags=logging, before=grpc)


def shown(address: Address) -> str:
    """Return an address as programs in Java take it."""
    host, port = address
    return f"{host}:{port}"
