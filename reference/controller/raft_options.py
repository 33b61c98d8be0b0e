"""How Raft is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftOptions:
    """Of the node's options, those that are Raft's. An election timeout is between ``election_ms`` and its double."""

    heartbeat_ms: int = 100
    election_ms: int = 500
    snapshot_entries: int = 1000

    @classmethod
    def of(cls, options: Mapping[str, object]) -> RaftOptions:
        names = ("heartbeat_ms", "election_ms", "snapshot_entries")
        return cls(**{name: int(str(options[name])) for name in names if name in options})
