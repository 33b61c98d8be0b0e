"""How a broker turns from controller to controller without losing an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

from chaos.node import Env
from reference.broker.files import Completions
from reference.broker.membership import Assignment, Membership
from reference.wire.codes import Request, Response
from reference.wire.command import Command


@dataclass
class Member:
    """A deposed master that doesn't know it yet."""

    name: str = "broker-1"
    epoch: int = 2
    has_master_role: bool = True
    is_fenced: bool = False
    assignments: list[Assignment] = field(default_factory=list)

    def standing(self) -> tuple[int, int, int]:
        return 2, 100, 100

    def topic_counts(self) -> Mapping[str, int]:
        return {}

    def assigned(self, env: Env, assignment: Assignment) -> None:
        self.assignments.append(assignment)

    def set_answered(self, env: Env, number: int, code: int, assignment: Assignment | None) -> None: ...


@dataclass
class Surroundings:
    """An environment that keeps what is sent; nothing touches the disk here."""

    incarnation: int = 1
    sent: list[tuple[str, Command]] = field(default_factory=list)
    timers: set[str] = field(default_factory=set)
    rng: Random = field(default_factory=lambda: Random(1))

    def send(self, to: str, message: Command, **_: Any) -> None:
        self.sent.append((to, message))

    def set_timer(self, name: str, delay_ns: int) -> None:
        self.timers.add(name)

    def cancel_timer(self, name: str) -> None:
        self.timers.discard(name)

    def mono_ns(self) -> int:
        return 0

    def wall_ns(self) -> int:
        return 0


def test_an_answer_counts_although_another_request_has_moved_on_to_the_next_controller() -> None:
    """Else a deposed master whose proposals are refused turns from controller to controller for ever."""
    member, surroundings = Member(), Surroundings()
    env = cast(Env, surroundings)
    membership = Membership(member, Completions(), {"controllers": ["controller-0", "controller-1"]})
    membership._joined, membership.broker_id = True, 2
    membership.poll(env)
    number = membership.alter_set(env, frozenset({2}), 5)
    (asked, poll), (_, proposal) = surroundings.sent
    assert (asked, poll.code, proposal.opaque) == ("controller-0", Request.CONTROLLER_GET_REPLICA_INFO, number)

    membership.answered(env, asked, proposal.reply(Response.CONTROLLER_NOT_LEADER))
    told = {"masterBrokerId": "1", "masterAddress": "broker-0", "masterEpoch": "3", "syncStateSetEpoch": "7"}
    membership.answered(env, asked, poll.reply(fields=told))
    assert [(one.master, one.epoch) for one in member.assignments] == [("broker-0", 3)]
