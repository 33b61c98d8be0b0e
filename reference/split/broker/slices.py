"""The slices that a broker owns: opened by a FENCE in each of their groups, closed as soon as anybody says otherwise.

Meta's log names the owner of a slice and its epoch. That alone serves nobody: only the groups' answers to the FENCE say
where the groups end, and from then on nobody of an earlier epoch adds anything. No lease is needed for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from chaos.node import Env
from reference.broker.parts import Refused
from reference.split.broker.asking import Outcome
from reference.split.broker.owned import GroupParts, OpenGroup, OwnedSlice
from reference.split.broker.queues import OpenQueue
from reference.split.layout import count_in, group_of, groups_in, number_at, slice_name, slice_number
from reference.split.names import Owner
from reference.split.requests import FenceAnswer
from reference.split.view import Cluster
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import optional_text

TIMER = "waiting"


class Slices:
    """Follows who owns what. ``closed`` is called when a slice that was open is served no more."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        layout: tuple[int, int],
        parts: GroupParts,
        closed: Callable[[Env, OwnedSlice], None],
    ) -> None:
        self.owned: dict[int, OwnedSlice] = {}
        self.gained_ns = 0  # when this broker was given a slice last: the clients of that one begin to come then
        self._name = name
        self._cluster = cluster
        self._groups, self._slices = layout
        self._parts = parts
        self._closed = closed
        self._is_timed = False
        self._fenced: dict[int, int] = {}  # by slice: the last epoch of ours that was found to be over

    # Policy

    def is_ours(self, owner: Owner, life: int) -> bool:
        """Return whether a slice is this broker's, in this life."""
        return (owner.broker, owner.life) == (self._name, life)

    def may_serve(self, owned: OwnedSlice) -> bool:
        """Return whether a slice serves: all of its groups have answered the FENCE."""
        return len(owned.groups) == len(owned.numbers)

    # Ownership

    def follow(self, env: Env, life: int) -> None:
        """Close what this life owns no more, and begin to open what it owns now."""
        for number in range(self._slices):
            owner, known = self._cluster.owner(number), self.owned.get(number)
            is_ours = self.is_ours(owner, life) and owner.epoch > self._fenced.get(number, 0)
            if known is not None and (not is_ours or known.epoch != owner.epoch):
                self._close(env, known)
                known = None
            if known is None and is_ours:
                self.gained_ns = env.mono_ns()
                self._open(env, number, owner)

    def close_all(self, env: Env) -> None:
        """Own nothing any more: the life that owned it is over."""
        for owned in tuple(self.owned.values()):
            self._close(env, owned)

    def _open(self, env: Env, number: int, owner: Owner) -> None:
        owned = self.owned[number] = OwnedSlice(number, owner, groups_in(number, self._groups, self._slices))
        for group in owned.numbers:
            self._fence(env, owned, group)

    def _fence(self, env: Env, owned: OwnedSlice, group: int) -> None:
        if self.owned.get(owned.number) is not owned:
            return
        stores = self._parts.stores

        def came(env: Env, outcome: Outcome[FenceAnswer]) -> None:
            if self.owned.get(owned.number) is not owned or group in owned.groups:
                return
            if outcome.answer is not None:
                self._answered(env, owned, group, outcome.answer)
            elif outcome.code == Response.GROUP_FENCED:
                self._lost(owned, env, outcome.code)
            else:
                stores.again(env, outcome, lambda env: self._fence(env, owned, group))

        stores.ask_leader(env, group, owned.request(group, self._name), FenceAnswer.read, came)

    def _answered(self, env: Env, owned: OwnedSlice, group: int, found: FenceAnswer) -> None:
        owned.groups[group] = OpenGroup(self._parts, owned, group, found, partial(self._lost, owned))
        if self.may_serve(owned):
            owned.is_open = True
            env.trace(owned.opened())

    def _lost(self, owned: OwnedSlice, env: Env, code: int) -> None:
        """A group has said that this epoch is over, or that what stands there contradicts what this broker knows. In
        the first case only a later epoch can open the slice again; else the groups are asked again where they end."""
        if self.owned.get(owned.number) is not owned:
            return
        if code == Response.GROUP_FENCED:
            self._fenced[owned.number] = owned.epoch
        self._close(env, owned)
        owner = self._cluster.owner(owned.number)
        if code != Response.GROUP_FENCED and (owner.epoch, owner.life) == (owned.epoch, owned.life):
            self._open(env, owned.number, owner)

    def _close(self, env: Env, owned: OwnedSlice) -> None:
        del self.owned[owned.number]
        for _, group in sorted(owned.groups.items()):
            group.close(env)
        if owned.is_open:
            owned.is_open = False
            env.trace(owned.closed())
            self._closed(env, owned)

    # Where a request goes

    def find(self, message: Command, topic: str, rank: int) -> tuple[OpenGroup, OpenQueue]:
        """Return the queue that a request is about. Raises :class:`Refused` where it is not served here, and
        :class:`chaos.node.Malformed`."""
        known = self._cluster.topic(topic)
        if known is None:
            raise Refused(Response.TOPIC_NOT_EXIST, f"no topic {topic}")
        number = self._named(message, known.id, known.queues, rank)
        owned = self.owned.get(number)
        if owned is None or not owned.is_open:
            raise Refused(Response.SERVICE_NOT_AVAILABLE, f"{slice_name(number)} is not open here")
        found = owned.found.get((known.id, rank))
        if found is None:
            queue = number_at(number, rank, known.id, known.queues, self._groups, self._slices)
            group = owned.groups[group_of(known.id, queue, self._groups)]
            found = owned.found[known.id, rank] = group, group.queue(known.id, queue, rank)
        return found

    def open_group(self, queue: OpenQueue) -> OpenGroup | None:
        """Return the group of a queue as long as the epoch goes on in which it was found."""
        owned = self.owned.get(queue.slice)
        return owned.groups[queue.group] if owned is not None and queue.is_open else None

    def _named(self, message: Command, topic_id: int, queues: int, rank: int) -> int:
        """Return the slice that a request names. One that names none is served where only one slice has such a queue:
        the slices that are here now may be others than those that the sender knew of."""
        keys = ("n",) if message.code == Request.SEND_MESSAGE_V2 else ("bname", "brokerName")
        name = next((found for key in keys if (found := optional_text(message.fields, key))), "")
        if name:
            return slice_number(name, self._slices)
        layout = self._groups, self._slices
        having = [one for one in range(self._slices) if 0 <= rank < count_in(one, topic_id, queues, *layout)]
        if len(having) != 1:
            names = ", ".join(slice_name(one) for one in having[:4]) or "no slice"
            remark = f"name the slice in {' or '.join(keys)}: {names} of this topic have a queue {rank}"
            raise Refused(Response.INVALID_PARAMETER, remark)
        return having[0]

    # Time

    def deadline_ns(self, env: Env) -> int:
        """Return until when a request that comes now may wait; see that it is ended then."""
        if not self._is_timed:
            self._is_timed = True
            env.set_timer(TIMER, self._parts.timeout_ns)
        return env.mono_ns() + self._parts.timeout_ns

    def timer(self, env: Env, name: str) -> bool:
        """Handle a timer. Return False if it is another part's."""
        if name != TIMER:
            return False
        open_groups = [group for owned in self.owned.values() for group in owned.groups.values()]
        for group in open_groups:
            group.expire(env)
        first = min((one for group in open_groups if (one := group.first_deadline_ns()) is not None), default=None)
        self._is_timed = first is not None
        if first is not None:
            env.set_timer(TIMER, max(0, first - env.mono_ns()))
        return True
