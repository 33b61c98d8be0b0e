"""A client that asks the reference system's nodes what lies at their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from chaos.driver import Dials, Network, TakesFrames
from chaos.ops import Answer, Failed, QueueRef, Unknown
from drivers._remoting import records
from drivers._remoting.client import NOT_STORED, TOO_FEW_REPLICAS
from drivers._remoting.requests import ask, number
from drivers.reference.client import QueueClient
from drivers.reference.conformance import cases
from drivers.reference.conformance.case import Session, code, is_temporary
from drivers.reference.conformance.messages import MESSAGES, NO_HOST, MessageCase
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import CONTROLLER, LEADER, MASTER

#: Roles of which one node is asked, whichever has it at the time.
_ONE_OF_ALL = (MASTER, LEADER)


class LimitsClient(QueueClient):
    """Implements :class:`chaos.services.Limits`. ``nodes``: those of each role; ``home``: a queue that is there from
    the start, whose master is asked; ``metadata``: whether the nodes keep metadata; ``leader_reads``: whether the
    controllers' leader alone answers reads."""

    messages: Sequence[str] = tuple(MESSAGES)

    def __init__(
        self,
        network: Network,
        name: str,
        nameservers: Sequence[str],
        home: QueueRef,
        nodes: Mapping[str, Sequence[str]],
        *,
        metadata: bool = False,
        leader_reads: bool = False,
    ) -> None:
        super().__init__(network, name, nameservers)
        self._home = home
        self._controllers = nodes[CONTROLLER]
        self._asked = 0
        frames = isinstance(network.connect(name, nameservers[0]), TakesFrames)
        known = cases(home.topic, frames=frames, metadata=metadata).items()
        self._table = {what: one for what, one in known if one.role in _ONE_OF_ALL or nodes[one.role]}
        one_of_all = (*_ONE_OF_ALL, *([CONTROLLER] if leader_reads else []))
        self.questions: Mapping[str, Sequence[str]] = {
            what: ("",) if one.role in one_of_all else nodes[one.role] for what, one in self._table.items()
        }

    async def ask(self, question: str, node: str) -> Answer:
        one = self._table[question]
        self._asked += 1
        asked = node or await (self._master(self._home) if one.role == MASTER else self._leader())
        try:
            said = await one.converse(Session(self._network, self._name, asked, self._asked))
        except (Failed, Unknown) as error:
            self._forget(self._home)
            raise type(error)(error.reason, Answer(node=asked)) from error
        kept = {"kept": True} if one.kept else {}
        return Answer(node=asked, value={"expected": one.expected, "told": said, **kept})

    async def _leader(self) -> str:
        """Return the controller that leads. Raises :class:`Failed`: nobody was asked."""
        for turn in range(len(self._controllers)):
            node = self._controllers[(self._asked + turn) % len(self._controllers)]
            request = Command(code=Request.CONTROLLER_GET_METADATA_INFO)
            try:
                answer = await ask(self._network.connect(self._name, node), request, self._timeout_s)
            except (Failed, Unknown):
                continue
            if answer.fields.get("isLeader") == "true":
                return node
        raise Failed("no controller says that it leads")

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
            if one.expected == Response.SUCCESS and (wrong := await self._differs(one, queue, key, body, answer)):
                said = {**said, "told": f"{said['told']}, and readers are given it with {wrong}"[:300]}
            return replace(result, offset=offset, position=position, value=said)
        self._forget(queue)
        reason = f"code {answer.code}: {answer.remark}"
        if answer.code not in NOT_STORED and TOO_FEW_REPLICAS not in answer.remark:
            raise Unknown(reason, replace(result, value={}))
        says_nothing = is_temporary(answer) and said["told"] != said["expected"]
        raise Failed(reason, replace(result, value={} if says_nothing else said))

    async def _differs(self, one: MessageCase, queue: QueueRef, key: str, body: bytes, sent: Command) -> str:
        """Return how a reader is given the message otherwise than it was sent, and than ``sent``, its producer's
        answer, says; "" also where no reader is given it now."""
        offset, message_id = number(sent.fields, "queueOffset"), sent.fields.get("msgId", "")
        fields = {
            "topic": queue.topic,
            "queueId": queue.queue_id,
            "queueOffset": offset,
            "maxMsgNums": 1,
            "sysFlag": 0,
            "consumerGroup": self._name,
        }
        texts = {name: str(value) for name, value in fields.items()}
        try:
            answer = await self._request(
                queue, await self._master(queue), Command(code=Request.PULL_MESSAGE, fields=texts)
            )
            found = records.decode_all(answer.body) if answer.code == Response.SUCCESS else []
        except (Failed, Unknown, ValueError):
            return ""
        mine = [given for given in found if given.offset == offset and given.properties.get("UNIQ_KEY") == key]
        born_host = b"" if isinstance(self._network, Dials) else NO_HOST  # behind a proxy it is unknown
        return one.differs(queue, key, body, mine[0], message_id, born_host) if mine else ""
