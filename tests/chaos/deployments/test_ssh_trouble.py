"""Trouble with hosts while a run is set up, and words that a shell must never see."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.deployments import ssh
from chaos.driver import ClusterSpec
from chaos.effects.links import Drop, LinkRule
from chaos.errors import DeploymentError
from chaos.experiment.inventory import Inventory
from chaos.machines.packet_filter import PacketFilter
from chaos.node import NodeSpec
from chaos.plain import PlainCodec
from tests.chaos.deployments.ssh_hosts import COUNT, Hosts

NOTHING = [([], [], [])] * COUNT
#: What a shell would run if it ever saw it.
EVIL = "$(touch pwned);`touch pwned`'\" "


def cut(directory: Path, inventory: Inventory) -> int:
    """Set up a toy on each host, cut the first off, and take all down; how many packets the cut has held back."""
    directory.mkdir()
    deployment = ssh.create(run_id=directory.name, directory=directory, seed=1, inventory=inventory)
    specs = [NodeSpec(name=f"toy-{number}", role="toy", package="toy_nodes") for number in range(COUNT)]
    hits = 0

    async def main() -> int:
        nonlocal hits
        try:
            await deployment.start(ClusterSpec(nodes=specs, codec=PlainCodec()), lambda row: None)
            await deployment.set_rule("cut", LinkRule(frozenset({"toy-0"}), frozenset({"*"}), Drop()))
            assert not await deployment.reaches("toy-0", "toy-1")
            hits = await deployment.rule_hits("cut")
        finally:
            await deployment.stop()
        return 0

    deployment.execute(main())
    return hits


@pytest.mark.ssh
def test_what_an_inventory_says_is_never_a_word_of_a_shell(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = tuple(replace(host, name=f"{host.name}{EVIL}", directory=EVIL) for host in hosts.inventory())
    assert cut(tmp_path / "run $(touch pwned)", odd) > 0
    for number in range(COUNT):
        assert hosts.shell(number, "sh", "-c", "find / -xdev -name pwned 2>/dev/null") == ""
        told = json.dumps(hosts.shell(number, "ls", "/root"))
        assert "pwned" in told, "the folder has that very name"
        hosts.shell(number, "rm", "-r", f"/root/{EVIL}")
    assert list(tmp_path.rglob("pwned")) == [] and hosts.footprint() == NOTHING


@pytest.mark.ssh
def test_a_host_that_dies_during_set_up_is_named_and_nothing_is_left_on_the_others(
    hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = PacketFilter.begin

    async def die_and_begin(self: PacketFilter, *arguments: object) -> None:
        hosts.containers[1].kill()
        await begin(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(PacketFilter, "begin", die_and_begin)
    try:
        with pytest.raises(DeploymentError) as caught:
            cut(tmp_path / "run", hosts.inventory())
        assert "host h1" in str(caught.value) and "see that it is up" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    finally:
        hosts.containers[1].start()
        hosts.wait([1])
    assert [hosts.footprint()[number] for number in (0, 2)] == [([], [], [])] * 2
    ssh.heal(tmp_path / "run")
    assert hosts.footprint() == NOTHING
