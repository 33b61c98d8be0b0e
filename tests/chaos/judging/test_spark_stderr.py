"""What Spark's JVM says reaches people, but for the one warning that it always gives."""

from __future__ import annotations

import os
from pathlib import Path

from chaos.judging.jvm import _pass_on


def test_only_the_warning_of_incubator_modules_is_swallowed(tmp_path: Path) -> None:
    told, end = os.pipe()
    os.write(end, b"WARNING: Using incubator modules: jdk.incubator.vector\nspark: ERROR Task: no memory\nlast")
    os.close(end)
    with (tmp_path / "stderr").open("wb") as stderr:
        _pass_on(told, stderr.fileno())
    assert (tmp_path / "stderr").read_bytes() == b"spark: ERROR Task: no memory\nlast"
