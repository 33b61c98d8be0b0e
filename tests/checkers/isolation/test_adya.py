"""Random histories have the verdicts that `adya` gives them, another checker of transactions, where that is installed
(`cargo install adya --no-default-features`)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from chaos.verdict import Validity
from tests.checkers.isolation.test_random_keys import Drawn

ADYA = shutil.which("adya") or os.environ.get("ADYA", "")
#: adya's words for what the others call by a name.
MODELS = ("strict-serializable", "serializable", "read-committed")

pytestmark = [pytest.mark.full, pytest.mark.skipif(not ADYA, reason="adya is not installed: cargo install adya")]


def with_final_reads(seed: int) -> Drawn:
    """A history of lists that ends with a read of all that there is, since adya takes what nobody read for nothing."""
    drawn = Drawn(seed, lists=True)
    drawn.types.append("ok")
    drawn.began.append(100)
    drawn.ended.append(101)
    drawn.steps_of.append([["r", key, [*drawn.store.get(key, ())]] for key in "xy"])
    return drawn


def write(drawn: Drawn, path: Path) -> Path:
    """Write a history as adya reads it."""
    lines = []
    for index, (_, fields) in enumerate(drawn.history().rows):
        row = {field.name: value for field, value in fields.items()}
        # Nobody was answered what others than committed ones have read.
        steps = [[step, key, what if step != "r" or row["type"] == "ok" else None] for step, key, what in row["micro"]]
        process = int(row["process"][1:-2])
        lines.append(json.dumps({"index": index, "type": row["type"], "process": process, "value": steps}))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("model", MODELS)
def test_lists_have_the_verdicts_of_adya(model: str, tmp_path: Path) -> None:
    drawn = [with_final_reads(seed) for seed in range(100)]
    paths = [str(write(one, tmp_path / f"{seed}.jsonl")) for seed, one in enumerate(drawn)]
    done = subprocess.run([ADYA, "check", "-c", model, *paths], capture_output=True, text=True, timeout=300)
    said = dict(re.findall(r"^(\S+\.jsonl)\s+(true|false|unknown)$", done.stdout, re.MULTILINE))
    for path, one in zip(paths, drawn, strict=True):
        history = one.history()
        history.isolation = model
        verdict = history.judge()
        if said[path] != "unknown":
            assert (verdict.validity is Validity.INVALID) == (said[path] == "false"), f"{path}: {verdict}"
    assert min(list(said.values()).count(word) for word in ("true", "false")) > 4, said
