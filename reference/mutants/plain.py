"""Planted bugs that are one decision each, where another planted bug does more than the one that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reference.controller.replicas import Group, Outcome, Replicas, Standing
from reference.mutants._planted import Planted
from reference.mutants.consumers import LastCommitWins
from reference.mutants.log import AckBeforeFsync


class AnybodyIsElected(Replicas):
    """Any living replica may be elected, in the SyncStateSet or not; the one with the longest log is."""

    def candidates(self, group: Group, alive: Mapping[int, Standing]) -> list[int]:
        return [broker for broker in sorted(group.replicas) if broker in alive and broker != group.master]


class CheckCodesIgnored(Replicas):
    """Who applies for an id gets it, even where another replica has it already."""

    def _apply_id(self, entry: Mapping[str, Any]) -> Outcome:
        name, broker, check_code = entry["group"], entry["broker_id"], entry["check_code"]
        known = self.groups[name].replicas.get(broker) if name in self.groups else None
        if known is None or known.check_code == check_code:
            return super()._apply_id(entry)
        address = check_code.rpartition(";")[0]
        return Outcome(changed={"type": "apply_id", "group": name, "broker": address, "id": broker, "removed": []})


MUTANTS = (
    Planted(
        name="acks-before-fsync",
        law="in-sync",
        stands_for="asynchronous flush that nobody asked for, and nothing else wrong: each byte is synced soon after",
        parts={"broker": {"replication": AckBeforeFsync}},
        scenario="power_cut",
    ),
    Planted(
        name="commit-goes-back",
        law="consumers",
        stands_for="a smaller offset is taken, and nothing else is wrong: what makes commits late is the network",
        parts={"broker": {"queues": LastCommitWins}},
        scenario="delayed_offset_commits",
    ),
    Planted(
        name="anybody-is-elected",
        law="roles",
        stands_for="an election among all that live, of the one with the longest log: mostly, not always, one in sync",
        parts={"controller": {"replicas": AnybodyIsElected}},
        scenario="forced_switches",
    ),
    Planted(
        name="check-codes-ignored",
        law="roles",
        stands_for="apache/rocketmq #9082 alone: two brokers apply for one id at once, and both are granted it",
        parts={"controller": {"replicas": CheckCodesIgnored}},
    ),
)
