"""A broker that there has not been yet joins the group: who it is, how long that lasts, and what is undone of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from chaos.deployment import CanAddNodes
from chaos.driver import CanAddBrokers, ClusterView
from chaos.effects.links import Drop
from chaos.fault import Acts, NotNow, Probes
from nemesis import _links, membership
from nemesis.membership import Change, Options
from tests.views import changed, one_group

BROKERS = ("broker-0", "broker-1", "broker-2")
VIEW = one_group(brokers=BROKERS, master="broker-0", in_sync=BROKERS, newcomers=("broker-3", "broker-4"))


@dataclass
class World:
    """In sync is who was looked for three times."""

    looks: int = 0
    added: list[str] = field(default_factory=list)

    @property
    def deployment(self) -> World:
        return self

    @property
    def view(self) -> ClusterView:
        self.looks += 1
        known = (*BROKERS, *self.added)
        return changed(VIEW, brokers=known, in_sync=known if self.looks > 3 else BROKERS)

    async def add(self, node: str) -> Mapping[str, object]:
        if node in self.added:
            raise NotNow(f"there is a node {node} already")
        self.added.append(node)
        return {node: {"alive": True}, "joined": True}

    async def reaches(self, source: str, target: str) -> bool:
        raise AssertionError("no connection is of interest")

    async def answers(self, node: str) -> bool:
        return node in self.added


IT = membership.create(Options(change=Change.ADD))


def test_the_next_newcomer_joins_and_nothing_is_undone_of_it() -> None:
    assert set(IT.needs) == {CanAddBrokers, CanAddNodes}
    injection = IT.plan(VIEW, Random(1), "t")
    assert injection.targets == ("broker-3",) and injection.undo == () and injection.passes
    assert injection.detail == {"change": "add"}
    unwell = changed(VIEW, master="", in_sync=(), settled=False)
    assert IT.plan(unwell, Random(1), "t").targets == ("broker-3",), "to add one never harms"
    with pytest.raises(NotNow, match="as large as it may be"):
        IT.plan(replace(VIEW, newcomers=()), Random(1), "t")


@pytest.mark.parametrize(("patience", "in_sync"), [(100, True), (1, False)])
def test_it_lasts_until_the_newcomer_is_in_sync_or_the_load_ends(patience: int, in_sync: bool) -> None:
    world, rests = World(), 0

    async def rest(seconds: float) -> bool:
        nonlocal rests
        rests += 1
        return rests < patience

    async def main() -> Mapping[str, object]:
        assert isinstance(IT, Acts) and isinstance(IT, Probes)
        injection = IT.plan(VIEW, Random(1), "t")
        assert (await IT.inject(world, injection))["joined"] is True
        await IT.act(world, injection, rest)
        world.looks = 3 * in_sync
        told = await IT.probe(world, injection)
        with pytest.raises(NotNow):
            await IT.inject(world, injection)
        return told

    assert asyncio.run(main()) == {"answers": {"broker-3": True}, "in_sync": in_sync}
    assert rests == (3 if in_sync else 1)


def test_a_broker_that_leaves_waits_for_nobody() -> None:
    async def rest(seconds: float) -> bool:
        raise AssertionError("nothing is waited for")

    it = membership.create(Options())
    injection = it.plan(changed(VIEW, settled=True), Random(1), "t")
    asyncio.run(it.act(World(), injection, rest))
    assert injection.undo and not injection.passes


def test_one_that_joins_while_clients_are_cut_off_is_no_client() -> None:
    for sources, targets in ((("client",), ("*",)), (("*",), ("client",)), (("client",), ("broker-0",))):
        rule = _links.rule(sources, targets, Drop(), VIEW)
        cut = rule.decide("consumer-1", "broker-0") if sources == ("client",) else rule.decide("broker-0", "consumer-1")
        assert cut == Drop() and not isinstance(rule.decide("broker-3", "broker-0"), Drop)
        both = rule.decide("consumer-1", "broker-4"), rule.decide("broker-4", "consumer-1")
        assert (Drop() in both) is ("*" in (*sources, *targets)), "it is one of the nodes that clients are cut off from"
