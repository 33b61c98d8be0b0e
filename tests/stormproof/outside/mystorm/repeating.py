"""One server that knows a message again, and answers a repetition with the offset at which it has stored the first.

Of each third message it loses the answer: only to the repetition it answers that the message is stored."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.driver import Client, ClusterSpec, Mutant, Network
from chaos.node import Env, Node, NodeSpec
from chaos.ops import Answer, QueueRef, Unknown
from chaos.plain import PlainMessage
from mystorm import toy
from mystorm.toy import SEND, SERVER

MUTANTS = (
    Mutant(
        name="hollow-duplicate",
        law="durability",
        stands_for="a broker that answers a repetition with the place of a first attempt which it never kept",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """``places``: whether the client says where a repetition is stored."""

    places: bool = True


class Server(toy.Server):
    """As that, but ``hollow``: of what it does not answer it remembers the place, and the next message takes that."""

    def __init__(self, hollow: bool) -> None:
        super().__init__(forgetful=False)
        self._hollow = hollow
        self._known: dict[str, int] = {}

    def message(self, env: Env, source: str, message: PlainMessage) -> None:
        key = message.fields.get("key", "")
        if message.kind != SEND:
            super().message(env, source, message)
        elif key in self._known:
            env.send(source, message.reply(fields={"offset": str(self._known[key]), "duplicate": "yes"}))
        else:
            log = self._logs.setdefault(message.fields["queue"], [])
            self._known[key] = len(log)
            is_silent = len(self._known) % 3 == 0
            if not (is_silent and self._hollow):
                log.append(message.body)
            if not is_silent:
                env.send(source, message.reply(fields={"offset": str(len(log) - 1)}))


def build(spec: NodeSpec) -> Node:
    return Server(bool(spec.mutant))


class RepeatingClient(toy.ToyClient):
    def __init__(self, network: Network, name: str, places: bool) -> None:
        super().__init__(network, name)
        self._places = places

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        fields = {"queue": str(queue.index), "key": key}
        answer = await self._ask(PlainMessage(kind=SEND, fields=fields, body=body))
        stored = Answer(node=SERVER, incarnation=1, epoch=1, offset=int(answer.fields["offset"]))
        if "duplicate" in answer.fields:
            raise Unknown("an earlier attempt has stored it", stored if self._places else None)
        return stored


class Repeating(toy.Toy):
    def __init__(self, options: Options) -> None:
        super().__init__(toy.Options())
        self._places = options.places

    def cluster(self, mutant: str) -> ClusterSpec:
        node = NodeSpec(name=SERVER, role="broker", package="mystorm.repeating", mutant=mutant)
        return ClusterSpec(nodes=(node,), codec=None)

    def client(self, network: Network, name: str) -> Client:
        return RepeatingClient(network, name, self._places)


def create(options: Options) -> Repeating:
    return Repeating(options)
