"""Objects in the metadata of controllers that speak RIP-44's requests.

An object is a broker group without brokers. Its set is the group's SyncStateSet, changed by alterSyncStateSet, which
is a compare-and-set on the set's epoch; member 1 is the master for ever. Its address is that of a replica outside the
set: to register a replica is to overwrite its address. Groups of the cluster ``unattended`` are left alone by the
controllers themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from chaos.driver import Network
from chaos.node import Message
from chaos.ops import Answer, Failed, Unknown
from drivers.reference.requests import ask

REQUEST_S = 1.0
CLUSTER = "unattended"
#: The replica outside the set has the id 1, the members have the ids from 2 on.
OUTSIDE = 1
NOWHERE = "nowhere"

# RocketMQ's request codes.
ALTER_SYNC_STATE_SET, ELECT_MASTER, REGISTER_BROKER = 1001, 1002, 1003
GET_REPLICA_INFO, GET_SYNC_STATE_DATA, APPLY_BROKER_ID = 1004, 1006, 1013

# RocketMQ's response codes.
SUCCESS = 0
FENCED_SET_EPOCH = 2001
UNKNOWN_GROUP = 2008
MASTER_STILL_EXISTS = 2011
#: A write that ended in one of these changed nothing: it was refused before it was logged, or when it was applied.
REFUSED = frozenset({3, 2000, FENCED_SET_EPOCH, 2002, 2003, 2004, 2005, 2006, 2007, UNKNOWN_GROUP, 2010, 2012, 2013})


class ControllerObjects:
    """Implements :class:`chaos.driver.Objects`."""

    def __init__(self, network: Network, name: str, controllers: Sequence[str]) -> None:
        self._network = network
        self._name = name
        self.nodes = tuple(controllers)

    async def create(self, name: str, node: str, *, members: int) -> Answer:
        """Apply for the ids in order and have member 1 elected. Each step changes nothing when it is done again, also
        when one whose answer was lost is done late."""
        for broker in range(OUTSIDE, OUTSIDE + members + 1):
            known_as = NOWHERE if broker == OUTSIDE else f"{name}/{broker - OUTSIDE}"
            fields = {"appliedBrokerId": str(broker), "registerCheckCode": f"{known_as};0"}
            await self._write(name, node, APPLY_BROKER_ID, fields)
        fields = {"brokerId": str(OUTSIDE + 1), "designateElect": "false"}
        await self._write(name, node, ELECT_MASTER, fields, also=MASTER_STILL_EXISTS)
        return Answer(node=node)

    async def read_set(self, name: str, node: str) -> Answer:
        answer = await self._read(name, node, GET_REPLICA_INFO)
        if answer.code == UNKNOWN_GROUP:
            return Answer(node=node, value={"epoch": 0, "members": []})
        told = _body(answer)
        members = sorted(broker - OUTSIDE for broker in told["syncStateSet"])
        return Answer(node=node, value={"epoch": told["syncStateSetEpoch"], "members": members})

    async def change_set(self, name: str, node: str, *, expected: int, members: Sequence[int]) -> Answer:
        asked = {"syncStateSet": sorted(member + OUTSIDE for member in members), "syncStateSetEpoch": expected}
        fields = {"masterBrokerId": str(OUTSIDE + 1), "masterEpoch": "1"}
        answer = await self._write(name, node, ALTER_SYNC_STATE_SET, fields, json.dumps(asked).encode())
        return Answer(node=node, value={"epoch": _body(answer)["syncStateSetEpoch"]})

    async def read_address(self, name: str, node: str) -> Answer:
        answer = await self._read(name, node, GET_SYNC_STATE_DATA, json.dumps([name]).encode())
        group = _body(answer).get("replicasInfoTable", {}).get(name, {})
        replicas = [*group.get("inSyncReplicas", ()), *group.get("notInSyncReplicas", ())]
        addresses = {replica["brokerId"]: replica["brokerAddress"] for replica in replicas}
        return Answer(node=node, value={"address": addresses.get(OUTSIDE)})

    async def write_address(self, name: str, node: str, address: str) -> Answer:
        fields = {"brokerId": str(OUTSIDE), "brokerAddress": address, "generation": "1"}
        await self._write(name, node, REGISTER_BROKER, fields)
        return Answer(node=node)

    async def _read(self, name: str, node: str, code: int, body: bytes = b"") -> Message:
        """Raises :class:`Failed` whatever goes wrong: a read has no effect."""
        try:
            answer = await self._request(name, node, code, {}, body)
        except Unknown as error:
            raise Failed(error.reason, Answer(node=node)) from error
        if answer.code in (SUCCESS, UNKNOWN_GROUP):
            return answer
        raise Failed(f"code {answer.code}: {answer.remark}", Answer(node=node))

    async def _write(
        self, name: str, node: str, code: int, fields: dict[str, str], body: bytes = b"", *, also: int = SUCCESS
    ) -> Message:
        answer = await self._request(name, node, code, fields, body)
        if answer.code in (SUCCESS, also):
            return answer
        reason = f"code {answer.code}: {answer.remark}"
        if answer.code in REFUSED:
            refused = {"refused": True} if answer.code == FENCED_SET_EPOCH else {}
            raise Failed(reason, Answer(node=node, value=refused))
        raise Unknown(reason, Answer(node=node))

    async def _request(self, name: str, node: str, code: int, fields: dict[str, str], body: bytes) -> Message:
        known = {"clusterName": CLUSTER, "brokerName": name}
        message = Message(code=code, fields={**known, **fields}, body=body)
        return await ask(self._network.connect(self._name, node), message, REQUEST_S)


def _body(answer: Message) -> dict[str, Any]:
    """The answer's JSON object. Raises :class:`Unknown` for anything else: nobody knows what it meant."""
    try:
        told = json.loads(answer.body)
    except ValueError as error:
        raise Unknown(f"damaged answer: {error}") from error
    if not isinstance(told, dict):
        raise Unknown("damaged answer: no object")
    return told
