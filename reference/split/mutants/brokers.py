"""Planted bugs of brokers: what they say of writes that they lost, of cursors, and of what can be read."""

from __future__ import annotations

from chaos.node import Env
from reference.broker.pulls import Pull
from reference.broker.sends import PendingRequest
from reference.mutants._planted import Planted
from reference.split.broker.appending import LOST, Appends, Batch
from reference.split.broker.asking import Outcome
from reference.split.broker.committing import Commits, Key
from reference.split.broker.pulling import Pulls
from reference.split.broker.queues import OpenQueue
from reference.split.broker.serving import QueueRequests
from reference.split.requests import AppendAnswer, FenceRequest
from reference.split.store.group_requests import GroupRequests, fence_answer
from reference.wire.codes import Response
from reference.wire.command import Command


class FencedMeansNotStored(Appends):
    """An owner that is fenced off says of all that waits that it is not stored, though an answer may have been lost."""

    def is_definite(self, batch: Batch) -> bool:
        return True


class AcknowledgedBeforeReadable(Appends):
    """A producer has its ok before its message is in what readers see: that follows with the next message."""

    _shown = 0

    def stored(self, env: Env, batch: Batch) -> None:
        end = self.acknowledged_end()
        self.answer(env, end)
        self.show(self._shown)
        self._shown = end


class WalBeginsAfterTheEnd(Appends):
    """A new owner begins one behind the end that the group's log has."""

    def first_position(self, end: int) -> int:
        return end + 1 if end else end


class ConfirmByLastAnswer(Appends):
    """The last append that was answered confirms all up to there, whatever the answer says."""

    def has_landed(self, batch: Batch, outcome: Outcome[AppendAnswer]) -> bool:
        return super().has_landed(batch, outcome) or outcome.code not in (-1, *LOST)

    def acknowledged_end(self) -> int:
        return max([batch.end for batch in self.unresolved() if batch.is_stored], default=self.acknowledged)


class RecoveryReadsUnfenced(GroupRequests):
    """Only the first group of a slice is fenced before it says where it ends. The others say so at once, and take what
    the old owner appends until the fence comes through."""

    def _on_fence(self, env: Env, source: str, message: Command) -> None:
        asked = FenceRequest.read(message)
        is_first = asked.group == asked.slice
        if not is_first and self.knows_owner(asked) and self._why_no_entry(env, asked.group, asked.epoch, 0) is None:
            env.send(source, fence_answer(self._groups.machines[asked.group].group).reply(message))
        super()._on_fence(env, source, message)


class CursorNotFenced(Commits):
    """A commit is acknowledged when it leaves. Whether the group takes it, or another owner is there, is not waited
    for."""

    def put(self, env: Env, key: Key, offset: int, waiting: PendingRequest) -> None:
        super().put(env, key, offset, waiting)
        for commit in (self._under_way.get(key), self._next.get(key)):
            if commit is not None and waiting in commit.waiting:
                commit.waiting.remove(waiting)
        self.offsets[key] = max(self.offsets.get(key, 0), offset)
        waiting.respond(env, waiting.answer)


class BelowTheStart(Pulls):
    """Who asks for what is trimmed is answered as if the queue had nothing there yet."""

    def below_start(self, env: Env, pull: Pull[OpenQueue]) -> None:
        self._answer(env, pull, Response.PULL_NOT_FOUND, pull.offset, "local", remark="NO_MATCHED_MESSAGE")


class EndsUnconfirmed(Pulls):
    """An owner says that there is nothing more as long as it believes that it owns the slice."""

    def confirm(self, env: Env, pull: Pull[OpenQueue]) -> None:
        self._nothing(env, pull)


class AnswersUnconfirmed(QueueRequests):
    """Ends and cursors are answered from memory."""

    def needs_confirmation(self, request: Command) -> bool:
        return False


MUTANTS = (
    Planted(
        name="fenced-means-not-stored",
        law="durability",
        stands_for="a repeated write whose refusal is passed on as failed, though the first try may be stored",
        parts={"broker": {"appends": FencedMeansNotStored}},
        scenario="owner_apart",
        seed=2,
    ),
    Planted(
        name="acknowledged-before-readable",
        law="no-rollback",
        stands_for="AutoMQ for RocketMQ #961: a send is answered before its message is in what readers see",
        parts={"broker": {"appends": AcknowledgedBeforeReadable}},
    ),
    Planted(
        name="wal-begins-after-the-end",
        law="availability",
        stands_for="AutoMQ for RocketMQ #573, #619: the recovered log begins one after the end that metadata know",
        parts={"broker": {"appends": WalBeginsAfterTheEnd}},
    ),
    Planted(
        name="confirm-by-last-answer",
        law="durability",
        stands_for="AutoMQ for RocketMQ #743: the confirm offset follows the last append that completed",
        parts={"broker": {"appends": ConfirmByLastAnswer}},
    ),
    Planted(
        name="recovery-reads-unfenced",
        law="fencing",
        stands_for="apache/bookkeeper #2614, #2616: of a recovery's reads only the first one fences",
        parts={"store": {"group_requests": RecoveryReadsUnfenced}},
        scenario="owner_unaware",
    ),
    Planted(
        name="cursor-not-fenced",
        law="consumers",
        stands_for="apache/pulsar #18236, #350: two brokers own a topic after a forced stop, and a cursor is lost",
        parts={"broker": {"commits": CursorNotFenced}},
        scenario="owner_apart",
    ),
    Planted(
        name="below-the-start",
        law="progress",
        stands_for="aiven/inkless #666: an offset below the start of the log is answered as empty",
        parts={"broker": {"pulls": BelowTheStart}},
        scenario="late_readers",
    ),
    Planted(
        name="owner-answers-unconfirmed",
        law="no-rollback",
        stands_for="an owner that was replaced goes on saying that nothing is new, as in apache/pulsar #18236",
        parts={"broker": {"pulls": EndsUnconfirmed, "queue_requests": AnswersUnconfirmed}},
        scenario="owner_deposed",
    ),
)
