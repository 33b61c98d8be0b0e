"""Lengths of time as people write them: ``30s``, ``200ms``, ``1m30s``."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, PlainValidator, WithJsonSchema

EXPECTED = "expected a duration such as 30s, 200ms or 1m30s"
#: Nothing in an experiment lasts longer; times in nanoseconds then fit into 64 bits many times over.
LONGEST_S = 366 * 24 * 3600.0
#: A longer text is no length of time; to try every way to read a million digits would take hours.
LONGEST_TEXT = 100
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
#: A duration in a JSON Schema.
WRITTEN = {"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h))+$", "examples": ["30s", "200ms", "1m30s"]}


def parse_duration(text: str) -> float | None:
    """Seconds of a text such as ``1m30s``; None if it is no duration."""
    if len(text) > LONGEST_TEXT:
        return None
    words = text.strip().removeprefix("-")
    parts = _PART.findall(words)
    if not parts or "".join(number + unit for number, unit in parts) != words:
        return None
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return -seconds if text.strip().startswith("-") else seconds


def _seconds(value: object, *, number: bool) -> float:
    if number and isinstance(value, int | float) and not isinstance(value, bool):
        seconds: float | None = float(value)
    else:
        seconds = parse_duration(value) if isinstance(value, str) else None
    if seconds is None:
        raise ValueError(f"{EXPECTED}, got {value!r:.{LONGEST_TEXT}}")
    if not 0 <= seconds <= LONGEST_S:
        raise ValueError(f"a duration can't be negative or more than a year, got {value!r}")
    return seconds


def _more_than_nothing(seconds: float) -> float:
    if not seconds:
        raise ValueError("must be more than 0")
    return seconds


#: In the file a text with units; in the model seconds.
Duration = Annotated[float, PlainValidator(partial(_seconds, number=False)), WithJsonSchema(WRITTEN)]
Positive = Annotated[Duration, AfterValidator(_more_than_nothing)]
#: A duration, or a number of seconds.
NUMBER = {"type": "number", "minimum": 0}
Seconds = Annotated[float, PlainValidator(partial(_seconds, number=True)), WithJsonSchema({"anyOf": [NUMBER, WRITTEN]})]
