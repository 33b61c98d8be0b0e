"""How harms of a recorded run are noted, and what they have in common."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.checkers.recorded import BROKERS, Recording, Row

Harm = Callable[[Recording, Random], None]
#: Harm → the anomaly that must tell of it.
HARMS: dict[Harm, str] = {}
#: Evidence that is taken away, or work that was never done: nothing is proven, neither way.
EMPTIED: list[Harm] = []


def found_as(name: str) -> Callable[[Harm], Harm]:
    def note(harm: Harm) -> Harm:
        HARMS[harm] = name
        return harm

    return note


def proves_nothing(harm: Harm) -> Harm:
    EMPTIED.append(harm)
    return harm


def slave(run: Recording, rng: Random) -> Row:
    """The row of a replica that is slave after the run."""
    return rng.choice([row for row in run.find("final", "node") if row["v"]["role"] == "slave"])


def other(node: str, rng: Random) -> str:
    return rng.choice([name for name in BROKERS if name != node])


def two_of_a_queue(run: Recording, rng: Random) -> tuple[Row, Row]:
    one = rng.choice(run.acked())
    rest = [row for row in run.acked() if row["queue"] == one["queue"] and abs(row["offset"] - one["offset"]) > 9]
    return one, rng.choice(rest)


def applied(run: Recording, queue: int) -> list[Row]:
    return [row for row in run.find("trace", "store_cas", queue=queue) if row["v"]["outcome"] == "applied"]


def read_early(run: Recording, rng: Random) -> Row:
    """The acknowledgement of a message that a consumer has read before the final reading."""
    begin = run.phase("drain")
    read = {row["message"] for row in run.find("op", "delivered") if row["op"] < begin}
    return rng.choice([row for row in run.acked() if row["message"] in read])


def in_lives(run: Recording, row: Row, node: str) -> dict[str, int | str]:
    """The columns that put a row into another node's life, at the same time."""
    last = [told for told in run.rows if told["kind"] == "trace" and told["node"] == node]
    last = [told for told in last if told["index"] <= row["index"]]
    return {"node": node, "incarnation": last[-1]["incarnation"], "step": last[-1]["step"]}
