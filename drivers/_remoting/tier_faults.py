"""How the harness makes an object store get requests wrong, and stops that."""

from __future__ import annotations

import json
from collections.abc import Sequence

from chaos.driver import Network, TierRule
from chaos.effects.links import HARNESS
from chaos.ops import Failed, Unknown
from drivers._remoting.requests import ask, number
from reference.wire.codes import Request, Response
from reference.wire.command import Command

ASK_S = 1.0
MEND_TRIES = 3


async def put_up(network: Network, stores: Sequence[str], rule_id: str, rule: TierRule) -> None:
    what = {
        "effect": str(rule.effect),
        "verbs": [str(request) for request in rule.requests],
        "per_mille": rule.per_mille,
        "delay_ms": rule.delay_ms,
    }
    for store in stores:
        answer = await _ask(network, store, Request.STORE_BREAK, rule_id, json.dumps(what).encode())
        if answer.code != Response.SUCCESS:
            raise Failed(f"{store} refused with {answer.code}: {answer.remark}")


async def take_down(network: Network, stores: Sequence[str], rule_id: str) -> None:
    """Take the rule away from these stores. One that doesn't answer is held still, and reads this when it goes on; one
    that can't be reached is down, and has no rules when it comes up."""
    for store in stores:
        for _ in range(MEND_TRIES):
            try:
                await _ask(network, store, Request.STORE_MEND, rule_id)
                break
            except (Failed, Unknown):
                continue


async def hits(network: Network, stores: Sequence[str], rule_id: str) -> int:
    found = 0
    for store in stores:
        try:
            found += number((await _ask(network, store, Request.STORE_HITS, rule_id)).fields, "hits")
        except (Failed, Unknown):
            continue
    return found


async def _ask(network: Network, store: str, code: Request, rule_id: str, body: bytes = b"") -> Command:
    message = Command(code=code, fields={"rule": rule_id}, body=body)
    return await ask(network.connect(HARNESS, store), message, ASK_S)
