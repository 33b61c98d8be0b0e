"""How a group's members follow meta's wish, one change at a time, and how meta learns which members there are.

A newcomer is a learner until it holds what a voter must (R4), and votes before the one that it replaces leaves (R11).
Meta's wish is never a route: brokers go by the memberships that leaders report once they are committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.node import Env
from reference.raft.members import Members
from reference.split.hosting import Host
from reference.split.hosting.replica import Replica
from reference.split.joining import Metas
from reference.split.view import Cluster
from reference.wire.codes import Request
from reference.wire.command import Command
from reference.wire.fields import to_json

#: After how long a report that was not taken is made again.
RETRY_NS = 200_000_000
#: So often at most does a store that can't serve a group have another one lead: none may be able to.
GIVE_WAY_NS = 1_000_000_000


class Moving:
    """The changes of members that a store makes in the groups that it leads, and its reports."""

    def __init__(self, host: Host, cluster: Cluster, metas: Metas) -> None:
        self._host, self._cluster, self._metas = host, cluster, metas
        self._reported: dict[int, int] = {}  # group → index of the newest membership that meta has taken from here
        self._not_before: dict[int, int] = {}  # group → when to report again
        self._gave_way: dict[int, int] = {}  # group → when its lead was given away

    def consider(self, env: Env, group: int) -> None:
        """Report the members if meta may not know them, and make the next change that is due."""
        member = self._host.member(group)
        if member is None or not member.leads_committed:
            return
        self._report(env, group, member)
        known = self._cluster.group(group)
        if known is not None and known.wanted and not member.why_no_change():
            self._change(env, group, member, known.wanted)

    # Changes

    def _change(self, env: Env, group: int, member: Replica, wanted: Sequence[str]) -> None:
        own, members = self._host.env_of(env, group), member.members
        newcomer, goner = self.newcomer(members, wanted), self.goner(members, wanted)
        if goner and goner != member.name:
            member.remove(own, goner, lambda env, outcome, index: None)
        elif newcomer:
            member.add_learner(own, newcomer, lambda env, outcome, index: None)
        elif goner:
            self._hand_over(env, group, member, wanted)

    def give_way(self, env: Env, group: int) -> None:
        """Have another member lead a group that this store can't serve: for want of room, or of news from meta."""
        member, now = self._host.member(group), env.mono_ns()
        if member is not None and now >= self._gave_way.get(group, -GIVE_WAY_NS) + GIVE_WAY_NS:
            self._gave_way[group] = now
            self._hand_over(env, group, member, member.members.voters)

    def newcomer(self, members: Members, wanted: Sequence[str]) -> str:
        """Return who is to join next, "" for nobody: one at a time."""
        lacking = [name for name in wanted if name not in members.all]
        return lacking[0] if lacking and not members.learners else ""

    def goner(self, members: Members, wanted: Sequence[str]) -> str:
        """Return who is to leave now, "" for nobody: a voter only once all who are wanted vote (R11)."""
        learners = [name for name in members.learners if name not in wanted]
        voters = [name for name in members.voters if name not in wanted]
        if learners:
            return learners[0]
        return voters[0] if voters and set(wanted) <= set(members.voters) else ""

    def _hand_over(self, env: Env, group: int, member: Replica, wanted: Sequence[str]) -> None:
        """Have another one of these lead, who can remove this one then: who has most of the log."""
        others = [name for name in wanted if name in member.peers and name in member.members.voters]
        if others and not member.is_handing_over:
            best = max(others, key=lambda name: member.peers[name].match)
            member.transfer(self._host.env_of(env, group), best, lambda env, done: None)

    # Reports

    def _report(self, env: Env, group: int, member: Replica) -> None:
        index, members = member.committed_members()
        known = self._cluster.group(group)
        if known is not None and (known.voters, known.learners) == (members.voters, members.learners):
            return
        taken = max(self._reported.get(group, 0), known.index if known is not None else 0)
        if not self.may_report(index, member) or index <= taken or self._not_before.get(group, 0) > env.mono_ns():
            return
        self._not_before[group] = env.mono_ns() + RETRY_NS
        fields = {"group": str(group), "index": str(index), "node": env.name, "disk": str(self._host.disk)}
        body = to_json({"voters": list(members.voters), "learners": list(members.learners)})

        def answered(env: Env, answer: Command | None) -> None:
            if answer is not None and not answer.code:
                self._reported[group] = max(index, self._reported.get(group, 0))

        self._metas.ask(env, Request.META_REPORT, fields, answered, body)

    def may_report(self, index: int, member: Replica) -> bool:
        """Policy: meta is given only memberships that are committed, of which this store is a voter."""
        return index <= member.commit and member.is_voter
