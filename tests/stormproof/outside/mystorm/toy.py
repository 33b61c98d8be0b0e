"""One server that keeps a log in memory."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.driver import Client, ClusterSpec, ClusterView, Disconnected, Mutant, Network, Profile, Record, ReplicaGroup
from chaos.effects.links import HARNESS
from chaos.node import Env, Node, NodeSpec
from chaos.ops import Answer, Delivered, QueueRef, Unknown
from chaos.plain import PlainMessage
from chaos.workload import body_hash

SEND, PULL = 1, 2
SERVER = "server-0"
MUTANTS = (Mutant(name="forgetful", law="durability", stands_for="a log that drops every third message"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``queues``: how many logs the server keeps."""

    queues: int = 1


class Server:
    def __init__(self, forgetful: bool) -> None:
        self._logs: dict[str, list[bytes]] = {}
        self._forgetful = forgetful

    def start(self, env: Env) -> None: ...

    def message(self, env: Env, source: str, message: PlainMessage) -> None:
        log = self._logs.setdefault(message.fields["queue"], [])
        if message.kind == SEND:
            dropped = self._forgetful and len(log) % 3 == 2
            log.append(b"" if dropped else message.body)
            env.send(source, message.reply(fields={"offset": str(len(log) - 1)}))
        else:
            offset = int(message.fields["offset"])
            body = log[offset] if 0 <= offset < len(log) else b""
            env.send(source, message.reply(fields={"end": str(len(log))}, body=body))

    def timer(self, env: Env, name: str) -> None: ...

    def done(self, env: Env, token: int) -> None: ...

    def closed(self, env: Env, peer: str) -> None: ...


def build(spec: NodeSpec) -> Node:
    return Server(bool(spec.mutant))


class ToyClient:
    def __init__(self, network: Network, name: str) -> None:
        self._connection = network.connect(name, SERVER)

    async def _ask(self, message: PlainMessage) -> PlainMessage:
        try:
            return await self._connection.request(message, 1.0)
        except (TimeoutError, Disconnected) as error:
            raise Unknown(str(error)) from error

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        answer = await self._ask(PlainMessage(kind=SEND, fields={"queue": str(queue.index)}, body=body))
        return Answer(node=SERVER, incarnation=1, epoch=1, offset=int(answer.fields["offset"]))

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        fields = {"queue": str(queue.index), "offset": str(offset)}
        answer = await self._ask(PlainMessage(kind=PULL, fields=fields))
        end = int(answer.fields["end"])
        found: tuple[Delivered, ...] = ()
        if offset < end and answer.body:
            message = int(answer.body.partition(b":")[0])
            found = (Delivered(offset=offset, message=message, hash=body_hash(answer.body)),)
        return Answer(
            node=SERVER, incarnation=1, epoch=1, minimum=0, maximum=end, following=min(offset + 1, end), messages=found
        )

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        return Answer()

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        return Answer()

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        return await self.pull(queue, -1, limit=0)

    def close(self) -> None:
        self._connection.close()


class Toy:
    def __init__(self, options: Options) -> None:
        self._options = options

    def cluster(self, mutant: str) -> ClusterSpec:
        node = NodeSpec(name=SERVER, role="broker", package="drivers.toy", mutant=mutant)
        return ClusterSpec(nodes=(node,), codec=None)

    def queues(self) -> tuple[QueueRef, ...]:
        return tuple(QueueRef(index=index, topic="toy", queue_id=index) for index in range(self._options.queues))

    def profile(self) -> Profile:
        return Profile()

    def client(self, network: Network, name: str) -> Client:
        return ToyClient(network, name)

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        answering = ToyClient(network, HARNESS)
        try:
            await answering.bounds(self.queues()[0])
        except Unknown:
            return ClusterView(groups=(ReplicaGroup(name="toy", replicas=(SERVER,)),))
        group = ReplicaGroup(name="toy", replicas=(SERVER,), leader=SERVER, epoch=1, in_sync=(SERVER,))
        return ClusterView(groups=(group,), settled=True)

    async def collect(self, network: Network, record: Record) -> None:
        record("final", f="complete", node=SERVER)


def create(options: Options) -> Toy:
    return Toy(options)
