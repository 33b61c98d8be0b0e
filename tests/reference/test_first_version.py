"""Brokers of the code as it was before logs had messages that wait, beside those of today, in one group."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from stormproof import cli

ROOT = Path(__file__).parents[2]
#: The last commit before there were any.
BEFORE = "5596cb5000f7"
EXPERIMENT = ROOT / "tests" / "scenarios" / "mixed_versions.yaml"
PACKAGE = "reference_first"


def code_of_then() -> bytes:
    """Return an archive of the reference system as it was then; nothing where this checkout has no such history."""
    asked = ["git", "-C", str(ROOT), "archive", BEFORE, "reference"]
    return subprocess.run(asked, capture_output=True, check=False).stdout


def unpack(archive: bytes, folder: Path) -> None:
    """Write the code as a package of another name: both versions can't have one."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            if not member.isfile() or not member.name.endswith(".py"):
                continue
            file = tar.extractfile(member)
            assert file is not None
            text = file.read().decode()
            for word in ("from reference", "import reference"):
                text = text.replace(f"{word}.", f"{word.replace('reference', PACKAGE)}.")
                text = text.replace(f"{word} import", f"{word.replace('reference', PACKAGE)} import")
            text = text.replace('("reference.', f'("{PACKAGE}.')
            target = folder / PACKAGE / Path(member.name).relative_to("reference")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")


@pytest.mark.full
@pytest.mark.process
@pytest.mark.skipif(not code_of_then(), reason=f"this checkout has no history back to {BEFORE}")
def test_a_group_goes_over_to_the_new_version_under_load_and_half_of_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack(code_of_then(), tmp_path / "code")
    monkeypatch.syspath_prepend(tmp_path / "code")
    text = EXPERIMENT.read_text("utf-8").replace("log_version: 1", f"log_version: 1\n    first_package: {PACKAGE}")
    experiment = tmp_path / "mixed.yaml"
    experiment.write_text(text, "utf-8")
    words = ["run", str(experiment), "--on", "process", "--engine", "local", "--out", str(tmp_path / "runs")]
    assert cli._run(words) == 0
    (run,) = (tmp_path / "runs").glob("mixed-versions-*")
    laws = {one["law"]: one for one in json.loads((run / "verdict.json").read_text())["laws"]}
    assert {laws[name]["validity"] for name in ("durability", "agreement", "deliveries", "availability")} == {"VALID"}
    assert laws["deliveries"]["counts"]["later"] > 50
