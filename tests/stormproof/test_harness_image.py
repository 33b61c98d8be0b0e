"""The image of the harness: what goes into it, and that a release without an engine goes on."""

from __future__ import annotations

import tarfile
import tempfile
import tomllib
from pathlib import Path

import pytest

from chaos.errors import MachineError
from chaos.machines.docker import engine
from stormproof.release import harness_image

ROOT = Path(__file__).parents[2]


def test_it_holds_what_the_lock_says_without_spark_and_tools() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = harness_image.needs((ROOT / "requirements.lock").read_text("utf-8"), project)
    names = {line.partition("==")[0] for line in lines}
    assert {"click", "numpy", "pyarrow", "jinja2", "networkx", "pydantic-core", "docker"} <= names
    assert not names & {"pyspark", "py4j", "mypy", "ruff", "pytest"}
    assert all("--hash=sha256:" in line for line in lines)


def test_what_the_engine_gets_is_root_s_and_readable(tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "package").mkdir(parents=True)
    for name, mode in (("secret.py", 0o600), ("tool", 0o700)):
        (code / "package" / name).write_text("x")
        (code / "package" / name).chmod(mode)
    with tempfile.TemporaryFile() as context:
        harness_image.pack(context, code)
        with tarfile.open(fileobj=context) as archive:
            found = {entry.name: (entry.uid, entry.mode) for entry in archive}
            dockerfile = archive.extractfile("Dockerfile")
            assert dockerfile is not None and b"COPY code /opt/stormproof" in dockerfile.read()
    assert found["code/package/secret.py"] == (0, 0o644)
    assert found["code/package"] == found["code/package/tool"] == (0, 0o755)


def test_without_an_engine_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refuse() -> None:
        raise MachineError("no Docker engine: it is not there")

    monkeypatch.setattr(engine, "connect", refuse)
    monkeypatch.setattr("sys.argv", ["harness_image", str(tmp_path)])
    harness_image.main()
    assert capsys.readouterr().err == "no image of the harness: no Docker engine: it is not there\n"
    assert list(tmp_path.iterdir()) == []
