"""How the harness reads nodes after a run: it asks again until there is an answer, within a bound."""

from __future__ import annotations

import asyncio
import json

from chaos.driver import Network
from chaos.effects.links import HARNESS
from chaos.ops import Failed, Unknown
from drivers._remoting.requests import ask
from reference.wire.codes import Request, Response
from reference.wire.command import Command

COLLECT_S = 5.0
COLLECT_TRIES = 5
RETRY_S = 0.05


async def fetch(network: Network, node: str, message: Command) -> Command | None:
    """Ask until there is an answer, within a bound; None when there is none."""
    for _ in range(COLLECT_TRIES):
        try:
            answer = await ask(network.connect(HARNESS, node), message, COLLECT_S)
        except (Failed, Unknown):
            answer = None
        if answer is not None and answer.code in (Response.SUCCESS, Response.STORE_ABSENT):
            return answer
        await asyncio.sleep(RETRY_S)
    return None


async def list_objects(network: Network, node: str) -> tuple[dict[str, int], bool]:
    """Return the sizes of an object store's objects by their keys, page by page, and whether these are all."""
    sizes: dict[str, int] = {}
    fields = {"prefix": "", "request": "collect"}
    while True:
        listed = await fetch(network, node, Command(code=Request.STORE_LIST, fields=fields))
        if listed is None:
            return sizes, False
        page = [(key, int(size)) for key, size in json.loads(listed.body)]
        last = next(reversed(sizes), "")
        if page and page[0][0] <= last:
            return sizes, False  # a page again would never end
        sizes.update(page)
        if listed.fields.get("more") != "true":
            return sizes, True
        if not page:
            return sizes, False
        fields = {**fields, "after": page[-1][0]}
