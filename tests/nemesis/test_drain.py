"""Draining a node of a split system, seen from outside."""

from __future__ import annotations

from chaos.plugins import PluginKind, load
from chaos.testing import check_fault
from tests.nemesis.split_system import cluster


def test_a_node_is_drained_and_serves_again() -> None:
    report = check_fault(load(PluginKind.FAULT, "drain"), cluster)
    assert report.proven == report.effects and report.effects
