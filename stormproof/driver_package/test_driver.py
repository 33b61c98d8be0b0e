"""Does the driver do what Stormproof asks of drivers? `pytest` runs it against the installed system."""

from __future__ import annotations

from pathlib import Path

from stormproof_tinyq.driver import Options, create

from chaos.deployments import process
from chaos.testing import check_driver

#: What can't be checked with this system, for a reason that you know. More than this is a change that you want to see.
LEFT = ("collect: it records nothing, and the driver declares nothing that it would record",)


def test_the_driver(tmp_path: Path) -> None:
    host = process.create(run_id="check", directory=tmp_path / "run", seed=1)
    assert check_driver(create(Options()), deployment=host, load_s=2.0) == LEFT
