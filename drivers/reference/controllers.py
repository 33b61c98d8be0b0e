"""Changes of the controllers' leader and members, as an operator asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from chaos.driver import Network
from chaos.effects.links import HARNESS
from chaos.ops import Failed, Unknown
from drivers._remoting.client import REQUEST_S
from drivers._remoting.requests import ask
from drivers.reference.snapshots import describe
from reference.wire.codes import Request, Response
from reference.wire.command import Command

#: How long a new leader has to say that it leads.
LEADS_S = 5.0
#: How long a controller has to vote again; what holds it up may be another fault.
VOTES_S = 30.0
POLL_S = 0.05


async def transfer_leader(network: Network, group: str, leader: str, target: str) -> Mapping[str, object]:
    """See :class:`chaos.driver.CanTransferLeader`; ``leader`` leads the controllers, "" for nobody."""
    if leader == target:
        raise Failed(f"{target} leads the controllers already")
    await _request(network, leader, Request.CONTROLLER_TRANSFER_LEADER, {"controllerName": target})
    deadline_ns = network.now_ns() + round(LEADS_S * 1e9)
    while network.now_ns() < deadline_ns:
        state = await describe(network, group, target)
        if state.get("role") == "leader":
            return {"from": leader, "to": target, "term": state["term"]}
        await asyncio.sleep(POLL_S)
    raise Unknown(f"{leader} handed over to {target}, which did not say that it leads within {LEADS_S:g} s")


async def remove(network: Network, leader: str, node: str) -> Mapping[str, object]:
    """See :class:`chaos.driver.CanChangeControllers`."""
    if leader == node:
        raise Failed(f"{node} leads the controllers")
    await _change(network, leader, node, "remove")
    voters = await _voters(network, leader)
    if node in voters:
        raise Failed(f"{leader} has removed {node}, it says, and still counts on its vote")
    return {"removed": node, "by": leader, "voters": voters}


async def add(network: Network, leader: str, node: str) -> bool:
    """Return whether the leader says that the controller votes; if not, ask it to let the controller join."""
    try:
        if node in await _voters(network, leader):
            return True
        await _change(network, leader, node, "add")
    except (Failed, Unknown):
        pass
    return False


async def _change(network: Network, leader: str, node: str, change: str) -> None:
    fields = {"controllerName": node, "change": change}
    await _request(network, leader, Request.CONTROLLER_CHANGE_MEMBERS, fields)


async def _voters(network: Network, leader: str) -> list[str]:
    """Return whom the leader counts on. Raises :class:`Failed` for one that names itself and says that it doesn't
    lead."""
    answer = await _request(network, leader, Request.CONTROLLER_GET_METADATA_INFO, {})
    if answer.fields.get("controllerLeaderId") == leader and answer.fields.get("isLeader") != "true":
        raise Failed(f"{leader} names itself the leader of the controllers, and says that it does not lead them")
    return [peer.partition(":")[0] for peer in answer.fields.get("peers", "").split(";") if peer]


async def _request(network: Network, leader: str, code: Request, fields: Mapping[str, str]) -> Command:
    """Send the leader a request and return its answer. Raises :class:`Failed` for a refusal, :class:`Unknown` where the
    leader can't say what became of it."""
    if not leader:
        raise Failed("no controller leads")
    answer = await ask(network.connect(HARNESS, leader), Command(code=code, fields=fields), REQUEST_S)
    if answer.code == Response.SYSTEM_ERROR:
        raise Unknown(f"{leader}: {answer.remark}")
    if answer.code != Response.SUCCESS:
        raise Failed(f"{leader} refused with {answer.code}: {answer.remark}")
    return answer
