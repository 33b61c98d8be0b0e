"""A case: a request or a conversation, and what the documents say of it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.driver import Connection, Disconnected, MakeFrame, Network, TakesFrames
from chaos.ops import Failed, Unknown
from drivers._remoting.client import REQUEST_S, TOO_FEW_REPLICAS
from drivers._remoting.requests import ask
from drivers.reference.conformance.examples import right_fields
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
from reference.wire.requests import FORMS, METADATA_FORMS, Form

#: The consumer group that these cases name; also the id of their requests to the object store.
ASKER = "limits"
CLOSED = "the connection is closed"
AS_DOCUMENTED = "all as documented"
#: What a node says that can't answer now: it is busy, it leads no more, it serves nobody at the moment, it doesn't know
#: the topic yet, or what it did has not counted in time. An object store that is broken on purpose answers with some of
#: them, too.
NOT_NOW = frozenset(
    {
        Response.SYSTEM_BUSY,
        Response.SERVICE_NOT_AVAILABLE,
        Response.FLUSH_DISK_TIMEOUT,
        Response.SLAVE_NOT_AVAILABLE,
        Response.FLUSH_SLAVE_TIMEOUT,
        Response.SYSTEM_ERROR,
        Response.NO_PERMISSION,
        Response.TOPIC_NOT_EXIST,
        Response.CONTROLLER_NOT_LEADER,
    }
)


#: By code; of other requests, a case says whom it is for.
_FORMS: Mapping[int, Form] = {int(code): form for forms in (FORMS, METADATA_FORMS) for code, form in forms.items()}


class Session:
    """A client's conversation with one node, which holds more connections with it than one if it needs to: each
    ``line`` is one. ``number`` counts the conversations of this client."""

    def __init__(self, network: Network, client: str, node: str, number: int) -> None:
        self.network = network
        self.client = client
        self.node = node
        self.number = number

    async def ask(
        self, code: int, body: bytes = b"", /, *, line: str = "", may: Sequence[int] = (), **fields: Any
    ) -> Command:
        """Send a request and return the answer. ``fields`` of the header become texts. Raises :class:`Failed` where
        that is a refusal for the moment that is not among ``may``, and :class:`Unknown` where there is none."""
        message = Command(code=code, fields={key: str(value) for key, value in fields.items()}, body=body)
        answer = await ask(self._connection(line), message, REQUEST_S)
        if answer.code not in may:
            must_be_final(answer)
        return answer

    async def expect(self, expected: int, code: int, body: bytes = b"", /, *, line: str = "", **fields: Any) -> Command:
        """Do as :meth:`ask` does; raises :class:`Failed` where the answer's code is another one than is documented."""
        answer = await self.ask(code, body, line=line, may=(expected,), **fields)
        self.must_be(f"the answer to {Request(code).name}", answer.code, int(expected))
        return answer

    async def silence(self, code: int, wait_s: float, /, **fields: Any) -> Command | None:
        """Return what a request that wants no answer is answered with all the same, within ``wait_s``; None for
        nothing. Raises :class:`Failed` and :class:`Unknown` where it may not have arrived."""
        texts = {key: str(value) for key, value in fields.items()}
        try:
            return await self._connection("").request(Command(code=code, flags=ONEWAY, fields=texts), wait_s)
        except TimeoutError:
            return None
        except Disconnected as error:
            raise Unknown(f"connection lost: {error}") from error

    def must_be(self, what: str, said: object, documented: object) -> None:
        """Raise :class:`Failed` unless both are equal. A fault may have come between the requests of a conversation, so
        only one that never goes as documented means anything."""
        if said != documented:
            raise Failed(f"{what}: documented is {documented}, it said {said}"[:300])

    def leave(self, line: str) -> None:
        """Close this connection."""
        self._connection(line).close()

    def _connection(self, line: str) -> Connection:
        return self.network.connect(f"{self.client}-{line}" if line else self.client, self.node)

    async def exchange(self, request: Command, frame: MakeFrame) -> Command:
        """Return the answer to a request whose bytes ``frame`` makes. Raises :class:`Disconnected` and
        :class:`Unknown`."""
        connection = self._connection("")
        assert isinstance(connection, TakesFrames), "who has no such connection has no such question"
        try:
            return await connection.exchange(request, frame, REQUEST_S)
        except TimeoutError as error:
            raise Unknown("timeout") from error


@dataclass(frozen=True, slots=True)
class Case:
    """``converse`` holds the conversation and says in the words of ``expected`` what came of it. It raises
    :class:`Failed` where that says nothing, and :class:`Unknown` where no answer came. ``kept``: it asks for what the
    node has promised to keep on its disk."""

    role: str
    expected: str
    converse: Callable[[Session], Awaitable[str]]
    kept: bool = False


def asked(
    request: int,
    expected: str | Response,
    read: Callable[[Command], str] | None = None,
    /,
    *,
    role: str = "",
    frame: MakeFrame[Command] | None = None,
    body: bytes = b"",
    **fields: Any,
) -> Case:
    """Return a case of one request. It has the header fields that the table of the wire says it needs, but for
    ``fields``, which become texts, and without those that are None; ``role`` is that of the table, too. ``frame`` makes
    the bytes of the request, where the frames that everybody sends are not what is asked about; ``read`` says in the
    words of ``expected`` what the answer amounts to, without it that is the answer's code."""
    words = f"code {int(expected)}" if isinstance(expected, Response) else expected
    form = _FORMS.get(request, Form(""))
    texts = {**right_fields(form, ""), **fields}
    message = Command(
        code=request, fields={key: str(value) for key, value in texts.items() if value is not None}, body=body
    )

    async def converse(session: Session) -> str:
        try:
            answer = await (one_request(session, message) if frame is None else session.exchange(message, frame))
        except Disconnected as error:
            if error.sent and words == CLOSED:
                return CLOSED
            raise Unknown(f"connection lost: {error}") from error
        said = (read or code)(answer)
        if said != words:
            must_be_final(answer)
        return said

    return Case(role or form.to, words, converse)


def conversation(role: str, hold: Callable[[Session], Awaitable[None]]) -> Case:
    """Return a case whose conversation raises :class:`Failed` unless it goes as documented."""

    async def converse(session: Session) -> str:
        await hold(session)
        return AS_DOCUMENTED

    return Case(role, AS_DOCUMENTED, converse)


async def one_request(session: Session, message: Command) -> Command:
    return await session.ask(message.code, message.body, may=tuple(NOT_NOW), **message.fields)


def code(answer: Command) -> str:
    return f"code {answer.code}"


def must_be_final(answer: Command) -> None:
    """Raise :class:`Failed` for a temporary refusal: where another answer is documented, it says nothing."""
    if is_temporary(answer):
        raise Failed(f"code {answer.code}: {answer.remark}")


def is_temporary(answer: Command) -> bool:
    """Return whether the node refuses for the moment alone."""
    return answer.code in NOT_NOW or TOO_FEW_REPLICAS in answer.remark


def of_json(answer: Command) -> dict[str, object]:
    """Return an answer's JSON object. Raises :class:`Failed` for anything else."""
    try:
        found = json.loads(answer.body)
    except ValueError as error:
        raise Failed(f"a body that is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise Failed("a body that is no JSON object")
    return found
