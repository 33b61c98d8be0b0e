"""Reads each copy of a queue through the node that holds it, so that copies can be compared without anybody's files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from chaos.driver import Client
from chaos.ops import Answer, Failed, QueueRef, Unknown
from chaos.workload import Load

LIMIT = 32
RETRY_S = 0.1
#: So long nodes may take to answer, and copies to catch up with the longest one.
CATCH_UP_S = 15.0


@dataclass(slots=True)
class _Copy:
    """How far a copy was read: ``following`` is the next offset, -1 before the first answer; ``ended`` says whether the
    node has called that its end in the last round, ``why`` what was wrong if it has not."""

    node: str
    client: Client
    minimum: int = 0
    following: int = -1
    ended: bool = False
    why: str = field(default="nobody asked it")

    async def read_on(self, load: Load, queue: QueueRef, deadline_ns: int) -> None:
        """Read to what the node calls the end at this moment, if it answers."""
        self.ended = False
        try:
            if self.following < 0:
                self._learn(await self.client.bounds(queue, node=self.node))
                self.following = self.minimum
            while not self.ended:
                answer = await self.client.pull(queue, self.following, limit=LIMIT, node=self.node)
                self._learn(answer)
                self._record(load, queue, answer)
                last = answer.messages[-1].offset + 1 if answer.messages else self.following
                before, self.following = self.following, max(self.following, last, answer.following)
                self.ended = not answer.messages and self.following >= answer.maximum >= 0
                if not self.ended and self.following == before:
                    self.why = f"it gave nothing at offset {before}, though it said that it ends at {answer.maximum}"
                    return
                if not self.ended and load.now_ns() >= deadline_ns:
                    self.why = f"time ran out at offset {self.following}"
                    return
        except (Failed, Unknown) as error:
            self.why = error.reason

    def _learn(self, answer: Answer) -> None:
        if answer.node != self.node:
            raise Failed(f"{answer.node or 'nobody that the answer names'} answered in its place")
        self.minimum = max(self.minimum, answer.minimum)

    def _record(self, load: Load, queue: QueueRef, answer: Answer) -> None:
        for one in answer.messages:
            load.record(
                "final",
                f="node_read",
                node=self.node,
                queue=queue.index,
                offset=one.offset,
                message=one.message,
                hash=one.hash,
            )


async def read_copies(load: Load, queue: QueueRef, holders: Sequence[str]) -> None:
    """Write a ``final`` row ``holders``, then ``node_read`` for each message that each node answers, and at last
    ``node_end`` for each node: how far it was read, and ``value.reason`` if that is not as far as another one."""
    load.record("final", f="holders", queue=queue.index, value={"nodes": list(holders)})
    copies = [_Copy(node=node, client=load.client(f"reader-{queue.index}-{node}")) for node in holders]
    deadline_ns = load.now_ns() + round(CATCH_UP_S * 1e9)
    try:
        while True:
            await load.gather(*(copy.read_on(load, queue, deadline_ns) for copy in copies))
            longest = max((copy.following for copy in copies), default=0)
            known = 1 + load.shared["acked"].get(queue.index, -1)
            if all(copy.ended and copy.following >= max(longest, known) for copy in copies):
                break
            if load.now_ns() >= deadline_ns:
                break
            await load.sleep(RETRY_S)
    finally:
        for copy in copies:
            copy.client.close()
    for copy in copies:
        why = copy.why if not copy.ended else f"it ended at {copy.following}, another one at {longest}"
        short = not copy.ended or copy.following < longest
        value = {"minimum": copy.minimum, **({"reason": why} if short else {})}
        load.record("final", f="node_end", node=copy.node, queue=queue.index, offset=copy.following, value=value)
