"""Storms of what packets undergo, between containers and between hosts, as the kernel here has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chaos.history.directory import runs
from tests.chaos.deployments.ssh_hosts import Hosts
from tests.chaos.deployments.storms import STORM, effective, judged, stormproof
from tests.chaos.deployments.test_docker import left_of

HEAD = STORM[: STORM.index("  - kill")]
#: On the links of one node, several of them at the same time.
PACKETS = """\
  - slow_link: {target: slave, delay_ms: 50}
    at: 1s
    for: 6s
  - duplication: {target: slave}
    at: 2s
    for: 5s
  - reordering: {target: slave}
    at: 4s
    for: 5s
  - corruption: {target: slave}
    at: 6s
    for: 4s
"""
NAMES = ("slow_link", "duplication", "reordering", "corruption")


def _valid_or_refused(folder: Path, *on: str) -> list[Path]:
    """The storm's run, if there is one: valid with every fault proven, or ended in one sentence before a node
    started."""
    (folder / "packets.yaml").write_text(HEAD + PACKETS)
    done = stormproof(folder, "run", "packets.yaml", *on, "--engine", "local", "--json")
    found = runs(folder / "runs")
    if done.returncode == 3:
        assert "slow_link, reordering, corruption: the kernel of " in done.stderr
        assert "has no netem" in done.stderr and "target: client" in done.stderr and "Traceback" not in done.stderr
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        assert effective(*found) == dict.fromkeys(NAMES, True)
    return found


@pytest.mark.docker
def test_a_storm_on_the_packets_of_containers_is_valid_or_nothing_was_written(engine: Any, tmp_path: Path) -> None:
    found = _valid_or_refused(tmp_path, "--on", "docker")
    assert not [left for run in found for left in left_of(engine, run)]
    assert all(effective(run) for run in found)


@pytest.mark.full  # the same rules as in containers
@pytest.mark.ssh
def test_a_storm_on_the_packets_of_hosts_is_valid_or_refused(hosts: Hosts, tmp_path: Path) -> None:
    _valid_or_refused(tmp_path, "--on", "ssh", "--inventory", str(hosts.file(tmp_path)))
    for number in range(len(hosts.containers)):
        assert "htb" not in hosts.shell(number, "tc", "qdisc", "show")


@pytest.mark.full  # test_kernel_links.py and test_proxy.py show both, without a cluster
@pytest.mark.docker
def test_what_a_proxy_and_the_packet_filter_do_needs_no_netem(engine: Any, tmp_path: Path) -> None:
    """Copies of packets between nodes, and slow links of clients."""
    faults = "  - duplication: {target: slave}\n    at: 1s\n    for: 4s\n"
    faults += "  - slow_link: {target: client}\n    at: 6s\n    for: 4s\n"
    found = judged(tmp_path, HEAD + faults, "--on", "docker")
    (run,) = runs(tmp_path / "runs")
    assert found["verdict"] == "VALID" and effective(run) == {"duplication": True, "slow_link": True}, found
    assert left_of(engine, run) == []
