"""One call of etcd's v3 API as JSON over HTTP, and what its end says of what happened."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from chaos.driver import Dials, Disconnected
from chaos.ops import Answer, Failed, Unknown
from drivers.etcd.http import Broken, post

OK = 200
#: gRPC's codes of errors that are raised before anything is proposed, or instead of applying it: wrong arguments, an
#: unknown key, lease or member, too much is waiting, no such method. All else (deadline, no leader, unavailable) may
#: have happened, or happen yet.
REFUSED = frozenset({3, 5, 6, 8, 9, 11, 12, 16})

Json = Mapping[str, Any]


async def call(network: Dials, client: str, node: str, path: str, asked: Json, timeout_s: float) -> dict[str, Any]:
    """Send one request and return its answer. Raises :class:`Failed` when it surely had no effect, :class:`Unknown`
    when it may have had one; both name the node."""
    answer = Answer(node=node)
    try:
        status, body = await post(network, client, node, f"/v3/{path}", json.dumps(asked).encode(), timeout_s)
        found = json.loads(body)
    except TimeoutError as error:
        raise Unknown("timeout", answer) from error
    except Disconnected as error:
        raise (Unknown if error.sent else Failed)(str(error), answer) from error
    except (Broken, ValueError, RecursionError) as error:
        raise Unknown(f"no whole answer: {error}", answer) from error
    found = found.get("result", found) if isinstance(found, dict) else found  # a stream wraps what it reports
    if not isinstance(found, dict):
        raise Unknown(f"status {status} without an object of JSON", answer)
    if status == OK and "header" in found:
        return found
    reason = f"status {status}: {str(found.get('message') or found.get('error'))[:200]}"
    raise (Failed if status != OK and found.get("code") in REFUSED else Unknown)(reason, answer)


async def look(network: Dials, client: str, node: str, path: str, asked: Json, timeout_s: float) -> dict[str, Any]:
    """Make a call without effect: whatever goes wrong is :class:`Failed`."""
    try:
        return await call(network, client, node, path, asked, timeout_s)
    except Unknown as error:
        raise Failed(error.reason, error.answer) from error


def packed(text: str) -> str:
    """Return a key or a value as JSON holds it: Base64."""
    return b64encode(text.encode()).decode()


def unpacked(text: str) -> str:
    """Return the text that :func:`packed` has encoded. Raises ``ValueError``."""
    return b64decode(text, validate=True).decode()


def number(found: object, name: str) -> int:
    """Return a field of 64 bits, which JSON holds as a text and leaves out when it is 0. Raises ``ValueError``."""
    try:
        return int(found.get(name, 0))  # type: ignore[attr-defined]
    except (AttributeError, TypeError, OverflowError) as error:
        raise ValueError(f"{name} is no number: {error}") from error
