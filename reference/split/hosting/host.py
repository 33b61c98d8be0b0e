"""Replicas of many Raft groups on one node: one file, one sync, one timer, and one frame to each other node.

Each step of the node calls one of the methods of :class:`Host`, and :meth:`Host.step_over` at its end: then, or once a
round of steps is over, leaves what the groups have gathered meanwhile. Messages carry the disks of both ends, and those
for another disk are dropped (R6).
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos import events
from chaos.node import Env, Malformed
from reference.raft.log import RaftLog
from reference.raft.members import unpack_members
from reference.raft.messages import check_cluster, check_numbers, marked
from reference.raft.options import RaftOptions
from reference.raft.read_index import Readable
from reference.raft.state import FOLLOWER
from reference.raft.state_machine import Proposed
from reference.raft.storage.wal import REWRITE_BYTES, Wal
from reference.split.hosting.beats import Beat, Clocks, unpack_beats
from reference.split.hosting.bundles import GroupMessage, node_of, pack_bundles, read_header, unpack_bundle
from reference.split.hosting.gathering import Gathered, Gathering
from reference.split.hosting.group_env import GROUPS_TIMER, GroupEnv, Shared
from reference.split.hosting.machines import Machines
from reference.split.hosting.replica import Replica, ReplicaPolicy
from reference.split.names import replica_name
from reference.wire.codes import Request
from reference.wire.command import Command

#: So many bytes of the disk are kept for small records.
KEPT_BYTES = 256 * 1024
#: Stands for the file itself where a group does.
_NO_GROUP = -1
#: Ends a round: what the steps that were due at one moment have gathered leaves.
ROUND_TIMER = "raft.round"


class Host:
    """The replicas of one node."""

    def __init__(
        self,
        machines: Machines,
        options: RaftOptions,
        *,
        rewrite_bytes: int = REWRITE_BYTES,
        linger_ms: int = 0,
        in_rounds: bool = False,
        replica: type[Replica] = Replica,
        policy: type[ReplicaPolicy] = ReplicaPolicy,
        wal: type[Wal] = Wal,
    ) -> None:
        self._machines, self._options, self._replica, self._policy = machines, options, replica, policy
        self.wal = wal(self._open_log, rewrite_bytes, KEPT_BYTES)
        self.replicas: dict[int, Replica] = {}
        self.disk = 0
        self._envs: dict[int, GroupEnv] = {}
        self._shared = Shared(options.heartbeat_ms * 1_000_000)
        self._clocks = Clocks()
        self._mark = marked(options.cluster_id)
        self._gathering = Gathering(linger_ms, self._log)
        self._in_rounds, self._waits = in_rounds, False
        self._synced: dict[int, int] = {}  # group → its last durable entry, as traced

    def _open_log(self, group: int) -> RaftLog:
        return self._policy.log_class(self.wal, group)

    # Replicas

    def start(self, env: Env, disk: int) -> None:
        """Begin with the replicas that this disk holds, ``disk`` by its number. Raises
        :class:`~reference.raft.bound.DamagedLog`."""
        self._shared.enter(env)
        self.disk = disk
        self.wal.recover(env.disk)
        for group, log in list(self.wal.logs.items()):
            assert isinstance(log, RaftLog)
            if log.is_born:
                self._begin(group, log)

    def create(self, env: Env, group: int, members: Sequence[str]) -> Replica | None:
        """Begin a group's replica as one of its members by birth. It may have joined by a message before it learned
        that. None for one that was removed: its vote is worth nothing any more."""
        self._shared.enter(env)
        known = self.replicas.get(group)
        if known is not None and not known.log.members:
            known.log.begin(env.disk, members)
            known.memberships.born(members)
        elif known is None and not self._is_gone(group):
            known = self._begin_log(env, group, members)
        return known

    def _is_gone(self, group: int) -> bool:
        log = self.wal.logs.get(group)
        return isinstance(log, RaftLog) and log.is_gone

    def remove(self, env: Env, group: int, term: int) -> None:
        """Delete a replica that was removed in this term. Its own term and its vote are kept, or this term: leaders of
        earlier ones find nobody here. The outcome of what it proposed, as a leader that was cut off, is unknown."""
        self._shared.enter(env)
        if self.replicas[group].is_leader:
            self.replicas[group].roles.become(self._env(group), FOLLOWER, "")
        replica = self.replicas.pop(group)
        if term > replica.term:
            replica.log.set_term(env.disk, term, "")
        replica.log.bury(env.disk)
        self._shared.timers.drop(group)
        self._machines.removed(self._env(group), group)

    def _begin_log(self, env: Env, group: int, members: Sequence[str]) -> Replica:
        """Begin a replica; who joins by a message knows no members yet, and has no vote before it does."""
        log = self.wal.logs.get(group) or self._open_log(group)
        assert isinstance(log, RaftLog)
        log.begin(env.disk, members)
        return self._begin(group, log)

    def _begin(self, group: int, log: RaftLog) -> Replica:
        machine = self._machines.make_machine(group)
        name = self._env(group).name
        replica = self._replica(name, log.members, machine, self._options, self._policy, log)
        self.replicas[group] = replica
        replica.start(self._env(group))
        return replica

    def member(self, group: int) -> Replica | None:
        """Return this node's replica of a group."""
        return self.replicas.get(group)

    def propose(self, env: Env, group: int, data: bytes, then: Proposed) -> None:
        """As the leader of a group, append an entry; ``then`` is called with the node's own environment. If this node
        leads the group no more when it is to be logged, its outcome is as unknown as that of one which was."""
        self._shared.enter(env)
        self._gathering.add(env, self._shared.timers, _NO_GROUP, (group, data, then))

    def _log(self, gathered: Gathered) -> None:
        group, data, then = gathered
        replica = self.replicas.get(group)
        if replica is None or not replica.is_leader or replica.is_handing_over:
            then(self._shared.env, None, -1)
            return
        replica.propose(self._env(group), data, lambda _, outcome, index: then(self._shared.env, outcome, index))

    def read(self, env: Env, group: int, then: Readable) -> None:
        """Call ``then``, with the node's own environment, once the group's state machine may be read."""
        own = self.env_of(env, group)
        self.replicas[group].read(own, lambda _, is_safe: then(self._shared.env, is_safe))

    def env_of(self, env: Env, group: int) -> GroupEnv:
        """Return what a replica's methods are called with in this step."""
        self._shared.enter(env)
        return self._env(group)

    def _env(self, group: int) -> GroupEnv:
        if group not in self._envs:
            self._envs[group] = GroupEnv(self._shared, group, replica_name(self._shared.env.name, self.disk))
        return self._envs[group]

    # What the node asks

    def may_propose(self, group: int) -> bool:
        """Return whether one more proposal fits into a group's window."""
        return self.replicas[group].has_room and len(self._gathering) < self._options.window

    def has_room(self, env: Env, size: int) -> bool:
        """Return whether the disk has room for an entry of this size, besides what is kept for small ones."""
        return self.wal.has_room(env.disk, size)

    def median_wall_ms(self, env: Env, group: int) -> int | None:
        """Return the median of the wall clocks of a group's voters; None while most of them are unknown (R10). A store
        whose old disk and new one are both voters has one clock."""
        nodes = dict.fromkeys(node_of(name) for name in self.replicas[group].members.voters)
        return self._clocks.median_ms(env, list(nodes))

    # Steps

    def timer(self, env: Env, name: str) -> bool:
        """Take a timer; False if it is none of the groups'."""
        if name == ROUND_TIMER:
            self._waits = False
            self._leave(env)
        if name != GROUPS_TIMER:
            return name == ROUND_TIMER
        self._shared.enter(env)
        for group, its in self._shared.timers.take_due(env.mono_ns()):
            if group in self.replicas:
                self.replicas[group].timer(self._env(group), its)
            elif group == _NO_GROUP:
                self._gathering.end()
        return True

    def done(self, env: Env, token: int) -> bool:
        """Take the end of a sync; False if it is none of the groups'."""
        ended = self._shared.syncs.end(token)
        if ended is None:
            return False
        self._shared.enter(env)
        batch, wanted = ended
        grown = self.wal.done(self._env(_NO_GROUP), batch) or ()
        self._trace_synced(env, grown)
        for group in dict.fromkeys([*grown, *wanted]):
            if group in self.replicas:
                self.replicas[group].done(self._env(group), batch)
        for group in wanted:
            if group in self.replicas:
                self.replicas[group].machine.synced(self._env(group), batch)
        self.wal.go_on(self._env(_NO_GROUP).disk, batch)
        return True

    def _trace_synced(self, env: Env, groups: Sequence[int]) -> None:
        known = {group: self.replicas[group].log.durable for group in groups if group in self.replicas}
        grown = {group: index for group, index in known.items() if index > self._synced.get(group, 0)}
        self._synced |= known
        if grown:
            env.trace(events.GroupSynced(groups={str(group): index for group, index in grown.items()}))

    def closed(self, env: Env, peer: str) -> None:
        """Learn that the connection with a node broke."""
        self._shared.enter(env)
        for group, replica in list(self.replicas.items()):
            for name in dict.fromkeys([*replica.peers, replica.leader]):
                if node_of(name) == peer:
                    replica.closed(self._env(group), name)

    def step_over(self, env: Env) -> None:
        """End a step: have what the groups have gathered leave, and set one timer. In rounds it waits for the steps
        that are due by now, too: under load that is far fewer frames and syncs, each of which costs more than an
        entry."""
        self._shared.enter(env)
        if not self._in_rounds:
            self._leave(env)
        elif not self._waits and self._has_gathered():
            self._waits = True
            env.set_timer(ROUND_TIMER, 0)
        self._shared.timers.arm(env)

    def _may_sync(self) -> bool:
        syncs = self._shared.syncs
        return not syncs.is_under_way and (syncs.is_wanted or self.wal.is_dirty)

    def _has_gathered(self) -> bool:
        """Return whether anything can leave now. Messages that wait for the sync that follows the present one can't."""
        shared = self._shared
        return bool(shared.beats) or self._may_sync() or any(self._leaves(batch) for batch, _ in shared.messages)

    def _leaves(self, batch: int) -> bool:
        return not batch or self._shared.syncs.token_of(batch) is not None

    def _leave(self, env: Env) -> None:
        """Send what the groups have gathered, and begin one sync for all of them."""
        shared = self._shared
        shared.enter(env)
        if self._may_sync():
            self.wal.sync(self._env(_NO_GROUP).disk)
            shared.syncs.begin(env)
        self._send_gathered(env)
        if shared.beats:
            for to, frame in shared.beats.take(env, self._mark, self._env(_NO_GROUP).name):
                env.send(node_of(to), frame)

    def _send_gathered(self, env: Env) -> None:
        """Send the messages that wait for nothing, and those for the sync that is under way: they leave at its end."""
        messages, own = self._shared.messages, self._env(_NO_GROUP).name
        for batch, to in list(messages):
            if self._leaves(batch):
                token = self._shared.syncs.token_of(batch)
                for frame in pack_bundles(env, self._mark, own, to, messages.pop((batch, to))):
                    env.send(node_of(to), frame, after=token)

    # Messages

    def message(self, env: Env, source: str, message: Command) -> bool:
        """Take a message of another host; False if it is none."""
        if message.code not in (Request.GROUPS_MESSAGES, Request.GROUPS_BEATS):
            return False
        self._shared.enter(env)
        sender, receiver, wall_ms = read_header(message.fields)
        replica, is_bundle = replica_name(source, sender), message.code == Request.GROUPS_MESSAGES
        messages = unpack_bundle(message.body) if is_bundle else ()
        beats = () if is_bundle else unpack_beats(message.body)
        check_cluster(message, self._options.cluster_id)
        for one in messages:
            self._check(one)
        for beat in beats:
            self._check_group(beat.group)
        if self.is_for_us(receiver):
            self._clocks.heard(env, source, wall_ms)
            for one in messages:
                self._take(one, replica)
            if "answer" in message.fields:
                self._take_answers(replica, beats)
            else:
                self._take_beats(replica, self.renewed_by(replica, beats))
        return True

    def is_for_us(self, disk: int) -> bool:
        """Policy: whether messages for this disk are for the replicas on ours."""
        return disk == self.disk

    def renewed_by(self, source: str, beats: Sequence[Beat]) -> Sequence[Beat]:
        """Policy: which leaders on ``source`` a frame speaks for: those that it lists (R8)."""
        return beats

    def _check(self, one: GroupMessage) -> None:
        """Raise :class:`chaos.node.Malformed` for what can't be understood, before any message of its frame has had an
        effect."""
        self._check_group(one.group)
        if one.code != Request.GROUP_REMOVED:
            check_numbers(one.code, one.numbers)
        elif unpack_members(one.body) is None or min(one.numbers.get(key, -1) for key in ("index", "term")) < 0:
            raise Malformed("no membership stands in the message")

    def _check_group(self, group: int) -> None:
        if not self._machines.is_group(group):
            raise Malformed(f"the cluster has no group {group}")

    def _take(self, one: GroupMessage, source: str) -> None:
        group, code, numbers = one.group, one.code, one.numbers
        env, replica = self._env(group), self.replicas.get(group)
        is_request = "answer" not in numbers
        is_word_of_leader = is_request and code in (Request.RAFT_APPEND, Request.RAFT_SNAPSHOT)
        if replica is None and is_word_of_leader and self._may_join(group, numbers["term"]):
            replica = self._begin_log(env, group, ())
        if replica is None or not replica.hears(source):
            return
        if code == Request.GROUP_REMOVED:
            self._learn_removal(source, one)
            return
        if is_request and code in (Request.RAFT_PRE_VOTE, Request.RAFT_VOTE):
            replica.pass_on_members(env, source)
        try:
            replica.take(env, source, code, numbers, one.body)
        except Malformed:
            return  # an entry or a snapshot that can't be applied here: the other groups are none the worse for it

    def _may_join(self, group: int, term: int) -> bool:
        """Return whether a leader's message makes a replica here: an old leader's makes none where one was removed."""
        log = self.wal.logs.get(group)
        return not isinstance(log, RaftLog) or term >= log.term

    def _learn_removal(self, source: str, one: GroupMessage) -> None:
        members = unpack_members(one.body)
        policy = self.replicas[one.group].replica_policy
        if members is not None and policy.may_be_dropped(source, one.numbers["index"], members):
            self.remove(self._shared.env, one.group, one.numbers["term"])

    def _take_beats(self, source: str, beats: Sequence[Beat]) -> None:
        for beat in beats:
            replica, env = self.replicas.get(beat.group), self._env(beat.group)
            refusal = Beat(beat.group, 0, beat.round, 0)
            env.beats.add(source, refusal if replica is None else replica.on_beat(env, source, beat), answer=True)

    def _take_answers(self, source: str, answers: Sequence[Beat]) -> None:
        for answer in answers:
            if answer.group in self.replicas:
                self.replicas[answer.group].on_beat_answer(self._env(answer.group), source, answer)
