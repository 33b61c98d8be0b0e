"""What nodes trace is handed on while they run, whatever the form of its lines."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from chaos.machines.real_time import Tail
from chaos.shell.trace_file import TraceFile

NUMBERS = ("time_ns", "step", "epoch", "queue", "offset", "position", "message", "hash")


def row(step: int, incarnation: int = 1) -> dict[str, Any]:
    told = {"kind": "trace", "node": "b", "incarnation": incarnation, "f": "append", "value": {"size": step}}
    return dict.fromkeys(NUMBERS, -1) | told | {"step": step}


def test_typed_rows_and_json_rows_are_handed_on_in_order_and_odd_lines_left_out(tmp_path: Path) -> None:
    path, seen = tmp_path / "b.jsonl", []

    async def follow() -> None:
        tail = Tail({"b": path}, seen.append)
        for life in (1, 2):
            trace = TraceFile(path)
            for step in range(3):
                trace.add(row(step, life))
                trace.write()
                await asyncio.sleep(0)
            with path.open("ab") as file:
                file.write(b'{"f":"role","node":"b"}\n\n7\t1\nnonsense\n0\t12\t3')  # the last one is torn
        await tail.end()

    asyncio.run(follow())
    steps = [(one["incarnation"], one["step"], one["value"]) if "step" in one else one["f"] for one in seen]
    assert steps == [
        *((1, step, {"size": step}) for step in range(3)),
        "role",
        *((2, step, {"size": step}) for step in range(3)),
        "role",
    ]
