"""JSON as RocketMQ writes it: keys that are numbers stand there without quotes (fastjson)."""

from __future__ import annotations

import json
import re
from typing import Any

#: A whole string, which stays as it is, or a number that is a key.
_STRING_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?\d+)(\s*:)', re.DOTALL)


def loads(data: bytes | str) -> Any:
    """Parse JSON, with or without quotes around keys. Raises ``ValueError`` for bytes that are no JSON even so."""
    try:
        text = data.decode() if isinstance(data, bytes) else data
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return json.loads(_STRING_OR_KEY.sub(_quoted, text))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _quoted(match: re.Match[str]) -> str:
    before, number, after = match.groups()
    return match[0] if number is None else f'{before}"{number}"{after}'
