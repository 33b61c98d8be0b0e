"""What is explored of one group of a storage cluster, and the planted bugs that this must find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from benchmarks.exploration.explorer import Explorer
from benchmarks.exploration.group_entries import wrong_history
from benchmarks.exploration.planted import PLANTED
from benchmarks.exploration.scope import Explored, Scope
from benchmarks.exploration.store import Parts, Store

#: a leads, and all have applied the fence of epoch 1.
_FENCED = ("settle", "timeout a", "settle", "propose a fence 1", "settle", "heartbeat a", "settle")
#: Besides, a record that all have.
_FILLED = (*_FENCED[:5], "propose a append 1 0", "settle", "heartbeat a", "settle")
#: The record is committed, and stands on a and c alone; nothing is under way.
_B_LACKS = (*_FENCED, "propose a append 1 0", "deliver a c", "deliver c a", "drop")
#: It is sealed everywhere, and then c has lost its disk.
_C_LOST = (*_FILLED, "propose a seal", "settle", "heartbeat a", "settle", "wipe c", "drop")

SCOPES = (
    Scope(
        name="an owner is replaced",
        begin=_FENCED,
        entries={"append 1 0": 1, "fence 2": 1, "append 2 0": 1},
        timeouts={"b": 1},
    ),
    Scope(
        name="an owner is replaced, and a crash",
        begin=_FENCED,
        entries={"append 1 0": 1, "fence 2": 1},
        crashes={"a": 1},
        timeouts={"b": 1},
        snapshot_entries=1,
    ),
    Scope(
        name="fence, seal, members and a crash",
        begin=_FILLED,
        entries={"fence 2": 1, "seal": 1, "remove c": 1},
        crashes={"a": 1},
        timeouts={"b": 1},
        snapshot_entries=1,
    ),
    Scope(
        name="a seal among appends",
        begin=_FILLED,
        entries={"seal": 1, "append 1 1": 1},
        crashes={"a": 1},
        timeouts={"b": 1},
        snapshot_entries=1,
    ),
    Scope(
        name="a seal, slow disks",
        begin=_FILLED,
        entries={"seal": 1},
        crashes={"a": 1, "b": 1},
        timeouts={"b": 1},
        at_once=False,
        snapshot_entries=1,
    ),
    Scope(name="a disk is lost", begin=_B_LACKS, entries={"append 1 1": 1}, timeouts={"b": 1}, wipes={"c": 1}),
    Scope(
        name="a store is replaced",
        begin=_C_LOST,
        entries={"remove c": 1, "join c": 1, "append 1 1": 1},
        heartbeats=1,
        snapshot_entries=1,
    ),
    Scope(
        name="a newcomer votes",
        begin=(*_C_LOST, "settle", "propose a remove c", "settle", "heartbeat a", "settle"),
        entries={"join c": 1},
        crashes={"a": 1},
        timeouts={"b": 1, "c": 1},
        snapshot_entries=1,
    ),
)
#: By the planted bug, the scope that finds it.
BUGS: Mapping[str, str] = {
    "fence-in-memory": "an owner is replaced, and a crash",
    "fence-checked-when-proposed": "an owner is replaced",
    "seal-beyond-what-is-applied": "a seal among appends",
    "log-cut-before-files": "a seal, slow disks",
    "wiped-store-votes": "a disk is lost",
    "snapshot-without-segments": "a store is replaced",
}
#: States of one scope: in the short run, and in the long one.
SHORT, LONG = 300, 300_000


def explored(scope: str, bug: str = "", most_states: int = LONG) -> Explored:
    """Explore one scope, by its name, with correct stores or with a planted bug of theirs."""
    (chosen,) = (one for one in SCOPES if one.name == scope)
    parts = replace(PLANTED[bug] if bug else Parts(), snapshot_entries=chosen.snapshot_entries)
    return Explorer(chosen, partial(Store, parts), wrong_history).run(most_states)
