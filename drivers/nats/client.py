"""A client of streams, each of which is a queue: leaders answer its reads, and it asks them of which term they are.

Any server passes requests on to the leader of the stream, and its answer doesn't say who that is. A leader that was
deposed and doesn't know it yet answers too. So each read is followed by two questions: who says that it leads, and
whether that one leads, and since when. An answer that this does not confirm counts for nothing.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.driver import Dials
from chaos.ops import Answer, Delivered, Failed, QueueRef, Unknown
from chaos.workload import body_hash
from drivers.nats.api import ACCOUNT, API, LOOK_S, NO_MESSAGE, Session, error_code, number, refusal

#: Keeps the last offset that each group has stored for each queue.
OFFSETS = "OFFSETS"
#: The header that JetStream compares to find messages that it has already, and one that means nothing to it.
MESSAGE_ID = "Nats-Msg-Id"
KEY = "Storm-Key"
LEADER = "LEADER"
_KEY_LINE = re.compile(rf"^(?:{MESSAGE_ID}|{KEY}):\s*([0-9A-Fa-f]{{1,32}})\s*$", re.MULTILINE)


def subject_of(stream: str) -> str:
    """Return the subject under which a stream that is a queue takes its messages."""
    return f"storm.queue.{stream}"


def offsets_subject(group: str = "", stream: str = "") -> str:
    """Return the subject of a group's offset of one queue; without these, of all of them."""
    return f"storm.offsets.{group.encode().hex()}.{stream}" if group else "storm.offsets.>"


def stream_of(queue: QueueRef) -> str:
    """Return the stream that is this queue."""
    return f"{queue.topic}-{queue.queue_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reign:
    """A leader's own answer about its stream: ``since`` when it leads (None where its version doesn't say), and what it
    holds."""

    node: str
    raft_group: str
    since: object
    first: int
    last: int


class StreamClient:
    """Implements :class:`chaos.driver.Client`. With ``deduplicates``, JetStream drops a message of which it has another
    copy: a retry then has an unknown outcome, as the offset is that of the first attempt."""

    def __init__(self, network: Dials, name: str, nodes: Sequence[str], *, deduplicates: bool = False) -> None:
        self._session = Session(network, name, nodes)
        self._header = MESSAGE_ID if deduplicates else KEY

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        stream = stream_of(queue)
        return Answer(offset=await self._session.publish(subject_of(stream), body, {self._header: key}, stream) - 1)

    async def pull(
        self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
    ) -> Answer:
        """Read messages one by one, all asked for at once. Who lacks one passes on to the next that it has, so that a
        leader with less is told from a hole."""
        if node or source:
            raise Failed("a stream's leader answers reads, and there is no tier")
        stream = stream_of(queue)
        reign = await self._reign(stream)
        begin = max(offset, reign.first - 1)
        asked = [
            {"seq": at + 1, "next_by_subj": subject_of(stream)} for at in range(begin, min(begin + limit, reign.last))
        ]
        found = await self._session.look(f"{API}.STREAM.MSG.GET.{stream}", *asked) if asked else []
        messages, following = _delivered(found, begin, limit, max_bytes)
        epoch = await self._term(reign)
        return Answer(
            node=reign.node,
            epoch=epoch,
            minimum=max(0, reign.first - 1),
            maximum=reign.last,
            following=following,
            messages=messages,
        )

    async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
        return await self.pull(queue, 0, limit=0, node=node)

    async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
        """Store an offset. Whoever led when this ends led no earlier term when it was stored; where that can't be
        learned it is unknown what the offset binds."""
        await self._session.publish(offsets_subject(group, stream_of(queue)), str(offset).encode(), {}, OFFSETS)
        try:
            reign = await self._reign(OFFSETS)
            return Answer(node=reign.node, epoch=await self._term(reign))
        except Failed as error:
            raise Unknown(f"stored, but {error.reason}", error.answer) from error

    async def committed(self, queue: QueueRef, group: str) -> Answer:
        reign = await self._reign(OFFSETS)
        asked = {"last_by_subj": offsets_subject(group, stream_of(queue))}
        (found,) = await self._session.look(f"{API}.STREAM.MSG.GET.{OFFSETS}", asked)
        if error_code(found) == NO_MESSAGE:
            return Answer(node=reign.node, epoch=await self._term(reign), offset=-1)
        text = _message(found)[1].decode("ascii", "replace")
        if not re.fullmatch("[0-9]{1,18}", text):
            raise Failed(f"a stored offset that is none: {text[:40]!r}", Answer(node=reign.node))
        return Answer(node=reign.node, epoch=await self._term(reign), offset=int(text))

    def close(self) -> None:
        self._session.close()

    async def _reign(self, stream: str) -> Reign:
        """Ask for the leader of a stream and what it holds. Raises :class:`Failed` while nobody leads."""
        (found,) = await self._session.look(f"{API}.STREAM.INFO.{stream}", {})
        if reason := refusal(found):
            raise Failed(reason)
        cluster, state = found.get("cluster"), found.get("state")
        node = cluster.get("leader") if isinstance(cluster, dict) else None
        if not isinstance(cluster, dict) or not node or not isinstance(node, str):
            raise Failed("no leader is known")
        group = cluster.get("raft_group") or ""
        first, last = number(state, "first_seq"), number(state, "last_seq")
        return Reign(node=node, raft_group=str(group), since=cluster.get("leader_since"), first=first, last=last)

    async def _term(self, reign: Reign) -> int:
        """Return the Raft term of a leader that still leads as it did; -1 where its version doesn't say, or nobody
        elects it. Raises :class:`Failed` where it does not."""
        if not reign.raft_group:
            return -1
        asked = {"account": ACCOUNT, "group": reign.raft_group}
        found = await self._session.about(reign.node, "RAFTZ", LOOK_S, **asked)
        if not found:
            return -1
        group = found.get(ACCOUNT, {}).get(reign.raft_group) if isinstance(found.get(ACCOUNT), dict) else None
        if not isinstance(group, dict) or group.get("state") != LEADER or group.get("leader_since") != reign.since:
            raise Failed(f"{reign.node} has answered, and leads no more", Answer(node=reign.node))
        return number(group, "term")


def _delivered(
    found: Sequence[Mapping[str, Any]], begin: int, limit: int, max_bytes: int
) -> tuple[tuple[Delivered, ...], int]:
    """Return messages in the order of their offsets, and where to go on. Reading ends at the first that whoever
    answered doesn't have, nor any later one."""
    messages: dict[int, Delivered] = {}
    following, size = begin, 0
    for at, one in enumerate(found, begin):
        if at < following:  # a hole before it, which the one before has passed over
            continue
        if error_code(one) == NO_MESSAGE:
            break
        offset, body, key = _message(one)
        if offset < at:
            raise Failed(f"a message at {offset} where {at} was asked for")
        size += len(body)
        if len(messages) == limit or (messages and 0 < max_bytes < size):
            break
        messages[offset] = Delivered(offset=offset, message=number_of(key), hash=body_hash(body))
        following = offset + 1
    return tuple(messages.values()), following


def number_of(key: str) -> int:
    """Return the number of the message with this key, -1 for one that is none of ours, or damaged."""
    value = int(key, 16) if key else -1
    return value if value < 2**63 else -1


def _message(found: Mapping[str, Any]) -> tuple[int, bytes, str]:
    """Return offset, body and key ("" without one) of a message in an answer. Raises :class:`Failed`."""
    if reason := refusal(found):
        raise Failed(reason)
    message = found.get("message")
    try:
        sequence = number(message, "seq")
        body, head = (b64decode(str(message.get(name) or ""), validate=True) for name in ("data", "hdrs"))  # type: ignore[union-attr]
    except ValueError as error:
        raise Failed(f"a damaged message: {error}") from error
    key = _KEY_LINE.search(head.decode("ascii", "replace").replace("\r", ""))
    return sequence - 1, body, key[1] if key else ""
