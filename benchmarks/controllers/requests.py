"""What brokers ask of controllers, so that all kinds of controllers understand it. Replicas are numbered from 1."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.controllers.load import Call
from reference.wire.codes import Request, Response

CLUSTER = "load"
REPLICAS = 3
#: Who may be master: the last replica is in no SyncStateSet.
MASTERS = (1, 2)
_EPOCHS = re.compile(rb'"(masterEpoch|syncStateSetEpoch|newSyncStateSetEpoch)":"(\d+)"')


@dataclass(slots=True)
class Standing:
    """What a group's master knows of its group."""

    master: int
    master_epoch: int
    set_epoch: int
    members: tuple[int, ...]

    @property
    def other(self) -> int:
        """The replica that could be master instead."""
        return sum(MASTERS) - self.master


def apply_id(group: str, replica: int) -> Call:
    fields = {"clusterName": CLUSTER, "brokerName": group, "appliedBrokerId": str(replica)}
    return Call(code=Request.CONTROLLER_APPLY_BROKER_ID, fields=fields | {"registerCheckCode": f"{group}/{replica};0"})


def register(group: str, replica: int, life: int) -> Call:
    """Each life has an address of its own, so that all kinds log it."""
    address = f"{group}/{replica}" if life == 1 else f"{group}/{replica}/{life}"
    fields = {"clusterName": CLUSTER, "brokerName": group, "brokerId": str(replica), "brokerAddress": address}
    fields |= {"life": str(life), "generation": str(life)}
    return Call(code=Request.CONTROLLER_REGISTER_BROKER, fields=fields)


def elect(group: str, replica: int, *, designate: bool) -> Call:
    fields = {"clusterName": CLUSTER, "brokerName": group, "brokerId": str(replica)}
    done = {Response.SUCCESS} | (set() if designate else {Response.CONTROLLER_MASTER_STILL_EXIST})
    fields["designateElect"] = "true" if designate else "false"
    return Call(code=Request.CONTROLLER_ELECT_MASTER, fields=fields, done=frozenset(done))


def alter(group: str, standing: Standing, members: Sequence[int]) -> Call:
    fields = {"brokerName": group, "masterBrokerId": str(standing.master), "masterEpoch": str(standing.master_epoch)}
    body = {"syncStateSet": list(members), "syncStateSetEpoch": standing.set_epoch}
    return Call(code=Request.CONTROLLER_ALTER_SYNC_STATE_SET, fields=fields, body=json.dumps(body).encode())


def replica_info(group: str) -> Call:
    return Call(code=Request.CONTROLLER_GET_REPLICA_INFO, fields={"brokerName": group})


def heartbeat(group: str, replica: int, timeout_ms: int) -> Call:
    fields = {"clusterName": CLUSTER, "brokerName": group, "brokerId": str(replica)}
    fields |= {"brokerAddr": f"{group}/{replica}", "epoch": "1", "maxOffset": "100", "confirmOffset": "100"}
    fields |= {"heartbeatTimeoutMills": str(timeout_ms), "electionPriority": "1", "generation": "1"}
    return Call(code=Request.BROKER_HEARTBEAT, fields=fields)


def standings(groups: Sequence[str]) -> Call:
    return Call(code=Request.CONTROLLER_GET_SYNC_STATE_DATA, fields={}, body=json.dumps(list(groups)).encode())


def read_standings(answer: bytes) -> dict[str, Standing]:
    """Of an answer to :func:`standings`, each group's; a group without a master has master 0."""
    found = {}
    for group, info in json.loads(answer[answer.index(b'{"replicasInfoTable"') :])["replicasInfoTable"].items():
        members = tuple(replica["brokerId"] for replica in info["inSyncReplicas"])
        master = info.get("masterBrokerId") or 0
        found[group] = Standing(max(0, master), info["masterEpoch"], info["syncStateSetEpoch"], members)
    return found


def epochs(answer: bytes) -> dict[str, int]:
    """Return the epochs in the header of an answer to :func:`elect` or :func:`alter`."""
    return {name.decode(): int(value) for name, value in _EPOCHS.findall(answer)}
