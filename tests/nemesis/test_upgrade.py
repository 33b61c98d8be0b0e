"""Nodes that change their version in mid-run, on a toy whose nodes report which one they run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from chaos.errors import DeploymentError
from chaos.experiment.model import FaultSpec, Schedule
from chaos.fault import Effect, Verb
from chaos.machines.lifecycle.versions import Versions
from chaos.node import Env, NodeSpec
from chaos.plugins import PluginKind, load
from chaos.program import Program
from chaos.testing import check_fault
from chaos.testing._bench import Made, play
from nemesis.upgrade import Options, Order, StopAt, create
from tests.drivers import toy
from tests.free_events import Free
from tests.views import one_group
from workloads import queue

PACKAGE = "stormproof_toy_with_versions"
sys.modules[PACKAGE] = sys.modules[__name__]


class Node(toy.Node):
    def __init__(self, memory: toy.Memory, version: str) -> None:
        super().__init__(memory)
        self._version = version

    def start(self, env: Env) -> None:
        env.trace(Free("runs", version=self._version))
        super().start(env)


def build(spec: NodeSpec) -> Node:
    return Node(toy.MEMORIES[int(str(spec.options["memory"]))], str(spec.options.get("version", "1")))


class Toy(toy.Toy):
    package = PACKAGE

    def system_version(self) -> str:
        return "1"

    def in_version(self, version: str) -> Mapping[str, NodeSpec]:
        if version == "0":
            raise ValueError("version: there is no 0")
        specs = self.cluster("").nodes
        return {spec.name: replace(spec, options={**spec.options, "version": version}) for spec in specs}


NODES = ("node-0", "node-1", "node-2", "node-3", "node-4")
VIEW = one_group(brokers=NODES, master="node-2", in_sync=NODES)


@pytest.mark.full
def test_what_it_does_is_seen_from_outside_and_undone() -> None:
    report = check_fault(
        load(PluginKind.FAULT, "upgrade"),
        Toy,
        to="2",
        stop_at=StopAt.ALL,
        lasts_s=8.0,
        rarely={Effect.MAY_CRASH},
        vary={"to": "3", "within_s": None, "order": Order.LEADERS_FIRST},
    )
    assert {*report.proven["takes_down"]} == {"node-0", "node-1", "node-2"}


@pytest.mark.parametrize(("back", "last"), [(True, "1"), (False, "2")])
def test_versions_are_mixed_for_a_while_and_nodes_go_back_or_stay(back: bool, last: str) -> None:
    options = Options(to="2", stop_at=StopAt.HALF, order=Order.NAMES, back=back)
    use = Made(kind=PluginKind.FAULT, name="upgrade", options=options, make=lambda: create(options))
    fault = FaultSpec(use=use, schedule=Schedule(at_s=(1.0,)), for_s=4.0)
    load = queue.create(queue.Options())
    played = play(Toy(), workload=lambda sim: load, faults=[fault], duration_s=8.0, seed=1)
    assert played.summary.effective_faults == ("upgrade",)
    runs = [(row["node"], row["value"]["version"]) for row in played.of("trace", f="runs")]
    assert runs[:4] == [(name, "1") for name, _ in runs[:4]]  # all begin in the first
    assert runs[4:] == [("node-0", "2"), *([("node-0", "1")] if back else [])]
    assert last == dict(runs)["node-0"]


@pytest.mark.parametrize(
    ("stop_at", "order", "targets"),
    [
        (StopAt.ONE, Order.NAMES, ["node-0"]),
        (StopAt.HALF, Order.NAMES, ["node-0", "node-1"]),
        (StopAt.ALL, Order.LEADERS_FIRST, ["node-2", "node-0", "node-1", "node-3", "node-4"]),
        (StopAt.ALL, Order.LEADERS_LAST, ["node-0", "node-1", "node-3", "node-4", "node-2"]),
    ],
)
def test_who_changes_and_in_which_order(stop_at: StopAt, order: Order, targets: list[str]) -> None:
    injection = create(Options(to="2", stop_at=stop_at, order=order)).plan(VIEW, Random(1), "tag")
    assert list(injection.targets) == targets
    steps = [(step.verb, step.subject) for step in reversed(injection.undo)]  # the order in which it is undone
    assert steps == [(verb, node) for node in reversed(targets) for verb in (Verb.RESTORE, Verb.START)]


def test_those_that_stay_are_only_started() -> None:
    injection = create(Options(to="2", back=False)).plan(VIEW, Random(1), "tag")
    assert {step.verb for step in injection.undo} == {Verb.START} and injection.passes


@pytest.mark.parametrize(
    ("to", "said"), [("", "name the version"), ("1", "1 is the version in which"), ("0", "there is no 0")]
)
def test_a_version_that_is_none_is_refused_before_anything_starts(to: str, said: str) -> None:
    assert said in create(Options(to=to)).misfits(Toy())["to"]


def test_a_version_that_is_there_is_not_refused() -> None:
    assert create(Options(to="2")).misfits(Toy()) == {}


def test_a_node_keeps_its_ports_over_versions() -> None:
    spec = NodeSpec(name="a", role="r", program=Program(argv=["a"], ports={"client": 0}))
    specs = {"a": spec}
    versions = Versions(specs)
    versions.born("a")
    other = replace(spec, program=Program(argv=["b"], ports={"client": 0}))
    versions.replace(other)
    assert specs["a"] is other and versions.replaced() == ()  # no life has begun so
    versions.born("a")
    assert versions.replaced() == ("a",)
    assert versions.restore("a") and specs["a"] is spec
    assert not versions.restore("a")
    with pytest.raises(DeploymentError, match="ports"):
        versions.replace(replace(spec, program=Program(argv=["b"], ports={"other": 0})))
