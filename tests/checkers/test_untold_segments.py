"""Segments of which a manifest does not tell where they begin, or how much they hold: that is a gap, and no crash."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chaos.verdict import Validity
from tests.checkers.names import L
from tests.checkers.test_tier import Tiered, good

MISSING = object()
LAWS = (L.TIER_CONTINUITY, L.TIER_METADATA, L.UPLOAD_BOUND, L.SINGLE_UPLOADER, L.DURABILITY)


def told_otherwise(field: str, value: Any) -> Tiered:
    """A good run with two segments, of which the last version tells one field of the last in another way."""
    history = good().finals(0, 1, 2, 3)
    for row in history.rows:
        if row["f"] not in ("store_cas", "tier_commit"):
            continue
        told = json.loads(row["value"]) | {"retain_bytes": 1, "segment_bytes": 1000, "max_age_ms": 1000}
        segments = told.get("content", {}).get("segments", [])
        for segment in segments:
            segment["bytes"] = 100
        if len(segments) > 1:
            segments[-1] |= {field: value}
            if value is MISSING:
                del segments[-1][field]
        row["value"] = json.dumps(told)
    return history


@pytest.mark.parametrize("value", [MISSING, None, "many", [3]], ids=["missing", "null", "text", "list"])
@pytest.mark.parametrize("field", ["base", "count", "bytes"])
def test_a_segment_that_lacks_a_number_crashes_no_law(field: str, value: Any) -> None:
    history = told_otherwise(field, value)
    for law in LAWS:
        assert "crashed" not in history.verdict(law).why, law


@pytest.mark.parametrize("field", ["base", "count"])
def test_where_a_segment_ends_is_not_judged_when_nobody_tells(field: str) -> None:
    verdict = told_otherwise(field, MISSING).expect(L.TIER_CONTINUITY, validity=Validity.UNKNOWN)
    assert "does not say where each of its segments begins and ends" in verdict.why


@pytest.mark.parametrize("segments", ["k0", 7, ["k0", "k2"]])
def test_segments_that_are_none_crash_no_law(segments: Any) -> None:
    history = good().finals(0, 1, 2, 3)
    for row in history.rows:
        if row["f"] == "store_cas":
            told = json.loads(row["value"])
            told["content"]["segments"] = segments
            row["value"] = json.dumps(told)
    for law in LAWS:
        assert "crashed" not in history.verdict(law).why, law
