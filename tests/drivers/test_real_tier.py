"""The driver's option ``tier`` with a real store: what it takes, what it refuses, and what it makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chaos.deployment import Demands
from chaos.deployments import docker
from chaos.errors import BadInput
from chaos.experiment.reader import load
from drivers.reference.driver import Options, create
from stormproof import cli

S3 = "s3://shelf/of/mine?region=eu-west-1"


def test_a_gateway_takes_the_place_of_the_store_and_brokers_wait_longer_than_it() -> None:
    spec = create(Options(tier={"store": S3, "timeout_ms": 2000})).cluster("")
    (store,) = [node for node in spec.nodes if node.role == "objectstore"]
    assert (store.name, store.disk, store.outside) == ("store-0", False, "obstore")
    assert store.options["store"] == S3 and store.options["timeout_ms"] == 2000
    assert store.options["single_writer"] is False
    broker = next(node for node in spec.nodes if node.role == "broker")
    assert broker.options["objectstore"] == "store-0" and broker.options["tier_timeout_ms"] == 2500
    json.dumps([dict(node.options) for node in spec.nodes])  # it travels


def test_nothing_changes_without_a_real_store() -> None:
    for tier in (True, False):
        stores = [node for node in create(Options(tier=tier)).cluster("").nodes if node.role == "objectstore"]
        assert [(store.disk, store.outside, dict(store.options)) for store in stores] == [(True, "", {})] * tier


def test_each_cluster_has_a_prefix_of_its_own_which_stays() -> None:
    def prefix(driver: Any) -> str:
        return str(next(node for node in driver.cluster("").nodes if node.role == "objectstore").options["prefix"])

    one, other = create(Options(tier={"store": S3})), create(Options(tier={"store": S3}))
    assert prefix(one) == prefix(one) != prefix(other)
    assert prefix(one.promising(one.promised)) != prefix(one)
    assert prefix(one).startswith("stormproof-")


@pytest.mark.parametrize(
    ("tier", "said"),
    [
        ({}, "store is missing"),
        ({"store": S3, "single-writer": True}, "there is no 'single-writer'"),
        ({"store": S3, "SECRET": "SECRET"}, "it is true, false or has store, single_writer, timeout_ms, keep"),
        ({"store": S3, "single_writer": "yes"}, "single_writer must be bool"),
        ({"store": 3}, "store must be str"),
        ({"store": S3, "timeout_ms": True}, "timeout_ms must be int"),
        ({"store": S3, "timeout_ms": 1}, "timeout_ms is from 100"),
        ({"store": "s3://KEY:SECRET@shelf"}, "no user, password"),
        ({"store": "s3://shelf?secret_access_key=SECRET"}, "credentials come from the environment"),
    ],
)
def test_what_makes_no_sense_is_one_sentence_that_repeats_no_secret(tier: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        Options(tier=tier)
    assert "=SECRET" not in str(caught.value) and ":SECRET" not in str(caught.value)


EXPERIMENT = """\
name: real
system:
  reference: {{queues: 1, tier: {tier}}}
duration: 2s
workloads:
  - queue: {{producers: 1, consumers: 1, rate_per_s: 5}}
"""


def experiment(folder: Path, tier: str) -> Path:
    file = folder / "real.yaml"
    file.write_text(EXPERIMENT.format(tier=tier))
    return file


def test_a_wrong_store_is_a_mistake_of_the_experiment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = experiment(tmp_path, '{store: "s3://shelf?access_key_id=SECRET"}')
    assert cli._run(["run", str(file), "--out", str(tmp_path / "runs")]) == 3
    said = capsys.readouterr().err
    assert "credentials come from the environment" in said and "SECRET" not in said
    assert not (tmp_path / "runs").exists()


def test_the_simulator_and_containers_refuse_it_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = experiment(tmp_path, f'{{store: "{S3}"}}')
    assert cli._run(["run", str(file), "--on", "sim", "--out", str(tmp_path / "runs")]) == 3
    assert "the simulator has nothing outside of the cluster, and node store-0 needs it (obstore)" in " ".join(
        capsys.readouterr().err.split()
    )
    nodes = load(file, deployment="docker").system.build().cluster("").nodes
    with pytest.raises(BadInput, match="containers of a run reach only each other, and node store-0"):
        docker.check(nodes, demands=Demands())
    assert cli._run(["compose", str(file)]) == 3
    assert "store-0: the image of the nodes has no obstore" in capsys.readouterr().err
