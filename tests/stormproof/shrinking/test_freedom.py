"""Numbers that may be any are told only when the failure stays with all values that were tried."""

from __future__ import annotations

from typing import Any

import pytest

from stormproof.shrinking.document import Document
from stormproof.shrinking.freedom import free
from stormproof.shrinking.reductions import get

DOCUMENT: Document = {
    "name": "small",
    "system": {"reference": {"brokers": 2, "controllers": 1, "queues": 1}},
    "duration": "1s",
    "workloads": [{"queue": {"producers": 1, "rate_per_s": 5}}],
    "faults": [{"slow_link": {"delay_ms": 50}, "at": "100ms", "for": "200ms"}],
}
BROKERS, RATE = ("system", "reference", "brokers"), ("workloads", 0, "queue", "rate_per_s")


def tried(keeps: Any) -> tuple[dict[str, tuple[float, ...]], list[Document]]:
    asked: list[Document] = []

    def ask(document: Document) -> bool:
        asked.append(document)
        return bool(keeps(document))

    return {f"{one.plugin}.{one.name}": one.tried for one in free(DOCUMENT, 1, ask)}, asked


def test_what_never_matters_is_free_and_its_boundaries_were_tried() -> None:
    found, _ = tried(lambda document: True)
    assert {"slow_link.delay_ms", "queue.rate_per_s", "queue.producers", "reference.brokers"} <= found.keys()
    assert {1, 9} <= set(found["reference.brokers"]) and 2 not in found["reference.brokers"]
    assert found["queue.rate_per_s"][0] == 1 and found["queue.rate_per_s"][-1] == 50


@pytest.mark.parametrize(("path", "most"), [(BROKERS, 8), (RATE, 49)])
def test_one_value_with_which_the_failure_goes_is_enough(path: tuple[str | int, ...], most: int) -> None:
    found, asked = tried(lambda document: (get(document, path) or 0) <= most)
    assert f"{path[-2]}.{path[-1]}" not in found and found
    changed = [get(document, path) for document in asked if get(document, path) != get(DOCUMENT, path)]
    assert changed[-1] > most, "nothing more is tried after that"


def test_the_values_are_those_of_the_seed() -> None:
    assert tried(lambda document: True)[0] == tried(lambda document: True)[0]
