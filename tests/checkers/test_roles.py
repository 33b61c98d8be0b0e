"""Elections, epochs, believers and routes that break the promise, and those that only look like it."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.driver import Evidence
from chaos.verdict import Validity
from tests.checkers.histories import BROKERS, REPORTED, History
from tests.checkers.names import A, L

LAW = L.ROLES


class Controlled(History):
    """Each entry is applied by two controllers."""

    length: int = 0

    def entry(self, *, controllers: tuple[str, ...] = ("controller-0", "controller-1"), **entry: Any) -> None:
        self.length += 1
        for node in controllers:
            value = {"entry": {"group": "g", **entry}}
            self.trace(node, "applied", position=self.length, epoch=1, value=value)

    def elect(self, master: str, epoch: int, *previous: str, **more: Any) -> None:
        told = {"set": [master], "set_epoch": epoch, "previous_set": list(previous), "bootstrap": not previous}
        self.entry(type="elect", master=master, master_epoch=epoch, **(told | more))

    def master(self, node: str, epoch: int, *, start: int = 0, **more: Any) -> int:
        value = {"role": "master", "master": node, "set": [node], "set_epoch": epoch, "start": start}
        return self.trace(node, "role", epoch=epoch, value=value, **more)

    def alter(self, *members: str, epoch: int = 1) -> None:
        self.entry(type="alter", set=list(members), set_epoch=100 + self.length, master_epoch=epoch)


def started() -> Controlled:
    history = Controlled()
    for broker in BROKERS:
        history.entry(type="apply_id", broker=broker, removed=[])
        history.entry(type="register", broker=broker, generation=1, removed=[])
    history.elect("broker-0", 1)
    history.master("broker-0", 1)
    history.alter(*BROKERS)
    return history


def test_a_good_run_is_valid_and_an_empty_one_unknown() -> None:
    history = started()
    history.elect("broker-1", 2, *BROKERS)
    history.master("broker-1", 2)
    history.role("broker-0", "slave", 2)
    history.expect(LAW, validity=Validity.VALID)
    History().expect(LAW, validity=Validity.UNKNOWN)


def test_two_masters_of_one_epoch_are_found() -> None:
    history = started()
    history.elect("broker-1", 1, *BROKERS)
    history.expect(LAW, A.TWO_MASTERS)


def test_two_believers_of_one_epoch_are_found() -> None:
    history = started()
    history.role("broker-2", "master", 1)
    history.expect(LAW, A.TWO_MASTERS)


def test_believers_of_different_epochs_may_overlap() -> None:
    history = started()
    history.elect("broker-1", 2, *BROKERS)
    history.master("broker-1", 2)
    history.master("broker-0", 1)
    history.expect(LAW, validity=Validity.VALID)


def test_epochs_that_do_not_grow_are_found() -> None:
    history = started()
    history.elect("broker-1", 5, *BROKERS)
    history.entry(type="masterless", master_epoch=4)
    history.expect(LAW, A.EPOCH_REGRESSION)


def test_a_broker_that_goes_back_to_an_older_epoch_is_found() -> None:
    history = started()
    history.role("broker-2", "slave", 2)
    history.role("broker-2", "slave", 1)
    history.expect(LAW, A.EPOCH_REGRESSION)


def test_an_election_outside_the_set_is_found() -> None:
    history = started()
    history.alter("broker-0", "broker-1")
    history.elect("broker-2", 2, "broker-0", "broker-1")
    history.expect(LAW, A.ELECTION_OUTSIDE_SET)


def without_roles() -> Controlled:
    """A driver tells what the controllers commit, and not what the brokers believe."""
    return Controlled(meta={"tells": [name for name in REPORTED if name != Evidence.ROLES]})


def test_where_brokers_do_not_tell_their_roles_the_entries_are_judged_alone() -> None:
    history = without_roles()
    history.entry(type="apply_id", broker="broker-0", removed=[])
    history.entry(type="register", broker="broker-0", generation=1, removed=[])
    history.elect("broker-0", 1)
    history.expect(LAW, validity=Validity.VALID)
    history.elect("broker-2", 2, "broker-0")
    history.expect(LAW, A.ELECTION_OUTSIDE_SET)
    without_roles().expect(LAW, validity=Validity.UNKNOWN)


def test_where_brokers_tell_their_roles_silence_is_unknown() -> None:
    history = Controlled()
    history.elect("broker-0", 1)
    history.expect(LAW, validity=Validity.UNKNOWN)


def test_an_entry_that_lies_about_the_set_before_it_is_found() -> None:
    history = started()
    history.alter("broker-0")
    history.elect("broker-2", 2, *BROKERS)
    history.expect(LAW, A.ELECTION_OUTSIDE_SET)


@pytest.mark.parametrize("strict", [True, False])
def test_an_unclean_election_is_lawful_only_where_the_profile_permits_it(strict: bool) -> None:
    history = started()
    history.meta["profile"] = {} if strict else {"unclean": True}
    history.alter("broker-0")
    history.elect("broker-2", 2, "broker-0", unclean=True)
    history.expect(LAW, *((A.ELECTION_OUTSIDE_SET,) if strict else ()))


@pytest.mark.parametrize("kind", ["register", "apply_id"])
def test_a_wiped_member_must_not_be_elected(kind: str) -> None:
    history = started()
    history.entry(type=kind, broker="broker-1", removed=[], **({"generation": 1} if kind == "register" else {}))
    history.elect("broker-1", 2, *BROKERS)
    history.expect(LAW, A.ELECTION_OUTSIDE_SET)


def test_a_wiped_member_that_caught_up_again_may_be_elected() -> None:
    history = started()
    history.entry(type="apply_id", broker="broker-1", removed=["broker-1"], set=["broker-0", "broker-2"])
    history.entry(type="register", broker="broker-1", generation=1, removed=[])
    history.alter(*BROKERS)
    history.elect("broker-1", 2, *BROKERS)
    history.expect(LAW, validity=Validity.VALID)


def test_a_disk_that_went_back_in_time_goes_on_counting_from_there() -> None:
    history = started()
    history.entry(type="register", broker="broker-1", generation=3, removed=[])
    rest = ["broker-0", "broker-2"]
    history.entry(type="register", broker="broker-1", generation=2, removed=["broker-1"], set=rest)
    history.alter(*BROKERS)
    history.entry(type="register", broker="broker-1", generation=3, removed=[])
    history.elect("broker-1", 2, *BROKERS)
    history.expect(LAW, validity=Validity.VALID)


def test_controllers_that_applied_different_entries_are_found() -> None:
    history = started()
    history.entry(type="noop")
    history.trace("controller-2", "applied", position=history.length, epoch=1, value={"entry": {"type": "alter"}})
    history.expect(LAW, A.METADATA_CONFLICT)


def test_two_leaders_of_one_term_are_found() -> None:
    history = started()
    for node in ("controller-0", "controller-1"):
        history.trace(node, "raft", epoch=7, value={"role": "leader"})
    history.expect(LAW, A.TWO_MASTERS)


@pytest.mark.parametrize(
    ("told", "names"),
    [
        ([("controller-1", "leader", 7), ("controller-2", "controller-0", 7)], (A.TWO_MASTERS,)),
        ([("controller-2", "controller-0", 7), ("controller-1", "leader", 7)], (A.TWO_MASTERS,)),
        ([("controller-1", "controller-0", 7), ("controller-2", "controller-1", 7)], (A.TWO_MASTERS,)),
        # Near misses: the leader of an older term, and who knows of no leader yet.
        ([("controller-1", "leader", 8), ("controller-2", "controller-0", 7), ("controller-0", "leader", 7)], ()),
        ([("controller-1", "leader", 7), ("controller-2", "", 7), ("controller-2", "controller-1", 7)], ()),
    ],
)
def test_who_follows_another_controller_than_the_one_that_leads_the_term_is_found(
    told: list[tuple[str, str, int]], names: tuple[str, ...]
) -> None:
    history = started()
    for node, leader, term in told:
        leads = leader == "leader"
        value = {"role": "leader" if leads else "follower", "leader": node if leads else leader}
        history.trace(node, "raft", epoch=term, value=value)
    history.expect(LAW, *names)


def switched() -> Controlled:
    history = started()
    history.meta["tells"] = ["operations", "roles", "elections", "routes"]
    history.trace("nameserver-0", "route", epoch=1, value={"group": "g", "master": "broker-0"})
    history.elect("broker-1", 2, *BROKERS)
    history.master("broker-1", 2)
    return history


def test_a_route_that_stays_behind_is_found() -> None:
    history = switched().wait(6)
    history.phase("stop")
    history.expect(LAW, A.STALE_ROUTE)
    history.meta["tells"] = ["operations", "roles", "elections"]
    assert "routes" in " ".join(history.expect(LAW, validity=Validity.VALID).unjudged)


@pytest.mark.parametrize(("life", "names"), [(1, (A.ROUTE_REGRESSION,)), (2, ())])
def test_the_epoch_of_a_route_does_not_fall_in_one_life_of_a_name_server(life: int, names: tuple[str, ...]) -> None:
    history = switched()
    for epoch, incarnation in ((2, 1), (1, life), (2, life)):
        value = {"group": "g", "master": f"broker-{epoch - 1}"}
        history.trace("nameserver-0", "route", epoch=epoch, incarnation=incarnation, value=value)
    history.trace("nameserver-0", "route", epoch=1, incarnation=life, value={"group": "another", "master": "broker-9"})
    history.phase("stop")
    history.expect(LAW, *names)


def test_a_route_that_follows_in_time_or_was_cut_off_is_lawful() -> None:
    in_time = switched().wait(2)
    in_time.trace("nameserver-0", "route", epoch=2, value={"group": "g", "master": "broker-1"})
    in_time.wait(20)
    in_time.phase("stop")
    in_time.expect(LAW, validity=Validity.VALID)
    cut_off = switched()
    process = cut_off.inject("partition", "broker-1", shape="isolate")
    cut_off.wait(20)
    cut_off.undo("partition", process)
    cut_off.phase("stop")
    cut_off.expect(LAW, validity=Validity.VALID)


def test_a_replica_that_comes_back_fenced_may_have_forgotten_an_epoch_it_only_heard_of() -> None:
    history = started()
    history.elect("broker-1", 2, *BROKERS)
    history.role("broker-2", "slave", 2)
    history.trace("broker-2", "start", incarnation=2, step=1, value={"generation": 2})
    history.role("broker-2", "fenced", 1, incarnation=2, step=2)
    history.expect(LAW, validity=Validity.VALID)
    history.role("broker-2", "slave", 1, incarnation=2, step=3)
    history.expect(LAW, A.EPOCH_REGRESSION)


def test_only_the_first_election_of_a_group_is_one_without_a_set() -> None:
    history = started()
    history.alter("broker-0")
    history.elect("broker-2", 2, "broker-0", bootstrap=True)
    history.expect(LAW, A.ELECTION_OUTSIDE_SET)


@pytest.mark.parametrize(("profile", "lawful"), [({"flush": "async"}, False), ({"unclean": True}, True)])
def test_a_profile_that_permits_other_losses_permits_no_unclean_election(profile: dict[str, Any], lawful: bool) -> None:
    history = started()
    history.meta["profile"] = profile
    history.alter("broker-0")
    history.elect("broker-2", 2, "broker-0", unclean=True)
    history.expect(LAW, *(() if lawful else (A.ELECTION_OUTSIDE_SET,)))


def test_a_registration_that_counts_no_lives_makes_nobody_forget_those_before() -> None:
    history = started()
    history.entry(type="register", broker="broker-1", generation=3, removed=[])
    history.entry(type="register", broker="broker-1", removed=[])
    history.entry(type="register", broker="broker-1", generation=2, removed=[])
    history.elect("broker-1", 2, *BROKERS)
    history.expect(LAW, A.ELECTION_OUTSIDE_SET)


def test_each_group_has_masters_and_epochs_of_its_own() -> None:
    history = started()
    for node, group, epoch in (("broker-0", "g", 1), ("broker-8", "h", 1), ("broker-8", "i", 4), ("broker-8", "h", 2)):
        if node == "broker-8":
            told = {"set": [node], "set_epoch": epoch, "previous_set": [node], "bootstrap": epoch != 2}
            history.entry(group=group, type="elect", master=node, master_epoch=epoch, **told)
        value = {"role": "master", "group": group, "set": [node], "set_epoch": epoch}
        history.trace(node, "role", epoch=epoch, value=value)
    history.expect(LAW, validity=Validity.VALID)
    history.trace("broker-9", "role", epoch=4, value={"role": "master", "group": "h"})
    history.expect(LAW, A.TWO_MASTERS)


def test_a_disk_with_another_word_knows_no_epoch_yet() -> None:
    history = started()
    for generation, disk, epoch in ((1, "a", 5), (2, "b", 4), (3, "b", 4)):
        start = {"generation": generation, "disk": disk}
        history.trace("broker-2", "start", incarnation=generation, value=start)
        history.role("broker-2", "slave", epoch, incarnation=generation)
    history.expect(LAW, validity=Validity.VALID)
    history.role("broker-2", "slave", 3, incarnation=3)
    history.expect(LAW, A.EPOCH_REGRESSION)
