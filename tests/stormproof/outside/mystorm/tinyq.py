"""tinyq, a queue server that knows nothing of Stormproof: a primary and a backup, which are programs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from chaos.api import (
    HARNESS,
    Answer,
    Client,
    ClientCommand,
    ClusterSpec,
    ClusterView,
    Delivered,
    Dials,
    Disconnected,
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

PRIMARY, BACKUP = "queue-0", "queue-1"
REQUEST_S = 3.0
SERVER = Path(__file__).with_name("tinyq_server.py").read_bytes()
CONFIG = '{"listen": ["{ip}", {port}], "disk": "{disk}", "backup": %s, "lazy": %s, "garbled": %s}'
MUTANTS = (
    Mutant(name="lazy", law="durability", stands_for="a server that acknowledges what it has not written"),
    Mutant(name="garbled", law="agreement", stands_for="a backup that stores something else than it was sent"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Nothing to choose."""


def program(backup: str = "", *, lazy: bool = False, garbled: bool = False) -> Program:
    where = f'["{{ip:{backup}}}", {{port:{backup}.queue}}]' if backup else "null"
    return Program(
        argv=["python3", "tinyq_server.py", "conf/tinyq.json"],
        files={"tinyq_server.py": SERVER, "conf/tinyq.json": CONFIG % (where, *map(json.dumps, (lazy, garbled)))},
        ports={"queue": 0},
        ready=LogSays(pattern="^tinyq serves"),
        keep=("log", "conf/*"),
    )


class TinyqClient:
    """One connection to each server, all opened again after each trouble; one request is one attempt."""

    def __init__(self, network: Network, name: str) -> None:
        self._network = cast(Dials, network)
        self._name = name
        self._streams: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def ask(self, node: str = PRIMARY, **request: object) -> Mapping[str, Any]:
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
        node = node or PRIMARY
        answer = await self.ask(node, do="read", offset=offset)
        if "refused" in answer:
            raise Failed(answer["refused"])
        end, message = answer["end"], answer["message"]
        found: tuple[Delivered, ...] = ()
        if message is not None:
            key, body = message
            found = (Delivered(offset=offset, message=int(key, 16), hash=body_hash(body.encode("latin-1"))),)
        return Answer(node=node, minimum=0, maximum=end, following=offset + len(found), messages=found)

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


class Tinyq:
    def cluster(self, mutant: str) -> ClusterSpec:
        nodes = [
            NodeSpec(name=PRIMARY, role="broker", program=program(BACKUP, lazy=mutant == "lazy")),
            NodeSpec(name=BACKUP, role="broker", program=program(garbled=mutant == "garbled")),
        ]
        return ClusterSpec(nodes=nodes)

    def queues(self) -> tuple[QueueRef, ...]:
        return (QueueRef(index=0, topic="tinyq", queue_id=0),)

    def holders(self, queue: QueueRef) -> tuple[str, ...]:
        return PRIMARY, BACKUP

    def profile(self) -> Profile:
        return Profile()

    def client(self, network: Network, name: str) -> Client:
        return TinyqClient(network, name)

    async def client_command(self, network: Network, name: str) -> ClientCommand:
        host, port = await cast(Dials, network).endpoint(name, PRIMARY)
        return ClientCommand(argv=["python3", str(Path(__file__).with_name("tinyq_client.py")), host, str(port)])

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        client = TinyqClient(network, HARNESS)
        try:
            state = await client.ask(do="state")
            in_sync = (PRIMARY, BACKUP) if state["end"] == state["confirmed"] else (PRIMARY,)
        except (Failed, Unknown):
            in_sync = ()
        finally:
            client.close()
        group = ReplicaGroup(name="tinyq", replicas=(PRIMARY, BACKUP), leader=PRIMARY, epoch=1, in_sync=in_sync)
        return ClusterView(groups=(group,), settled=len(in_sync) == 2)

    async def collect(self, network: Network, record: Record) -> None:
        """Clients have seen all that this system shows."""


def create(options: Options) -> Tinyq:
    return Tinyq()
