"""Clients that use RocketMQ's own libraries: the program in ``jvm/``, with the jars of the version under test.

A route names brokers by addresses that only the cluster's own network knows. The program is given one address for each
broker instead, which leads there as this client, so that link rules apply to it. A proxy names no broker to its
clients, but the addresses by which they call it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence

from chaos.driver import ClientCommand, Dials
from chaos.errors import BadInput, MachineError
from chaos.node import Address
from chaos.ops import QueueRef
from chaos.recipe import Recipe
from drivers.rocketmq.cluster import Cluster
from drivers.rocketmq.programs import NAMESERVER, port_of
from drivers.rocketmq.recipes import CLASSES, CLIENTS, GRPC, JAVA, LIB

MAIN, ADMIN_TOOL = "stormproof.rocketmq.Main", "stormproof.rocketmq.AdminTool"
_FLAGS = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
#: Kinds of producers and consumers, each with the number that is wanted, and what else can be ordered.
ORDERS = (
    *("sync", "async", "ordered", "batch", "delay", "transaction", "push", "orderly", "pull", "pop"),
    *("answer_checks", "batch_size", "gap_ns", "seed"),
)


async def command(
    network: Dials,
    name: str,
    cluster: Cluster,
    installed: Recipe,
    queues: Sequence[QueueRef],
    orders: Mapping[str, int],
) -> ClientCommand:
    """Return how the program is started as the client ``name``. Raises :class:`BadInput` for orders that it doesn't
    know, and :class:`MachineError` when it was not compiled."""
    if unknown := sorted(orders.keys() - set(ORDERS)):
        raise BadInput(
            f"the program with RocketMQ's own client can't do {', '.join(unknown)}; it can do {', '.join(ORDERS)}"
        )
    pops = bool(orders.get("pop"))
    if pops and not cluster.proxies:
        raise BadInput("library: pop: such consumers ask a proxy, and there is none; add `proxies: 1` to the system")
    given = {
        **orders,
        "name": name,
        "nameservers": ";".join([await _nameserver(network, name, cluster, one) for one in cluster.nameservers]),
        "endpoints": {str(port_of(one)): _shown(await network.endpoint(name, one)) for one in cluster.brokers},
        "proxies": ";".join([_shown(await network.endpoint(name, one)) for one in cluster.proxies]),
        "queues": [
            {"topic": queue.topic, "broker": cluster.group_with(queue), "queue": queue.queue_id} for queue in queues
        ],
    }
    return ClientCommand(argv=_java(installed, MAIN, pops=pops), env={"STORMPROOF_ORDERS": json.dumps(given)})


async def admin_tool(network: Dials, name: str, cluster: Cluster, installed: Recipe, controller: str) -> ClientCommand:
    """Return how RocketMQ's admin tool is started by the operator ``name`` to have ``controller`` elect a master; the
    group, the cluster and the broker are arguments that follow. Raises as :func:`command` does."""
    reached = {one: _shown(await network.endpoint(name, one)) for one in cluster.controllers}
    argv = (*_java(installed, ADMIN_TOOL), "electMaster", "-a", reached[controller])
    ports = {str(port_of(one)): endpoint for one, endpoint in reached.items()}
    return ClientCommand(argv=argv, env={"STORMPROOF_ENDPOINTS": json.dumps(ports)})


async def _nameserver(network: Dials, name: str, cluster: Cluster, nameserver: str) -> str:
    port = NAMESERVER if cluster.embedded else ""
    return _shown(await network.endpoint(name, cluster.host_of(nameserver), port))


def _shown(address: Address) -> str:
    host, port = address
    return f"{host}:{port}"


def _java(installed: Recipe, program: str, *, pops: bool = False) -> Sequence[str]:
    """Return how a program is started. The gRPC client comes before the jars of the programs, which hold other builds
    of some of its classes; it is left out where nobody uses it."""
    lib, classes = installed.program(LIB), installed.folder / CLASSES
    if not classes.is_dir():
        raise MachineError(
            f"the program with RocketMQ's own client is not compiled for {installed.title}, since there was no javac"
            " when it was installed: install a JDK (Debian: apt-get install openjdk-17-jdk-headless), remove"
            f" {installed.folder}, and run `stormproof install {installed.system}@{installed.version}`"
        )
    java = shutil.which("java") or str(installed.folder / JAVA)
    logging = (
        f"-Drmq.logback.configurationFile={installed.folder / CLIENTS / 'logback.xml'}",
        f"-Drocketmq.logback.configurationFile={installed.folder / CLIENTS / 'logback-grpc.xml'}",
    )
    grpc = f"{installed.folder / GRPC}/*:" if pops else ""
    return (java, *_FLAGS, *logging, "-cp", f"{classes}:{grpc}{lib}/*", program)
