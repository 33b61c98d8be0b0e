"""The program in ``jvm/``, with the jars of an installed version of RocketMQ: a client of whatever speaks its protocol.

A route names brokers by addresses that only the cluster's own network knows, unless its nodes write down those that
this client was given. Else the program is given one address for each broker, by its port in the route.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence

from chaos.driver import ClientCommand
from chaos.errors import BadInput, MachineError
from chaos.node import Address
from chaos.recipe import Recipe
from drivers._java.maven import JAVA, LIB
from drivers._java.recipes import CLASSES, CLIENTS, GRPC

MAIN = "stormproof.rocketmq.Main"
_FLAGS = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
#: Kinds of producers and consumers, each with the number that is wanted.
KINDS = ("sync", "async", "ordered", "batch", "delay", "transaction", "push", "orderly", "pull", "pop")
#: What else can be ordered.
SETTINGS = ("answer_checks", "batch_size", "gap_ns", "seed")


def check_orders(orders: Mapping[str, int], kinds: Sequence[str] = KINDS) -> None:
    """Raise :class:`BadInput` for orders that the program doesn't know, or for clients of other ``kinds`` than a system
    serves."""
    wanted = {name for name, count in orders.items() if count or name not in KINDS}
    if unknown := sorted(wanted - {*kinds, *SETTINGS}):
        raise BadInput(
            f"the program with RocketMQ's own client can't do {', '.join(unknown)} here; it can do {', '.join(kinds)}"
        )


def library_command(
    installed: Recipe,
    orders: Mapping[str, int],
    *,
    name: str,
    nameservers: Sequence[Address],
    queues: Sequence[tuple[str, str, int]],
    endpoints: Mapping[int, Address] | None = None,
    proxies: Sequence[Address] = (),
) -> ClientCommand:
    """Return how the program is started as the client ``name``. ``queues``: topic, brokerName and queue id of each, by
    their numbers in the history. ``endpoints``: where brokers are reached, by the ports in routes. Raises
    :class:`MachineError` when it was not compiled."""
    given = {
        **orders,
        "name": name,
        "nameservers": ";".join(map(shown, nameservers)),
        "endpoints": {str(port): shown(address) for port, address in (endpoints or {}).items()},
        "proxies": ";".join(map(shown, proxies)),
        "queues": [{"topic": topic, "broker": broker, "queue": queue} for topic, broker, queue in queues],
    }
    argv = java(installed, MAIN, pops=bool(orders.get("pop")))
    return ClientCommand(argv=argv, env={"STORMPROOF_ORDERS": json.dumps(given)})


def java(installed: Recipe, program: str, *, pops: bool = False) -> Sequence[str]:
    """Return how a program is started. The gRPC client comes before the jars of the programs, which hold other builds
    of some of its classes; it is left out where nobody uses it. Raises :class:`MachineError`."""
    lib, classes = installed.program(LIB), installed.folder / CLASSES
    if not classes.is_dir():
        raise MachineError(
            f"the program with RocketMQ's own client is not compiled for {installed.title}, since there was no javac"
            " when it was installed: install a JDK (Debian: apt-get install openjdk-17-jdk-headless), remove"
            f" {installed.folder}, and run `stormproof install {installed.system}@{installed.version}`"
        )
    found = shutil.which("java") or str(installed.folder / JAVA)
    logging = (
        f"-Drmq.logback.configurationFile={installed.folder / CLIENTS / 'logback.xml'}",
        f"-Drocketmq.logback.configurationFile={installed.folder / CLIENTS / 'logback-grpc.xml'}",
    )
    grpc = f"{installed.folder / GRPC}/*:" if pops else ""
    return (found, *_FLAGS, *logging, "-cp", f"{classes}:{grpc}{lib}/*", program)


def shown(address: Address) -> str:
    """Return an address as RocketMQ's programs take it."""
    host, port = address
    return f"{host}:{port}"
