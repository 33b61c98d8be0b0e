"""The random choices of one run: a generator for each subject (a link, a node, a client, a fault).

Each is made of the seed and the subject's name, so that what is left out of a run takes only its own choices along.
"""

from __future__ import annotations

from random import Random

#: Seeds of runs are not above this.
MOST_SEED = 2**63 - 1


class Draws:
    """Makes the generators of one run. ``renew`` lets all of them, those that there are and those to come, choose from
    then on as another seed has it: so a run can be replayed up to a moment and go on in another way."""

    def __init__(self, seed: int | str) -> None:
        self._seed = seed
        self._made: list[tuple[str, Random]] = []

    def of(self, name: str) -> Random:
        """Return the generator of the subject of this name, at its beginning."""
        made = Random(f"{self._seed}/{name}")
        self._made.append((name, made))
        return made

    def renew(self, seed: int | str) -> None:
        self._seed = seed
        for name, made in self._made:
            made.seed(f"{seed}/{name}")
