"""An operator of the reference system, whose tool is the controllers' own request for an election."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.driver import Network
from chaos.ops import Answer, Failed, Unknown
from drivers._remoting.requests import ask
from drivers.reference.snapshots import take
from reference.wire.codes import Request, Response
from reference.wire.command import Command

REQUEST_S = 3.0
#: Refusals after which it is unknown what became of the request.
UNCLEAR = (Response.SYSTEM_ERROR, Response.SYSTEM_BUSY)


class Operator:
    """Implements :class:`chaos.services.Operator` for the one group that there is."""

    def __init__(self, network: Network, name: str, group: str, cluster: str, controllers: Sequence[str]) -> None:
        self._network = network
        self._name = name
        self._cluster = cluster
        self._controllers = controllers
        self.groups = (group,)

    async def elect(self, group: str, target: str) -> Answer:
        leader, known = (await take(self._network, group, self._controllers)).leader(self._controllers)
        broker = known.get("brokers", {}).get(target)
        if not leader or broker is None:
            raise Failed(f"no controller leads, or it doesn't know {target}")
        fields = {"clusterName": self._cluster, "brokerName": group, "brokerId": str(broker), "designateElect": "true"}
        message = Command(code=Request.CONTROLLER_ELECT_MASTER, fields=fields)
        answer = await ask(self._network.connect(self._name, leader), message, REQUEST_S)
        result = Answer(node=leader)
        if answer.code == Response.SUCCESS:
            return result
        reason = f"{leader} refused with {answer.code}: {answer.remark}"
        raise Unknown(reason, result) if answer.code in UNCLEAR else Failed(reason, result)

    async def find_master(self, group: str) -> Answer:
        leader, known = (await take(self._network, group, self._controllers)).leader(self._controllers)
        if not leader:
            raise Failed("no controller leads")
        seen = {
            "master": known.get("master", ""),
            "epoch": known.get("epoch", -1),
            "in_sync": sorted(known.get("set", ())),
        }
        return Answer(node=leader, value=seen)
