"""What a real broker left behind: Apache RocketMQ 5.5.0 in controller mode, ended with SIGKILL.

It took 175 messages in two queues of the topic T1, by small files (32 KiB of commit log, 60 units of a queue, tier
segments of 8 KiB), and had uploaded all of them. ``store`` is its ``storePathRootDir``, ``tier`` its tier directory.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("node-5.5.0.tar.xz")
#: How many messages the queues have.
MESSAGES = {0: 93, 1: 82}
#: Where its commit log ends.
LOG_END = 62_496


def unpack(folder: Path) -> Path:
    """Put it into this folder, which may be there already, and return it."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder)  # ours; older releases of Python 3.11 know no filter
    return folder


def flip(path: Path, at: int, bits: int = 0xFF) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    path.write_bytes(data)
