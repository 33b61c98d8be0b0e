"""What is explored, and the planted bugs that it must find."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from benchmarks.exploration.controller import Controller
from benchmarks.exploration.explorer import NAMES, Explorer
from benchmarks.exploration.scope import Explored, Scope
from reference.mutants import parts
from reference.raft.member import Raft
from reference.raft.policy import RaftPolicy

#: a leads, and all have its first entry.
_LED = ("timeout a", "settle")
_ELECT_B = ("timeout c", "drop", "timeout b", "deliver b c", "deliver c b", "deliver b c", "deliver c b")
#: b leads, with an entry that c lacks and a first one of its own, of which neither a nor c has heard.
_C_LACKS = (*_LED, "propose a", "deliver a b", "drop", *_ELECT_B)
_ELECT_A = ("timeout a", "deliver a c", "deliver c a", "timeout a", "deliver a c", "deliver c a")
#: Figure 8 of Raft's paper up to its third picture: a leads again, and has not sent c its old entry yet. b has logged
#: another one at the same place, in a later term.
_FIGURE_8 = (
    *(*_LED, "propose a", "drop", "crash a", *_ELECT_B, "propose b", "drop", "crash b", *_ELECT_A),
    *("deliver a c", "deliver c a", "drop b", "deliver a c", "deliver c a"),
)

SCOPES = (
    Scope(name="two candidates", timeouts={"a": 1, "b": 1}),
    Scope(name="crashes", begin=_LED, entries={"": 1}, crashes={"a": 1, "b": 1}, timeouts={"b": 1}),
    Scope(
        name="slow disks",
        begin=_LED,
        entries={"": 1},
        crashes={"a": 1, "b": 1},
        timeouts={"b": 1, "c": 1},
        at_once=False,
    ),
    Scope(name="broken connections", begin=_LED, entries={"": 2}, breaks=2, heartbeats=1),
    Scope(name="reads", begin=_LED, entries={"": 1}, reads=1, timeouts={"b": 1, "c": 1}),
    Scope(name="reads of a follower that lacks entries", begin=_C_LACKS, reads=1),
    Scope(name="figure 8", begin=_FIGURE_8, timeouts={"b": 2, "c": 1}, crashes={"a": 1}),
)
#: By the planted bug, the scope that finds it.
BUGS: Mapping[str, str] = {
    "votes-twice": "two candidates",
    "promises-before-fsync": "crashes",
    "append-skips-a-gap": "broken connections",
    "local-read": "reads",
    "read-without-quorum": "reads",
    "follower-reads-unapplied": "reads of a follower that lacks entries",
    "commits-earlier-term": "figure 8",
}
#: States of one scope: in the short run, and in the long one.
SHORT, LONG = 12_000, 300_000


def explored(scope: str, bug: str = "", most_states: int = LONG) -> Explored:
    """One scope, by its name, with the correct members or with a planted bug of theirs."""
    (chosen,) = (one for one in SCOPES if one.name == scope)
    planted = parts(bug, "controller") if bug else {}
    make = partial(planted.get("raft", Raft), policy=planted.get("raft_policy", RaftPolicy))
    return Explorer(chosen, partial(Controller, make, NAMES)).run(most_states)
