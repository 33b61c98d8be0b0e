"""What the tiered storage needs of the broker that it lives in, and what it offers to it.

:class:`reference.tier.storage.Tier` is a part of the broker node: it shares its steps, its disk and its connections.
This page is the seam between the two, so that each can be read and tested alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from chaos.node import Env
from reference.wire.command import Command
from reference.wire.fields import item

_NUMBERS = ("queue", "version", "epoch", "start", "end", "position", "hash")


class Level(StrEnum):
    """From where a reader who demands no source is given messages: RocketMQ's ``tieredStorageLevel`` (RIP-57). What the
    tier does not hold is read from the log at each of them."""

    DISABLE = "DISABLE"  # from the log alone
    NOT_IN_DISK = "NOT_IN_DISK"  # from the tier what the log has no more
    NOT_IN_MEM = "NOT_IN_MEM"  # ... and what the log's newest file does not hold
    FORCE = "FORCE"  # from the tier all that it holds


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQueue:
    """A queue as the broker knows it. ``index`` is its dense number over all topics, the same on each replica;
    ``gone``: its topic is deleted, and the tier is to hold nothing of it."""

    index: int
    topic: str
    queue_id: int
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One record of the commit log: ``data`` is its exact bytes there, from ``position``, of ``epoch``."""

    queue: int
    offset: int
    position: int
    epoch: int
    hash: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A replica's knowledge of one queue's manifest: its version, range, writer's epoch, and the manifest itself."""

    queue: int
    version: int
    epoch: int
    start: int
    end: int  # T: the next offset to upload
    position: int  # P: the end, in the log, of the last record held
    hash: int
    content: bytes

    def to_json(self) -> dict[str, Any]:
        return {**{key: getattr(self, key) for key in _NUMBERS}, "content": self.content.decode()}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> View:
        """Read a view. Raises :class:`chaos.node.Malformed`."""
        numbers = {key: item(value, key, int) for key in _NUMBERS}
        return View(**numbers, content=item(value, "content", str).encode())


class BrokerInterface(Protocol):
    """The broker, as its tier sees it. Everything here is of this very step."""

    @property
    def name(self) -> str: ...

    @property
    def generation(self) -> int: ...

    @property
    def is_master(self) -> bool:
        """True from the step that took the role (and only once dispatch has reached the log's end of that moment) to
        the step that lost it."""

    @property
    def epoch(self) -> int: ...

    @property
    def confirm(self) -> int: ...

    def queues(self) -> Sequence[TopicQueue]: ...

    def local_start(self, queue: int) -> int:
        """Return the first queue offset that the local log still holds."""

    def local_end(self, queue: int) -> int:
        """Return the next queue offset after the last confirmed record."""

    def local_records(self, queue: int, offset: int, *, max_bytes: int, max_count: int) -> Sequence[Stored]:
        """Return confirmed records from ``offset`` on, in order, as far as they are local."""

    def epoch_at(self, position: int) -> int:
        """Return the epoch of the record that stands, or stood, at this position of the log."""

    def publish(self, env: Env, view: View) -> None:
        """Send a committed manifest version to all slaves in the replication stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierAnswer:
    """The outcome of a tier read. ``retry``: the tier can't say now. ``too_small``: the manifest, just fetched, begins
    after the offset. Otherwise ``records`` from the offset on (empty: nothing tiered there)."""

    records: Sequence[Stored] = ()
    start: int = -1
    end: int = -1
    retry: bool = False
    too_small: bool = False


class TierInterface(Protocol):
    """What the broker calls. Every method runs inside one of the broker's steps."""

    @property
    def level(self) -> Level: ...

    def recover(self, env: Env, broker: BrokerInterface) -> None:
        """Load the views that the disk holds."""

    def promoted(self, env: Env) -> None:
        """Fence, then resume at T: the broker is master now and its dispatch has reached its log's end."""

    def demoted(self, env: Env) -> None:
        """Stop uploading: the broker is master no more, and from this step on not one tier write request leaves."""

    def confirmed(self, env: Env) -> None:
        """Take note that the confirm offset, or a queue's end, has moved."""

    def message(self, env: Env, source: str, message: Command) -> bool:
        """Take a response of the object store; False if the message is none of the tier's."""

    def timer(self, env: Env, name: str) -> bool:
        """Take a timer whose name begins with ``tier``; False otherwise."""

    def closed(self, env: Env, peer: str) -> None: ...

    def received(self, env: Env, view: View) -> None:
        """Take a manifest version that came through the replication stream, or in a bootstrap."""

    @property
    def settled(self) -> bool:
        """As master: is every queue's manifest ours, or given up? A slave has nothing to take over."""

    def view(self, queue: int) -> View | None: ...

    def views(self) -> Mapping[int, View]: ...

    def read(
        self,
        env: Env,
        queue: int,
        offset: int,
        *,
        max_bytes: int,
        max_count: int,
        then: Callable[[Env, TierAnswer], None],
    ) -> None:
        """Read below the local log, on a master or a slave; ``then`` runs in a later step (or in this one)."""
