"""When something is due that faults put off: as soon as none is near, and not later."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from checkers._facts.arrays import NEVER
from checkers._facts.nodes.due import Span, first_calm


def due(moment: int, *hindrances: Span, before: int = 0, after: int = 0) -> int:
    return int(first_calm(np.array([moment]), hindrances, before_ns=before, after_ns=after)[0])


@pytest.mark.parametrize(
    ("hindrances", "expected"),
    [
        ((), 10),
        (((30, 40),), 10),  # begins later than it is asked for
        (((0, 4),), 10),  # was over for long enough
        (((0, 5),), 11),
        (((12, 20),), 26),
        (((12, 20), (33, 40)), 26),
        (((12, 20), (28, 40)), 46),  # between the two nobody is calm for long enough
        (((12, 20), (28, NEVER)), NEVER),
    ],
)
def test_it_is_due_at_the_first_calm_moment(hindrances: tuple[Span, ...], expected: int) -> None:
    assert due(10, *hindrances, before=5, after=5) == expected


def test_it_is_what_asking_for_each_moment_in_turn_finds() -> None:
    rng = Random(1)
    for _ in range(300):
        hindrances = [(began, began + rng.randrange(20)) for began in rng.choices(range(200), k=rng.randrange(12))]
        before, after = rng.randrange(15), rng.randrange(15)
        moments = np.array(sorted(rng.choices(range(220), k=5)))

        def calm(moment: int, before: int = before, after: int = after, spans: list[Span] = hindrances) -> bool:
            return not any(began <= moment + after and moment - before <= ended for began, ended in spans)

        expected = [next(at for at in range(moment, 400) if calm(at)) for moment in moments.tolist()]
        assert first_calm(moments, hindrances, before_ns=before, after_ns=after).tolist() == expected
