"""The loss of a store, seen from outside."""

from __future__ import annotations

from chaos.plugins import PluginKind, load
from chaos.testing import check_fault
from tests.nemesis.split_system import cluster


def test_a_store_loses_its_disk_and_comes_back() -> None:
    report = check_fault(load(PluginKind.FAULT, "store_loss"), cluster)
    assert report.proven == report.effects and report.effects
