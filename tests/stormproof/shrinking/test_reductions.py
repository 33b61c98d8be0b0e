"""The passes on made-up failures, so that nothing is simulated: what must stay stays, and the rest goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaos.experiment.reader import load
from stormproof.launch import SIM
from stormproof.shrinking.delta import stable
from stormproof.shrinking.document import SEED, Document, pinned, seconds, text
from stormproof.shrinking.passes import PASSES
from stormproof.shrinking.reductions import drop, get, put
from stormproof.shrinking.trial import Trial

ROOT = Path(__file__).parent.parent.parent.parent
QUICKSTART = ROOT / "examples" / "start" / "quickstart.yaml"


def shrunk(document: Document, fails: Callable[[Document], bool], hit: Sequence[str] = ()) -> Document:
    """What is left of a document; one with a single broker is no experiment, since it can't promise enough."""

    def attempt(candidates: Sequence[Document]) -> int | None:
        able = [get(one, ("system", "reference", "brokers")) != 1 for one in candidates]
        return next((place for place, one in enumerate(candidates) if able[place] and fails(one)), None)

    seen = Trial(hit=dict.fromkeys(("kill", "partition"), tuple(hit)), nodes=("controller-0", "broker-0", "broker-1"))
    return stable(document, [lambda left, one=one: one.reduce(left, attempt, seen) for one in PASSES])


def readable(document: Document, folder: Path) -> bool:
    """Whether it is an experiment; most tests don't need to know."""
    (folder / "it.yaml").write_text(text(document), "utf-8")
    load(folder / "it.yaml", deployment=SIM)
    return True


def named(document: Document, name: str) -> list[dict[str, Any]]:
    return [entry for entry in document.get("faults", ()) if name in entry]


def quickstart() -> Document:
    return pinned(load(QUICKSTART, deployment=SIM), 1)


def test_what_always_fails_becomes_next_to_nothing(tmp_path: Path) -> None:
    left = shrunk(quickstart(), lambda document: True)
    assert "faults" not in left
    assert len(left["workloads"]) == 1
    assert seconds(left["duration"]) <= 0.01
    system = left["system"]["reference"]
    assert (system["controllers"], system["brokers"], system["queues"], system["tier"]) == (1, 2, 1, False)
    assert left["simulation"] == {"drawn_links": []}
    assert readable(left, tmp_path)


def test_the_one_fault_that_matters_stays_with_its_draws(tmp_path: Path) -> None:
    left = shrunk(quickstart(), lambda document: any("pause" in entry for entry in document.get("faults", ())))
    (fault,) = left["faults"]
    assert set(fault) == {"pause", "at", "for", "draws"}
    assert fault["draws"] == "3/0"
    assert seconds(fault["at"]) == 0
    assert readable(left, tmp_path)


def test_two_faults_keep_the_time_between_them_that_they_need(tmp_path: Path) -> None:
    def fails(document: Document) -> bool:
        kills, pauses = named(document, "kill"), named(document, "pause")
        return bool(kills and pauses) and seconds(pauses[0]["at"]) - seconds(kills[0]["at"]) >= 7

    left = shrunk(quickstart(), fails)
    kill, pause = left["faults"]
    assert seconds(kill["at"]) == 0
    assert seconds(pause["at"]) == pytest.approx(7, abs=0.1)
    assert seconds(left["duration"]) - seconds(pause["at"]) < 0.1
    assert readable(left, tmp_path)


def test_load_nodes_and_the_length_of_a_fault_go_down_to_what_is_needed() -> None:
    def fails(document: Document) -> bool:
        brokers = get(document, ("system", "reference", "brokers"))
        producers = get(document, ("workloads", 0, "queue", "producers"))
        kills = named(document, "kill")
        return bool(
            (3 if brokers is None else brokers) == 3
            and "queue" in document["workloads"][0]
            and (3 if producers is None else producers) >= 2
            and kills
            and seconds(kills[0]["for"]) >= 1.3
        )

    left = shrunk(quickstart(), fails)
    assert "brokers" not in left["system"]["reference"]
    assert left["workloads"][0]["queue"]["producers"] == 2
    assert left["workloads"][0]["queue"]["rate_per_s"] == 1
    assert left["faults"][0]["for"] == "1.3s"


def test_one_node_is_named_where_several_were_hit() -> None:
    document = put(quickstart(), ("faults",), [{"kill": {"target": "majority"}, "at": "1s", "for": "1s"}])

    def fails(document: Document) -> bool:
        return any(entry["kill"].get("target", "") in ("majority", "broker-2") for entry in document.get("faults", ()))

    left = shrunk(document, fails, hit=("broker-1", "broker-2"))
    assert left["faults"][0]["kill"] == {"target": "broker-2"}


def test_a_role_is_not_replaced_by_a_name() -> None:
    fails = lambda document: bool(named(document, "partition"))  # noqa: E731
    left = shrunk(quickstart(), fails, hit=("broker-1",))
    assert left["faults"][0]["partition"]["target"] in ("master", "slave")


def test_of_a_sequence_the_step_that_matters_is_left() -> None:
    steps = [{"kill": {}, "for": "1s"}, {"pause": {}, "for": "2s", "rest": "1s", "draws": "0/0/1"}, {"reset": {}}]
    document = put(quickstart(), ("faults",), [{"sequence": steps, "at": "3s"}])

    def fails(document: Document) -> bool:
        entries = document.get("faults", ())
        return any("pause" in step for entry in entries for step in entry.get("sequence", [entry]))

    (fault,) = shrunk(document, fails)["faults"]
    assert set(fault) == {"pause", "for", "at", "draws"}


def test_numbers_of_faults_get_weaker_and_options_plainer(tmp_path: Path) -> None:
    loss = {"loss": {"target": "broker-1", "mode": "reset", "per_mille": 400}, "at": "1s", "for": "1s"}
    document = put(quickstart(), ("faults",), [loss])
    document = put(document, ("system", "reference", "broker_options"), {"linger_ms": 0, "other": 1})

    def fails(document: Document) -> bool:
        losses = named(document, "loss")
        options = get(document, ("system", "reference", "broker_options"))
        return bool(losses and losses[0]["loss"].get("per_mille", 50) >= 31 and options and "linger_ms" in options)

    left = shrunk(document, fails)
    assert left["faults"][0]["loss"]["per_mille"] == 31
    assert "mode" not in left["faults"][0]["loss"]
    assert left["system"]["reference"]["broker_options"] == {"linger_ms": 0}


def test_of_the_links_those_stay_disordered_that_the_failure_needs(tmp_path: Path) -> None:
    needed = {"broker-0>broker-1", "client>broker-0"}

    def fails(document: Document) -> bool:
        drawn = get(document, ("simulation", "drawn_links"))
        return drawn is None or all(link in drawn or link.split(">")[0] in drawn for link in needed)

    left = shrunk(quickstart(), fails)
    assert left["simulation"]["jitter_s"] == 0
    assert set(left["simulation"]["drawn_links"]) == needed
    assert readable(left, tmp_path)


def test_a_failure_that_needs_jitter_keeps_it_on_one_link() -> None:
    def fails(document: Document) -> bool:
        simulation = document.get("simulation", {})
        return "jitter_s" not in simulation and simulation.get("drawn_links") != []

    left = shrunk(quickstart(), fails)
    (link,) = left["simulation"]["drawn_links"]
    assert ">" in link and "jitter_s" not in left["simulation"]


def test_edits_leave_the_document_as_it_was() -> None:
    document = quickstart()
    before = text(document)
    put(document, ("faults", 0, "kill", "target"), "one")
    drop(document, ("faults", 0, "for"))
    assert text(document) == before
    assert get(document, ("faults", 99, "for")) is None
    assert partial(get, path=("name",))(document) == "quickstart"


def test_a_failure_that_needs_luck_gets_another_seed() -> None:
    def fails(document: Document) -> bool:
        rate = get(document, ("workloads", 0, "queue", "rate_per_s"))
        return (100 if rate is None else rate) >= 60 or document.get(SEED) == 3

    left = shrunk(put(quickstart(), ("workloads",), [{"queue": {}}]), fails)
    assert left[SEED] == 3
    assert left["workloads"][0]["queue"]["rate_per_s"] == 1
    assert SEED not in text(left)


def test_a_failure_that_needs_no_luck_keeps_its_seed() -> None:
    assert SEED not in shrunk(quickstart(), lambda document: True)
