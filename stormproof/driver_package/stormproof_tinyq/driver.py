"""The driver of tinyq: which programs to start, what it promises, how a client talks to it, and who is what.

tinyq is a toy: replace `server.py` and `recipe.py` by your system, then this module from top to bottom. A *primary*
answers once its *backup* has the message on its disk, too; which of the two is primary never changes.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from chaos.api import (
    HARNESS,
    Answer,
    Client,
    ClusterSpec,
    ClusterView,
    Delivered,
    Dials,
    Disconnected,
    Evidence,
    Failed,
    LogSays,
    Mutant,
    Network,
    NodeSpec,
    Profile,
    Program,
    QueueRef,
    Record,
    ReplicaGroup,
    Unknown,
    body_hash,
)

from .recipe import RECIPES as RECIPES  # `stormproof install` looks for them here

PRIMARY, BACKUP = NODES = ("queue-0", "queue-1")
#: A request without an answer for so long has an unknown outcome.
REQUEST_S = 3.0
CONFIG = '{"listen": ["{ip}", {port}], "disk": "{disk}", "backup": BACKUP, "lazy": LAZY}'
#: Bugs that can be planted, to see that a test finds them: `stormproof run ... --bug NAME`.
MUTANTS = (Mutant(name="lazy", law="durability", stands_for="a server that acknowledges what it has not written"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What an experiment may choose: `system: {tinyq: {...}}`. Nothing so far."""


class ServerClient:
    """A client of queues. One call is one attempt: what a client library would retry must be turned off."""

    def __init__(self, network: Network, name: str) -> None:
        self._network = cast(Dials, network)
        self._name = name
        self._streams: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def ask(self, node: str = PRIMARY, **request: object) -> Mapping[str, Any]:
        """Return the answer to a request. Raises ``Failed`` for one that surely never reached the server, ``Unknown``
        for any other trouble."""
        sent = False
        try:
            async with asyncio.timeout(REQUEST_S):
                if node not in self._streams:
                    self._streams[node] = await self._network.dial(self._name, node)
                reader, writer = self._streams[node]
                sent = True
                writer.write(json.dumps(request).encode() + b"\n")
                answer: Mapping[str, Any] = json.loads(await reader.readline())
                return answer
        except (TimeoutError, OSError, ValueError, Disconnected) as error:
            self.close()
            if sent:
                raise Unknown(str(error) or "no answer") from error
            raise Failed("it could not be reached") from error
        except BaseException:
            self.close()  # an answer that is still to come would be taken for the next one's
            raise

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        answer = await self.ask(do="append", message=[key, body.decode("latin-1")])
        if "unknown" in answer:
            raise Unknown(answer["unknown"])
        return Answer(node=PRIMARY, offset=answer["offset"])

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        answer = await self.ask(node or PRIMARY, do="read", offset=offset)
        if "refused" in answer:
            raise Failed(answer["refused"])
        found: tuple[Delivered, ...] = ()
        if answer["message"] is not None:
            key, body = answer["message"]
            found = (Delivered(offset=offset, message=int(key, 16), hash=body_hash(body.encode("latin-1"))),)
        following = offset + len(found)
        return Answer(node=node or PRIMARY, minimum=0, maximum=answer["end"], following=following, messages=found)

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        await self.ask(do="commit", group=group, offset=offset)
        return Answer(node=PRIMARY)

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        return Answer(node=PRIMARY, offset=(await self.ask(do="committed", group=group))["offset"])

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        return await self.pull(queue, -1, limit=0, node=node)

    def close(self) -> None:
        for _, writer in self._streams.values():
            writer.transport.abort()
        self._streams.clear()


class TinyqDriver:
    """A primary and a backup, which are programs."""

    def cluster(self, mutant: str) -> ClusterSpec:
        backup = f'["{{ip:{BACKUP}}}", {{port:{BACKUP}.queue}}]'
        nodes = (_node(PRIMARY, backup, lazy=mutant == "lazy"), _node(BACKUP, "null", lazy=False))
        return ClusterSpec(nodes=nodes)

    def queues(self) -> tuple[QueueRef, ...]:
        return (QueueRef(index=0, topic="tinyq", queue_id=0),)

    def profile(self) -> Profile:
        """Return what it promises: it flushes before it acknowledges, on all replicas."""
        return Profile(flush="sync", acks="all")

    def client(self, network: Network, name: str) -> Client:
        return ServerClient(network, name)

    def evidence(self) -> frozenset[Evidence]:
        """Return what it reports beyond what clients see: who has which role (`view`). Add to it later."""
        return frozenset({Evidence.POLLS})

    def holders(self, queue: QueueRef) -> tuple[str, ...]:
        """Return who answers reads of this queue from a copy of its own; delete this where only a leader does."""
        return NODES

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        """Ask each node who it is. It is settled only when all copies are in sync and a write would succeed."""
        states = {node: await _state(network, node, record) for node in NODES}
        primary = states[PRIMARY]
        is_copied = bool(primary and states[BACKUP] and primary["end"] == primary["confirmed"])
        in_sync = NODES if is_copied else (PRIMARY,) if primary else ()
        group = ReplicaGroup(name="tinyq", replicas=NODES, leader=PRIMARY, epoch=1, in_sync=in_sync)
        return ClusterView(groups=(group,), settled=is_copied)

    async def collect(self, network: Network, record: Record) -> None:
        """Record nothing: clients have seen all that this system shows. Replicas' logs would be written here."""


async def _state(network: Network, node: str, record: Record | None) -> Mapping[str, Any]:
    """Return what a node says of itself, and record it; empty when it does not answer."""
    client = ServerClient(network, HARNESS)
    row = record("poll", f="state", type="invoke", node=node) if record else -1
    try:
        state = await client.ask(node, do="state")
    except (Failed, Unknown):
        return {}
    finally:
        client.close()
    if record:
        role = "master" if node == PRIMARY else "slave"
        record("poll", f="state", type="ok", node=node, op=row, epoch=1, value={"role": role})
    return state


def _node(name: str, backup: str, *, lazy: bool) -> NodeSpec:
    config = CONFIG.replace("BACKUP", backup).replace("LAZY", json.dumps(lazy))
    program = Program(
        argv=["python3", "{installed}/server.py", "conf/server.json"],
        files={"conf/server.json": config},  # written again before each start of the node
        ports={"queue": 0},
        ready=LogSays(pattern="^tinyq serves"),
        keep=("log", "conf/*"),
        recipe=RECIPES[0],
    )
    return NodeSpec(name=name, role="broker", program=program)


def create(options: Options) -> TinyqDriver:
    """Return the driver."""
    return TinyqDriver()
