"""What a host of replicas asks of its node."""

from __future__ import annotations

from typing import Protocol

from chaos.node import Env
from reference.raft.state_machine import StateMachine


class Machines(Protocol):
    """The node's state machines."""

    def is_group(self, number: int) -> bool:
        """Return whether the cluster has a group of this number."""

    def make_machine(self, group: int) -> StateMachine:
        """Return the state machine of a replica that begins or begins again, with nothing applied."""

    def removed(self, env: Env, group: int) -> None:
        """Take note that the replica of this group is none any more."""
