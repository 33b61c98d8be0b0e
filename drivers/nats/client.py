"""A client of streams, each of which is a queue: leaders answer its reads, and it asks them of which term they are.

Any server passes requests on to the leader of the stream, whose answer doesn't say who that is. A leader that was
deposed and doesn't know it yet answers too. So a read begins with the question who leads and what that one holds, and
ends with another: whether it still leads, since the same moment. What that doesn't confirm counts for nothing.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass, replace

from chaos.driver import Dials
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown, as_repetition
from chaos.workload import body_hash
from drivers.nats.api import ACCOUNT, API, LEADER, NO_MESSAGE, Json, Session, error_code, member, number, refusal

#: Keeps the last offset that each group has stored for each queue, and under which subjects.
OFFSETS = "OFFSETS"
OFFSETS_SUBJECTS = "storm.offsets"
#: The header that JetStream compares to find what it has already, and one that means nothing to it.
MESSAGE_ID, KEY = "Nats-Msg-Id", "Storm-Key"
_KEY_LINE = re.compile(rb"\r\n(?:Nats-Msg-Id|Storm-Key): ?([0-9A-Fa-f]{1,32})\r\n")


def stream_of(queue: QueueRef) -> str:
    """Return the stream that is this queue."""
    return f"{queue.topic}-{queue.queue_id}"


def subject_of(stream: str) -> str:
    """Return the subject under which a stream that is a queue takes its messages."""
    return f"storm.queue.{stream}"


@dataclass(frozen=True, slots=True)
class Reign:
    """A leader's own answer about a stream: ``since`` when it leads (None where its version doesn't say), and the first
    and the last message that it holds, counted from 1."""

    stream: str
    node: str
    raft_group: str
    since: object
    first: int
    last: int


class StreamClient:
    """Implements :class:`chaos.driver.Client`. With ``deduplicates``, JetStream drops a message of which it has another
    copy; the outcome of such a retry counts as unknown, with the offset of the earlier attempt. ``terms``: whether the
    servers' version says Raft terms."""

    def __init__(
        self, network: Dials, name: str, nodes: Sequence[str], *, deduplicates: bool, terms: bool = True
    ) -> None:
        self._session = Session(network, name, nodes)
        self._terms = terms
        self._header = MESSAGE_ID if deduplicates else KEY
        #: Of what was sent with an id that JetStream compares, what it may have without having said so.
        self._doubtful: set[tuple[QueueRef, str]] = set()

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        stream, is_repetition = stream_of(queue), (queue, key) in self._doubtful
        headers = f"{self._header}: {key}\r\n"
        try:
            offset = await self._session.publish(stream, subject_of(stream), body, headers)
        except (Failed, Unknown) as error:
            if is_repetition:
                raise as_repetition(error) from error
            if isinstance(error, Unknown) and self._header == MESSAGE_ID:
                self._doubtful.add((queue, key))
            raise
        return Answer(offset=offset, value={"again": 1} if is_repetition else {})

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        """Read messages one by one, all asked for at once. Who lacks one passes on to the next that it has, so that a
        leader with less is known from a hole."""
        if node or source:
            raise Failed("the leader of a stream answers reads, and there is no tier")
        stream = stream_of(queue)
        reign = await self._reign(stream)
        begin = max(offset, reign.first - 1)
        wanted = range(begin + 1, min(begin + limit, reign.last) + 1)
        asked = [{"seq": at, "next_by_subj": subject_of(stream)} for at in wanted]
        found = await self._session.look(f"{API}.STREAM.MSG.GET.{stream}", *asked) if asked else []
        messages, following = _delivered(found, begin, limit, max_bytes)
        epoch, minimum = await self._term(reign), max(0, reign.first - 1)
        ends = Answer(minimum=minimum, maximum=reign.last, following=following)
        return replace(ends, node=reign.node, epoch=epoch, messages=messages)

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        return await self.pull(queue, 0, limit=0, node=node)

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        """Store an offset. Whoever leads when this ends leads no earlier term than that which took it; where this can't
        be learned it is unknown whom the offset binds."""
        await self._session.publish(OFFSETS, _offset_subject(queue, group), str(offset).encode())
        try:
            reign = await self._reign(OFFSETS)
            return Answer(node=reign.node, epoch=await self._term(reign))
        except Failed as error:
            raise Unknown(f"stored, but {error.reason}") from error

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        reign = await self._reign(OFFSETS)
        asked = {"last_by_subj": _offset_subject(queue, group)}
        (found,) = await self._session.look(f"{API}.STREAM.MSG.GET.{OFFSETS}", asked)
        text = b"-1" if error_code(found) == NO_MESSAGE else _message(found)[1]
        if not re.fullmatch(rb"-1|[0-9]{1,18}", text):
            raise Failed(f"a stored offset that is none: {text[:40]!r}")
        return Answer(node=reign.node, epoch=await self._term(reign), offset=int(text))

    def close(self) -> None:
        self._session.close()

    async def _reign(self, stream: str) -> Reign:
        """Ask for the leader of a stream and what it holds. Raises :class:`Failed` while no server leads."""
        (found,) = await self._session.look(f"{API}.STREAM.INFO.{stream}", {})
        cluster, state = member(found, "cluster"), member(found, "state")
        if reason := refusal(found) or ("" if cluster.get("leader") else "no leader is known"):
            raise Failed(reason)
        first, last = number(state, "first_seq"), number(state, "last_seq")
        leader, raft_group, since = (
            str(cluster["leader"]),
            str(cluster.get("raft_group", "")),
            cluster.get("leader_since"),
        )
        return Reign(stream, leader, raft_group, since, first, last)

    async def _term(self, reign: Reign) -> int:
        """Return the Raft term of a leader that still leads as it did; -1 where its version doesn't say, or where there
        is but one replica. Raises :class:`Failed` where it leads no more."""
        if not self._terms and (await self._reign(reign.stream)).node != reign.node:
            raise Failed(f"{reign.node} has answered, and leads no more")
        if not reign.raft_group or not self._terms:
            return -1
        found = await self._session.about(reign.node, "RAFTZ", account=ACCOUNT, group=reign.raft_group)
        if not found:
            return -1
        group = member(member(found, ACCOUNT), reign.raft_group)
        if group.get("state") != LEADER or group.get("leader_since") != reign.since:
            raise Failed(f"{reign.node} has answered, and leads no more")
        return number(group, "term")


def _offset_subject(queue: QueueRef, group: str) -> str:
    return f"{OFFSETS_SUBJECTS}.{group.encode().hex()}.{stream_of(queue)}"


def _delivered(found: Sequence[Json], begin: int, limit: int, max_bytes: int) -> tuple[tuple[Delivered, ...], int]:
    """Return messages in the order of their offsets, and where to go on. Reading ends where whoever answered has
    nothing, nor anything later."""
    messages: list[Delivered] = []
    following, size = begin, 0
    for at, one in enumerate(found, begin):
        if at < following:  # within a hole that an answer before this one has passed over
            continue
        if error_code(one) == NO_MESSAGE:
            break
        offset, body, key = _message(one)
        size += len(body)
        if offset < at:
            raise Failed(f"the message at {offset} came where that at {at} was asked for")
        if len(messages) == limit or (messages and 0 < max_bytes < size):
            break
        messages.append(Delivered(offset=offset, message=key, hash=body_hash(body)))
        following = offset + 1
    return tuple(messages), following


def _message(found: Json) -> tuple[int, bytes, int]:
    """Return the offset, the body and the number of a message in an answer; -1 for one that has none of ours. Raises
    :class:`Failed`."""
    if reason := refusal(found):
        raise Failed(reason)
    message = member(found, "message")
    try:
        body, head = (b64decode(str(message.get(name, "")), validate=True) for name in ("data", "hdrs"))
    except ValueError as error:
        raise Failed(f"a damaged message: {error}") from error
    return number(message, "seq") - 1, body, number_of(head)


def number_of(head: bytes) -> int:
    """Return the number of the message with these headers; -1 for one that is none of ours, or damaged."""
    key = _KEY_LINE.search(head)
    value = int(key[1], 16) if key else -1
    return value if value < 2**63 else -1
