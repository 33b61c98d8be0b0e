"""Options of a node as RocketMQ's administrators see them: the text of Java's properties."""

from __future__ import annotations

import json
from collections.abc import Mapping

#: Why they can't be changed by a request.
FIXED = "options are given at the start of a node, and do not change while it runs"
_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


def properties(options: Mapping[str, object]) -> bytes:
    """Return options, a line each; those that are no texts as JSON."""
    shown = {
        name: value if isinstance(value, str) else json.dumps(value, default=str)
        for name, value in sorted(options.items())
    }
    return "".join(f"{name}={value.translate(_ESCAPED)}\n" for name, value in shown.items()).encode()
