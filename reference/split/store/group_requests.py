"""What brokers ask of a group: fences, appends, consumers' offsets, reads, and whether an epoch is still the newest.

Whatever changes the group is decided when its entry is applied, and answered then (R1). Refusals before that only save
work, but for that of an epoch which is below the fence: no later entry can make it valid again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chaos.node import Env
from reference.split.hosting.replica import Replica
from reference.split.layout import slice_name, slice_of
from reference.split.names import node_of
from reference.split.requests import (
    AppendAnswer,
    AppendRequest,
    Commit,
    CommitRequest,
    ConfirmAnswer,
    ConfirmRequest,
    FenceAnswer,
    FenceRequest,
    ReadAnswer,
    ReadRequest,
    Refusal,
    Window,
)
from reference.split.store.entries import Append, CommitOffset, Entry, Fence
from reference.split.store.group import REASONS, Group, Outcome
from reference.split.store.groups import Groups
from reference.split.store.machine import GroupMachine
from reference.wire.codes import Request, Response
from reference.wire.command import Command

Respond = Callable[[Env, Command], None]


class GroupRequests:
    """The requests of one store's groups."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self.handlers: Mapping[int, Callable[[Env, str, Command], None]] = {
            Request.GROUP_FENCE: self._on_fence,
            Request.GROUP_APPEND: self._on_append,
            Request.GROUP_COMMIT: self._on_commit,
            Request.GROUP_READ: self._on_read,
            Request.GROUP_CONFIRM: self._on_confirm,
            Request.SEGMENT_GET: self._groups.copying.give,
        }

    # Policy

    def knows_owner(self, request: FenceRequest) -> bool:
        """A fence is logged only if meta's log, as it is known here, names exactly this owner: a bogus epoch would lock
        the slice for ever (R12)."""
        owner = self._groups.cluster.owner(request.slice)
        named = (owner.epoch, owner.broker, owner.life)
        is_its = slice_of(request.group, self._groups.slices) == request.slice
        return is_its and named == (request.epoch, request.broker, request.life)

    def is_outdated(self, group: Group, epoch: int) -> bool:
        """Only an epoch below the applied fence is refused before its entry is logged (R1)."""
        return epoch < group.fence.epoch

    def knows_map(self, member: Replica, request: ReadRequest) -> bool:
        """Return whether the members that the reader knows are known here: by newer ones this store may be none."""
        return request.map <= member.committed_members()[0]

    def confirms(self, group: Group, epoch: int) -> bool:
        """An epoch is confirmed by the state that a read index has shown to be new enough (R9)."""
        return group.fence.epoch == epoch

    # Who may answer

    def _why_not(self, group: int) -> Refusal | None:
        """Return why this store can't change a group now; None if it can."""
        refusal = self._why_no_member(group)
        if refusal is not None:
            return refusal
        member = self._groups.host.replicas[group]
        if not member.is_leader:
            return self._not_leader(member)
        if not member.leads_committed or member.is_handing_over:
            return _busy("this store has just begun to lead the group, or hands it over")
        return None

    def _why_no_member(self, group: int) -> Refusal | None:
        """Return that the group is elsewhere, if this store is no member of it by what is committed here."""
        member = self._groups.host.member(group)
        if member is None or member.name not in member.committed_members()[1].all:
            return Refusal(code=Response.GROUP_MOVED, remark=f"this store is no member of group {group}")
        return None

    def _not_leader(self, member: Replica) -> Refusal:
        leader = node_of(member.leader) if member.leader else ""
        remark = f"{leader or 'another member'} leads this group"
        return Refusal(code=Response.GROUP_NOT_LEADER, remark=remark, leader=leader)

    def _why_no_entry(self, env: Env, group: int, epoch: int, size: int) -> Refusal | None:
        """Return why a broker's entry isn't logged here now; None if it may be."""
        refusal = self._why_not(group)
        if refusal is not None:
            return refusal
        if self.is_outdated(self._groups.machines[group].group, epoch):
            return self._fenced(group)
        if not self._groups.host.may_propose(group):
            return _busy("as many entries are under way as may be")
        if size and not self._groups.host.has_room(env, size):
            self._groups.moving.give_way(env, group)
            return _busy("this store's disk is full")
        return None

    def _fenced(self, group: int) -> Refusal:
        epoch = self._groups.machines[group].group.fence.epoch
        return Refusal(code=Response.GROUP_FENCED, remark=f"group {group} is fenced by epoch {epoch}")

    def _propose(
        self, env: Env, source: str, message: Command, group: int, entry: Entry, answer: Callable[[], Command]
    ) -> None:
        """Log an entry; answer once it is applied here. Without an outcome it may still be committed."""

        def ended(env: Env, outcome: object, index: int) -> None:
            if not isinstance(outcome, Outcome):
                member = self._groups.host.member(group)
                refusal = self._not_leader(member) if member is not None else _busy("its outcome is unknown")
            elif outcome.code == Response.GROUP_FENCED:
                refusal = self._fenced(group)
            elif outcome.code:
                refusal = Refusal(code=outcome.code, remark=f"refused when applied: {REASONS[outcome.code]}")
            else:
                env.send(source, answer())
                return
            env.send(source, refusal.reply(message))

        self._groups.host.propose(env, group, entry.encode(), ended)

    # Requests

    def _on_fence(self, env: Env, source: str, message: Command) -> None:
        asked = FenceRequest.read(message)
        refusal = self._why_no_entry(env, asked.group, asked.epoch, 0)
        if refusal is None and not self.knows_owner(asked):
            name = slice_name(asked.slice)
            refusal = _busy(f"this store doesn't know that {asked.broker} owns {name} in epoch {asked.epoch}")
            if self._groups.follower.is_cut_off(env):  # another member may hear of owners
                self._groups.moving.give_way(env, asked.group)
        if refusal is not None:
            env.send(source, refusal.reply(message))
            return
        entry = Fence(slice=asked.slice, epoch=asked.epoch, broker=asked.broker, life=asked.life)
        machine = self._groups.machines[asked.group]
        self._propose(env, source, message, asked.group, entry, lambda: fence_answer(machine.group).reply(message))

    def _on_append(self, env: Env, source: str, message: Command) -> None:
        asked = AppendRequest.read(message)
        entry = Append.of(asked)
        entry.check(asked.group)
        refusal = self._why_no_entry(env, asked.group, asked.epoch, len(asked.records))
        if refusal is not None:
            env.send(source, refusal.reply(message))
            return
        answer = AppendAnswer(end=entry.end)
        self._propose(env, source, message, asked.group, entry, lambda: answer.reply(message))

    def _on_commit(self, env: Env, source: str, message: Command) -> None:
        asked = CommitRequest.read(message)
        refusal = self._why_no_entry(env, asked.group, asked.epoch, len(asked.consumer))
        if refusal is not None:
            env.send(source, refusal.reply(message))
            return
        entry = CommitOffset(
            epoch=asked.epoch,
            consumer=asked.consumer,
            topic_id=asked.topic_id,
            number=asked.number,
            offset=asked.offset,
        )
        self._propose(env, source, message, asked.group, entry, message.reply)

    def _on_read(self, env: Env, source: str, message: Command) -> None:
        asked = ReadRequest.read(message)
        refusal = self._why_no_member(asked.group)
        if refusal is None and not self.knows_map(self._groups.host.replicas[asked.group], asked):
            remark = f"this store does not know the members of group {asked.group} at {asked.map} yet"
            refusal = Refusal(code=Response.GROUP_MOVED, remark=remark)
        if refusal is not None:
            env.send(source, refusal.reply(message))
            return

        def answered(env: Env, answer: ReadAnswer | Refusal) -> None:
            env.send(source, answer.reply(message))

        self._groups.reads.read(env, self._groups.machines[asked.group], asked, answered)

    def _on_confirm(self, env: Env, source: str, message: Command) -> None:
        asked = ConfirmRequest.read(message)
        refusal = self._why_not(asked.group)
        if refusal is None and not self._groups.host.replicas[asked.group].can_read:
            refusal = _busy("as many reads wait as may")
        if refusal is not None:
            env.send(source, refusal.reply(message))
            return
        machine = self._groups.machines[asked.group]

        def safe(env: Env, is_safe: bool) -> None:
            member = self._groups.host.member(asked.group)
            if not is_safe or member is None:
                refusal = _busy("no majority confirms this leader") if member is None else self._not_leader(member)
                env.send(source, refusal.reply(message))
            elif self.confirms(machine.group, asked.epoch):
                env.send(source, confirm_answer(machine).reply(message))
            else:
                env.send(source, self._fenced(asked.group).reply(message))

        self._groups.host.read(env, asked.group, safe)


def fence_answer(group: Group) -> FenceAnswer:
    """Return what a group holds at this moment."""
    queues = tuple(Window(*key, one.first, one.next) for key, one in group.queues.items())
    commits = tuple(Commit(*key, offset) for key, offset in group.commits.items())
    return FenceAnswer(end=group.end, queues=queues, commits=commits)


def confirm_answer(machine: GroupMachine) -> ConfirmAnswer:
    """Return the first offsets of the queues that were trimmed."""
    queues = machine.group.queues.items()
    return ConfirmAnswer(starts=tuple((*key, one.first) for key, one in queues if one.first))


def _busy(remark: str) -> Refusal:
    return Refusal(code=Response.SYSTEM_BUSY, remark=remark)
