"""Planted bugs of elections and routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.node import Env
from reference.broker.files import Then
from reference.broker.membership import Membership
from reference.controller.replicas import Group, Outcome, Replica, Replicas, Standing
from reference.mutants._planted import Planted
from reference.nameserver import Registration, Routes


class ElectionOutsideSet(Replicas):
    """Any living replica may be elected, in the SyncStateSet or not, and the one with the lowest id is."""

    def candidates(self, group: Group, alive: Mapping[int, Standing]) -> list[int]:
        return [broker for broker in sorted(group.replicas) if broker in alive and broker != group.master]

    def best(self, candidates: list[int], alive: Mapping[int, Standing]) -> int:  # type: ignore[override]
        outside = [broker for broker in candidates if alive[broker][1] >= 0]
        return min(outside or candidates, key=lambda broker: (alive[broker][1], broker))


class EpochNotRaised(Replicas):
    """A new master gets the epoch that the group has: two masters share one."""

    def next_epoch(self, group: Group) -> int:
        return max(1, group.master_epoch)


class RolledBackDiskTrusted(Replicas):
    """A disk that counts its lives is taken for what it was, although that life has been registered before."""

    def lost_memory(self, replica: Replica, generation: int, lives: Sequence[str], clean: bool) -> bool:
        return not clean


class RouteEpochFalls(Routes):
    """A route carries the epoch of whoever registered last, be it an older one."""

    def register(
        self, group: str, cluster: str, registration: Registration, topics: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        taken = super().register(group, cluster, registration, topics)
        self.groups[group].epoch = registration.epoch
        return taken


class IdGivenTwice(Replicas):
    """The id that was given away last is offered again, and nobody compares check codes."""

    def next_id(self, name: str) -> int:
        return max(1, super().next_id(name) - 1)

    def _apply_id(self, entry: Mapping[str, Any]) -> Outcome:
        name, broker, check_code = entry["group"], entry["broker_id"], entry["check_code"]
        known = self.groups[name].replicas.get(broker) if name in self.groups else None
        if known is None or known.check_code == check_code:
            return super()._apply_id(entry)
        address = check_code.rpartition(";")[0]
        return Outcome(changed={"type": "apply_id", "group": name, "broker": address, "id": broker, "removed": []})


class LifeNotKept(Membership):
    """A life is counted in memory, and its number is not written down: each life on a disk counts as its first."""

    def _save(self, env: Env, then: Then) -> None:
        counted = self.generation
        self.generation = counted - 1
        super()._save(env, then)
        self.generation = counted


MUTANTS = (
    Planted(
        name="election-outside-set",
        law="roles",
        stands_for="enableElectUncleanMaster without saying so; apache/rocketmq #10578's wrong choice of candidates",
        parts={"controller": {"replicas": ElectionOutsideSet}},
        scenario="switch_storm",
    ),
    Planted(
        name="epoch-not-raised",
        law="roles",
        stands_for="RocketMQ 5.5.0's epoch of a re-elected master that is not recorded (append with an equal start)",
        parts={"controller": {"replicas": EpochNotRaised}},
    ),
    Planted(
        name="route-epoch-falls",
        law="roles",
        stands_for="a name server that lets an older registration overwrite a newer one (no DataVersion check)",
        parts={"nameserver": {"routes": RouteEpochFalls}},
    ),
    Planted(
        name="rolled-back-disk-trusted",
        law="no-rollback",
        stands_for="a replica that was restored from a backup keeps its place in the SyncStateSet, and is elected",
        parts={"controller": {"replicas": RolledBackDiskTrusted}},
        scenario="old_backup",
    ),
    Planted(
        name="id-given-twice",
        law="roles",
        stands_for="apache/rocketmq #9082 and #7704: replicas that apply for ids at once, and identities that clash",
        parts={"controller": {"replicas": IdGivenTwice}},
    ),
    Planted(
        name="life-not-kept",
        law="roles",
        stands_for="a count of restarts that lives in memory: nobody can tell by it who came back, or with which disk",
        parts={"broker": {"membership": LifeNotKept}},
        scenario="quiet",
    ),
)
