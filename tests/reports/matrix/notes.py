"""A note as tests like it."""

from __future__ import annotations

from typing import Any

from reports.matrix.note import Note


def note(**changes: Any) -> Note:
    given: dict[str, Any] = {
        "row": "small",
        "column": "one",
        "on": "sim",
        "digest": "d",
        "seed": 0,
        "started": "2026-01-01",
        "verdict": "VALID",
        "laws": {"durability": "VALID", "roles": "NOT APPLICABLE"},
        "anomalies": {},
        "acked": 10,
        "without_s": 1.0,
        "recovered_s": 0.5,
    }
    return Note(**{**given, **changes})
