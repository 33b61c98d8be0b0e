"""Controllers keep what they agreed on, elect nobody without a cause, and serve while a majority is well."""

from __future__ import annotations

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.controller_runs import CONTROLLERS, Run, death, run
from tests.checkers.histories import BROKERS
from tests.checkers.names import A, L

LAW = L.CONTROLLERS


def test_nobody_is_elected_without_a_cause() -> None:
    it = run()
    it.entry({"type": "noop"})
    it.expect(LAW, validity=Validity.VALID)


def test_a_master_is_replaced_though_nothing_has_touched_it() -> None:
    it = run()
    it.elect("broker-1", 2)
    it.expect(LAW, A.NEEDLESS_ELECTION)


@pytest.mark.parametrize("wait_s, is_cause", [(9, True), (11, False)])
def test_a_fault_is_the_cause_of_an_election_for_a_while(wait_s: float, is_cause: bool) -> None:
    it = run()
    it.undo("slow_link", it.inject("slow_link", "broker-2"))
    it.wait(wait_s)
    it.elect("broker-1", 2)
    it.expect(LAW, *[] if is_cause else [A.NEEDLESS_ELECTION])


@pytest.mark.parametrize("name", ["noop", "tier_outage"])
def test_a_fault_that_touches_no_broker_is_none(name: str) -> None:
    it = run()
    it.inject(name, "objectstore-0")
    it.elect("broker-1", 2)
    it.expect(LAW, A.NEEDLESS_ELECTION)


def test_a_node_that_starts_or_a_disk_that_was_lost_is_one() -> None:
    it = run()
    it.trace("broker-0", "start", value={"generation": 2})
    it.elect("broker-1", 2)
    it.expect(LAW, validity=Validity.VALID)
    for wait_s, is_cause in ((9, True), (30, False)):
        it = run()
        it.undo("wipe", it.inject("wipe", "broker-0"))
        it.wait(wait_s)
        it.elect("broker-1", 2)
        it.expect(LAW, *[] if is_cause else [A.NEEDLESS_ELECTION])


def test_elsewhere_than_in_the_simulator_a_machine_may_have_been_the_cause() -> None:
    it = run(deployment="process")
    it.elect("broker-1", 2)
    it.leads("controller-1", 2)
    it.expect(LAW, validity=Validity.VALID)


def test_a_leader_stays_whom_a_majority_hears() -> None:
    it = run()
    it.inject("slow_link", "controller-2")
    it.wait(1)
    it.leads("controller-2", 2)
    it.expect(LAW, A.NEEDLESS_ELECTION)


def test_a_leader_may_go_that_was_touched_or_that_a_majority_does_not_hear() -> None:
    for nodes in (("controller-0",), ("controller-1", "controller-2")):
        it = run()
        it.inject("slow_link", *nodes)
        it.leads("controller-2", 2)
        it.expect(LAW, validity=Validity.VALID)


def test_a_leader_may_be_asked_to_go() -> None:
    it = run()
    it.inject("leader_transfer", "controller-2", effects={"switches_master": ["controller-2"]})
    it.leads("controller-2", 2)
    it.expect(LAW, validity=Validity.VALID)


def test_who_asked_for_another_leader_may_not_know_that_there_is_one() -> None:
    it = run()
    refusal(it, effect="switches_master")  # its answer was lost
    it.wait(1)
    it.leads("controller-1", 2)
    found = it.verdict(LAW).anomalies
    assert {anomaly.name for anomaly in found} == {A.REFUSED_CHANGE}


def test_what_a_fault_that_declares_nothing_may_have_caused_is_unknown() -> None:
    for change in (lambda it: it.elect("broker-1", 2), lambda it: it.leads("controller-1", 2), refusal):
        it = run()
        it.inject("mystery", effects=None)
        change(it)
        it.expect(LAW, validity=Validity.UNKNOWN)


def test_two_that_stood_for_election_at_once_may_lead_one_after_the_other() -> None:
    it = run()
    it.inject("slow_link", "controller-2")
    it.trace("controller-2", "raft", epoch=7, value={"role": "candidate", "leader": ""})
    it.leads("controller-1", 6)
    it.wait(60)  # controller-2 is heard again, and its term is higher
    it.leads("controller-0", 8)
    found = it.verdict(LAW)
    assert [anomaly.rows for anomaly in found.anomalies] == [(0, 8)], "only the first of them had no cause"


def test_the_controllers_try_an_election_again_and_again_in_vain() -> None:
    it = run()
    it.in_vain(3)
    it.entry({"type": "register", "group": "g", "broker": "broker-2", "id": 3, "generation": 2, "removed": []})
    it.in_vain(3)
    it.expect(LAW, validity=Validity.VALID)
    it.in_vain()
    it.expect(LAW, A.NEEDLESS_ELECTION)
    it = run()
    it.in_vain(3)
    it.last += 1  # nobody tells what this entry was
    it.in_vain(3)
    it.expect(LAW, validity=Validity.VALID)


def test_a_controller_drops_what_was_committed() -> None:
    it = run()
    it.trace("controller-1", "entries_cut", position=3, epoch=1, value={"last": 4})  # nobody has applied it
    it.entry({"type": "noop"}, number=2)
    it.entry({"type": "noop"}, number=3)
    it.trace("controller-1", "entries_cut", position=3, epoch=7, value={"last": 4})  # another entry of that index
    it.expect(LAW, validity=Validity.VALID)
    it.trace("controller-1", "entries_cut", position=3, epoch=1, value={"last": 4})
    it.expect(LAW, A.ENTRY_LOST)


def test_who_has_led_a_term_never_forgets_it() -> None:
    it = run()
    for incarnation, term, role in ((1, 5, "leader"), (2, 5, "follower"), (2, 6, "candidate"), (3, 5, "follower")):
        it.trace("controller-2", "raft", epoch=term, incarnation=incarnation, value={"role": role})
    lost = {anomaly.name for anomaly in it.verdict(LAW).anomalies}
    assert A.TERM_REGRESSION not in lost, "its vote in term 6 was not on its disk yet"
    it.trace("controller-2", "raft", epoch=4, incarnation=4, value={"role": "follower"})
    assert A.TERM_REGRESSION in {anomaly.name for anomaly in it.verdict(LAW).anomalies}
    it.inject("wipe", "controller-2")
    assert A.TERM_REGRESSION in {anomaly.name for anomaly in it.verdict(LAW).anomalies}, "its disk was lost later"


@pytest.mark.parametrize("effects", [{"loses_disk": ["controller-0"]}, None], ids=["its disk is lost", "who knows"])
def test_a_fault_excuses_a_forgotten_term_only_where_it_came_between(effects: dict[str, list[str]] | None) -> None:
    before, between = run(), run()
    for it in (before, between):
        if it is before:
            it.undo("odd", it.inject("odd", "controller-0", effects=effects))
            it.trace("controller-0", "raft", epoch=1, value={"role": "follower"})
            it.leads("controller-0", 3)
        else:
            it.inject("odd", "controller-0", effects=effects)
        it.trace("controller-0", "raft", epoch=0, value={"role": "follower"})
    assert A.TERM_REGRESSION in {anomaly.name for anomaly in before.verdict(LAW).anomalies}
    between.expect(LAW, validity=Validity.UNKNOWN if effects is None else Validity.VALID)


@pytest.mark.parametrize(
    "life, named",
    [(1, [A.TERM_REGRESSION]), (2, [])],
    ids=["in the same life", "it crashed before its disk knew the term"],
)
def test_the_terms_of_one_life_never_fall_led_or_not(life: int, named: list[str]) -> None:
    it = run()
    for incarnation, term, role in ((1, 5, "follower"), (life, 4, "follower"), (life, 5, "follower")):
        it.trace("controller-2", "raft", epoch=term, incarnation=incarnation, value={"role": role})
    it.expect(LAW, *named)
    it.trace("controller-2", "raft", epoch=4, incarnation=3, value={"role": "follower"})
    it.expect(LAW, *named)


def test_a_fault_that_declares_nothing_may_be_why_a_term_fell() -> None:
    it = run()
    it.trace("controller-2", "raft", epoch=5, value={"role": "candidate"})
    it.inject("odd", "controller-2", effects=None)
    it.trace("controller-2", "raft", epoch=4, value={"role": "follower"})
    assert "reported in the same life" in it.expect(LAW, validity=Validity.UNKNOWN).why


def test_a_cut_names_an_entry() -> None:
    it = run()
    it.trace("controller-1", "entries_cut", position=4, epoch=1, value={"last": 4})
    it.expect(LAW, validity=Validity.VALID)
    for position, term in ((5, 1), (4, -1)):
        wrong = run()
        wrong.trace("controller-1", "entries_cut", position=position, epoch=term, value={"last": 4})
        assert "there is no such entry" in wrong.expect(LAW, A.CUT_MISSTATED).anomalies[0].explanation


def test_members_change_one_step_at_a_time() -> None:
    it = run()
    for voters, learners in (("02", ""), ("0", ""), ("0", "2"), ("0", "12"), ("01", "2"), ("01", ""), ("01", "2")):
        it.members(voters, learners)
    it.members("012")
    it.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize(
    "voters, learners", [("012", ""), ("0", ""), ("02", "1")], ids=["nothing", "two leave", "a voter only learns"]
)
def test_members_do_not_stay_nor_jump(voters: str, learners: str) -> None:
    it = run()
    it.members(voters, learners)
    it.expect(LAW, A.MEMBERSHIP_JUMP)


def test_all_controllers_tell_the_same_members() -> None:
    it = run()
    it.members("02")
    for node, voters, names in (("controller-2", "02", []), ("controller-1", "01", [A.MEMBERSHIP_JUMP])):
        it.trace(node, "members", position=it.last, epoch=1, value={"voters": [CONTROLLERS[int(n)] for n in voters]})
        it.expect(LAW, *names)


def test_without_the_first_members_nobody_knows_whether_the_first_change_is_one_step() -> None:
    it = run(controllers=[])
    it.members("012")
    it.members("02")
    assert "nothing shows who" in it.expect(LAW, validity=Validity.UNKNOWN).why
    it.members("1")
    it.expect(LAW, A.MEMBERSHIP_JUMP)


def refusal(it: Run, node: str = "controller-1", effect: str = "removes_replica") -> None:
    asked = {"targets": [node], "detail": {}, "effects": {effect: [node]}}
    it.row("fault", type="invoke", f="member_change", process="fault-7", value=asked)
    it.row("fault", type="fail", f="member_change", process="fault-7", value={"reason": "not now", "proven": {}})


def test_a_change_is_refused_that_nothing_hinders() -> None:
    it = run()
    refusal(it)
    it.expect(LAW, A.REFUSED_CHANGE)


def test_a_change_may_be_refused_after_a_fault_or_an_election() -> None:
    it = run()
    it.inject("slow_link", "controller-2")
    refusal(it)
    it.expect(LAW, validity=Validity.VALID)
    it = run()
    it.leads("controller-0", 2)
    refusal(it)
    assert A.REFUSED_CHANGE not in {anomaly.name for anomaly in it.verdict(LAW).anomalies}
    it = run()
    refusal(it, "broker-1")  # a broker is nothing of theirs
    it.expect(LAW, validity=Validity.VALID)


def test_a_change_may_be_refused_for_what_had_happened_when_it_was_asked_for() -> None:
    for effects in ({"slows": ["controller-2"]}, None):
        it = run()
        fault = it.inject("odd", "controller-2", effects=effects)
        asked = {"targets": ["controller-1"], "detail": {}, "effects": {"removes_replica": ["controller-1"]}}
        it.row("fault", type="invoke", f="member_change", process="fault-7", value=asked)
        it.undo("odd", fault)
        it.wait(12)
        it.row("fault", type="fail", f="member_change", process="fault-7", value={"reason": "timeout", "proven": {}})
        it.expect(LAW, validity=Validity.VALID if effects else Validity.UNKNOWN)


def removal(it: Run) -> str:
    """A controller leaves, and is let in again as a learner."""
    fault = it.inject("member_change", "controller-2", effects={"removes_replica": ["controller-2"]})
    it.members("01")
    it.wait(1)
    it.members("01", "2")
    return fault


@pytest.mark.parametrize("ends", ["by a vote", "by leaving", "with the run"])
@pytest.mark.parametrize("seconds, found", [(9, False), (11, True)])
def test_who_joins_votes_within_a_bound(seconds: int, found: bool, ends: str) -> None:
    it = run()
    fault = removal(it)
    it.wait(seconds)
    if ends != "with the run":
        it.members("012" if ends == "by a vote" else "01")
    it.undo("member_change", fault)
    it.expect(LAW, *[A.LATE_VOTE] if found else [])


def test_the_bound_of_a_vote_is_that_of_service() -> None:
    for jitter_s, found in ((0.0, True), (1.0, False)):
        it = run(bounds={"available_s": 2.0}, jitter_s=jitter_s)
        removal(it)
        it.wait(4)
        it.members("012")
        it.expect(LAW, *[A.LATE_VOTE] if found else [])


def test_a_vote_may_be_late_after_a_fault_a_start_or_an_election() -> None:
    for hindered in (
        lambda it: it.undo("slow_link", it.inject("slow_link", "controller-1")),
        lambda it: it.inject("slow_link", "controller-2"),
        lambda it: it.inject("member_change", "controller-1", effects={"removes_replica": ["controller-1"]}),
        lambda it: it.trace("broker-1", "start", value={}),
        lambda it: it.leads("controller-0", 2),
    ):
        for before in (True, False):
            it = run()
            if before:
                hindered(it)
            removal(it)
            it.wait(5)
            if not before:
                hindered(it)
            it.wait(7)
            it.members("012")
            assert A.LATE_VOTE not in {anomaly.name for anomaly in it.verdict(LAW).anomalies}


@pytest.mark.parametrize("seconds, names", [(19, []), (22, [A.LATE_VOTE])])
def test_a_vote_is_late_when_what_hindered_it_is_long_over(seconds: float, names: list[str]) -> None:
    it = run()
    removal(it)
    it.wait(5)
    it.undo("slow_link", it.inject("slow_link", "controller-1"))
    it.wait(seconds)
    it.members("012")
    it.expect(LAW, *names)


def test_a_vote_that_is_late_by_a_fault_that_declares_nothing_is_unknown() -> None:
    it = run()
    it.inject("odd", "controller-1", effects=None)
    removal(it)
    it.wait(12)
    it.members("012")
    assert "got its vote late" in it.expect(LAW, validity=Validity.UNKNOWN).why


def test_a_fault_of_a_broker_is_no_reason_for_a_late_vote() -> None:
    it = run()
    it.inject("slow_link", "broker-1")
    removal(it)
    it.wait(12)
    it.members("012")
    it.expect(LAW, A.LATE_VOTE)


@pytest.mark.parametrize("seconds, found", [(8, False), (12, True)])
def test_changes_take_effect_within_a_bound(seconds: int, found: bool) -> None:
    it = run()
    it.inject("kill", "controller-2")
    for second in range(seconds):
        it.ask("write", CONTROLLERS[second % 2], type="info", took_s=1)
        it.ask("read")
    it.expect(LAW, *[A.CHANGE_UNSERVED] if found else [])


@pytest.mark.parametrize("led_by, found", [("", False), ("controller-2", True)])
def test_who_does_not_lead_may_refuse_each_change(led_by: str, found: bool) -> None:
    it = run()
    for second in range(24):
        it.ask("write", led_by if led_by and second % 3 == 2 else CONTROLLERS[second % 2], type="fail", took_s=1)
    it.expect(LAW, *[A.CHANGE_UNSERVED] if found else [])


def test_a_change_that_was_asked_for_before_a_bound_began_is_an_effect_within_it() -> None:
    for served in (True, False):
        it = run()
        fault = it.inject("slow_link", "controller-2")
        asked = it.invoke("write", value={"object": "o", "to": "controller-0"})
        it.undo("slow_link", fault)
        for second in range(12):
            it.ask("write", CONTROLLERS[second % 3], type="info", took_s=1)
            if second == 6:
                it.complete(asked, "ok" if served else "info", node="controller-0")
        it.expect(LAW, *[] if served else [A.CHANGE_UNSERVED])


def test_a_refused_compare_and_set_is_an_effect_too() -> None:
    it = run()
    for number in range(30):
        it.ask("cas", type="fail", took_s=1, **({"refused": True} if number % 8 == 0 else {}))
    it.expect(LAW, validity=Validity.VALID)


def test_nothing_is_owed_without_a_majority_or_over_slow_links() -> None:
    for nodes, name in ((CONTROLLERS[:2], "kill"), (CONTROLLERS[:1], "slow_link"), (("client",), "partition")):
        it = run()
        it.inject(name, *nodes)
        for _ in range(30):
            it.ask("write", type="info", took_s=1)
        it.expect(LAW, validity=Validity.VALID)


def test_a_run_in_which_nothing_was_owed_at_any_time_proves_nothing() -> None:
    lost, none = run(deployment="ssh"), run(controllers=[], tells=["operations"])
    lost.row("harness", f="host_lost", value={"what": "host h2 could not be reached"})
    for it, validity in ((lost, Validity.UNKNOWN), (none, Validity.NOT_APPLICABLE)):
        for _ in range(12):
            it.ask("write", type="info", took_s=1)
        it.expect(LAW, validity=validity)


def test_where_each_node_has_a_clock_of_its_own_causes_are_told_as_not_judged() -> None:
    it = run(deployment="process")
    it.leads("controller-1", 2)
    verdict = it.expect(LAW, validity=Validity.VALID)
    assert any(part.startswith("causes") for part in verdict.unjudged), verdict.unjudged
    assert not any(part.startswith("causes") for part in run().expect(LAW).unjudged)


def test_causes_prove_nothing_without_what_a_lost_host_had_told() -> None:
    it = run()
    it.row("harness", f="host_lost", value={"what": "host h2 could not be reached"})
    assert "a host was lost" in str(it.expect(LAW, validity=Validity.UNKNOWN).why)


def test_each_controller_that_is_well_answers_reads() -> None:
    it = run()
    for _ in range(12):
        it.ask("read", "controller-1", type="fail", took_s=1)
        it.ask("read", "controller-2")
    it.expect(LAW, A.READ_UNANSWERED, A.LATE_READ)


def test_a_refusal_is_an_answer_and_who_is_down_owes_none() -> None:
    it = run()
    it.inject("kill", "controller-1")
    for _ in range(20):
        it.ask("read", "controller-1", type="fail", took_s=1)
        it.ask("read", "controller-2", type="fail", took_s=0.01)
    it.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize(("seconds", "found"), [(19, False), (22, True)])
def test_a_controller_whose_disk_was_lost_owes_answers_again_one_bound_later(seconds: int, found: bool) -> None:
    it = run(deployment="process")
    it.undo("wipe", it.inject("wipe", "controller-1"))
    for _ in range(seconds):
        it.ask("read", "controller-1", type="fail", took_s=1)
        it.ask("read", "controller-2")
    it.expect(LAW, *[A.READ_UNANSWERED] if found else [])


def test_a_run_whose_clients_do_nothing_but_lock_is_none_of_the_second_kernel() -> None:
    it = Run(meta={"controllers": list(CONTROLLERS), "uses": ["objects"]})
    it.elect("broker-0", 1, bootstrap=True)
    it.phase("load")
    assert "who leads them" in it.expect(LAW, validity=Validity.UNKNOWN).why
    it.leads("controller-0", 1)
    it.expect(LAW, validity=Validity.VALID)
    nobody = Run(meta={"controllers": list(CONTROLLERS), "uses": ["objects"]})
    nobody.expect(LAW, validity=Validity.UNKNOWN)
    silent = run()
    silent.rows = [row for row in silent.rows if row["kind"] != "op" or row["type"] == "invoke"]
    for index, row in enumerate(silent.rows):
        row["index"] = index
    silent.expect(LAW, validity=Validity.UNKNOWN)


def test_it_keeps_the_contract_of_laws() -> None:
    known = registry()
    replaced, silent, good = run(), run(), run()
    replaced.elect("broker-1", 2)
    for _ in range(12):
        silent.ask("read", "controller-1", type="fail", took_s=1)
    good.ask("read", "controller-1", type="fail", took_s=0.6)
    late, unmoved = run(), run()
    for it in (late, unmoved):
        it.alter(*BROKERS)
        it.wait(20)
    death(late)
    unmoved.alter("broker-0")
    bad = [(replaced.table(), [A.NEEDLESS_ELECTION]), (silent.table(), [A.READ_UNANSWERED, A.LATE_READ])]
    bad += [(late.table(), [A.LATE_ELECTION]), (unmoved.table(), [A.NEEDLESS_CHANGE])]
    kernels = [known.kernels[number] for number in known.of(LAW)]
    check_law(kernels, bad=bad, near_miss=[good.table()], context=good.context())
