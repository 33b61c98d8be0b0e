"""Where queues begin and end, as readers were answered, and for how long that may be as it was."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.arrays import Flags, Ints
from checkers._facts.garbage import REAL_TIME

#: So old may be in calm time what a node says of a queue's ends, unless the experiment says otherwise
#: (``bounds.route_s``); elsewhere than in virtual time so many times that.
OLD_S = 5.0


def old_ns(context: RunContext) -> int:
    """Return how old what a node says may be in calm time."""
    bound_s = facts.bound(context, "route_s", OLD_S) * (1.0 if context.one_clock else REAL_TIME)
    return int(bound_s * 1e9)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers about queues, as rows that asked and that answered, with the ends that they name (-1: none)."""

    asked: Ints
    done: Ints
    queue: Ints
    minimum: Ints
    maximum: Ints

    @classmethod
    def of(cls, rows: Rows) -> Answers:
        made = [facts.calls(rows, f) for f in ("pull", "bounds")]
        asked = np.concatenate([one.invoke[one.ok | one.failed] for one in made])
        done = np.concatenate([one.done[one.ok | one.failed] for one in made])
        ends = (rows.numbers(name, done) for name in ("minimum", "maximum"))
        return cls(asked, done, rows.column("queue")[asked], *ends)

    def only(self, keep: Flags) -> Answers:
        return Answers(*(getattr(self, name)[keep] for name in self.__slots__))
