"""How Raft is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from typing import Any

from reference.wire.fields import MAX_NAME_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftOptions:
    """Of the node's options, those that are Raft's. An election timeout is between ``election_ms`` and its double.

    ``window``: proposals of clients that may be under way. Of appends to one follower, ``in_flight`` may be under way,
    each with up to ``append_entries`` entries. ``lease_ms``: how long a leader may answer reads without asking its
    followers again (:class:`reference.raft.read_index.Lease` says what this trusts); 0 for never. Of a snapshot,
    ``piece_bytes`` are sent in one message. ``cluster_id`` stands in each message, and one with another id is refused;
    "" for none.
    """

    heartbeat_ms: int = 100
    election_ms: int = 500
    snapshot_entries: int = 1000
    window: int = 1024
    in_flight: int = 64
    append_entries: int = 256
    lease_ms: int = 0
    piece_bytes: int = 65_536
    cluster_id: str = ""

    def __post_init__(self) -> None:
        if len(self.cluster_id.encode()) > MAX_NAME_BYTES:
            raise ValueError(f"a controller's cluster_id must have at most {MAX_NAME_BYTES} bytes")
        for one in _numbers():
            least = 0 if one.name == "lease_ms" else 1
            if getattr(self, one.name) < least:
                raise ValueError(f"a controller's {one.name} must be {least} or more, not {getattr(self, one.name)}")
        if self.lease_ms >= self.election_ms:
            raise ValueError(
                f"a controller's lease_ms must be less than its election_ms, {self.election_ms}, not {self.lease_ms}"
            )

    @classmethod
    def of(cls, options: Mapping[str, object]) -> RaftOptions:
        """Read the options. Raises ``ValueError`` for what is no number, or too small."""
        numbers = {one.name: _number(one.name, options) for one in _numbers() if one.name in options}
        cluster_id = options.get("cluster_id", "")
        if not isinstance(cluster_id, str):
            raise ValueError(f"a controller's cluster_id must be a text, not {cluster_id!r}")
        return cls(**numbers, cluster_id=cluster_id)


def _numbers() -> list[Field[Any]]:
    return [one for one in fields(RaftOptions) if one.name != "cluster_id"]


def _number(name: str, options: Mapping[str, object]) -> int:
    value = options[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a controller's {name} must be a whole number, not {value!r}")
    return value
