"""The ``value`` of a row as text, and what stands in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False)


def _json_encoder() -> Callable[[Any], str]:
    """Return an encoder for all values: ``json`` makes a C encoder for each, and a run has a hundred thousand of
    them."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _ENCODER.encode
    encode = make(None, _ENCODER.default, json.encoder.encode_basestring, None, ":", ",", False, False, True)
    return lambda value: "".join(encode(value, 0))


#: A value as JSON.
to_json = _json_encoder()


def extracted(texts: pa.Array, pattern: str) -> pa.Array:
    """Return what the pattern's group ``found`` finds in these texts, null where it finds nothing."""
    return pc.struct_field(pc.extract_regex(texts, pattern), "found")


def number_under(key: str) -> str:
    """Return a pattern, for Arrow and for Python, that finds a whole number under this key; for flat values only."""
    return rf'"{key}":[\t\n\f\r ]*(?P<found>-?[0-9]+)'


def word_under(key: str) -> str:
    """Likewise for a text without anything that JSON escapes."""
    return rf'"{key}":[\t\n\f\r ]*"(?P<found>[^"\\]*)"'


def whole_numbers(values: pa.Array, key: str) -> npt.NDArray[np.int64]:
    """Return the whole number under ``key`` of each of these texts, -1 where there is none; for flat values only.
    Raises ``pyarrow.ArrowInvalid`` for one of more than 64 bits."""
    found = extracted(values, number_under(key))
    numbers: npt.NDArray[np.int64] = pc.cast(pc.fill_null(found, "-1"), pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def value_of(text: str | None) -> dict[str, Any]:
    """Return the value of a row as its text has it; what is not an object says nothing: a run may be a stranger's."""
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
