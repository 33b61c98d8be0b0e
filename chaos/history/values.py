"""The ``value`` of a row as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False)


def _json_encoder() -> Callable[[Any], str]:
    """``json`` makes its C encoder anew for each value; there are a hundred thousand values in a run."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _ENCODER.encode
    encode = make(None, _ENCODER.default, json.encoder.encode_basestring, None, ":", ",", False, False, True)
    return lambda value: "".join(encode(value, 0))


#: A value as JSON.
to_json = _json_encoder()
