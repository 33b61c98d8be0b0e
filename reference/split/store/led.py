"""A group as the store that leads it acts on it."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.node import Env
from reference.raft.state_machine import Proposed
from reference.split.hosting import Host


@dataclass(frozen=True, slots=True)
class Led:
    """A group of a host, which may lead it at this moment."""

    host: Host
    group: int

    @property
    def leads(self) -> bool:
        """Whether this store leads the group, has applied all that earlier leaders committed, and goes on leading."""
        member = self.host.member(self.group)
        return member is not None and member.leads_committed and not member.is_handing_over

    def propose(self, env: Env, data: bytes, then: Proposed) -> None:
        """Log an entry, as the leader; ``then`` is called with its outcome, or with None if that can't be known."""
        self.host.propose(env, self.group, data, then)
