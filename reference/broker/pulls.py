"""Requests to read messages of a queue: what they ask, how they are held at its end, and what they are answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from chaos.node import Env, Malformed
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import whole

MAX_PULL_BYTES = 256 * 1024
MAX_PULL_COUNT = 1024
#: So many pulls are held at a time, each for so long; others are answered at once.
MAX_HELD = 10_000
MAX_SUSPEND_MS = 60_000
_SUSPEND = 2
_MS = 1_000_000

#: A queue, as the broker at hand knows it.
Q = TypeVar("Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull(Generic[Q]):
    """A pull request as it was asked; ``deadline_ns`` > 0 while it may be held."""

    source: str
    request: Command
    queue: Q
    offset: int
    max_count: int
    max_bytes: int
    demand: str
    epoch: int
    deadline_ns: int

    @staticmethod
    def read(env: Env, source: str, message: Command, queue: Q, epoch: int) -> Pull[Q]:
        """Read a request that came now. Raises :class:`chaos.node.Malformed`."""
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
        return Pull(
            source=source,
            request=message,
            queue=queue,
            offset=offset,
            max_count=min(max_count, MAX_PULL_COUNT),
            max_bytes=min(max_bytes, MAX_PULL_BYTES),
            demand=fields.get("demandSource", ""),
            epoch=epoch,
            deadline_ns=env.mono_ns() + wait_ns if wait_ns > 0 else 0,
        )


class PullRequests(Generic[Q]):
    """What brokers do alike with pulls. Where the messages are is for each kind of broker to say."""

    def __init__(self) -> None:
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

    def _identity(self, env: Env, queue: Q) -> dict[str, str]:
        """Return the fields by which an answer says who gave it."""
        raise NotImplementedError

    # Answers

    def _found(self, env: Env, pull: Pull[Q], records: list[bytes], source: str) -> None:
        self._answer(env, pull, Response.SUCCESS, pull.offset + len(records), source, b"".join(records), "FOUND")

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
            env.set_timer("held", self._due_ns - env.mono_ns())
        self._held.append(pull)

    def wake(self, env: Env) -> None:
        """Queues may have grown."""
        if self._held:
            ready = [pull for pull in self._held if self.readable_end(pull.queue) != pull.offset]
            if ready:
                self._held = [pull for pull in self._held if self.readable_end(pull.queue) == pull.offset]
                for pull in ready:
                    self._read(env, pull)

    def timer(self, env: Env) -> None:
        """Answer the pulls that were held as long as they may be."""
        now = env.mono_ns()
        late = [pull for pull in self._held if pull.deadline_ns <= now]
        self._held = [pull for pull in self._held if pull.deadline_ns > now]
        for pull in late:
            self._read(env, pull)
        if self._held:
            self._due_ns = min(pull.deadline_ns for pull in self._held)
            env.set_timer("held", self._due_ns - now)

    def closed(self, env: Env, peer: str) -> None:
        """Forget the pulls of a client that is gone."""
        if self._held:
            self._held = [pull for pull in self._held if pull.source != peer]
