"""A world for tests of the tier: brokers, the real object store, and a network that loses, delays and repeats."""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from chaos.events import Event
from chaos.node import NodeSpec
from reference.objectstore.node import ObjectStore
from reference.tier.interface import Stored, TierAnswer, TopicQueue, View
from reference.tier.manifest import Manifest
from reference.tier.objects import content_hash, decode, manifest_key
from reference.tier.storage import Tier
from reference.wire.command import Command
from tests.free_events import fields_of, name_of
from tests.manifests import whole
from tests.reference.memory import MemoryFiles

MS = 1_000_000
SECOND = 1000 * MS
STORE = "store-0"
QUEUES = 3
OPTIONS = {"objectstore": STORE, "tier_segment_bytes": 600, "tier_max_age_ms": 200, "tier_timeout_ms": 100}


class MemoryDisk(MemoryFiles):
    """Files in memory; a sync ends a little later, through the node's ``done``."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__()
        self._world = world
        self._name = name
        self._tokens = 0
        self._last = 0

    def sync(self, paths: object) -> int:
        self._tokens += 1
        token = self._tokens
        self._last = max(self._last + 1, self._world.now + MS)
        node = self._world.nodes[self._name]
        self._world.at(self._last, lambda: node.done(self._world.env(self._name), token))
        return token


class FakeEnv:
    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self.incarnation = 1
        self.rng = Random(f"{world.seed}/{name}")
        self.disk = MemoryDisk(world, name)
        self._world = world
        self._timers: dict[str, int] = {}

    def send(self, to: str, message: Command, *, after: int | None = None) -> None:
        self._world.send(self.name, to, message)

    def close(self, peer: str) -> None:
        raise AssertionError("nothing here closes connections")

    def set_timer(self, name: str, delay_ns: int) -> None:
        number = self._timers[name] = self._world.count()

        def fire() -> None:
            if self._timers.get(name) == number:
                del self._timers[name]
                self._world.nodes[self.name].timer(self, name)

        self._world.at(self._world.now + delay_ns, fire)

    def cancel_timer(self, name: str) -> None:
        self._timers.pop(name, None)

    def mono_ns(self) -> int:
        return self._world.now

    def wall_ns(self) -> int:
        raise AssertionError("the tier decides nothing by the wall clock")

    def trace(self, event: Event) -> None:
        self._world.traces.append({"node": self.name, "f": name_of(event), **fields_of(event)})


class FakeBroker:
    """A broker without a log of its own: it sees the group's log up to ``end``, and ``confirm`` within it."""

    def __init__(self, world: World, name: str, tier: type[Tier], options: dict[str, object]) -> None:
        self.name = name
        self.generation = 1
        self.is_master = False
        self.epoch = 0
        self.confirm = 0
        self.starts = [world.base] * QUEUES
        self.world = world
        self.tier = tier(options)

    def start(self, env: FakeEnv) -> None:
        self.tier.recover(env, self)

    def message(self, env: FakeEnv, source: str, message: Command) -> None:
        assert self.tier.message(env, source, message)

    def timer(self, env: FakeEnv, name: str) -> None:
        assert self.tier.timer(env, name)

    def done(self, env: FakeEnv, token: int) -> None:
        """Tokens of lazy syncs mean nothing to anybody."""

    def closed(self, env: FakeEnv, peer: str) -> None:
        self.tier.closed(env, peer)

    def queues(self) -> Sequence[TopicQueue]:
        return [TopicQueue(index=index, topic="orders", queue_id=index) for index in range(QUEUES)]

    def local_start(self, queue: int) -> int:
        return self.starts[queue]

    def local_end(self, queue: int) -> int:
        records = self.world.queues[queue]
        return self.world.base + bisect_left(records, self.confirm + 1, key=lambda record: record.end)

    def local_records(self, queue: int, offset: int, *, max_bytes: int, max_count: int) -> Sequence[Stored]:
        taken: list[Stored] = []
        for record in self.world.queues[queue][offset - self.world.base : self.local_end(queue) - self.world.base]:
            if taken and (len(taken) >= max_count or sum(len(r.data) for r in taken) + len(record.data) > max_bytes):
                break
            taken.append(record)
        return taken

    def epoch_at(self, position: int) -> int:
        records = (record for queue in self.world.queues for record in queue)
        return next((record.epoch for record in records if record.position == position), 0)

    def publish(self, env: FakeEnv, view: View) -> None:
        for other in self.world.brokers:
            if other is not self:
                self.world.at(
                    self.world.now + 5 * MS, lambda other=other: other.tier.received(self.world.env(other.name), view)
                )


@dataclass
class World:
    """Virtual time, a store, brokers, and the group's log. Each pair of nodes has one ordered connection a direction,
    on which a message may be lost, late or (an answer) repeated, as ``trouble`` says."""

    seed: int
    tier: type[Tier] = Tier
    brokers_count: int = 3
    base: int = 0
    trouble: float = 0.0
    down: bool = False
    options: dict[str, object] = field(default_factory=dict)
    now: int = 0

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.traces: list[dict[str, object]] = []
        self.queues: list[list[Stored]] = [[] for _ in range(QUEUES)]
        self.log_end = 1000
        self.confirmed = 1000  # no clean master lacks a record that ends here or before
        self.lose: Callable[[str, str, Command], bool] = lambda source, to, message: False
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._counter = 0
        self._last: dict[tuple[str, str], int] = {}
        self.brokers = [
            FakeBroker(self, f"broker-{i}", self.tier, OPTIONS | self.options) for i in range(self.brokers_count)
        ]
        store = ObjectStore(NodeSpec(name=STORE, role="objectstore", package="reference"))
        self.nodes = {STORE: store} | {broker.name: broker for broker in self.brokers}
        self._envs = {name: FakeEnv(self, name) for name in self.nodes}
        for name, node in self.nodes.items():
            node.start(self._envs[name])
        for broker in self.brokers:
            broker.confirm = self.log_end

    def env(self, name: str) -> FakeEnv:
        return self._envs[name]

    def count(self) -> int:
        self._counter += 1
        return self._counter

    def at(self, time: int, what: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (time, self.count(), what))

    def run(self, duration_ns: int, *, bound: int = 200_000) -> None:
        end = self.now + duration_ns
        for _ in range(bound):
            if not self._heap or self._heap[0][0] > end:
                self.now = end
                return
            self.now, _, what = heapq.heappop(self._heap)
            what()
        raise AssertionError(f"more than {bound} steps in {duration_ns} ns: something spins")

    def send(self, source: str, to: str, message: Command) -> None:
        rng = self.rng
        if rng.random() < self.trouble or self.lose(source, to, message):
            return
        delay = rng.randrange(MS, 4 * MS)
        if rng.random() < self.trouble:
            delay += rng.randrange(300 * MS)
        copies = 2 if message.is_response and rng.random() < self.trouble else 1
        arrival = self._last[source, to] = max(self._last.get((source, to), 0) + 1, self.now + delay)
        for _ in range(copies):
            self.at(arrival, lambda: self._deliver(source, to, message))

    def _deliver(self, source: str, to: str, message: Command) -> None:
        if self.down:
            broker = source if to == STORE else to
            self.nodes[broker].closed(self._envs[broker], STORE)
        else:
            self.nodes[to].message(self._envs[to], source, message)

    # --- the group ---

    @property
    def master(self) -> FakeBroker | None:
        return next((broker for broker in self.brokers if broker.is_master), None)

    def append(self, count: int) -> None:
        """Append records to random queues; the master's confirm follows some of the way."""
        master = self.master
        if master is None:
            return
        for _ in range(count):
            queue = self.rng.randrange(QUEUES)
            data = self.rng.randbytes(self.rng.choice([20, 60, 200, 900]))
            record = Stored(
                queue=queue,
                offset=self.base + len(self.queues[queue]),
                position=self.log_end,
                epoch=master.epoch,
                hash=content_hash(data),
                data=data,
            )
            self.queues[queue].append(record)
            self.log_end = record.end
        self.confirm_to(master, self.rng.randint(master.confirm, self.log_end))

    def confirm_to(self, broker: FakeBroker, confirm: int) -> None:
        broker.confirm = confirm
        self.confirmed = max(self.confirmed, confirm)
        broker.tier.confirmed(self.env(broker.name))

    def demote(self) -> None:
        master = self.master
        if master is not None:
            master.is_master = False
            self.traces.append({"node": master.name, "f": "role", "role": "slave"})
            master.tier.demoted(self.env(master.name))

    def promote(self, broker: FakeBroker, *, lose_tail: bool = True) -> None:
        """A clean election: the new master has all that was confirmed, perhaps more, and a confirm that lags."""
        epoch = max(b.epoch for b in self.brokers) + 1
        if lose_tail:
            for records in self.queues:
                records[:] = [record for record in records if record.end <= self.confirmed]
            self.log_end = max([1000, *(record.end for records in self.queues for record in records)])
        broker.epoch = epoch
        broker.is_master = True
        broker.confirm = self.rng.randint(1000, self.log_end)
        self.traces.append({"node": broker.name, "f": "role", "role": "master"})
        broker.tier.promoted(self.env(broker.name))
        self.at(self.now + 30 * MS, lambda: self._catch_up(broker, epoch, self.log_end))

    def _catch_up(self, broker: FakeBroker, epoch: int, end: int) -> None:
        if broker.is_master and broker.epoch == epoch:
            self.confirm_to(broker, max(broker.confirm, end))

    def read(self, broker: FakeBroker, queue: int, offset: int, max_bytes: int = 4096) -> list[TierAnswer]:
        answers: list[TierAnswer] = []
        env = self.env(broker.name)
        broker.tier.read(env, queue, offset, max_bytes=max_bytes, max_count=100, then=lambda _, a: answers.append(a))
        return answers

    # --- what must hold ---

    def contents(self) -> dict[str, bytes]:
        store = self.nodes[STORE]
        env = self.env(STORE)
        return {key: store._content(env, found) for key, found in store._objects.items()}

    def manifest(self, queue: int) -> Manifest:
        return Manifest.decode(self.contents()[manifest_key(queue)])

    def rows(self, f: str) -> list[dict[str, object]]:
        return [row for row in self.traces if row["f"] == f]

    def violations(self) -> list[str]:
        return [*self._role_violations(), *self._version_violations(), *self._content_violations()]

    def _role_violations(self) -> list[str]:
        masters: set[object] = set()
        found = []
        for row in self.traces:
            if row["f"] == "role":
                (masters.add if row["role"] == "master" else masters.discard)(row["node"])
            elif row["f"] == "tier_request" and row["verb"] in ("put", "cas", "delete"):
                if row["node"] not in masters:
                    found.append(f"write by {row['node']}, which isn't master")
            elif row["f"] == "tier_commit" and row["position"] > row["confirm"]:
                found.append("P beyond confirm")
        return found

    def _version_violations(self) -> list[str]:
        found = []
        last: dict[object, dict[str, object]] = {}
        named: dict[object, set[str]] = {}
        put_epochs: dict[object, int] = {}
        whole(self.traces)
        for row in self.traces:
            if row["f"] == "store_put" and row["outcome"] == "created":
                epoch = int(str(row["key"]).split("/")[-1].split("-")[1])
                if row["queue"] in last and epoch > last[row["queue"]]["epoch"]:
                    found.append("put before the epoch was raised")
                put_epochs[row["queue"]] = epoch
            elif row["f"] == "store_cas" and row["outcome"] == "applied":
                before = last.get(row["queue"])
                if before is not None and before["version"] + 1 != row["version"]:
                    found.append("a version was skipped")
                for column in ("epoch", "offset", "position"):
                    if before is not None and row[column] < before[column]:
                        found.append(f"{column} fell")
                last[row["queue"]] = row
                named[row["queue"]] = {segment["key"] for segment in row["content"]["segments"]}
            elif row["f"] == "store_delete" and row["key"] in named.get(row["queue"], ()):
                found.append("a named object was deleted")
        return found

    def _content_violations(self) -> list[str]:
        found = []
        contents = self.contents()
        for queue in range(QUEUES):
            if manifest_key(queue) not in contents:
                continue
            manifest = Manifest.decode(contents[manifest_key(queue)])
            found += manifest.problems()
            for segment in manifest.segments:
                if segment.key not in contents:
                    found.append("a named object is missing")
                    continue
                tiered = decode(contents[segment.key])[: segment.count]
                log = self.queues[queue][segment.base - self.base : segment.end - self.base]
                if list(tiered) != log:
                    found.append("the tier differs from the log")
        for broker in self.brokers:
            for view in broker.tier.views().values():
                stands = contents[manifest_key(view.queue)]
                if view.version == Manifest.decode(stands).version and view.content != stands:
                    found.append("a view differs from the manifest")
        return found


def storm(seed: int, tier: type[Tier] = Tier, **options: object) -> World:
    """Load, outages, lost messages and switches from a seed; then peace, long enough to upload everything."""
    world = World(seed, tier, base=(seed % 3) * (2**31 - 5), options=options)
    rng = Random(f"storm {seed}")
    world.promote(world.brokers[0])
    for _ in range(rng.randint(20, 40)):
        world.trouble = rng.choice([0.0, 0.0, 0.1, 0.3])
        world.down = rng.random() < 0.1
        world.append(rng.randrange(8))
        if rng.random() < 0.2:
            world.demote()
            world.run(rng.randrange(100 * MS))
            world.promote(rng.choice(world.brokers))
        world.run(rng.randrange(300 * MS))
    world.trouble = 0.0
    world.down = False
    world.append(5)
    assert world.master is not None
    world.confirm_to(world.master, world.log_end)
    world.run(20 * SECOND)
    return world


def calm(records: int = 40, seed: int = 1, **options: object) -> World:
    """A world whose master has uploaded everything, without any trouble."""
    world = World(seed, options=options)
    world.promote(world.brokers[0])
    world.run(SECOND)
    world.append(records)
    world.confirm_to(world.brokers[0], world.log_end)
    world.run(5 * SECOND)
    assert [world.manifest(queue).end for queue in range(QUEUES)] == [len(records) for records in world.queues]
    return world


def corrupt(world: World, key: str) -> None:
    """Flip a byte of an object in the store, behind its back."""
    store = world.nodes[STORE]
    content = bytearray(world.contents()[key])
    content[-1] ^= 1
    found = store._objects[key]
    world.env(STORE).disk.write(found.path, found.at, bytes(content))
    store._objects[key] = replace(found, hash=content_hash(bytes(content)))
