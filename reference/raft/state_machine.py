"""What Raft's log feeds, and what its proposers get as an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from chaos.node import Env

#: Called with the state machine's outcome and the entry's index, or with None and -1: the outcome is unknown.
Proposed = Callable[[Env, object, int], None]


class StateMachine(Protocol):
    """All methods but :meth:`role_changed` are deterministic in the entries."""

    def apply(self, env: Env, index: int, term: int, data: bytes) -> object:
        """Apply one committed entry (an empty one changes nothing); the outcome goes to its proposer."""

    def check(self, data: bytes) -> None:
        """Raise :class:`chaos.node.Malformed` for an entry of another member that can't be applied."""

    def check_snapshot(self, snapshot: bytes) -> None:
        """Do the same for a snapshot that can't be restored."""

    def snapshot(self) -> Iterable[bytes]:
        """Return the state of this moment, in pieces that are not empty. Entries may be applied between them."""

    def restore(self, env: Env, snapshot: bytes) -> None: ...

    def role_changed(self, env: Env) -> None:
        """Take note that the node's role, its term or the leader that it knows has changed."""
