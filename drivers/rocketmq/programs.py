"""The nodes of a RocketMQ cluster as programs: their commands and ports.

Each node has ports of its own numbers, so that a cluster also fits on one address, and so that an address in an answer
names a node. A broker has three: clients', the replicas' (one above), and a fast one for its slaves (two below, which
can't be configured). A JRaft controller votes at a port of its own, and a controller in a name server's program has
that one's port beside its own. A proxy has one for its gRPC clients, and one for others below it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from chaos.node import NodeSpec
from chaos.program import PortAccepts, Program
from chaos.recipe import Recipe
from drivers._java.maven import FIND_JAVA, LIB

NAMESERVER, CONTROLLER, BROKER, PROXY = "nameserver", "controller", "broker", "proxy"
#: The first node's port and the distance to the next one's.
_PORTS = {NAMESERVER: (9876, 1), CONTROLLER: (9976, 1), BROKER: (10911, 20), PROXY: (8081, 2)}
#: Where the first JRaft controller votes.
_FIRST_VOTES = 9776
_MAINS = {
    NAMESERVER: "org.apache.rocketmq.namesrv.NamesrvStartup",
    CONTROLLER: "org.apache.rocketmq.controller.ControllerStartup",
    BROKER: "org.apache.rocketmq.broker.BrokerStartup",
    PROXY: "org.apache.rocketmq.proxy.ProxyStartup",
}
_SMALL_HEAP = ("-Xms32m", "-Xmx160m")
_HEAPS = {
    NAMESERVER: _SMALL_HEAP,
    CONTROLLER: _SMALL_HEAP,
    BROKER: ("-Xms128m", "-Xmx448m", "-XX:MaxDirectMemorySize=384m"),
    PROXY: ("-Xms32m", "-Xmx192m", "-XX:MaxDirectMemorySize=128m"),
}
#: For each node in a container; they take a fifth less.
_MEMORY_MB = {NAMESERVER: 384, CONTROLLER: 384, BROKER: 1024, PROXY: 512}
_FLAGS = ("-server", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_BASE = "java.base/"
#: Packages of Java's own that RocketMQ reaches into.
_OPENED = ("java.lang", "java.nio", "java.util", "jdk.internal.ref", "sun.nio.ch")
_EXPORTED = ("sun.nio.ch", "jdk.internal.ref")
#: RocketMQ brings logback under a name of its own. Standard output is kept with the run. What INFO says of roles, sets
#: in sync and where a log was cut is what a finding is followed by.
_LOGGING = """\
<configuration>
  <appender name="out" class="org.apache.rocketmq.logging.ch.qos.logback.core.ConsoleAppender">
    <encoder class="org.apache.rocketmq.logging.ch.qos.logback.classic.encoder.PatternLayoutEncoder">
      <pattern>%d{HH:mm:ss.SSS} %-5level %logger{0} - %msg%n</pattern>
    </encoder>
  </appender>
  <logger name="RocketmqBroker" level="INFO"/>
  <logger name="RocketmqStore" level="INFO"/>
  <logger name="RocketmqController" level="INFO"/>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""
#: A JVM that starts while others do, on two cores.
BEGIN_S = 300.0
ORDERLY_S = 20.0
#: A proxy grants its clients half a minute by default (``grpcShutdownTimeSeconds``).
PROXY_ORDERLY_S = 40.0


def port_of(name: str) -> int:
    """Return the port at which clients find the node of this name."""
    role, _, number = name.rpartition("-")
    first, step = _PORTS[role]
    return first + step * int(number)


def votes_port_of(controller: str) -> int:
    """Return the port at which JRaft controllers talk to one another."""
    return _FIRST_VOTES + int(controller.rpartition("-")[2])


def program_node(
    name: str,
    role: str,
    installed: Recipe,
    properties: Mapping[str, object],
    *,
    main: str = "",
    ports: Mapping[str, int] | None = None,
) -> NodeSpec:
    """Return a node that runs the program of ``main`` (its own role's, unless given) with these properties. ``ports``:
    those that it has besides its own."""
    port = port_of(name)
    own = {"main": port, "ha": port + 1, "fast": port - 2} if role == BROKER else {"main": port}
    program = Program(
        argv=_command(_START, main or role, "-c", "{home}/node.conf"),
        files={
            "node.conf": "".join(f"{key}={value}\n" for key, value in properties.items()),
            "logback.xml": _LOGGING,
        },
        env={"ROCKETMQ_HOME": "{home}"},
        ports={**own, **(ports or {})},
        ready=PortAccepts(),
        begin_s=BEGIN_S,
        orderly_s=ORDERLY_S,
        keep=("node.conf", "logs/**", *(_KEPT if role == BROKER else ())),
        memory_mb=_MEMORY_MB[role],
        recipe=installed,
    )
    return NodeSpec(name=name, role=role, program=program)


def proxy_node(name: str, installed: Recipe, settings: Mapping[str, object]) -> NodeSpec:
    """Return a proxy with these settings, which it takes as JSON."""
    port = port_of(name)
    program = Program(
        argv=_command(_START_AGAIN, PROXY, "-pc", "{home}/rmq-proxy.json"),
        files={"rmq-proxy.json": json.dumps(settings, indent=2), "logback.xml": _LOGGING},
        env={"ROCKETMQ_HOME": "{home}", "RMQ_PROXY_HOME": "{home}"},
        ports={"main": port, "remoting": port - 1},
        ready=PortAccepts(),
        begin_s=BEGIN_S,
        orderly_s=PROXY_ORDERLY_S,
        keep=("rmq-proxy.json", "logs/**"),
        memory_mb=_MEMORY_MB[PROXY],
        recipe=installed,
    )
    return NodeSpec(name=name, role=PROXY, program=program)


#: Of a broker's disk, what shows its state and isn't large.
_KEPT = ("store/epochFileCheckpoint*", "store/checkpoint", "store/brokerIdentity", "store/config/*.json")


_START = FIND_JAVA + 'exec "$java" "$@"'
#: A proxy that finds no master when it starts gives up with exit code 1, and is started again, as its users do.
_START_AGAIN = FIND_JAVA + 'trap : TERM; while :; do "$java" "$@"; code=$?; [ $code = 1 ] || exit $code; sleep 1; done'


def _command(start: str, role: str, *arguments: str) -> Sequence[str]:
    return (
        *("/bin/sh", "-c", start, "{installed}"),
        *_FLAGS,
        *_HEAPS[role],
        *(f"--add-opens={_BASE}{package}=ALL-UNNAMED" for package in _OPENED),
        *(f"--add-exports={_BASE}{package}=ALL-UNNAMED" for package in _EXPORTED),
        "-Drocketmq.home.dir={home}",
        "-Duser.home={home}",
        "-Djava.io.tmpdir={home}",  # what a killed program leaves there would stay on the machine
        "-Drmq.logback.configurationFile={home}/logback.xml",
        "-Dtls.server.mode=disabled",  # else a server makes RSA keys for tests, which takes most of its start
        *("-cp", f"{{installed}}/{LIB}/*", _MAINS[role], *arguments),
    )
