"""A store of the split: it keeps replicas of many groups on one disk, and serves brokers by them.

Its disk has a word, by which meta gives it a number; both stand on the disk, so that a start needs no meta. A disk that
is empty, that meta takes for another one, or that lacks what it was sure to hold, is wiped and begins as a new one. One
of another cluster is left alone.

Options: ``metas``, ``cluster_id``, ``groups``, ``slices``, ``objectstore``, ``zone``, ``segment_bytes``,
``segment_ms``, ``local_bytes``, ``delete_ms``, ``tier_timeout_ms``, ``store_heartbeat_ms``, ``linger_ms``,
``virtual_time``, and Raft's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from chaos import events
from chaos.node import Env, NodeSpec
from reference.raft.bound import DamagedLog
from reference.split.calls import Calls
from reference.split.joining import Joining, Metas
from reference.split.options import names_of, number_of
from reference.split.requests import natural
from reference.split.store.describing import LogReads, describe, number_in, state_of
from reference.split.store.group_requests import GroupRequests
from reference.split.store.groups import Groups, StoreParts
from reference.split.store.identity import NO_NUMBER, Identity, wipe
from reference.split.store.tier import SegmentTier
from reference.split.view import ClusterFollower
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import to_json

#: How often leaders look whether something is due, and how often all look for what is old or lacking.
LEAD_NS, CLEAN_NS = 100_000_000, 500_000_000
_LEAD, _CLEAN = "store.lead", "store.clean"
_HOST_PARTS = ("replica", "policy", "wal")


class Store:
    """The node. ``follower``, ``group_requests`` and ``parts`` are the classes of its parts."""

    def __init__(
        self,
        spec: NodeSpec,
        *,
        follower: type[ClusterFollower] = ClusterFollower,
        group_requests: type[GroupRequests] = GroupRequests,
        **parts: Any,
    ) -> None:
        self._options: Mapping[str, Any] = spec.options
        metas = names_of(spec.options, "metas")
        host_parts = {name: parts.pop(name) for name in _HOST_PARTS if name in parts}
        self._parts = StoreParts(host_parts=host_parts, **parts)
        self._group_requests = group_requests
        self.follower = follower(metas)
        self.calls = Calls()
        self.cluster_id = str(spec.options.get("cluster_id", ""))
        self.metas = Metas(self.calls, metas, self.cluster_id)
        self.joining = Joining(
            self.metas,
            "store",
            self._joined,
            zone=str(spec.options.get("zone", "")),
            heartbeat_ms=number_of(spec.options, "store_heartbeat_ms", 200),
        )
        self.tier = SegmentTier(
            str(spec.options.get("objectstore", "")), number_of(spec.options, "tier_timeout_ms", 2000)
        )
        self._make_groups()  # a wrong option is an error now, not when the disk has a number
        self.identity = Identity("", cluster=self.cluster_id)
        self.groups: Groups | None = None  # None before the disk has a number
        self._handlers: Mapping[int, Callable[[Env, str, Command], None]] = {}
        self._waiting: dict[int, Callable[[Env], None]] = {}  # sync token → what follows it

    # The disk

    def start(self, env: Env) -> None:
        known = Identity.read(env.disk)
        env.trace(events.Start(disk=known.word if known is not None else None))
        self.follower.start(env)
        env.set_timer(_LEAD, LEAD_NS)
        env.set_timer(_CLEAN, 0)
        if known is None:
            self._begin_anew(env, is_damaged=bool(env.disk.list()))
        else:
            self.identity = known
            if self.is_ours(known):
                self._open(env)
        self._end_step(env)

    def is_ours(self, disk: Identity) -> bool:
        """Policy: whether a disk is of this cluster. Another one's is neither served from nor ever wiped."""
        return disk.cluster == self.cluster_id

    def _open(self, env: Env) -> None:
        """Go on with the disk as it is: at once if it has a number, else when meta has given it one."""
        if self.identity.number != NO_NUMBER and not self._begin_groups(env):
            self._begin_anew(env, is_damaged=True)
            return
        self.joining.start(env, self.identity.word)

    def _make_groups(self) -> Groups:
        return Groups(self._options, self._parts, self.follower, self.tier, self.calls, self.metas)

    def _begin_groups(self, env: Env) -> bool:
        """Begin the groups on this disk; False if it lacks what it was sure to hold."""
        groups = self._make_groups()
        try:
            groups.start(env, self.identity.number)
        except DamagedLog:
            return False
        self.groups, self._handlers = groups, self._group_requests(groups).handlers
        groups.follow(env)
        return True

    def _begin_anew(self, env: Env, *, is_damaged: bool = False) -> None:
        """Wipe the disk and begin as another one. What it was is forgotten durably before anything else goes."""
        if is_damaged:
            env.trace(events.Damaged(position=-1))
        if self.groups is not None:
            self.groups.close()
        self.groups, self._handlers = None, {}
        self.identity = Identity.of_new_disk(env, self.cluster_id)
        self._waiting = {Identity.forget(env.disk): self._wipe}

    def _wipe(self, env: Env) -> None:
        """Have all that was there gone for good before the disk has a name: a crash brings nothing back under it."""
        token = wipe(env.disk)
        if token is None:
            self._name_disk(env)
        else:
            self._waiting[token] = self._name_disk

    def _name_disk(self, env: Env) -> None:
        self._waiting[self.identity.write(env.disk)] = self._open

    def _joined(self, env: Env) -> None:
        """Take the number that meta has given to the disk's word. Another one than before means that meta has taken
        another disk for this store's since then. While this one is being wiped, the number is of what it was (R6)."""
        number = self.joining.number
        if self._waiting:
            return
        if self.identity.number == NO_NUMBER:
            self.identity = replace(self.identity, number=number)
            self._waiting[self.identity.write(env.disk)] = self._numbered
        elif self.identity.number != number:
            self._begin_anew(env)

    def _numbered(self, env: Env) -> None:
        if not self._begin_groups(env):
            self._begin_anew(env, is_damaged=True)

    # Steps

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.is_response:
            self._answered(env, source, message)
        elif message.code in (Request.GROUPS_MESSAGES, Request.GROUPS_BEATS):
            if self.groups is not None:
                self.groups.host.message(env, source, message)
        elif message.code == Request.DESCRIBE:
            env.send(source, message.reply(body=to_json(self._describe(env))))
        elif self.groups is None:
            env.send(source, message.reply(Response.SYSTEM_BUSY, remark=self._why_closed()))
        elif message.code == Request.READ_STATE:
            body = to_json(state_of(self.groups, number_in(self.groups, message)))
            env.send(source, message.reply(body=body))
        elif message.code == Request.READ_LOG:
            self._read_log(env, source, message, self.groups)
        elif message.code in self._handlers:
            self._handlers[message.code](env, source, message)
        elif not message.is_oneway:
            remark = f"request code {message.code} not supported"
            env.send(source, message.reply(Response.REQUEST_CODE_NOT_SUPPORTED, remark=remark))
        self._end_step(env)

    def _why_closed(self) -> str:
        if self.is_ours(self.identity):
            return "this store has no disk that meta knows yet"
        return f"this store's disk is of cluster {self.identity.cluster!r}, not {self.cluster_id!r}"

    def _answered(self, env: Env, source: str, message: Command) -> None:
        if self.tier.message(env, source, message):
            return
        if self.follower.answered(env, source, message):
            if self.groups is not None:
                self.groups.follow(env)
            return
        self.calls.answered(env, source, message)

    def _describe(self, env: Env) -> dict[str, Any]:
        groups = describe(self.groups) if self.groups is not None else {"disk": self.identity.number, "groups": {}}
        return {"revision": self.follower.view.revision, "incarnation": env.incarnation, **groups}

    def _read_log(self, env: Env, source: str, message: Command, groups: Groups) -> None:
        number, position = number_in(groups, message), natural(message.fields, "position")

        def came(env: Env, records: bytes | None, end: int) -> None:
            if records is None:
                env.send(source, message.reply(Response.SYSTEM_BUSY, remark="some bytes can't be had now"))
            else:
                env.send(source, message.reply(fields={"next": str(end)}, body=records))

        LogReads(groups).read(env, number, position, came)

    def timer(self, env: Env, name: str) -> None:
        groups = self.groups
        if name == _LEAD:
            env.set_timer(_LEAD, LEAD_NS)
            if groups is not None:
                groups.lead(env)
        elif name == _CLEAN:
            is_checking = groups is not None and not groups.files.is_checked
            env.set_timer(_CLEAN, 0 if is_checking else CLEAN_NS)
            if groups is not None:
                groups.clean(env)
        elif groups is None or not groups.host.timer(env, name):
            for part in (self.joining, self.follower, self.calls, self.tier):
                if part.timer(env, name):
                    break
        self._end_step(env)

    def done(self, env: Env, token: int) -> None:
        then = self._waiting.pop(token, None)
        if then is not None:
            then(env)
        elif self.groups is not None:
            self.groups.host.done(env, token)
        self._end_step(env)

    def closed(self, env: Env, peer: str) -> None:
        if self.groups is not None:
            self.groups.host.closed(env, peer)
        self.follower.closed(env, peer)
        self.calls.closed(env, peer)
        self.tier.closed(env, peer)
        self._end_step(env)

    def _end_step(self, env: Env) -> None:
        """Send what the groups have gathered. A disk with other bytes than were sealed is not gone on with (R5)."""
        if self.groups is not None and self.groups.damaged:
            self._begin_anew(env, is_damaged=True)
        elif self.groups is not None:
            self.groups.host.step_over(env)
