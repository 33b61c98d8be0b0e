"""A client that asks the reference system's nodes what lies at their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from chaos.driver import Disconnected, Network, TakesFrames
from chaos.node import Message
from chaos.ops import Answer, Failed, QueueRef, Unknown
from drivers._remoting.client import NOT_STORED, REQUEST_S, TOO_FEW_REPLICAS
from drivers._remoting.requests import ask, number
from drivers.reference.client import QueueClient
from drivers.reference.questions import CLOSED, MASTER, MESSAGES, Question, code, questions
from reference.wire.codes import Response

#: What a node says that can't answer now: it is busy, it serves nobody at the moment, or what it did has not counted in
#: time. An object store that is broken on purpose answers with the last two.
NOT_NOW = frozenset(
    {
        Response.SYSTEM_BUSY,
        Response.SERVICE_NOT_AVAILABLE,
        Response.FLUSH_DISK_TIMEOUT,
        Response.SLAVE_NOT_AVAILABLE,
        Response.FLUSH_SLAVE_TIMEOUT,
        Response.SYSTEM_ERROR,
        Response.NO_PERMISSION,
    }
)


class LimitsClient(QueueClient):
    """Implements :class:`chaos.services.Limits`. ``nodes``: those of each role; ``home``: a queue that is there from
    the start, whose master is asked."""

    messages: Sequence[str] = tuple(MESSAGES)

    def __init__(
        self,
        network: Network,
        name: str,
        nameservers: Sequence[str],
        home: QueueRef,
        nodes: Mapping[str, Sequence[str]],
    ) -> None:
        super().__init__(network, name, nameservers)
        self._home = home
        frames = isinstance(network.connect(name, nameservers[0]), TakesFrames)
        known = questions(home.topic, frames=frames).items()
        self._table = {what: one for what, one in known if one.role == MASTER or nodes[one.role]}
        self.questions: Mapping[str, Sequence[str]] = {
            what: ("",) if one.role == MASTER else nodes[one.role] for what, one in self._table.items()
        }

    async def ask(self, question: str, node: str) -> Answer:
        one = self._table[question]
        asked = node or await self._master(self._home)
        try:
            told = await self._told(one, asked)
        except (Failed, Unknown) as error:
            self._forget(self._home)
            raise type(error)(error.reason, Answer(node=asked)) from error
        return Answer(node=asked, value={"expected": one.expected, "told": told})

    async def _told(self, one: Question, node: str) -> str:
        """The answer, in the words of the question. Raises :class:`Failed` and :class:`Unknown`."""
        connection = self._network.connect(self._name, node)
        if one.frame is None:
            answer = await ask(connection, one.request, REQUEST_S)
        else:
            assert isinstance(connection, TakesFrames), "who has no such connection has no such question"
            try:
                answer = await connection.exchange(one.request, one.frame, REQUEST_S)
            except TimeoutError as error:
                raise Unknown("timeout") from error
            except Disconnected as error:
                if error.sent and one.expected == CLOSED:
                    return CLOSED
                raise Unknown(f"connection lost: {error}") from error
        told = one.told(answer)
        if told != one.expected:
            _must_count(answer)
        return told

    async def send_question(self, question: str, queue: QueueRef, key: str, body: bytes) -> Answer:
        one = MESSAGES[question]
        node = await self._master(queue)
        answer = await self._request(queue, node, one.request(queue, key, body))
        said = {"expected": f"code {int(one.expected)}", "told": code(answer)}
        result = Answer(
            node=node,
            incarnation=number(answer.fields, "incarnation"),
            epoch=number(answer.fields, "epoch"),
            queue=queue.index,
            value=said,
        )
        if answer.code == Response.SUCCESS:
            offset, position = number(answer.fields, "queueOffset"), number(answer.fields, "position")
            return replace(result, offset=offset, position=position)
        self._forget(queue)
        reason = f"code {answer.code}: {answer.remark}"
        if answer.code not in NOT_STORED and TOO_FEW_REPLICAS not in answer.remark:
            raise Unknown(reason, replace(result, value={}))
        raise Failed(reason, replace(result, value={} if _is_for_now(answer) else said))


def _must_count(answer: Message) -> None:
    """Raises :class:`Failed` where another answer than the documented one says nothing."""
    if _is_for_now(answer):
        raise Failed(f"code {answer.code}: {answer.remark}")


def _is_for_now(answer: Message) -> bool:
    return answer.code in NOT_NOW or TOO_FEW_REPLICAS in answer.remark
