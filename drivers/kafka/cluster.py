"""Which nodes a Kafka cluster has, how each of them is set up, and how it is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.driver import Profile
from chaos.errors import BadInput
from chaos.node import NodeSpec
from chaos.program import Program
from chaos.recipe import Recipe
from drivers._java.maven import FIND_JAVA, LIB
from drivers.kafka import share_groups, tier
from drivers.kafka.recipe import TIER

BROKER, CONTROLLER = "broker", "controller"
#: Kafka's number of the first dedicated controller; brokers count from 0.
FIRST_CONTROLLER = 1_000
#: 16 bytes in the form in which Kafka writes them.
CLUSTER_ID = "c3Rvcm1wcm9vZi1rYWZrYQ"
#: A follower that has not caught up for so long does not count as in sync any more.
LAG_S = 3.0
#: How long a member of a group may be silent.
SESSION_S = 6.0
#: JVMs that start while others do, on two cores.
BEGIN_S = 300.0
ORDERLY_S = 20.0
#: Small, and short periods: what may be set otherwise.
_USUAL: Mapping[str, object] = {
    "broker.heartbeat.interval.ms": 300,
    "initial.broker.registration.timeout.ms": round(BEGIN_S * 1e3),  # else a broker on a busy machine gives up
    "controller.quorum.election.timeout.ms": 1_000,
    "controller.quorum.fetch.timeout.ms": 2_000,
    "replica.lag.time.max.ms": round(LAG_S * 1e3),
    "replica.fetch.wait.max.ms": 200,  # so late, too, a follower hears what readers may be given
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.session.timeout.ms": round(SESSION_S * 1e3),
    "group.consumer.min.session.timeout.ms": round(SESSION_S * 1e3),
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
    "controlled.shutdown.max.retries": 1,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "num.network.threads": 2,
    "num.io.threads": 4,
}
#: Standard output is kept with the run. What INFO says of elections and sets in sync is what a finding is followed by.
_LOGGED = ("kafka.cluster.Partition", "org.apache.kafka.controller.QuorumController", "state.change.logger")
_RELOAD4J = """\
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{HH:mm:ss.SSS} %-5p %c{1} - %m%n
""" + "".join(f"log4j.logger.{name}=INFO\n" for name in _LOGGED)
_LOG4J2 = """\
<Configuration>
  <Appenders>
    <Console name="out"><PatternLayout pattern="%d{HH:mm:ss.SSS} %-5level %c{1} - %msg%n"/></Console>
  </Appenders>
  <Loggers>
    <Root level="WARN"><AppenderRef ref="out"/></Root>
""" + "".join(f'    <Logger name="{name}" level="INFO"/>\n' for name in _LOGGED)
_LOG4J2 += "  </Loggers>\n</Configuration>\n"
#: Formats a disk once, and syncs what the tool has written, which it does not do itself: a power cut would leave a node
#: that never starts again. ``$1`` is the disk, and what follows is common to both programs.
_START = """\
disk=$1; shift
[ -e "$disk/formatted" ] || {
  rm -rf "$disk/data"
  "$java" "$@" kafka.tools.StorageTool format --cluster-id=ID FLAGS -c server.properties &&
  sync "$disk"/data/* "$disk/data" && : >"$disk/formatted" && sync "$disk/formatted" "$disk"
} || exit 1
exec "$java" "$@" kafka.Kafka server.properties
""".replace("ID", CLUSTER_ID)
_FLAGS = (
    *("-server", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    "-Djava.io.tmpdir={home}",
    "-Dlog4j.configuration=file:log4j.properties",
    "-Dlog4j2.configurationFile=log4j2.xml",
    *("-cp", f"{{installed}}/{LIB}/*:{{installed}}/{TIER}/*"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """``brokers``, and ``controllers`` of their own: none where each broker is a controller as well. ``properties`` are
    Kafka's own, for all nodes; they win over those that follow from a profile, so that one sees what a promise is worth
    that is not kept. ``has_consumer_protocol``: whether members of groups may use KIP-848's; ``is_tiered``: whether
    full segments go to a tier."""

    brokers: tuple[str, ...]
    controllers: tuple[str, ...]
    replicas: int
    timeout_ms: int
    has_consumer_protocol: bool = True
    is_tiered: bool = False
    properties: Mapping[str, object] = field(default_factory=dict)

    @property
    def voters(self) -> tuple[str, ...]:
        """The nodes that vote on metadata."""
        return self.controllers or self.brokers

    def name_of(self, number: int) -> str:
        """Return the node that Kafka calls by this number, "" for one that is none of ours."""
        return next((name for name in (*self.brokers, *self.controllers) if number_of(name) == number), "")

    def nodes(self, recipe: Recipe, profile: Profile) -> list[NodeSpec]:
        """Return all nodes in the order of their start. Raises ``ValueError`` for properties that can't be given."""
        return [
            *(self._node(name, CONTROLLER, recipe, profile) for name in self.controllers),
            *(self._node(name, BROKER, recipe, profile) for name in self.brokers),
        ]

    def _node(self, name: str, role: str, recipe: Recipe, profile: Profile) -> NodeSpec:
        properties = self._properties(name, role, recipe.version, profile)
        start = _START.replace("FLAGS", " ".join(share_groups.format_flags(recipe.version)))
        ports = {"kafka": 0} if role == BROKER else {}
        program = Program(
            argv=("/bin/sh", "-c", FIND_JAVA + start, "{installed}", "{disk}", *_FLAGS),
            files={
                "server.properties": "".join(f"{key}={value}\n" for key, value in properties.items()),
                "log4j.properties": _RELOAD4J,
                "log4j2.xml": _LOG4J2,
            },
            ports={**ports, **({"votes": 0} if name in self.voters else {})},
            begin_s=BEGIN_S,
            orderly_s=ORDERLY_S,
            keep=("server.properties", "data/meta.properties", "data/*checkpoint", "data/*/leader-epoch-checkpoint"),
            memory_mb=768,
            recipe=recipe,
        )
        return NodeSpec(name=name, role=role, program=program)

    def _properties(self, name: str, role: str, version: str, profile: Profile) -> Mapping[str, object]:
        own, votes = "PLAINTEXT://{ip}:{port:kafka}", "CONTROLLER://{ip}:{port:votes}"
        is_broker, is_voter = role == BROKER, name in self.voters
        voters = (f"{number_of(one)}@{{ip:{one}}}:{{port:{one}.votes}}" for one in self.voters)
        advertised = {"advertised.listeners": own, "inter.broker.listener.name": "PLAINTEXT"} if is_broker else {}
        fixed = {
            "process.roles": ",".join([BROKER] * is_broker + [CONTROLLER] * is_voter),
            "node.id": number_of(name),
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([own] * is_broker + [votes] * is_voter),
            **advertised,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": "{disk}/data",
            "auto.create.topics.enable": "false",
        }
        promised = {
            "min.insync.replicas": profile.min_in_sync,
            "unclean.leader.election.enable": str(profile.unclean).lower(),
            **({"log.flush.interval.messages": 1} if profile.flush == "sync" else {}),
        }
        copies = {
            "default.replication.factor": self.replicas,
            "offsets.topic.replication.factor": self.replicas,
            "transaction.state.log.replication.factor": self.replicas,
            "transaction.state.log.min.isr": min(profile.min_in_sync, self.replicas),
            "broker.session.timeout.ms": self.timeout_ms,
        }
        shared = share_groups.of_brokers(
            version, self.replicas, copies["transaction.state.log.min.isr"], round(SESSION_S * 1e3)
        )
        members = {"group.coordinator.rebalance.protocols": "classic,consumer"} if self.has_consumer_protocol else {}
        tiered = tier.of_brokers(self.brokers, self.replicas) if self.is_tiered else {}
        return {
            **fixed,
            **_USUAL,
            **members,
            **shared,
            **tiered,
            **copies,
            **promised,
            **_given(self.properties, fixed),
        }


def number_of(name: str) -> int:
    """Return what Kafka calls a node: its ``node.id``."""
    role, _, number = name.rpartition("-")
    return int(number) + (FIRST_CONTROLLER if role == CONTROLLER else 0)


def _given(properties: Mapping[str, object], fixed: Mapping[str, object]) -> Mapping[str, object]:
    """Return properties as Kafka writes them. Raises :class:`BadInput` for those that are not the user's to set, or are
    not one line."""
    if taken := sorted(fixed.keys() & properties.keys()):
        raise BadInput(f"properties: {', '.join(taken)} can't be given; the driver's other options set it")
    if broken := [key for key, value in properties.items() if len(f"{key}={value}".splitlines()) != 1]:
        raise BadInput(f"properties: {', '.join(map(repr, broken))} is not one line")
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in properties.items()}
