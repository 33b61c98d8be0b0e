"""What is to be explored, and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is explored. ``begin``: commands that are run first, in this one order: ``timeout a``, ``heartbeat a``,
    ``propose a`` (and a word for what), ``crash a``, ``wipe a``, ``deliver b c`` (one message), ``settle`` (deliver and
    sync until nothing is left), ``drop`` (what is under way), ``drop b`` (to and from it).

    Then so much may happen, in any order, among deliveries (and syncs, unless they end ``at_once``): ``timeouts``,
    ``crashes`` and lost disks (``wipes``) of each member, ``entries`` that are proposed, by their words, ``reads``,
    ``heartbeats``, and connections that break (``breaks``). Some entries concern a member: ``join c``.
    ``snapshot_entries``: after so many entries members make snapshots, if they make any."""

    name: str
    begin: tuple[str, ...] = ()
    timeouts: Mapping[str, int] = field(default_factory=dict)
    crashes: Mapping[str, int] = field(default_factory=dict)
    wipes: Mapping[str, int] = field(default_factory=dict)
    entries: Mapping[str, int] = field(default_factory=dict)
    reads: int = 0
    heartbeats: int = 0
    breaks: int = 0
    at_once: bool = True
    snapshot_entries: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """``steps``: transitions between states. ``depth``: of the longest shortest path to a state. ``path``: what led to
    the ``violation``, "" for none. ``is_complete``: there is no state within the bounds beside these."""

    scope: str
    states: int
    steps: int
    depth: int
    is_complete: bool
    violation: str = ""
    path: tuple[str, ...] = ()
