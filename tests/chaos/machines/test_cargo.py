"""What was installed here comes whole to a host, once for each content."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from chaos.machines.ssh.cargo import PIECE_BYTES, Cargo, packed
from chaos.machines.ssh.systems import Systems


@dataclass
class Installed:
    folder: Path
    title: str = "keys 1.0"
    problem: str = ""


class Host:
    """Its agent's part, without the way to it."""

    def __init__(self, root: Path) -> None:
        self._systems = Systems(root)
        self.asked: list[str] = []

    def ask(self, do: str, **arguments: Any) -> Any:
        self.asked.append(do)
        return getattr(self._systems, f"do_{do}")(**arguments)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "installed"
    (made / "lib").mkdir(parents=True)
    (made / "keys").write_bytes(os.urandom(PIECE_BYTES + 1))
    (made / "keys").chmod(0o700)
    (made / "lib/a.conf").write_text("x")
    return made


def test_it_comes_whole_and_once(tmp_path: Path, folder: Path) -> None:
    host = Host(tmp_path / "host")
    there = Path(Cargo(host.ask).bring(Installed(folder)))
    assert host.asked == ["system", "piece", "piece", "unpack"]
    assert (there / "keys").read_bytes() == (folder / "keys").read_bytes() and os.access(there / "keys", os.X_OK)
    assert (there / "keys").stat().st_mode & 0o777 == 0o755, "programs may be anybody's there"
    assert (there / "lib/a.conf").read_text() == "x" and list(there.parent.iterdir()) == [there]
    again = Cargo(host.ask)
    assert again.bring(Installed(folder)) == again.bring(Installed(folder)) == str(there)
    assert host.asked[4:] == ["system"]


def test_another_content_is_another_folder(tmp_path: Path, folder: Path) -> None:
    host = Host(tmp_path / "host")
    before = Cargo(host.ask).bring(Installed(folder))
    (folder / "lib/a.conf").write_text("y")
    packed.cache_clear()
    assert Cargo(host.ask).bring(Installed(folder)) != before


def test_what_was_damaged_on_its_way_is_not_kept(tmp_path: Path, folder: Path) -> None:
    systems = Systems(tmp_path / "host")
    systems.do_piece(name="keys", data="H4sIAAAAAAACAwMAAAAAAAAAAAA=")
    with pytest.raises(OSError, match="keys was damaged on its way"):
        systems.do_unpack(name="keys", digest=packed(folder).digest)
    assert not systems.do_system(name="keys")
    with pytest.raises(ValueError, match="not a name of a system"):
        systems.do_system(name="../keys")


@pytest.mark.parametrize(
    ("name", "type", "target"),
    [
        ("../out", tarfile.REGTYPE, ""),
        ("/tmp/stormproof-out", tarfile.REGTYPE, ""),
        ("a/../../out", tarfile.DIRTYPE, ""),
        ("link", tarfile.SYMTYPE, ".."),
        ("hard", tarfile.LNKTYPE, "../../keep"),
        ("pipe", tarfile.FIFOTYPE, ""),
        ("device", tarfile.CHRTYPE, ""),
    ],
)
def test_an_archive_holds_files_and_folders_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, type: bytes, target: str
) -> None:
    """On every Python: those before 3.11.4 have no filter."""
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    (tmp_path / "keep").write_text("kept")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = type, target
        archive.addfile(entry)
    data = buffer.getvalue()
    systems = Systems(tmp_path / "host")
    systems.do_piece(name="keys", data=b64encode(gzip.compress(data)).decode())
    with pytest.raises(OSError, match="neither a file nor a folder"):
        systems.do_unpack(name="keys", digest=sha256(data).hexdigest())
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["host", "host/systems", "keep"]
