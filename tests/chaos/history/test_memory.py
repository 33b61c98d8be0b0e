"""What is free goes back to the machine, also where something that is still held stands behind it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chaos.history.memory import give_back

PIECES, BYTES = 4_000, 10_000


def resident_bytes() -> int:
    told = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(told["RssAnon"].split()[0]) * 1024


def test_what_is_free_before_something_that_is_held_is_given_back() -> None:
    pieces = [np.ones(BYTES, dtype=np.uint8) for _ in range(PIECES)]
    last = pieces[-1]
    del pieces
    before = resident_bytes()
    give_back()
    assert before - resident_bytes() > PIECES * BYTES // 2
    assert last.all()
