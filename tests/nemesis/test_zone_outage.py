"""The outage of a zone, seen from outside."""

from __future__ import annotations

from chaos.plugins import PluginKind, load
from chaos.testing import check_fault
from tests.nemesis.split_system import cluster


def test_a_zone_goes_down_and_comes_back() -> None:
    report = check_fault(load(PluginKind.FAULT, "zone_outage"), cluster, zone="zone-0", vary={"zone": "zone-1"})
    assert report.proven == report.effects and report.effects
