"""What the harness asks of meta: to make a topic, and to drain a node."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.driver import Network
from chaos.effects.links import HARNESS
from chaos.ops import Failed, Unknown
from drivers._remoting.client import REQUEST_S
from drivers._remoting.requests import ask, number
from reference.wire.codes import Request, Response
from reference.wire.command import Command


async def request(network: Network, leader: str, code: Request, fields: Mapping[str, str]) -> Command:
    """Ask meta's leader and return its answer. Raises :class:`Failed` for a refusal, :class:`Unknown` where nobody can
    say what became of it."""
    if not leader:
        raise Failed("no meta node leads")
    answer = await ask(network.connect(HARNESS, leader), Command(code=code, fields=fields), REQUEST_S)
    if answer.code == Response.SYSTEM_ERROR:
        raise Unknown(f"{leader}: {answer.remark}")
    if answer.code != Response.SUCCESS:
        raise Failed(f"{leader} refused with {answer.code}: {answer.remark}")
    return answer


async def make_topic(network: Network, leader: str, fields: Mapping[str, object]) -> int:
    """Make a topic, or give the one that is there these limits. Returns its id, -1 where meta doesn't say."""
    try:
        answer = await request(network, leader, Request.META_TOPIC, {name: str(one) for name, one in fields.items()})
    except (Failed, Unknown):
        return -1
    return number(answer.fields, "id")
