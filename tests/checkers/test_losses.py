"""A weaker profile excuses what its weakness explains: for each one, and each two, what it explains, what it does not,
and what nobody can decide."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from random import Random
from typing import Any

import pytest

from chaos.history.run_meta import RunMeta
from chaos.judging.shard import Shard
from chaos.law import RunContext
from chaos.verdict import Validity, Verdict
from checkers._facts.claims import acknowledged
from checkers._facts.losses import Lost, Records, explained
from tests.checkers.histories import BROKERS, REPORTED, SIZE, History
from tests.checkers.names import A, L
from tests.checkers.slow import losses as slow

LAW = L.DURABILITY
WEAK: dict[str, dict[str, Any]] = {
    "async": {"flush": "async"},
    "acks 2": {"acks": 2},
    "acks master": {"acks": "master"},
    "unclean": {"unclean": True},
    "one in sync": {"min_in_sync": 1},
}
PAIRS = [pair for pair in combinations(WEAK, 2) if not all(name.startswith("acks") for name in pair)]
ALONE_AND_IN_PAIRS = [*((name, WEAK[name]) for name in WEAK), *((a, WEAK[a] | WEAK[b]) for a, b in PAIRS)] + [
    (b, WEAK[a] | WEAK[b]) for a, b in PAIRS
]
#: Where two copies are demanded at least, nothing stands on one.
ALONE_AND_IN_PAIRS = [
    (a, profile) for a, profile in ALONE_AND_IN_PAIRS if (a, profile.get("acks")) != ("one in sync", 2)
]
IDS = [f"{name} in {'+'.join(map(str, profile))}" for name, profile in ALONE_AND_IN_PAIRS]


class Cluster(History):
    """broker-0 is master of epoch 1. Message 0 stands everywhere; message 1 is acknowledged, and lost."""

    def begin(self, profile: dict[str, Any], **meta: Any) -> Cluster:
        self.meta |= {"profile": profile, **meta}
        self.entries = 0
        for node in BROKERS:
            self.trace(node, "start", value={"generation": 1, "disk": "d"})
        self.elected("broker-0", 1, previous=[], bootstrap=True)
        self.master("broker-0", 1)
        self.phase("load")
        for node in BROKERS:
            self.append(node, 0)
        self.send(0)
        return self

    def append(self, node: str, sequence: int, *more: Any, **columns: Any) -> int:
        """Under synchronous flush the record is on the disk before anybody counts on it."""
        index = super().append(node, sequence, *more, **columns)
        if self.meta["profile"].get("flush") != "async":
            life = columns.get("incarnation", 1)
            self.trace(node, "synced", position=self.rows[index]["position"] + SIZE, incarnation=life)
        return index

    def elected(self, node: str, epoch: int, *, previous: list[str], **more: Any) -> None:
        self.entries += 1
        entry = {"type": "elect", "group": "g", "master": node, "master_epoch": epoch, "set": [node]}
        entry |= {"previous_set": previous, "unclean": False, "bootstrap": False} | more
        self.trace("controller-0", "applied", position=self.entries, epoch=1, value={"entry": entry})

    def acknowledged(self, *takers: str, copies: tuple[str, ...] | None = None, clients: str = "broker-0") -> None:
        """Message 1: who takes it, and who the master says that its acknowledgement stands on."""
        for node in takers:
            self.append(node, 1)
        told = dict.fromkeys(takers if copies is None else copies, 2 * SIZE)
        self.trace("broker-0", "acked", epoch=1, position=2 * SIZE, value={"confirm": SIZE, "copies": told})
        self.send(1, node=clients)

    def crash(self, node: str, *, fault: str = "kill", effects: Any = "usual") -> None:
        self.undo(fault, self.inject(fault, node, effects=effects))
        more = {"incarnation": 2, "epoch": 1}
        self.trace(node, "recovered", position=SIZE, value={"first": 0, "epochs": [[1, 0]], "confirm": SIZE}, **more)

    def takes_over(self, node: str, *, incarnation: int = 1, elected: bool = True, **more: Any) -> Cluster:
        if elected:
            self.elected(node, 2, **({"previous": list(BROKERS)} | more))
        self.master(node, 2, start=SIZE, incarnation=incarnation)
        return self

    def ends(self) -> Verdict:
        self.finish(0)
        return self.verdict(LAW)


def found(verdict: Verdict) -> tuple[Validity, set[str]]:
    return verdict.validity, {anomaly.name for anomaly in verdict.anomalies}


PERMITTED = (Validity.VALID, {A.LOST_BY_POLICY})
NOT_PERMITTED = (Validity.INVALID, {A.LOST})
NOT_TRUE = (Validity.INVALID, {A.LOST, A.FALSE_ACKNOWLEDGEMENT})
NOT_DECIDED = (Validity.UNKNOWN, set[str]())


def explains(name: str, cluster: Cluster) -> Cluster:
    """What this weakness explains."""
    if name == "async":
        cluster.acknowledged("broker-0", "broker-1")
        cluster.crash("broker-1")
        return cluster.takes_over("broker-1", incarnation=2)
    if name.startswith("acks"):
        cluster.acknowledged("broker-0", *(["broker-1"] if name == "acks 2" else []))
        return cluster.takes_over("broker-2")
    if name == "unclean":
        cluster.acknowledged("broker-0", "broker-1")
        return cluster.takes_over("broker-2", unclean=True, previous=["broker-0", "broker-1"])
    cluster.acknowledged("broker-0")
    cluster.undo("wipe", cluster.inject("wipe", "broker-0"))
    return cluster.takes_over("broker-1", previous=[], bootstrap=True)


def leaves_open(name: str, cluster: Cluster) -> Cluster:
    """What this weakness may explain, if somebody told more."""
    if name == "async":
        cluster.acknowledged("broker-0", "broker-1")
        cluster.crash("broker-1", effects=None)
        return cluster.takes_over("broker-1", incarnation=2)
    if name == "one in sync":
        cluster.acknowledged("broker-0")
        cluster.undo("wipe", cluster.inject("wipe", "broker-0", effects=None))
        return cluster.takes_over("broker-1", previous=[], bootstrap=True)
    cluster.acknowledged("broker-0", "broker-1")
    return cluster.takes_over("broker-2", elected=False)


def explains_nothing(name: str, cluster: Cluster) -> Cluster:
    """A replica that the acknowledgement stood on leads without the record, and nothing has happened to it."""
    cluster.acknowledged("broker-0", "broker-1")
    cluster.trace("broker-1", "truncate", position=SIZE, epoch=1, value={"old_end": 2 * SIZE})
    return cluster.takes_over("broker-1")


@pytest.mark.parametrize(("name", "profile"), ALONE_AND_IN_PAIRS, ids=IDS)
def test_a_loss_that_the_weakness_explains_is_one_by_policy(name: str, profile: dict[str, Any]) -> None:
    verdict = explains(name, Cluster().begin(profile)).ends()
    assert found(verdict) == PERMITTED, verdict
    [anomaly] = verdict.anomalies
    assert "allows at" in anomaly.policy and anomaly.policy in anomaly.explanation


@pytest.mark.parametrize(("name", "profile"), ALONE_AND_IN_PAIRS, ids=IDS)
def test_a_loss_that_no_weakness_explains_is_a_loss(name: str, profile: dict[str, Any]) -> None:
    assert found(explains_nothing(name, Cluster().begin(profile)).ends()) == NOT_PERMITTED


@pytest.mark.parametrize(("name", "profile"), ALONE_AND_IN_PAIRS, ids=IDS)
def test_a_loss_that_nobody_can_decide_leaves_the_law_unknown(name: str, profile: dict[str, Any]) -> None:
    verdict = leaves_open(name, Cluster().begin(profile)).ends()
    # Where the master alone is waited for, its disk need not be lost for a successor to lack the record.
    explained_anyway = name == "one in sync" and profile.get("acks") == "master"
    assert found(verdict) == (PERMITTED if explained_anyway else NOT_DECIDED), verdict


def test_a_strict_profile_excuses_none_of_this() -> None:
    for name in WEAK:
        assert found(explains(name, Cluster().begin({})).ends())[0] is not Validity.VALID


@pytest.mark.parametrize("name", WEAK)
def test_one_weakness_does_not_excuse_what_another_one_explains(name: str) -> None:
    for other in WEAK:
        history = explains(other, Cluster().begin(WEAK[name]))
        if other != name and (name, other) not in ALSO:
            one_of_two = (name, other) == ("acks 2", "one in sync")
            assert found(history.ends()) == (NOT_TRUE if one_of_two else NOT_PERMITTED), (name, other)


#: (weakness, what another one explains): that it explains, too.
ALSO = {("acks master", "one in sync"), ("acks master", "acks 2"), ("acks 2", "acks master")}


def test_an_acknowledgement_that_stood_on_too_few_copies_excuses_nothing() -> None:
    for takers, copies in ((("broker-0",), None), (("broker-0",), ("broker-0", "broker-1"))):
        cluster = Cluster().begin({"acks": 2})
        cluster.acknowledged(*takers, copies=copies)
        assert found(cluster.takes_over("broker-2").ends()) == NOT_TRUE


def test_what_an_uncounted_copy_cut_off_by_itself_is_lost() -> None:
    for profile in ({"acks": 2}, {"acks": "master"}):
        for follows, expected in ((False, NOT_PERMITTED), (True, PERMITTED)):
            cluster = Cluster().begin(profile)
            cluster.acknowledged("broker-0", *(["broker-1"] if profile == {"acks": 2} else []))
            cluster.append("broker-2", 1)
            if follows:  # a master that lacks it, and another one thereafter that has it
                cluster.elected("broker-3", 2, previous=list(BROKERS))
                cluster.master("broker-3", 2, start=SIZE)
            cluster.trace("broker-2", "truncate", position=SIZE, epoch=2, value={"old_end": 2 * SIZE})
            if follows:
                cluster.elected("broker-0", 3, previous=list(BROKERS))
                cluster.master("broker-0", 3, start=2 * SIZE)
            cluster.elected("broker-2", 4, previous=list(BROKERS))
            cluster.master("broker-2", 4, start=SIZE)
            assert found(cluster.ends()) == expected, (profile, follows)


def test_an_uncounted_copy_that_begins_anew_may_lack_the_record() -> None:
    cluster = Cluster().begin({"acks": "master"})
    cluster.acknowledged("broker-0")
    cluster.append("broker-2", 1)
    cluster.trace("broker-2", "truncate", position=0, epoch=1, value={"old_end": 2 * SIZE})
    cluster.trace("broker-2", "bootstrap", position=SIZE, epoch=1, value={"epochs": [[1, 0]]})
    assert found(cluster.takes_over("broker-2").ends()) == PERMITTED


@pytest.mark.parametrize(("unclean", "expected"), [(True, PERMITTED), (False, NOT_PERMITTED)])
def test_a_log_that_begins_anew_holds_nothing_that_it_had_before(
    unclean: bool, expected: tuple[Validity, set[str]]
) -> None:
    """Whoever begins anew from the log of the master that lacked the record has it no more, wherever that log ends."""
    cluster = Cluster().begin({"unclean": True})
    cluster.acknowledged("broker-0", "broker-1")
    cluster.takes_over("broker-2", unclean=unclean, previous=list(BROKERS))
    anew = {"epochs": [[1, 0], [2, SIZE]]}
    cluster.trace("broker-1", "bootstrap", position=5 * SIZE, epoch=2, value=anew)
    for node, epoch in (("broker-1", 3), ("broker-2", 4)):
        cluster.elected(node, epoch, previous=list(BROKERS))
        cluster.master(node, epoch, start=5 * SIZE)
    assert found(cluster.ends()) == expected


def test_a_record_that_others_in_sync_had_too_was_not_lost_with_one_disk() -> None:
    cluster = Cluster().begin({"min_in_sync": 1})
    cluster.acknowledged("broker-0")
    cluster.append("broker-1", 1)
    cluster.undo("wipe", cluster.inject("wipe", "broker-0"))
    cluster.trace("broker-1", "truncate", position=SIZE, epoch=1, value={"old_end": 2 * SIZE})
    assert found(cluster.takes_over("broker-1", previous=["broker-0", "broker-1"]).ends()) == NOT_PERMITTED


@pytest.mark.parametrize("field", ["position", "epoch"])
def test_an_answer_that_tells_no_position_or_no_epoch_is_judged_by_the_logs(field: str) -> None:
    for name in WEAK:
        for history, expected in ((explains, PERMITTED), (explains_nothing, NOT_PERMITTED)):
            cluster = history(name, Cluster().begin(WEAK[name])).finish(0)
            for row in cluster.rows:
                if (row["f"], row["type"]) == ("send", "ok"):
                    row[field] = -1
            assert found(cluster.verdict(LAW)) == expected, name


def test_what_came_back_in_a_later_term_is_of_that_term() -> None:
    for lost_again, names in ((False, {A.OFFSET_CONFLICT}), (True, set[str]())):
        cluster = Cluster().begin({"flush": "async"})
        cluster.acknowledged("broker-0", "broker-1")
        cluster.crash("broker-1")
        cluster.takes_over("broker-1", incarnation=2)
        cluster.append("broker-1", 2, 1, epoch=2, incarnation=2)
        cluster.send(2, 1, node="broker-1", epoch=2)
        if lost_again:
            cluster.crash("broker-2")
        cluster.elected("broker-2", 3, previous=list(BROKERS))
        life = 2 if lost_again else 1
        cluster.master("broker-2", 3, start=SIZE, incarnation=life)
        cluster.append("broker-2", 1, epoch=3, incarnation=life)
        cluster.pull(1, 1, node="broker-2", epoch=3)
        verdict = cluster.finish(0, 1).verdict(L.AGREEMENT)
        assert names <= {anomaly.name for anomaly in verdict.anomalies}, verdict
        assert names or A.OFFSET_CONFLICT not in {anomaly.name for anomaly in verdict.anomalies}, verdict


def test_a_crash_that_a_record_survived_does_not_explain_how_it_went_later() -> None:
    for survived, expected in ((True, NOT_PERMITTED), (False, PERMITTED)):
        cluster = Cluster().begin({"flush": "async"})
        cluster.acknowledged("broker-0", "broker-1")
        if survived:
            cluster.undo("kill", cluster.inject("kill", "broker-1"))
            cluster.trace("broker-1", "recovered", position=2 * SIZE, incarnation=2, epoch=1)
        cluster.crash("broker-1", fault="pause" if survived else "kill")
        assert found(cluster.takes_over("broker-1", incarnation=2).ends()) == expected


def test_order_is_owed_wherever_no_cut_parts_two_sends() -> None:
    for epoch, names in ((1, {A.REORDER}), (2, set[str]())):
        cluster = Cluster().begin({"acks": "master"})
        cluster.send(2)
        cluster.takes_over("broker-2")
        cluster.send(1, process="producer-1.0", epoch=epoch)  # epoch 2 had lost what epoch 1 had at this offset
        verdict = cluster.finish(0).verdict(L.ORDER)
        assert {anomaly.name for anomaly in verdict.anomalies} == names, verdict


def test_a_kill_of_the_deposed_master_does_not_explain_what_its_successor_lacks() -> None:
    cluster = Cluster().begin({"flush": "async"})
    cluster.acknowledged("broker-0", "broker-1")
    cluster.crash("broker-0")
    assert found(explains_nothing("", cluster).ends()) == NOT_PERMITTED


def test_a_pause_is_no_crash() -> None:
    cluster = Cluster().begin({"flush": "async"})
    cluster.acknowledged("broker-0", "broker-1")
    cluster.crash("broker-1", fault="pause")
    assert found(cluster.takes_over("broker-1", incarnation=2).ends()) == NOT_PERMITTED


def test_an_election_outside_the_set_is_not_excused_by_few_copies() -> None:
    cluster = Cluster().begin({"acks": "master"})
    cluster.acknowledged("broker-0")
    assert found(cluster.takes_over("broker-2", previous=["broker-0"]).ends()) == NOT_PERMITTED


def test_what_a_later_master_still_had_was_not_lost_by_the_election_before() -> None:
    cluster = Cluster().begin({"acks": "master"})
    cluster.acknowledged("broker-0")
    cluster.takes_over("broker-2")
    cluster.elected("broker-0", 3, previous=list(BROKERS))
    cluster.master("broker-0", 3, start=2 * SIZE)
    assert found(cluster.ends()) == NOT_PERMITTED


def test_without_a_newer_term_nothing_is_excused() -> None:
    cluster = Cluster().begin({"acks": "master"})
    cluster.acknowledged("broker-0")
    assert found(cluster.ends()) == NOT_PERMITTED


def test_a_newer_master_of_one_group_excuses_no_loss_in_another() -> None:
    for group, expected in (("b", NOT_PERMITTED), ("a", PERMITTED)):
        cluster = Cluster().begin({"acks": "master"})
        cluster.acknowledged("broker-0")
        cluster.takes_over("broker-2").finish(0)
        for row in cluster.rows:
            if (row["kind"], row["f"]) == ("final", "node"):
                name = "a" if row["node"] == "broker-0" else group
                row["value"] = row["value"].replace("{", f'{{"group": "{name}", ', 1)
        assert found(cluster.verdict(LAW)) == expected


# Roles as polled

POLLED = [word for word in REPORTED if word not in ("confirm", "roles", "elections")] + ["polls"]


def polled(
    profile: dict[str, Any], *, after: str = "broker-1", in_sync: list[str] | None = None
) -> Callable[..., Verdict]:
    """broker-0 leads when message 1 is acknowledged, ``after`` leads later. What is called between is the fault."""

    def run(*fault: Any, **more: Any) -> Verdict:
        history = Cluster(meta={"profile": profile, "tells": POLLED, "deployment": "netns"})
        history.phase("load")

        def poll(node: str, epoch: int) -> None:
            value: dict[str, Any] = {"role": "master"} | ({} if in_sync is None else {"set": in_sync})
            history.row("poll", type="ok", f="state", node=node, epoch=epoch, value=value)

        poll("broker-0", 1)
        history.send(0)
        history.send(1)
        if fault:
            process = history.inject(*fault, **{key: value for key, value in more.items() if key == "effects"})
            if "proof" in more:
                told(history, process, more["proof"])
            history.undo(fault[0], process)
        poll(after, 1 if after == "broker-0" else 2)
        history.finish(0)
        return history.verdict(LAW)

    return run


def told(history: History, process: str, proof: dict[str, Any]) -> None:
    """The injection's proof, as its row tells it."""
    for row in history.rows:
        if (row["kind"], row["process"], row["type"]) == ("fault", process, "ok"):
            row["value"] = json.dumps(json.loads(row["value"]) | {"proof": proof})


LOST_BLOCKS = {"broker-1": {"files_lost": 0, "blocks_lost": 3}}


def test_polled_roles_explain_what_the_acknowledging_master_alone_had() -> None:
    assert found(polled({"acks": "master"})()) == PERMITTED
    assert found(polled({"acks": "master"}, after="broker-0")()) == NOT_PERMITTED
    assert found(polled({"acks": 2})()) == NOT_DECIDED
    assert found(polled({})()) == NOT_PERMITTED


def test_polled_roles_explain_a_loss_by_a_power_cut_that_took_data_alone() -> None:
    run = polled({"flush": "async"})
    assert found(run("kill", "broker-1")) == NOT_PERMITTED  # the kernel has what a killed program wrote
    assert found(run("kill", "broker-1", proof=LOST_BLOCKS)) == PERMITTED
    assert found(run("kill", "broker-1", proof={"broker-1": {"files_lost": 0, "blocks_lost": 0}})) == NOT_PERMITTED
    assert found(run("kill", "broker-2", proof={"broker-2": {"blocks_lost": 3}})) == NOT_PERMITTED
    assert found(run("kill", "broker-1", effects=None)) == NOT_DECIDED
    assert found(run()) == NOT_PERMITTED


def power_cut_run(after: str, *, cut_first: bool = False, wait_s: float = 0.0, window: float | None = 1.0) -> Verdict:
    """``after`` loses blocks in a power cut, before message 1 is sent or so long after that was acknowledged."""
    declared = {} if window is None else {"loss_window_s": window}
    meta = {"profile": {"flush": "async"}, "tells": POLLED, "deployment": "netns", **declared}
    history = Cluster(meta=meta)
    history.phase("load")
    history.row("poll", type="ok", f="state", node="broker-0", epoch=1, value={"role": "master"})
    history.send(0)
    if not cut_first:
        history.send(1)
        history.wait(wait_s)
    process = history.inject("lose_unsynced", after, effects={"takes_down": [after], "may_crash": [after]})
    told(history, process, {after: {"files_lost": 0, "blocks_lost": 3}})
    if cut_first:
        history.send(1)
    history.undo("lose_unsynced", process)
    epoch = 1 if after == "broker-0" else 2
    history.row("poll", type="ok", f="state", node=after, epoch=epoch, value={"role": "master"})
    history.finish(0)
    return history.verdict(LAW)


def test_a_power_cut_explains_no_loss_of_what_was_sent_after_it_or_long_before() -> None:
    assert found(power_cut_run("broker-1")) == PERMITTED
    assert found(power_cut_run("broker-1", cut_first=True)) == NOT_PERMITTED
    assert found(power_cut_run("broker-1", wait_s=2)) == PERMITTED  # it may have taken the record late
    assert found(power_cut_run("broker-0")) == PERMITTED
    assert found(power_cut_run("broker-0", wait_s=2)) == NOT_PERMITTED
    assert found(power_cut_run("broker-0", wait_s=2, window=None)) == PERMITTED


@pytest.mark.parametrize(("flush", "cut_s"), [("async", 0.0), ("sync", 0.0), ("async", 2.0)])
def test_an_answer_without_an_epoch_follows_a_read_of_what_a_power_cut_took_by_time(flush: str, cut_s: float) -> None:
    """JetStream's answers to producers name no leader; those to readers do. The other message has the offset again."""
    meta = {"profile": {"flush": flush}, "tells": POLLED, "deployment": "netns", "loss_window_s": 1.0}
    history = Cluster(meta=meta)
    history.phase("load")
    history.row("poll", type="ok", f="state", node="broker-0", epoch=1, value={"role": "master"})
    history.send(0, node="", epoch=-1)
    history.send(1, node="", epoch=-1)
    history.pull(0, 0, 1)
    history.wait(cut_s)
    process = history.inject("lose_unsynced", "broker-0", effects={"may_crash": ["broker-0"]})
    told(history, process, {"broker-0": {"files_lost": 0, "blocks_lost": 3}})
    history.undo("lose_unsynced", process)
    history.row("poll", type="ok", f="state", node="broker-1", epoch=2, value={"role": "master"})
    history.send(2, 1, node="", epoch=-1)
    history.finish(0, 2)
    permitted = flush == "async" and cut_s < 1
    assert (A.OFFSET_CONFLICT in found(history.verdict(L.AGREEMENT))[1]) is not permitted


def test_polled_sets_explain_a_loss_by_an_unclean_election() -> None:
    assert found(polled({"unclean": True}, in_sync=["broker-0"])()) == PERMITTED
    assert found(polled({"unclean": True}, in_sync=["broker-0", "broker-1"])()) == NOT_PERMITTED
    assert found(polled({"unclean": True})()) == NOT_DECIDED


def test_polled_sets_explain_the_loss_of_the_one_copy_in_sync() -> None:
    one = {"min_in_sync": 1}
    assert found(polled(one, in_sync=["broker-0"])("wipe", "broker-0")) == PERMITTED
    assert found(polled(one, in_sync=["broker-0", "broker-1"])("wipe", "broker-0")) == NOT_PERMITTED
    assert found(polled(one)("wipe", "broker-0")) == NOT_DECIDED
    assert found(polled(one, in_sync=["broker-0"])("kill", "broker-0")) == NOT_PERMITTED


# By faults alone

SILENT = [word for word in POLLED if word != "polls"]


def by_faults(
    profile: dict[str, Any],
    *fault: Any,
    before_s: float = 0.5,
    node: str = "broker-0",
    window: float | None = 1.0,
    **more: Any,
) -> Verdict:
    """Message 1 is acknowledged so long before the fault begins; nobody tells who leads."""
    declared = {} if window is None else {"loss_window_s": window}
    history = Cluster(meta={"profile": profile, "tells": SILENT, "deployment": "netns", **declared})
    history.phase("load")
    history.send(0)
    history.send(1, node=node)
    history.wait(before_s)
    process = history.inject(*fault, **{key: value for key, value in more.items() if key == "effects"})
    if "proof" in more:
        told(history, process, more["proof"])
    history.undo(fault[0], process)
    history.finish(0)
    return history.verdict(LAW)


@pytest.mark.parametrize(
    ("profile", "fault", "more"),
    [
        ({"acks": "master"}, "kill", {}),
        ({"acks": 2}, "kill", {}),
        ({"unclean": True}, "kill", {}),
        ({"flush": "async"}, "kill", {"proof": {"broker-0": {"blocks_lost": 2}}}),
        ({"min_in_sync": 1}, "wipe", {}),
    ],
)
def test_without_roles_a_loss_is_excused_near_a_fault_on_the_acknowledging_node(
    profile: dict[str, Any], fault: str, more: dict[str, Any]
) -> None:
    verdict = by_faults(profile, fault, "broker-0", **more)
    assert found(verdict) == PERMITTED
    assert verdict.anomalies[0].policy.endswith("judged by faults alone")
    assert found(by_faults(profile, fault, "broker-0", before_s=1.5, **more)) == NOT_PERMITTED
    assert found(by_faults(profile, fault, "broker-1")) == NOT_PERMITTED
    assert found(by_faults(profile, fault, "broker-0", window=None, **more)) == NOT_DECIDED
    assert found(by_faults(profile, fault, "broker-0", node="", **more)) == NOT_DECIDED
    assert found(by_faults(profile, fault, "broker-0", effects=None)) == NOT_DECIDED
    assert found(by_faults({}, fault, "broker-0", **more)) == NOT_PERMITTED


def test_without_roles_a_kill_explains_no_loss_by_asynchronous_flush() -> None:
    assert found(by_faults({"flush": "async"}, "kill", "broker-0")) == NOT_PERMITTED


# The oracle


def random_losses(rng: Random) -> tuple[Cluster, list[int]]:
    """Some replicas take some of some messages, crash, are cut, lead in turn. Returns what was acknowledged."""
    profile: dict[str, Any] = {}
    for name in rng.sample(sorted(WEAK), rng.randint(1, 2)):
        profile |= WEAK[name]
    cluster = Cluster().begin(profile)
    lives = dict.fromkeys(BROKERS, 1)
    ends = dict.fromkeys(BROKERS, 1)
    master, epoch, acked = "broker-0", 1, []
    for _ in range(rng.randint(4, 25)):
        node = rng.choice(BROKERS)
        match rng.randint(0, 6):
            case 0 | 1 | 2:
                sequence = ends[master]
                takers = [name for name in BROKERS if name == master or (ends[name] == sequence and rng.random() < 0.6)]
                for name in takers:
                    cluster.append(name, sequence, epoch=epoch, incarnation=lives[name])
                    ends[name] += 1
                if rng.random() < 0.8:
                    copies = {name: ends[name] * SIZE for name in takers if rng.random() < 0.9}
                    told = {"confirm": 0} | ({"copies": copies} if rng.random() < 0.8 else {})
                    end, life = ends[master] * SIZE, lives[master]
                    cluster.trace(master, "acked", epoch=epoch, position=end, value=told, incarnation=life)
                    acked.append(cluster.send(sequence, node=master, epoch=epoch))
            case 3:
                fault = rng.choice(("kill", "pause", "wipe", "kill"))
                cluster.undo(fault, cluster.inject(fault, node, effects=rng.choice(("usual", "usual", None))))
                lives[node] += 1
                ends[node] = rng.randint(0, ends[node])
                cluster.trace(node, "recovered", incarnation=lives[node], epoch=epoch, position=ends[node] * SIZE)
            case 4:
                ends[node] = rng.randint(0, ends[node])
                cluster.trace(node, "truncate", incarnation=lives[node], epoch=epoch, position=ends[node] * SIZE)
            case _:
                epoch, master = epoch + 1, node
                if rng.random() < 0.8:
                    previous = rng.sample(BROKERS, rng.randint(1, 3))
                    cluster.elected(node, epoch, previous=previous, unclean=rng.random() < 0.3)
                cluster.master(node, epoch, start=ends[node] * SIZE, incarnation=lives[node])
    return cluster, acked


def check_random(seed: int) -> set[Lost]:
    cluster, acked = random_losses(Random(seed))
    rows = Shard(cluster.table())
    meta = {"deployment": "sim", "tells": list(REPORTED), **cluster.meta}
    context = RunContext(run="random", seed=seed, meta=RunMeta.of(meta))
    if not acked:
        return set()
    claims, replicas = acknowledged(rows), slow.replay(rows)
    acknowledgements = zip(claims.at.tolist(), claims.hash.tolist(), strict=True)
    expected = [slow.explain(rows, context, replicas, *one) for one in acknowledgements]
    assert explained(rows, context, Records.of(rows, claims), claims.at).state.tolist() == expected, seed
    return set(expected)


def test_random_losses_are_explained_as_by_the_oracle() -> None:
    seen = [check_random(seed) for seed in range(300)]
    for state in Lost:
        assert sum(state in one for one in seen) > 20, state


@pytest.mark.full
def test_many_random_losses_are_explained_as_by_the_oracle() -> None:
    for seed in range(300, 2_000):
        check_random(seed)
