"""Stores of a small cluster in a seeded world, with a meta node, an object store, and an owner that appends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaos.node import Env, Node, NodeSpec
from reference.objectstore.node import ObjectStore
from reference.split.calls import Calls
from reference.split.joining import Joining, MetaRequest, Metas
from reference.split.meta.node import Meta
from reference.split.requests import (
    AppendAnswer,
    AppendRequest,
    CommitRequest,
    FenceAnswer,
    FenceRequest,
    Refusal,
)
from reference.split.store.node import Store
from reference.split.view import ClusterFollower
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.raftnet import MS, World
from tests.reference.split.owner import append

TOPIC = "orders"
STORES = ("store-0", "store-1", "store-2")
#: Small and quick, so that a test sees many segments.
OPTIONS: Mapping[str, Any] = {
    "metas": ["meta-0"],
    "groups": 2,
    "slices": 1,
    "objectstore": "tier-0",
    "segment_bytes": 3000,
    "segment_ms": 400,
    "snapshot_entries": 20,
    "heartbeat_ms": 50,
    "election_ms": 250,
    "delete_ms": 300,
    "tier_timeout_ms": 300,
}


class ScriptedOwner:
    """A broker that owns the one slice: it fences its groups, and appends to each one batch after the other. What is
    not resolved is sent again with the same bytes (R3)."""

    def __init__(self, target: int) -> None:
        self.calls = Calls()
        self.follower = ClusterFollower(["meta-0"])
        self.metas = Metas(self.calls, ["meta-0"])
        self.joining = Joining(self.metas, "broker", lambda env: self._open(env))
        self.target = target  # so many records are to be acknowledged in each group
        self.ends: dict[int, int] = {}
        self.acked: dict[int, list[bytes]] = {}
        self.turns: dict[int, int] = {}
        self.fenced_epoch = 0
        self.refusals: list[int] = []

    def start(self, env: Env) -> None:
        self.follower.start(env)
        self.joining.start(env, f"nonce-{env.incarnation}")

    def message(self, env: Env, source: str, message: Command) -> None:
        if self.follower.answered(env, source, message):
            self._open(env)
        else:
            self.calls.answered(env, source, message)

    def timer(self, env: Env, name: str) -> None:
        for part in (self.joining, self.follower, self.calls):
            if part.timer(env, name):
                return

    def done(self, env: Env, token: int) -> None:
        raise AssertionError("a broker has no disk")

    def closed(self, env: Env, peer: str) -> None:
        self.follower.closed(env, peer)
        self.calls.closed(env, peer)

    # Groups

    @property
    def topic_id(self) -> int:
        topic = self.follower.cluster.topic(TOPIC)
        assert topic is not None
        return topic.id

    def _open(self, env: Env) -> None:
        owner = self.follower.cluster.owner(0)
        own = (owner.broker, owner.life) == (env.name, self.joining.number)
        topic = self.follower.cluster.topic(TOPIC)
        if own and owner.epoch > self.fenced_epoch and topic is not None and len(self.follower.cluster.groups()) == 2:
            self.fenced_epoch = owner.epoch
            for group in range(2):
                self._fence(env, group)

    def _ask(self, env: Env, group: int, request: Any, then: Callable[[Env, Command | None], None]) -> None:
        known = self.follower.cluster.group(group)
        nodes = [name.partition("#")[0] for name in known.voters] if known is not None else list(STORES)
        turn = self.turns.get(group, 0)
        self.calls.ask(env, nodes[turn % len(nodes)], request, lambda message: message, then, 200 * MS)

    def _again(self, env: Env, group: int, answer: Command | None, then: Callable[[Env], None]) -> None:
        self.turns[group] = self.turns.get(group, 0) + 1
        if answer is not None:
            self.refusals.append(Refusal.read(answer).code)
        self.calls.later(env, 20 * MS, then)

    def _fence(self, env: Env, group: int) -> None:
        epoch = self.fenced_epoch

        def answered(env: Env, answer: Command | None) -> None:
            if epoch != self.fenced_epoch:
                return
            if answer is None or answer.code:
                self._again(env, group, answer, lambda env: self._fence(env, group))
                return
            found = FenceAnswer.read(answer)
            self.ends[group] = found.end
            held = next((one.next for one in found.queues if one.number == group), 0)
            bodies = self.acked.setdefault(group, [])
            assert held >= len(bodies), f"group {group} has {held} records, but {len(bodies)} were acknowledged"
            bodies += [b"?"] * (held - len(bodies))
            self._append(env, group)

        request = FenceRequest(group=group, slice=0, epoch=epoch, broker=env.name, life=self.joining.number)
        self._ask(env, group, request, answered)

    def _append(self, env: Env, group: int) -> None:
        bodies = self.acked[group]
        if len(bodies) < self.target:
            body = f"{group}/{len(bodies)}/{self.fenced_epoch}/".encode() + bytes(env.rng.randrange(300))
            topics = {TOPIC: self.topic_id}
            message = (TOPIC, group, len(bodies), body)
            store_ms = env.wall_ns() // MS
            entry = append(self.fenced_epoch, self.ends[group], message, group=group, topics=topics, store_ms=store_ms)
            request = AppendRequest(
                group=group,
                epoch=entry.epoch,
                position=entry.position,
                crc=entry.crc,
                topics=topics,
                records=entry.records,
            )
            self._send(env, group, request, body)

    def _send(self, env: Env, group: int, request: AppendRequest, body: bytes) -> None:
        def answered(env: Env, answer: Command | None) -> None:
            if request.epoch != self.fenced_epoch:
                return
            if answer is None or answer.code:
                self._again(env, group, answer, lambda env: self._send(env, group, request, body))
                return
            self.ends[group] = AppendAnswer.read(answer).end
            self.acked[group].append(body)
            self._commit(env, group)
            self._append(env, group)

        self._ask(env, group, request, answered)

    def _commit(self, env: Env, group: int) -> None:
        request = CommitRequest(
            group=group,
            epoch=self.fenced_epoch,
            consumer="shop",
            topic_id=self.topic_id,
            number=group,
            offset=len(self.acked[group]),
        )
        self._ask(env, group, request, lambda env, answer: None)


class Asker:
    """A node that asks what the test wants, and keeps the answers."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.answers: list[Command | None] = []

    def start(self, env: Env) -> None:
        self.answers.clear()

    def ask(self, env: Env, to: str, request: Any) -> None:
        self.answers.clear()
        self.calls.ask(env, to, request, lambda message: message, lambda env, it: self.answers.append(it), 500 * MS)

    def message(self, env: Env, source: str, message: Command) -> None:
        self.calls.answered(env, source, message)

    def timer(self, env: Env, name: str) -> None:
        self.calls.timer(env, name)

    def done(self, env: Env, token: int) -> None:
        raise AssertionError("it has no disk")

    def closed(self, env: Env, peer: str) -> None:
        self.calls.closed(env, peer)


class StoreWorld(World):
    """The cluster: nodes by name, and what tests ask of them."""

    def __init__(self, seed: int, *, target: int = 40, stores: int = 3, **options: Any) -> None:
        self.options = {**OPTIONS, **options}
        self.owner_target = target
        names = [f"store-{number}" for number in range(stores)]
        make: dict[str, Callable[[], Node]] = {"meta-0": self.make_meta, "tier-0": self.make_tier}
        make |= {name: self.make_store(name) for name in names}
        make |= {"broker-0": lambda: ScriptedOwner(target), "asker": Asker}
        super().__init__(seed, make)

    def make_meta(self) -> Node:
        options: dict[str, Any] = {"broker_timeout_ms": 800, "store_timeout_ms": 1500, "replicas": 3}
        given = {key: value for key, value in self.options.items() if key in ("groups", "slices", "metas")}
        more = {key: value for key, value in self.options.items() if key in options}
        return Meta(
            NodeSpec(name="meta-0", role="meta", package="reference.split", options={**options, **given, **more})
        )

    def make_tier(self) -> Node:
        return ObjectStore(NodeSpec(name="tier-0", role="objectstore", package="reference.split"))

    def make_store(self, name: str) -> Callable[[], Node]:
        options = {**self.options, "zone": f"zone-{name[-1]}"}
        return lambda: Store(NodeSpec(name=name, role="store", package="reference.split", options=options))

    # Asking

    def ask(self, to: str, request: Any) -> Command:
        """Ask a node until it answers."""
        asker = self.nodes["asker"]
        for _ in range(50):
            asker.answers.clear()
            asker.calls.ask(
                self.envs["asker"],
                to,
                request,
                lambda message: message,
                lambda env, a: asker.answers.append(a),
                500 * MS,
            )
            self.run(600, until=lambda: bool(asker.answers))
            if asker.answers and asker.answers[0] is not None:
                answer: Command = asker.answers[0]
                return answer
        raise AssertionError(f"{to} is silent")

    def make_topic(self, **limits: int) -> None:
        """Make the topic, or change it."""
        fields = {"topic": TOPIC, "queues": "2"} | {key: str(value) for key, value in limits.items()}
        for _ in range(50):
            answer = self.ask("meta-0", MetaRequest(Request.META_TOPIC, fields))
            if answer.code == Response.SUCCESS:
                return
            self.run(100)
        raise AssertionError(answer.remark)

    # Looking

    @property
    def owner(self) -> ScriptedOwner:
        found = self.nodes["broker-0"]
        assert isinstance(found, ScriptedOwner)
        return found

    def store(self, name: str) -> Store:
        found = self.nodes[name]
        assert isinstance(found, Store)
        return found

    def all_is_appended(self) -> bool:
        """Return whether the owner has its acknowledgements."""
        acked = self.owner.acked
        return len(acked) == 2 and all(len(bodies) >= self.owner.target for bodies in acked.values())

    def members(self, group: int) -> list[str]:
        """Return the stores that say that they have a replica of this group."""
        alive = [name for name in self.make if name.startswith("store-") and name in self.envs]
        return [
            name for name in alive if (groups := self.store(name).groups) is not None and group in groups.host.replicas
        ]

    def leads(self, name: str, group: int = 0) -> bool:
        """Return whether a store leads a group, as far as it knows."""
        groups = self.store(name).groups
        return groups is not None and group in groups.host.replicas and groups.host.replicas[group].is_leader

    def wipe(self, name: str) -> None:
        """Crash a store and take all of its disk."""
        self.crash(name)
        disk = self.disks[name]
        for path in disk.list():
            disk.remove(path)
        disk.crash(self.rng)
        self.disks[name] = type(disk)(lambda token, size: self.on_sync(name, token))
