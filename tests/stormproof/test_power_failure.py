"""A power cut finds what no kill finds: a server of somebody else's that leaves its log to the kernel."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.chaos.deployments.storms import said
from tests.chaos.deployments.test_power_cuts import can_cut as can_cut  # a fixture, which skips where it can't be done
from tests.stormproof.foreign import OUTSIDE, installed
from tests.stormproof.test_foreign import judged, laws_of, proven

pytestmark = [pytest.mark.full, pytest.mark.process]

KILL = "  - kill: {target: queue-0}\n    at: 3s\n    for: 500ms\n"
CUT = KILL.replace("kill", "lose_unsynced")


def site_of(tmp_path: Path, *, syncs: bool) -> Path:
    """The package of tinyq, whose server syncs its log, or leaves it to the kernel."""
    site = installed(tmp_path / "site")
    if not syncs:
        (site / "mystorm").unlink()
        shutil.copytree(OUTSIDE / "mystorm", site / "mystorm")
        server = site / "mystorm" / "tinyq_server.py"
        server.write_text(server.read_text().replace("        os.fsync(self.file.fileno())\n", ""))
        assert server.read_text() != (OUTSIDE / "mystorm" / "tinyq_server.py").read_text()
    return site


@pytest.mark.parametrize("deployment", ["process", "netns"])
def test_a_server_that_syncs_keeps_its_word(can_cut: None, tmp_path: Path, deployment: str) -> None:
    found = judged(tmp_path, site_of(tmp_path, syncs=True), CUT, "--on", deployment)
    assert found["verdict"] == "VALID", said(found)
    assert proven(tmp_path) == {"lose_unsynced"}


def test_a_server_that_does_not_sync_survives_a_kill_and_no_power_cut(can_cut: None, tmp_path: Path) -> None:
    site = site_of(tmp_path, syncs=False)
    for folder, fault, verdict in (("kill", KILL, "VALID"), ("cut", CUT, "INVALID")):
        (tmp_path / folder).mkdir()
        assert judged(tmp_path / folder, site, fault, "--on", "process")["verdict"] == verdict
        assert laws_of(tmp_path / folder)["durability"] == verdict
