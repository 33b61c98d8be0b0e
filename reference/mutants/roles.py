"""Planted bugs of elections and routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.node import Env
from reference.broker.files import Then
from reference.broker.membership import Membership
from reference.controller.node import Controller
from reference.controller.replicas import Group, Outcome, Replica, Replicas, Standing
from reference.controller.server import Respond
from reference.mutants._planted import NODE, Planted
from reference.nameserver import MASTER_ID, Registration, Routes
from reference.wire.codes import Response
from reference.wire.command import Command


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
    """A route carries the epoch of the broker that registered last, be it an older one."""

    def register(
        self, group: str, cluster: str, registration: Registration, topics: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        taken = super().register(group, cluster, registration, topics)
        self.groups[group].epoch = registration.epoch
        return taken


class SlavesStayOut(Routes):
    """A broker whose connection has ended once is not taken into a route again, unless as the master."""

    def __init__(self) -> None:
        super().__init__()
        self._left: set[str] = set()

    def drop_source(self, source: str) -> None:
        known = {
            one.address for route in self.groups.values() for one in route.brokers.values() if one.source == source
        }
        self._left |= known
        super().drop_source(source)

    def register(
        self, group: str, cluster: str, registration: Registration, topics: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        if registration.broker != MASTER_ID and registration.address in self._left:
            return False
        return super().register(group, cluster, registration, topics)


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


class SwitchesCalledRefused(Controller):
    """Who asks for a switch gets the answer that it was refused, whatever became of it."""

    def _write(self, env: Env, source: str, message: Command, entry: Mapping[str, Any], respond: Respond) -> None:
        def refused(env: Env, outcome: Outcome) -> Command:
            answer = respond(env, outcome)
            if entry["op"] != "elect" or not entry["designate"]:
                return answer
            return message.reply(Response.CONTROLLER_ELECT_MASTER_FAILED, remark="can't read the new members")

        super()._write(env, source, message, entry, refused)


class SwitchesNotWritten(Controller):
    """A switch is acknowledged and forgotten: its entry is never logged."""

    def _write(self, env: Env, source: str, message: Command, entry: Mapping[str, Any], respond: Respond) -> None:
        if self.raft.is_leader and entry["op"] == "elect" and entry["designate"]:
            self._answer(env, source, message, message.reply())
        else:
            super()._write(env, source, message, entry, respond)


class SwitchToAnybody(Replicas):
    """A planned switch may go to a replica outside the set, as a forced one may, though members of the set live."""

    def _elect(self, entry: Mapping[str, Any]) -> Outcome:
        return super()._elect({**entry, "forced": entry["designate"]})


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
        name="slaves-stay-out",
        law="roles",
        stands_for="a registered slave that is missing from a route for good: its readers never come back to it",
        parts={"nameserver": {"routes": SlavesStayOut}},
    ),
    Planted(
        name="rolled-back-disk-trusted",
        law="no-rollback",
        stands_for="a replica that was restored from a backup keeps its place in the SyncStateSet, and is elected",
        parts={"controller": {"replicas": RolledBackDiskTrusted}},
        scenario="restored_backup",
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
        stands_for="a count of restarts that lives in memory: it does not show who came back, or with which disk",
        parts={"broker": {"membership": LifeNotKept}},
        scenario="idle_then_master_crash",
    ),
    Planted(
        name="switch-called-refused",
        law="roles",
        stands_for="RocketMQ 5.5.0's mqadmin electMaster, which can't read a good answer and reports a failed command",
        parts={"controller": {NODE: SwitchesCalledRefused}},
        scenario="operator",
    ),
    Planted(
        name="switch-not-written",
        law="roles",
        stands_for="an administrator's command that is acknowledged before it is logged, and forgotten",
        parts={"controller": {NODE: SwitchesNotWritten}},
        scenario="operator",
    ),
    Planted(
        name="switch-to-anybody",
        law="roles",
        stands_for="an operator's switch to a replica that is behind, where losses are permitted for disasters alone",
        parts={"controller": {"replicas": SwitchToAnybody}},
        scenario="unclean_switch",
    ),
)
