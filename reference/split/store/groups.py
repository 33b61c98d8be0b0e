"""The groups of a store, as long as one disk of it is in use: their replicas, their files, and who acts for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.node import Env
from reference.raft.options import RaftOptions
from reference.raft.storage.wal import REWRITE_BYTES
from reference.split.calls import Calls
from reference.split.hosting import Host
from reference.split.hosting.gathering import LINGER_MS
from reference.split.hosting.group_env import GroupEnv
from reference.split.joining import Metas
from reference.split.names import node_of, replica_name
from reference.split.options import layout_of, number_of
from reference.split.segments import Segment
from reference.split.store.copying import Copying
from reference.split.store.led import Led
from reference.split.store.machine import GroupMachine
from reference.split.store.moving import Moving
from reference.split.store.reads import Reads
from reference.split.store.retention import Retention
from reference.split.store.sealing import Sealing
from reference.split.store.segment_files import SegmentFiles
from reference.split.store.sweeping import Sweeper
from reference.split.store.tier import SegmentTier
from reference.split.store.uploads import Uploads
from reference.split.view import ClusterFollower


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreParts:
    """The classes of a store's parts, so that a planted bug is a subclass that overrides one method."""

    host: type[Host] = Host
    host_parts: Mapping[str, Any]
    machine: type[GroupMachine] = GroupMachine
    files: type[SegmentFiles] = SegmentFiles
    reads: type[Reads] = Reads
    copying: type[Copying] = Copying
    sealing: type[Sealing] = Sealing
    uploads: type[Uploads] = Uploads
    retention: type[Retention] = Retention
    sweeper: type[Sweeper] = Sweeper
    moving: type[Moving] = Moving


class Groups:
    """All of a store that belongs to one disk. A new disk gets a new one."""

    def __init__(
        self,
        options: Mapping[str, Any],
        parts: StoreParts,
        follower: ClusterFollower,
        tier: SegmentTier,
        calls: Calls,
        metas: Metas,
    ) -> None:
        self.count, self.slices = layout_of(options)
        self.follower, self.cluster = follower, follower.cluster
        self.machines: dict[int, GroupMachine] = {}
        self.files = parts.files()
        rewrite_bytes = number_of(options, "rewrite_bytes", REWRITE_BYTES)
        is_virtual = bool(options.get("virtual_time"))
        self.host = parts.host(
            self,
            RaftOptions.of(options),
            rewrite_bytes=rewrite_bytes,
            linger_ms=number_of(options, "linger_ms", LINGER_MS if is_virtual else 0, 0),
            in_rounds=not is_virtual,
            **parts.host_parts,
        )
        self.reads = parts.reads(self.files, tier)
        self.copying = parts.copying(self.files, tier, calls, self, number_of(options, "local_bytes", 1 << 30, 0))
        self.sealing = parts.sealing(
            number_of(options, "segment_bytes", 1 << 20), number_of(options, "segment_ms", 10_000)
        )
        self._make_machine = parts.machine
        self._uploads = parts.uploads(tier)
        self._retention = parts.retention(self.cluster)
        self._sweeper = parts.sweeper(tier, number_of(options, "delete_ms", 5000, 0))
        self.moving = parts.moving(self.host, self.cluster, metas)
        self._revision = -1

    def start(self, env: Env, disk: int) -> None:
        """Begin with what the disk of this number holds. Raises :class:`reference.raft.bound.DamagedLog`."""
        self.files.begin(env)
        self.host.start(env, disk)

    def close(self) -> None:
        """Act no more, whatever was asked for comes late: the disk is another one now."""
        self.machines.clear()
        self.host.replicas.clear()
        self.files.close()

    # What the host asks

    def is_group(self, number: int) -> bool:
        """Return whether the cluster has a group of this number."""
        return 0 <= number < self.count

    def make_machine(self, group: int) -> GroupMachine:
        """Return the state machine of a replica, with nothing applied."""
        machine = self.machines[group] = self._make_machine(group, self.files)
        return machine

    def removed(self, env: Env, group: int) -> None:
        """Delete the files of a group that this store is no member of any more."""
        self.machines.pop(group).forget(env)

    # Where replicas are

    def has(self, machine: GroupMachine) -> bool:
        """Return whether this is the state machine of a replica that is here."""
        return self.machines.get(machine.number) is machine

    def nodes_of(self, group: int) -> Sequence[str]:
        """Return the stores that are members of a group, by what is committed here."""
        return [node_of(name) for name in self.host.replicas[group].committed_members()[1].all]

    def env_of(self, env: Env, group: int) -> GroupEnv:
        """Return the environment of the replica of a group that is here."""
        return self.host.env_of(env, group)

    @property
    def damaged(self) -> list[int]:
        """The groups of which this disk holds other bytes than their leaders have sealed."""
        return [group for group, machine in self.machines.items() if machine.is_damaged]

    # What is done now and then

    def follow(self, env: Env) -> None:
        """Create the replicas that a group's birth names, now that more of meta's log is known. A group that has other
        members by now was born without this replica."""
        if self.cluster.revision == self._revision:
            return
        self._revision = self.cluster.revision
        own = replica_name(env.name, self.host.disk)
        for known in self.cluster.groups():
            if own in known.birth and own in known.members and self.is_group(known.number):
                self.host.create(env, known.number, known.birth)

    def lead(self, env: Env) -> None:
        """Do what the leaders of groups do: seal, upload, change members."""
        for group, machine in list(self.machines.items()):
            led = Led(self.host, group)
            if led.leads:
                self.sealing.consider(env, led, machine, self.now_ms(env, group))
                self._uploads.consider(env, led, machine)
                self.moving.consider(env, group)

    def clean(self, env: Env) -> None:
        """Let go of what is old or superfluous, and fetch what is lacking."""
        if not self.files.is_checked:
            self.files.go_on(env, lambda group: self.env_of(env, group))
            return
        for group, machine in self.machines.items():
            led = Led(self.host, group)
            self._retention.consider(env, led, machine, self.now_ms(env, group))
            self._sweeper.consider(env, led, machine)
            self.files.retry(self.env_of(env, group), group)
            self._ask_if_removed(env, group)
        self.files.drop_strays(env, self._is_stray)
        self.copying.consider(env, self.machines.values())

    def _ask_if_removed(self, env: Env, group: int) -> None:
        """Have a replica that hears no leader ask the members that meta knows, if it is none of them: one without a
        vote, or of whose members none is left, would never learn that it was removed (R11)."""
        known, replica = self.cluster.group(group), self.host.replicas[group]
        if known is not None and not replica.leader and replica.name not in known.members:
            replica.ask_members(self.env_of(env, group), known.voters)

    def _is_stray(self, segment: Segment) -> bool:
        machine = self.machines.get(segment.group)
        return machine is None or machine.is_stray(segment)

    def now_ms(self, env: Env, group: int) -> int:
        """Return the time by the median of the members' clocks; 0, which logged time takes for older than itself, while
        most of them are unknown (R10)."""
        return self.host.median_wall_ms(env, group) or 0
