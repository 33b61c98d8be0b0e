"""A key-value store in the metadata of controllers that speak RIP-44's requests.

An object is a broker group without brokers. Its set is the group's SyncStateSet with the set's epoch as its version:
alterSyncStateSet is a compare-and-set on that epoch. Member 1 is the master for ever, so it is in every set. Its text
is the address of a replica outside the set: registering a replica overwrites its address. The controllers leave groups
of the cluster ``unattended`` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from chaos.driver import Network
from chaos.ops import Answer, Failed, Unknown
from chaos.services import FIRST_TEXT, set_key
from drivers._remoting.requests import ask
from reference.wire.command import Command

REQUEST_S = 1.0
CLUSTER = "unattended"
#: The replica outside the set has the id 1, the members have the ids from 2 on.
OUTSIDE = 1

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
    """Implements :class:`chaos.services.Objects`."""

    def __init__(self, network: Network, name: str, controllers: Sequence[str]) -> None:
        self._network = network
        self._name = name
        self.nodes = tuple(controllers)

    async def create(self, name: str, node: str, *, numbers: int) -> Answer:
        """Apply for the ids in order and have member 1 elected. Each step changes nothing when it is done again, also
        when one whose answer was lost is done late."""
        for broker in range(OUTSIDE, OUTSIDE + numbers + 1):
            address = FIRST_TEXT if broker == OUTSIDE else f"{name}/{broker - OUTSIDE}"
            fields = {"appliedBrokerId": str(broker), "registerCheckCode": f"{address};0"}
            await self._write(name, node, APPLY_BROKER_ID, fields)
        fields = {"brokerId": str(OUTSIDE + 1), "designateElect": "false"}
        await self._write(name, node, ELECT_MASTER, fields, also=MASTER_STILL_EXISTS)
        return Answer(node=node)

    async def read(self, key: str, node: str) -> Answer:
        name = _name(key)
        return await (self._read_set(name, node) if key == set_key(name) else self._read_text(name, node))

    async def write(self, key: str, node: str, value: str) -> Answer:
        fields = {"brokerId": str(OUTSIDE), "brokerAddress": value, "generation": "1"}
        await self._write(_name(key), node, REGISTER_BROKER, fields)
        return Answer(node=node)

    async def compare_and_set(self, key: str, node: str, *, expected: int, value: Sequence[int]) -> Answer:
        asked = {"syncStateSet": sorted(number + OUTSIDE for number in value), "syncStateSetEpoch": expected}
        fields = {"masterBrokerId": str(OUTSIDE + 1), "masterEpoch": "1"}
        answer = await self._write(_name(key), node, ALTER_SYNC_STATE_SET, fields, json.dumps(asked).encode())
        with _whole():
            return Answer(node=node, value={"version": int(_body(answer)["syncStateSetEpoch"])})

    async def _read_set(self, name: str, node: str) -> Answer:
        answer = await self._read(name, node, GET_REPLICA_INFO)
        if answer.code == UNKNOWN_GROUP:
            return Answer(node=node, value={"value": None, "version": 0})
        with _whole():
            found = _body(answer)
            numbers = sorted(int(broker) - OUTSIDE for broker in found["syncStateSet"])
            return Answer(node=node, value={"value": numbers, "version": int(found["syncStateSetEpoch"])})

    async def _read_text(self, name: str, node: str) -> Answer:
        answer = await self._read(name, node, GET_SYNC_STATE_DATA, json.dumps([name]).encode())
        with _whole():
            group = _body(answer).get("replicasInfoTable", {}).get(name, {})
            replicas = [*group.get("inSyncReplicas", ()), *group.get("notInSyncReplicas", ())]
            addresses = {replica["brokerId"]: replica["brokerAddress"] for replica in replicas}
            return Answer(node=node, value={"value": addresses.get(OUTSIDE)})

    async def _read(self, name: str, node: str, code: int, body: bytes = b"") -> Command:
        """Send a read and return the answer. Raises :class:`Failed` whatever goes wrong: a read has no effect."""
        try:
            answer = await self._request(name, node, code, {}, body)
        except Unknown as error:
            raise Failed(error.reason, Answer(node=node)) from error
        if answer.code in (SUCCESS, UNKNOWN_GROUP):
            return answer
        raise Failed(f"code {answer.code}: {answer.remark}", Answer(node=node))

    async def _write(
        self, name: str, node: str, code: int, fields: dict[str, str], body: bytes = b"", *, also: int = SUCCESS
    ) -> Command:
        answer = await self._request(name, node, code, fields, body)
        if answer.code in (SUCCESS, also):
            return answer
        reason = f"code {answer.code}: {answer.remark}"
        if answer.code in REFUSED:
            refused = {"refused": True} if answer.code == FENCED_SET_EPOCH else {}
            raise Failed(reason, Answer(node=node, value=refused))
        raise Unknown(reason, Answer(node=node))

    async def _request(self, name: str, node: str, code: int, fields: dict[str, str], body: bytes) -> Command:
        message = Command(code=code, fields={"clusterName": CLUSTER, "brokerName": name, **fields}, body=body)
        return await ask(self._network.connect(self._name, node), message, REQUEST_S)


def _name(key: str) -> str:
    """Return the object that a key belongs to."""
    return key.rpartition("/")[0]


@contextmanager
def _whole() -> Iterator[None]:
    """Raise :class:`Unknown` where an answer lacks what it should have: its meaning is unknown."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise Unknown(f"damaged answer: {type(error).__name__}: {error}") from error


def _body(answer: Command) -> dict[str, Any]:
    """Return the answer's JSON object. Raises :class:`Unknown` for anything else: its meaning is unknown."""
    try:
        found = json.loads(answer.body)
    except ValueError as error:
        raise Unknown(f"damaged answer: {error}") from error
    if not isinstance(found, dict):
        raise Unknown("damaged answer: no object")
    return found
