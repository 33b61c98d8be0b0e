"""Requests to read messages of a queue: what they ask, how they are held at its end, and what they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from chaos.node import Env, Malformed
from reference.broker.clients import Clients
from reference.broker.filters import Filter
from reference.broker.records import decode
from reference.broker.subscriptions import Subscriptions
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import whole

MAX_PULL_BYTES = 256 * 1024
MAX_PULL_COUNT = 1024
#: So many pulls are held at a time, each for so long; others are answered at once.
MAX_HELD = 10_000
MAX_SUSPEND_MS = 60_000
_SUSPEND = 2
#: The timer of requests that wait.
HELD = "held"
_MS = 1_000_000

#: A queue, as the broker at hand knows it.
Q = TypeVar("Q")


@dataclass(frozen=True, slots=True)
class Selection:
    """What a pull is given of the records that were read for it: those that a filter selects, so many at most, and of
    so many bytes, but for the first one."""

    filter: Filter
    max_count: int
    max_bytes: int

    def of(self, records: Sequence[bytes]) -> tuple[list[bytes], int]:
        """Return the records that are given, and how many of ``records`` are then behind the reader."""
        found: list[bytes] = []
        size = 0
        for at, data in enumerate(records):
            if self.filter(decode(data).properties):
                size += len(data)
                if len(found) == self.max_count or (found and size > self.max_bytes):
                    return found, at
                found.append(data)
        return found, len(records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull(Generic[Q]):
    """A pull request as it was asked; ``deadline_ns`` > 0 while it may be held. ``selection``: which of the records
    that are read are meant, None for all. With one, ``max_count`` and ``max_bytes`` bound what one step examines, and
    ``woken`` says that it has waited."""

    source: str
    request: Command
    queue: Q
    offset: int
    max_count: int
    max_bytes: int
    demand: str
    epoch: int
    deadline_ns: int
    selection: Selection | None = None
    woken: bool = False

    @staticmethod
    def read(env: Env, source: str, message: Command, queue: Q, epoch: int, wanted: Filter | None = None) -> Pull[Q]:
        """Read a request that came now; ``wanted``: the records that it is for, None for all. Raises
        :class:`chaos.node.Malformed`."""
        fields = message.fields
        wait_ms = min(whole(fields, "suspendTimeoutMillis", 0), MAX_SUSPEND_MS)
        wait_ns = wait_ms * _MS if whole(fields, "sysFlag") & _SUSPEND else 0
        offset, max_count, max_bytes = (
            whole(fields, "queueOffset"),
            whole(fields, "maxMsgNums"),
            whole(fields, "maxMsgBytes", MAX_PULL_BYTES),
        )
        if max_count < 1 or max_bytes < 1:
            raise Malformed("maxMsgNums and maxMsgBytes must be 1 or more")
        max_count, max_bytes = min(max_count, MAX_PULL_COUNT), min(max_bytes, MAX_PULL_BYTES)
        return Pull(
            source=source,
            request=message,
            queue=queue,
            offset=offset,
            max_count=max_count if wanted is None else MAX_PULL_COUNT,
            max_bytes=max_bytes if wanted is None else MAX_PULL_BYTES,
            demand=fields.get("demandSource", ""),
            epoch=epoch,
            deadline_ns=env.mono_ns() + wait_ns if wait_ns > 0 else 0,
            selection=None if wanted is None else Selection(wanted, max_count, max_bytes),
        )


class PullRequests(Generic[Q]):
    """What brokers do alike with pulls. Where the messages are is for each kind of broker to say."""

    def __init__(self) -> None:
        self.clients = Clients()
        self.subscriptions = Subscriptions(self.clients)
        self._held: list[Pull[Q]] = []
        self._due_ns = 0  # when the first of them must be answered

    # For each kind of broker to say

    def _read(self, env: Env, pull: Pull[Q]) -> None:
        """Answer a pull, or hold it."""
        raise NotImplementedError

    def readable_end(self, queue: Q) -> int:
        """Return the offset after the last record that readers may see."""
        raise NotImplementedError

    def reported_end(self, queue: Q) -> int:
        """Policy: the end of the queue, as it is reported to readers."""
        return self.readable_end(queue)

    def _minimum(self, queue: Q) -> int:
        """Return where the queue begins."""
        raise NotImplementedError

    def bounds(self, queue: Q) -> tuple[int, int]:
        """Return where a queue begins and ends, as its readers see it."""
        return self._minimum(queue), self.reported_end(queue)

    def _identity(self, env: Env, queue: Q) -> dict[str, str]:
        """Return the fields by which an answer says who gave it."""
        raise NotImplementedError

    # Answers

    def _found(self, env: Env, pull: Pull[Q], records: list[bytes], source: str) -> None:
        self._answer(env, pull, Response.SUCCESS, pull.offset + len(records), source, b"".join(records), "FOUND")

    def _give(self, env: Env, pull: Pull[Q], records: list[bytes], source: str) -> None:
        """Answer with what was read, or with what a filter selects of it, and send the reader on behind all that was
        examined. A pull that has waited goes on waiting at the end of the queue where nothing new is selected."""
        if pull.selection is None:
            self._found(env, pull, records, source)
            return
        found, examined = pull.selection.of(records)
        behind = pull.offset + examined
        if found:
            self._answer(env, pull, Response.SUCCESS, behind, source, b"".join(found), "FOUND")
        elif pull.woken and behind == self.readable_end(pull.queue) and self._may_hold(env, pull):
            self._hold(env, replace(pull, offset=behind))
        else:
            self._answer(env, pull, Response.PULL_RETRY_IMMEDIATELY, behind, source, remark="NO_MATCHED_MESSAGE")

    def _moved(self, env: Env, pull: Pull[Q], next_offset: int) -> None:
        self._answer(env, pull, Response.PULL_OFFSET_MOVED, next_offset, "local", remark="OFFSET_RESET")

    def _answer(
        self,
        env: Env,
        pull: Pull[Q],
        code: Response,
        next_offset: int,
        source: str,
        body: bytes = b"",
        remark: str = "",
    ) -> None:
        fields = {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(next_offset),
            "minOffset": str(self._minimum(pull.queue)),
            "maxOffset": str(self.reported_end(pull.queue)),
            "source": source,
            **self._identity(env, pull.queue),
        }
        env.send(pull.source, pull.request.reply(code, fields, body, remark))

    # Held pulls

    def _may_hold(self, env: Env, pull: Pull[Q]) -> bool:
        return pull.deadline_ns > env.mono_ns() and len(self._held) < MAX_HELD

    def _hold(self, env: Env, pull: Pull[Q]) -> None:
        if not self._held or pull.deadline_ns < self._due_ns:
            self._due_ns = pull.deadline_ns
            env.set_timer(HELD, self._due_ns - env.mono_ns())
        self._held.append(pull)

    def wake(self, env: Env) -> None:
        """Queues may have grown."""
        if self._held:
            ready = [pull for pull in self._held if self.readable_end(pull.queue) != pull.offset]
            if ready:
                self._held = [pull for pull in self._held if self.readable_end(pull.queue) == pull.offset]
                for pull in ready:
                    self._read(env, pull if pull.selection is None else replace(pull, woken=True))

    def timer(self, env: Env) -> None:
        """Answer the pulls that were held as long as they may be."""
        now = env.mono_ns()
        late = [pull for pull in self._held if pull.deadline_ns <= now]
        self._held = [pull for pull in self._held if pull.deadline_ns > now]
        for pull in late:
            self._read(env, pull)
        if self._held:
            self._due_ns = min(pull.deadline_ns for pull in self._held)
            env.set_timer(HELD, self._due_ns - now)

    def closed(self, env: Env, peer: str) -> None:
        """Forget a client that is gone, and its pulls."""
        self.subscriptions.closed(env, peer)
        if self._held:
            self._held = [pull for pull in self._held if pull.source != peer]
