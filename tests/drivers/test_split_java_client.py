"""RocketMQ's own Java client against the split system: how it is started, and, where it is installed, what it does."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import cast

import pytest

from chaos.driver import ClientCommand, Dials, HasClientLibrary
from chaos.errors import BadInput, MachineError
from chaos.experiment.reader import load
from chaos.recipe import Recipe
from drivers._java.client_library import CLASSES
from drivers._java.maven import LIB
from drivers._java.recipes import RECIPES
from drivers.split import Options
from drivers.split.cluster import Cluster
from drivers.split.driver import create
from drivers.split.java_client import command
from drivers.split.places import Places
from reference.split.layout import group_of, slice_name
from stormproof import cli
from workloads import library

TOPIC_ID = 17
LOAD = Path(__file__).parents[1] / "scenarios" / "split" / "library.yaml"
needs_client = pytest.mark.skipif(
    shutil.which("java") is None or not (RECIPES[0].installed and (RECIPES[0].folder / CLASSES).is_dir()),
    reason="RocketMQ's client is not there: stormproof install rocketmq, with a JDK",
)


class Dialled:
    """Gives each node that is asked for the next address."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    async def endpoint(self, client: str, node: str, port: str = "") -> tuple[str, int]:
        self.nodes.append(node)
        return "127.0.0.1", 5000 + len(self.nodes)


def commanded(network: Dialled, **orders: int) -> ClientCommand:
    options = Options(groups=4, slices=2, queues=4, nameservers=2)
    places = Places(groups=4, slices=2, ids={"storm": TOPIC_ID})
    queues = create(options).queues()
    made = command(cast(Dials, network), "library", Cluster(options=options), places, queues, orders)
    return asyncio.run(made)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(Recipe, "folder", tmp_path)
    monkeypatch.setattr(Recipe, "problem", "")
    (tmp_path / LIB).mkdir()
    (tmp_path / CLASSES).mkdir(parents=True)
    return tmp_path


def test_slices_are_brokers_to_it_and_it_learns_their_addresses_from_routes(installed: Path) -> None:
    network = Dialled()
    made = commanded(network, sync=1, batch=0, seed=3, gap_ns=5)
    told = json.loads(made.env["STORMPROOF_ORDERS"])
    assert told["nameservers"] == "127.0.0.1:5001;127.0.0.1:5002"
    assert network.nodes == ["nameserver-0", "nameserver-1"]
    names = [slice_name(group_of(TOPIC_ID, number, 4) % 2) for number in range(4)]
    ranks = [sum(name == names[number] for name in names[:number]) for number in range(4)]
    assert told["queues"] == [
        {"topic": "storm", "broker": name, "queue": rank} for name, rank in zip(names, ranks, strict=True)
    ]


def test_clients_that_a_split_cluster_does_not_serve_are_refused() -> None:
    driver = create(Options())
    everything = library.create(library.Options(delay=1, transaction=1, pop=1))
    assert everything.misfits(driver).keys() == {"batch", "delay", "transaction", "orderly", "pop"}
    assert library.create(library.Options(batch=0, orderly=0)).misfits(driver) == {}


def test_a_client_that_was_not_compiled_is_named(installed: Path) -> None:
    shutil.rmtree(installed / CLASSES)
    with pytest.raises(MachineError, match="install a JDK"):
        commanded(Dialled(), sync=1)


def test_it_is_refused_where_programs_have_no_addresses_of_nodes() -> None:
    assert isinstance(create(Options()), HasClientLibrary)
    with pytest.raises(BadInput, match=r"library: its clients are programs, and sim has no addresses .*--on process"):
        load(LOAD, deployment="sim")
    assert load(LOAD, deployment="process").workloads


@pytest.mark.full
@pytest.mark.process
@needs_client
def test_it_loses_nothing_over_a_broker_that_is_killed(tmp_path: Path) -> None:
    words = ["run", str(LOAD), "--on", "process", "--engine", "local", "--out", str(tmp_path)]
    assert cli._run(words) == 0
    (run,) = tmp_path.glob("split-library-*")
    laws = {one["law"]: one for one in json.loads((run / "verdict.json").read_text())["laws"]}
    assert {laws[name]["validity"] for name in ("durability", "order", "deliveries", "fencing")} == {"VALID"}
    counts = laws["deliveries"]["counts"]
    assert counts["delivered"] > 300 and counts["groups_awaited"] == 8
