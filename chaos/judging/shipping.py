"""Our packages as a zip file, for executors whose Python does not have them."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The laws, what they are built upon, and what summarises runs for their pages. Kernels import nothing else of ours.
PACKAGES = ("chaos", "checkers", "reports")
#: Zip files know no time before this one; and the same sources give the same bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


def write(folder: Path, packages: Sequence[str] = PACKAGES) -> Path:
    """Write the zip file into a folder, and return its path. It holds Python sources only."""
    path = folder / "stormproof-packages.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for package in packages:
            for source in sorted((ROOT / package).rglob("*.py")):
                entry = zipfile.ZipInfo(source.relative_to(ROOT).as_posix(), EPOCH)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, source.read_bytes())
    return path
