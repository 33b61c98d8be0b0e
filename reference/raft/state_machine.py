"""What Raft's log feeds, and what its proposers get as an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from chaos.node import Env

#: Called with the state machine's outcome and the entry's index, or with None and -1: the outcome is unknown.
Proposed = Callable[[Env, object, int], None]


class StateMachine(Protocol):
    """What a member applies entries to; to be inherited from. The methods up to :meth:`restore` are deterministic in
    the entries. Those behind :meth:`role_changed` are for one that keeps a part of its state in files of its own."""

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

    def may_compact(self) -> bool:
        """Return whether the entries applied so far may be dropped: all that a snapshot of now leaves to files is on
        the disk."""
        return True

    def outgoing(self, snapshot: bytes) -> bytes:
        """Return what a follower is sent for a snapshot of ours, with the content of the files that it needs."""
        return snapshot

    def prepare(self, env: Env, snapshot: bytes) -> int | None:
        """Write the files of a snapshot that came. Return the token of their sync, None without any; the snapshot
        counts once that has ended."""
        return None

    def kept(self, snapshot: bytes) -> bytes:
        """Return what is logged of a snapshot that came, and given to :meth:`restore`: all but the content of files."""
        return snapshot

    def synced(self, env: Env, token: int) -> None:
        """Take note that a sync of files of its own has ended."""
        return
