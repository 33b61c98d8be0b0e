"""The calls on one object of a run as clauses: who did what, when, through which node."""

from __future__ import annotations

from collections.abc import Sequence

from checkers.linearizable.history import Function
from checkers.linearizable.witness.known_patterns import Call
from checkers.linearizable.witness.words import members

#: So many calls are named, the last ones.
MAX_CLAUSES = 8


def clauses(calls: Sequence[Call]) -> str:
    """Return calls as clauses in the order of their calls; "then" begins one before which all others had ended."""
    found: list[str] = []
    ended = -1
    for call in calls:
        link = "" if not found else "then " if 0 <= ended < call["called"] else "meanwhile "
        unknown = call["ended"] < 0 or (bool(found) and ended < 0)
        ended = -1 if unknown else max(ended, call["ended"])
        found.append(f"{link}{_clause(call)}")
    left_out = len(found) - MAX_CLAUSES
    if left_out > 0:
        found = [f"after {left_out} earlier operations {found[left_out]}", *found[left_out + 1 :]]
    return "; ".join(found)


def _clause(call: Call) -> str:
    node = call["node"] or call["to"] or "a controller"
    arguments, unclear = call["arguments"], call["ended"] < 0
    match Function(call["f"]):
        case Function.READ if isinstance(arguments[0], int):
            what = f"read epoch {arguments[0]} {members(arguments[1:])} from {node}"
        case Function.READ:
            what = f"read {arguments[0]} from {node}"
        case Function.WRITE:
            what = f"{'perhaps wrote' if unclear else 'wrote'} {arguments[0]} through {node}"
        case Function.CAS_FAILED:
            what = f"learned from {node} that the epoch was not {arguments[0]}"
        case Function.CAS if unclear:
            what = f"perhaps changed epoch {arguments[0]} to {members(arguments[2:])} through {node}"
        case Function.CAS:
            what = f"changed epoch {arguments[0]} to epoch {arguments[1]} {members(arguments[2:])} through {node}"
        case Function.ACQUIRE:
            what = f"{'perhaps took' if unclear else 'took'} the lock with token {arguments[1]} through {node}"
        case _:
            what = f"{'perhaps gave' if unclear else 'gave'} the lock of token {arguments[1]} back through {node}"
    answered = "no answer" if unclear else f"answered at {call['ended_s']:.3f} s"
    return f"{call['process']} {what} (asked at {call['called_s']:.3f} s, {answered})"
