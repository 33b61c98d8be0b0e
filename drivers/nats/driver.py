"""NATS JetStream under test: its servers as programs, streams as queues, and who leads them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from chaos.deployment import CanReadFiles
from chaos.driver import (
    Client,
    ClientCommand,
    ClusterSpec,
    ClusterView,
    Dials,
    Evidence,
    Exposure,
    Network,
    Profile,
    Record,
)
from chaos.driver import ReplicaGroup as Group
from chaos.effects.links import HARNESS
from chaos.errors import BadInput
from chaos.frames import Framing
from chaos.node import NodeSpec
from chaos.ops import Failed, QueueRef, Unknown
from chaos.positions import PositionedReader
from chaos.program import Program
from drivers.nats import final_state, library, status
from drivers.nats.api import ABOUT_SERVERS, ACCOUNT, API, REQUEST_S, Json, Session, parsed, refusal
from drivers.nats.client import KEY, MESSAGE_ID, OFFSETS, OFFSETS_SUBJECTS, StreamClient, stream_of, subject_of
from drivers.nats.frames import FRAMING
from drivers.nats.recipe import PROGRAM, RECIPES, recipe
from drivers.nats.wire import Request

TOPIC = "STORM"
#: How long a planned switch may take until it is seen, and a pause between two looks.
SEEN_S = 10.0
LOOK_S = 0.2
#: ``sync_interval`` where JetStream syncs before it acknowledges, and what it does where nothing is said.
ALWAYS, USUAL = "always", "2m"
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_INTERVAL = re.compile("always|([1-9][0-9]{0,5})(ms|s|m|h)")
_CONFIG = f"""\
server_name: "{{name}}"
listen: "{{ip}}:{{port:client}}"
max_payload: 8MB
jetstream: {{ store_dir: "{{disk}}/{final_state.STORE}", sync_interval: "INTERVAL", max_file_store: 8GB }}
accounts: {{
  SYS: {{ users: [ {{ user: system, password: system }} ], exports: [ {{ service: "$SYS.REQ.SERVER.PING.>" }} ] }}
  {ACCOUNT}: {{
    jetstream: enabled
    users: [ {{ user: storm, password: storm }} ]
    imports: [ {{ service: {{ account: SYS, subject: "$SYS.REQ.SERVER.PING.>" }}, to: "{ABOUT_SERVERS}.>" }} ]
  }}
}}
system_account: SYS
no_auth_user: storm
"""
#: Servers keep each other's addresses to themselves, or client libraries would go round the proxies.
_CLUSTER = 'cluster: { name: storm, listen: "{ip}:{port:cluster}", no_advertise: true, routes: [ ROUTES ] }\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A cluster of ``servers`` (1, 3 or 5) of NATS ``version``, which ``stormproof install`` has built, with
    ``streams``, each a queue of its own with ``replicas`` (1, 3 or 5). Disks are compared where there is one stream.
    ``sync_interval``: ``always``, or such as ``30s``; without it, ``always`` where the profile says ``flush:
    sync``, else JetStream's own 2m. With ``deduplicate``, messages have ids that JetStream compares, so that it stores
    no retry of what it has."""

    servers: int = field(default=3, metadata={"within": range(1, 6, 2)})
    replicas: int = field(default=3, metadata={"within": range(1, 6, 2)})
    streams: int = field(default=1, metadata={"within": range(1, 33)})
    version: str = RECIPES[0].version
    sync_interval: str = ""
    deduplicate: bool = False

    def __post_init__(self) -> None:
        recipe(self.version)
        if self.replicas > self.servers:
            raise ValueError(f"replicas: expected at most {self.servers}, one on each of the servers")
        if self.sync_interval and not _INTERVAL.fullmatch(self.sync_interval):
            raise ValueError(f"sync_interval: expected always, or such as 500ms or 2m, got {self.sync_interval!r}")


@dataclass(slots=True)
class Nats:
    """``promised``: what the experiment says; None where it says nothing. ``_groups``: what was known last of who holds
    and leads each stream."""

    options: Options
    promised: Profile | None = None
    _groups: dict[str, Group] = field(default_factory=dict, init=False)

    # What runs, and what it promises

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(f"nats-{number}" for number in range(self.options.servers))

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that are queues, and the one that keeps offsets."""
        return (*map(stream_of, self.queues()), OFFSETS)

    def queues(self) -> tuple[QueueRef, ...]:
        refs = (QueueRef(index=at, topic=TOPIC, queue_id=at) for at in range(self.options.streams))
        return tuple(replace(one, group=stream_of(one)) for one in refs)

    def system_version(self) -> str:
        return self.options.version

    def promising(self, profile: Profile) -> Nats:
        if profile.acks != "all" or profile.unclean:
            raise BadInput(
                "JetStream acknowledges what most replicas have, and elects none without it: leave out acks and unclean"
            )
        if profile.min_in_sync > self._quorum:
            raise BadInput(
                f"min_in_sync: {profile.min_in_sync} is more than the {self._quorum} replicas that JetStream waits for"
                f" with replicas: {self.options.replicas}; lower the one or raise the other"
            )
        return replace(self, promised=profile)

    def profile(self) -> Profile:
        """Return the strict profile, unless the options say that it is not synced always, or not replicated."""
        flush = "sync" if self.options.sync_interval in ("", ALWAYS) else "async"
        return self.promised or Profile(flush=flush, min_in_sync=min(2, self._quorum))

    @property
    def _quorum(self) -> int:
        return self.options.replicas // 2 + 1

    @property
    def sync_interval(self) -> str:
        """How often servers sync what they have written, as their configuration says it."""
        return self.options.sync_interval or (ALWAYS if self.profile().flush == "sync" else USUAL)

    def exposure(self) -> Exposure:
        """Return how long what was acknowledged may be unsynced."""
        match = _INTERVAL.fullmatch(self.sync_interval)
        interval_s = int(match[1]) * _UNITS_S[match[2]] if match and match[1] else 0.0
        return Exposure(loss_window_s=min(interval_s, 3600.0))

    def evidence(self) -> frozenset[Evidence]:
        """Return roles, in versions that report terms, and of one stream what the disks hold: a stream has a log of its
        own, and rows of final logs know one for each node."""
        is_replicated = self.options.replicas > 1
        has_log = is_replicated and self.options.streams == 1
        has_polls = is_replicated and self._has_terms
        return frozenset({*([Evidence.POLLS] if has_polls else []), *([Evidence.FINAL_LOGS] if has_log else [])})

    @property
    def _has_terms(self) -> bool:
        return not self.options.version.startswith("2.10.")

    def evidence_from_files(self) -> frozenset[Evidence]:
        return self.evidence() & {Evidence.FINAL_LOGS}

    def cluster(self, mutant: str) -> ClusterSpec:
        program = self._program()
        return ClusterSpec(nodes=[NodeSpec(name=node, role="broker", program=program) for node in self.nodes])

    def in_version(self, version: str) -> Mapping[str, NodeSpec]:
        """See :class:`chaos.driver.CanUpgrade`."""
        other = replace(self, options=replace(self.options, version=version))
        return {spec.name: spec for spec in other.cluster("").nodes}

    def _program(self) -> Program:
        routes = ", ".join(f'"nats://{{ip:{node}}}:{{port:{node}.cluster}}"' for node in self.nodes)
        cluster = _CLUSTER.replace("ROUTES", routes) if self.options.servers > 1 else ""
        return Program(
            argv=(f"{{installed}}/{PROGRAM}", "-c", "{home}/nats.conf"),
            files={"nats.conf": _CONFIG.replace("INTERVAL", self.sync_interval) + cluster},
            ports={"client": 0, "cluster": 0},
            orderly_s=10.0,
            memory_mb=512,
            recipe=recipe(self.options.version),
        )

    # Clients

    def client(self, network: Network, name: str) -> Client:
        deduplicates, terms = self.options.deduplicate, self._has_terms
        return StreamClient(cast(Dials, network), name, self.nodes, deduplicates=deduplicates, terms=terms)

    def log_reader(self, network: Network, name: str) -> PositionedReader:
        return PositionedReader(self.client(network, name))

    def library_lacks(self) -> Mapping[str, str]:
        return library.LACKS

    async def library_command(self, network: Network, name: str, orders: Mapping[str, int]) -> ClientCommand:
        header = MESSAGE_ID if self.options.deduplicate else KEY
        return await library.command(cast(Dials, network), name, self.nodes, self.queues(), header, orders)

    def framing(self) -> Framing:
        return FRAMING

    # What the harness observes and changes

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        dials, everyone = cast(Dials, network), self.nodes if self.options.replicas == self.options.servers else ()
        polled = self.streams[:-1] if Evidence.POLLS in self.evidence() else ()
        found = await status.take(dials, self.nodes, record, polled, terms=self._has_terms)
        for stream in self.streams:
            before = self._groups.get(stream) or Group(name=stream, replicas=everyone)
            self._groups[stream] = status.group_of(stream, found, before)
        known = found.values()
        is_healthy = len(known) == len(self.nodes) and all(one.healthy for one in known)
        *groups, offsets = (
            replace(group, gone=is_healthy and group.epoch >= 0 and not any(group.name in one.streams for one in known))
            for group in (self._groups[stream] for stream in self.streams)
        )
        is_whole = all(len(group.in_sync) == self.options.replicas for group in (*groups, offsets))
        return ClusterView(groups=tuple(groups), settled=is_healthy and is_whole)

    async def set_up(self, network: Network) -> bool:
        """Create the streams, by any server that answers; one that is there stays as it is."""
        dials = cast(Dials, network)
        session = Session(
            dials, HARNESS, tuple(await status.take(dials, self.nodes, terms=self._has_terms)) or self.nodes
        )
        try:
            made = [await self._create(session, stream) for stream in self.streams]
        finally:
            session.close()
        return all(made) and (await self.view(network)).settled

    async def _create(self, session: Session, stream: str) -> bool:
        """Create a stream; return whether it is there."""
        asked = {
            "name": stream,
            "subjects": [f"{OFFSETS_SUBJECTS}.>" if stream == OFFSETS else subject_of(stream)],
            "max_msgs_per_subject": 1 if stream == OFFSETS else -1,
            "retention": "limits",
            "discard": "old",
            "storage": "file",
            "num_replicas": self.options.replicas,
        }
        try:
            (found,) = await session.look(f"{API}.STREAM.CREATE.{stream}", asked)
        except Failed:  # no server leads the cluster yet
            return False
        return not refusal(found)

    async def collect(self, network: Network, record: Record) -> None:
        """Record what the disks of all servers that answer hold of the one stream. One that has no copy, and is not to
        have one by its leader's word, holds nothing of it."""
        stream = self.streams[0]
        if Evidence.FINAL_LOGS in self.evidence() and isinstance(network, CanReadFiles):
            found = await status.take(cast(Dials, network), self.nodes, terms=self._has_terms)
            holders = status.group_of(stream, found, Group(name=stream, replicas=())).replicas
            for node, one in found.items():
                if stream in one.streams:
                    await final_state.collect(network, node, stream, one.streams[stream].last, record)
                elif holders and node not in holders:
                    final_state.record_log(node, {}, record)

    async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
        """Have the leader of a stream hand over to ``target``, and wait until that leads."""
        stream = group or self.streams[0]
        old = await self._order(network, stream, "STREAM.LEADER.STEPDOWN", {"placement": {"preferred": target}})
        deadline_ns = network.now_ns() + round(SEEN_S * 1e9)
        while network.now_ns() < deadline_ns:
            now = next(one for one in (await self.view(network)).groups if one.name == stream)
            if now.leader == target:
                return {"from": old, "to": target, "epoch": now.epoch}
            await asyncio.sleep(LOOK_S)
        raise Unknown(f"{stream}'s leader was asked to hand over to {target}, which did not lead within {SEEN_S:g} s")

    async def _order(self, network: Network, stream: str, what: str, asked: Json) -> str:
        """Ask the leader of a stream for a change, and return who that is. Raises :class:`Failed` for a refusal."""
        leader = self._groups[stream].leader if stream in self._groups else ""
        if not leader:
            raise Failed("no server leads")
        session = Session(cast(Dials, network), HARNESS, (leader,))
        request = Request(f"{API}.{what}.{stream}", json.dumps(asked).encode())
        (reply,) = await session.ask(request, timeout_s=REQUEST_S)
        session.close()
        if reason := refusal(parsed(reply)):
            raise Failed(reason)
        return leader


class NatsWithSpares(Nats):
    """More servers than replicas: where one is taken out of a stream, another one takes its place."""

    __slots__ = ()

    async def remove_broker(self, network: Network, node: str) -> Mapping[str, object]:
        """Take a server's replicas out of the streams that are queues; it stays a server, and may be given others."""
        await self.view(network)
        held = [stream for stream in self.streams[:-1] if node in self._groups[stream].replicas]
        if not held or any(self._groups[stream].leader in (node, "") for stream in held):
            raise Failed(f"{node} leads, or holds nothing, or no server leads what it holds")
        for stream in held:
            await self._order(network, stream, "STREAM.PEER.REMOVE", {"peer": node})
        return {"removed": held}


def create(options: Options) -> Nats:
    return NatsWithSpares(options) if options.servers > options.replicas > 1 else Nats(options)
