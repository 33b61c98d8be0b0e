"""What the controllers make of a group without brokers: its ids, its masters, and its SyncStateSets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from chaos.ops import Failed
from drivers._remoting.requests import number
from drivers.reference.conformance.case import Case, Session, conversation, of_json
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import CONTROLLER, LEADER

#: The cluster whose groups have no brokers, and the group that these cases change.
_CLUSTER, _GROUP = "unattended", "limits"
_NOBODY = "nobody-knows-this"
#: No id that is ever given away here.
_UNKNOWN = 1 << 20
#: So many elections one conversation asks for at most.
_ELECTIONS = 16


def of_groups() -> dict[str, Case]:
    return {
        "ids of replicas": conversation(LEADER, _ids),
        "masters of a group": conversation(LEADER, _masters),
        "changes of a SyncStateSet": conversation(LEADER, _sets),
        "a replica in the set whose count of lives went back": conversation(LEADER, _goes_back),
        "a replica at the address of a broker": conversation(LEADER, _at_a_broker),
        "the SyncStateSets of several groups": conversation(LEADER, _several),
        "the controllers as one of them knows them": conversation(CONTROLLER, _controllers),
        "heartbeats of two brokers over one connection": conversation(CONTROLLER, _heartbeats),
        "a change of the controllers that is none": conversation(LEADER, _no_change),
    }


async def _expect(session: Session, expected: int, code: int, body: object = None, **fields: Any) -> Command:
    """Send a request about the group, and expect this code."""
    content = b"" if body is None else json.dumps(body).encode()
    return await session.expect(expected, code, content, clusterName=_CLUSTER, brokerName=_GROUP, **fields)


async def _applies(session: Session, expected: int, broker: int, word: str) -> None:
    fields: dict[str, Any] = {"appliedBrokerId": broker, "registerCheckCode": f"{_GROUP}/{word};0"}
    await _expect(session, expected, Request.CONTROLLER_APPLY_BROKER_ID, **fields)


async def _next_id(session: Session) -> int:
    return number((await _expect(session, 0, Request.CONTROLLER_GET_NEXT_BROKER_ID)).fields, "nextBrokerId")


async def _group(session: Session) -> Command:
    return await _expect(session, 0, Request.CONTROLLER_GET_REPLICA_INFO)


def _set_of(answer: Command) -> tuple[object, object]:
    body = of_json(answer)
    return body.get("syncStateSet"), body.get("syncStateSetEpoch")


async def _begin(session: Session) -> Command:
    """See to it that there are the replicas 1 and 2, and that one of them is master. Each step changes nothing where
    that is so."""
    await _applies(session, 0, 1, "one")
    await _applies(session, 0, 2, "two")
    still = Response.CONTROLLER_MASTER_STILL_EXIST
    fields: dict[str, Any] = {"clusterName": _CLUSTER, "brokerName": _GROUP, "brokerId": 1}
    answer = await session.ask(Request.CONTROLLER_ELECT_MASTER, may=(still,), **fields)
    if answer.code not in (Response.SUCCESS, still):
        raise Failed(f"the first election: code {answer.code}: {answer.remark}")
    return await _group(session)


async def _ids(session: Session) -> None:
    """Check that an id belongs to one replica for ever, also after that has been removed."""
    await _begin(session)
    refused = Response.CONTROLLER_BROKER_ID_INVALID
    mine = await _next_id(session)
    word = f"{session.client}-{session.number}"
    await _applies(session, refused, 1, word)
    await _applies(session, 0, mine, word)
    await _applies(session, 0, mine, word)
    await _applies(session, refused, mine, f"{word}-else")
    session.must_be("the id after the one that was given away", await _next_id(session), mine + 1)
    register = Request.CONTROLLER_REGISTER_BROKER
    await _expect(session, Response.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, register, brokerId=_UNKNOWN)
    registered = await _expect(session, 0, register, brokerId=mine, brokerAddress=f"{word}-at", generation=1, life=word)
    group = await _group(session)
    known = dict(group.fields)
    session.must_be("the answer to a replica that registers", {key: registered.fields.get(key) for key in known}, known)
    session.must_be("the set in the answer to a replica that registers", _set_of(registered), _set_of(group))
    replica = {"brokerName": _GROUP, "brokerId": mine, "brokerAddress": f"{word}-at", "alive": False}
    state = await _state(session, _GROUP)
    session.must_be("whether it is listed outside of the set", replica in _list(state, "notInSyncReplicas"), True)
    clean, kept = Request.CLEAN_BROKER_DATA, Response.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    await _expect(session, kept, clean, brokerControllerIdsToClean=mine)
    await _expect(session, kept, clean, brokerControllerIdsToClean=_UNKNOWN, isCleanLivingBroker="true")
    await _expect(session, 0, clean, brokerControllerIdsToClean=mine, isCleanLivingBroker="true")
    await _expect(session, kept, clean, brokerControllerIdsToClean=mine, isCleanLivingBroker="true")
    await _expect(session, Response.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, register, brokerId=mine)
    await _applies(session, refused, mine, word)
    session.must_be("the group after the removal", _master_and_set(await _group(session)), _master_and_set(group))
    await _applies(session, 0, mine + 3, word)
    session.must_be("the id after one that was not the next", await _next_id(session), mine + 4)
    await _expect(session, 0, clean, brokerControllerIdsToClean=mine + 3, isCleanLivingBroker="true")


def _master_and_set(answer: Command) -> tuple[object, object]:
    """Return who is master, and the set."""
    return dict(answer.fields), _set_of(answer)


async def _masters(session: Session) -> None:
    """Check that a master stays until another one is asked for, and that the other one gets the next epoch."""
    before = await _begin(session)
    elect = Request.CONTROLLER_ELECT_MASTER
    master, epoch = number(before.fields, "masterBrokerId"), number(before.fields, "masterEpoch")
    other = 3 - master
    still = Response.CONTROLLER_MASTER_STILL_EXIST
    refusal = await _expect(session, still, elect, brokerId=other)
    session.must_be("the master that a refusal names", dict(refusal.fields), dict(before.fields))
    await _expect(session, still, elect, brokerId=master, designateElect="true")
    await _expect(session, Response.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, elect, brokerId=_UNKNOWN)
    await session.expect(
        Response.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, elect, brokerName=_NOBODY, brokerId=1, clusterName=_CLUSTER
    )
    await _alters(session, 0, before, [1, 2])
    set_epoch = number((await _group(session)).fields, "syncStateSetEpoch")
    answer = await _expect(session, 0, elect, brokerId=other, designateElect="true")
    documented = {"masterBrokerId": str(other), "masterEpoch": str(epoch + 1), "syncStateSetEpoch": str(set_epoch + 1)}
    elected = {key: answer.fields.get(key) for key in documented}
    session.must_be("who is elected", elected, documented)
    body = of_json(answer)
    session.must_be("the set of a new master", body.get("syncStateSet"), [other])
    members = cast(Mapping[str, Any], body.get("brokerMemberGroup") or {})
    listed_ids = {"1", "2"} & {*members.get("brokerAddrs", {})}
    session.must_be("those of its replicas that are always there", sorted(listed_ids), ["1", "2"])
    session.must_be("the name of the group", (members.get("brokerName"), members.get("cluster")), (_GROUP, _CLUSTER))
    after = await _group(session)
    session.must_be("the master after the election", {key: after.fields.get(key) for key in documented}, documented)
    await _expect(session, still, elect, brokerId=master)
    await _alters(session, Response.CONTROLLER_FENCED_MASTER_EPOCH, after, [other], masterEpoch=epoch)


async def _alters(session: Session, expected: int, known: Command, ids: Sequence[int], **more: Any) -> Command:
    """Replace the set, with the epochs of the group as it is ``known``."""
    fields = {key: known.fields.get(key, "") for key in ("masterBrokerId", "masterEpoch")}
    body = {"syncStateSet": list(ids), "syncStateSetEpoch": more.pop("set_epoch", _set_of(known)[1])}
    return await _expect(session, expected, Request.CONTROLLER_ALTER_SYNC_STATE_SET, body, **{**fields, **more})


async def _sets(session: Session) -> None:
    """Check that a set is replaced under its own epoch and its master's, by replicas that there are, the master among
    them."""
    before = await _begin(session)
    master, set_epoch = number(before.fields, "masterBrokerId"), cast(int, _set_of(before)[1])
    other = 3 - master
    await _alters(session, Response.CONTROLLER_INVALID_MASTER, before, [master], masterBrokerId=other)
    await _alters(session, Response.CONTROLLER_FENCED_MASTER_EPOCH, before, [master], masterEpoch=_UNKNOWN)
    fenced = Response.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
    await _alters(session, fenced, before, [master], set_epoch=set_epoch + 1)
    await _alters(session, fenced, before, [master], set_epoch=set_epoch - 1)
    await _alters(session, Response.CONTROLLER_INVALID_REPLICAS, before, [master, _UNKNOWN])
    await _alters(session, Response.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, before, [other])
    nobody: dict[str, Any] = {"brokerName": _NOBODY, "clusterName": _CLUSTER}
    await session.expect(
        Response.CONTROLLER_BROKER_METADATA_NOT_EXIST,
        Request.CONTROLLER_ALTER_SYNC_STATE_SET,
        b'{"syncStateSet":[1],"syncStateSetEpoch":1}',
        **nobody,
    )
    session.must_be(
        "a set after changes that were refused", _master_and_set(await _group(session)), _master_and_set(before)
    )
    answer = await _alters(session, 0, before, [2, 1, 2, 1])
    session.must_be("the new set", _set_of(answer), ([1, 2], set_epoch + 1))
    session.must_be("its epoch", number(answer.fields, "newSyncStateSetEpoch"), set_epoch + 1)
    now = await _group(session)
    session.must_be("the set after the change", _set_of(now), ([1, 2], set_epoch + 1))
    await _alters(session, fenced, before, [master])
    state = await _state(session, _GROUP)
    listed = {key: state.get(key) for key in ("masterBrokerId", "masterEpoch", "syncStateSetEpoch")}
    documented = {key: number(now.fields, key) for key in listed}
    session.must_be("the group in the list of groups", listed, documented)
    in_sync = [one.get("brokerId") for one in _list(state, "inSyncReplicas")]
    session.must_be("the replicas in sync", in_sync, [1, 2])
    answer = await _alters(session, 0, now, [master])
    session.must_be("the smaller set", _set_of(answer), ([master], set_epoch + 2))
    await session.expect(Response.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, Request.CLEAN_BROKER_DATA, **nobody)


async def _goes_back(session: Session) -> None:
    """Check a replica that counts its lives, but has no words for them: the count alone says that its disk has
    forgotten some."""
    before = await _begin(session)
    master, mine, word = (
        number(before.fields, "masterBrokerId"),
        await _next_id(session),
        f"{session.client}-{session.number}",
    )
    await _applies(session, 0, mine, word)
    register: dict[str, Any] = {"brokerId": mine, "brokerAddress": f"{word}-at"}
    await _expect(session, 0, Request.CONTROLLER_REGISTER_BROKER, generation=2, **register)
    taken = await _alters(session, 0, before, [master, mine])
    set_epoch = cast(int, _set_of(taken)[1])
    await _expect(session, 0, Request.CONTROLLER_REGISTER_BROKER, generation=3, **register)
    documented = ([master, mine], set_epoch)
    session.must_be("the set after a later life", _set_of(await _group(session)), documented)
    registered = await _expect(session, 0, Request.CONTROLLER_REGISTER_BROKER, generation=2, **register)
    session.must_be("the set after an earlier life", _set_of(registered), ([master], set_epoch + 1))
    after = await _group(session)
    session.must_be("the set from then on", _set_of(after), ([master], set_epoch + 1))
    session.must_be("the master's epoch", number(after.fields, "masterEpoch"), number(before.fields, "masterEpoch"))
    clean: dict[str, Any] = {"brokerControllerIdsToClean": mine, "isCleanLivingBroker": "true"}
    await _expect(session, 0, Request.CLEAN_BROKER_DATA, **clean)


async def _at_a_broker(session: Session) -> None:
    """Hold elections where a broker of another group lives at the address of a replica. What becomes of this group does
    not concern it, and it does not hear of it, though each election here makes the epoch higher than any that it
    knows."""
    known = cast(Mapping[str, Any], of_json(await session.expect(0, Request.DESCRIBE))["groups"])
    brokers = [(one["epoch"], one["master"]) for one in known.values() if one["master"] in one["alive"]]
    if not brokers:
        raise Failed("no master lives")
    epoch, address = max(brokers)
    await _begin(session)
    mine, word = await _next_id(session), f"{session.client}-{session.number}"
    await _applies(session, 0, mine, word)
    register = Request.CONTROLLER_REGISTER_BROKER
    await _expect(session, 0, register, brokerId=mine, brokerAddress=address, generation=1, life=word)
    for _ in range(_ELECTIONS):
        group = await _group(session)
        await _alters(session, 0, group, [1, 2])
        other = 3 - number(group.fields, "masterBrokerId")
        elected = await _expect(session, 0, Request.CONTROLLER_ELECT_MASTER, brokerId=other, designateElect="true")
        if number(elected.fields, "masterEpoch") > epoch:
            break
    clean: dict[str, Any] = {"brokerControllerIdsToClean": mine, "isCleanLivingBroker": "true"}
    await _expect(session, 0, Request.CLEAN_BROKER_DATA, **clean)


async def _states(session: Session, *groups: str) -> Mapping[str, Any]:
    body = json.dumps(groups).encode() if groups else b""
    answer = await session.expect(0, Request.CONTROLLER_GET_SYNC_STATE_DATA, body)
    return cast(Mapping[str, Any], of_json(answer).get("replicasInfoTable"))


async def _state(session: Session, group: str) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], (await _states(session, group)).get(group) or {})


async def _several(session: Session) -> None:
    """Check that only the groups that there are among those asked for are listed, and that replicas that send
    heartbeats are alive."""
    await _begin(session)
    known = cast(Mapping[str, Any], of_json(await session.expect(0, Request.DESCRIBE))["groups"])
    names = sorted(known)
    states = await _states(session, *names, _NOBODY)
    session.must_be("the groups that are listed", sorted(states), names)
    session.must_be("the groups when none is asked for", dict(await _states(session)), {})
    for name in names:
        replicas = [*_list(states[name], "inSyncReplicas"), *_list(states[name], "notInSyncReplicas")]
        listed = {one["brokerAddress"]: one["brokerId"] for one in replicas}
        session.must_be(f"the replicas of {name}", listed, dict(known[name]["brokers"]))
        alive = [one["brokerAddress"] for one in replicas if one["alive"]]
        living = [address for address in listed if address in known[name]["alive"]]
        session.must_be(f"living replicas of {name} that are listed as dead", sorted({*living} - {*alive}), [])


def _list(state: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    return cast(list[Mapping[str, Any]], state.get(key) or [])


async def _controllers(session: Session) -> None:
    """Check that what a controller says of the lead in one form is what it says in the other one."""
    first = of_json(await session.expect(0, Request.DESCRIBE))
    fields = (await session.expect(0, Request.CONTROLLER_GET_METADATA_INFO)).fields
    last = of_json(await session.expect(0, Request.DESCRIBE))
    if any(first[key] != last[key] for key in ("role", "term", "leader", "voters")):
        raise Failed("who leads has changed meanwhile")
    session.must_be("isLeader", fields["isLeader"], "true" if first["role"] == "leader" else "false")
    leader = str(first["leader"] or "")
    session.must_be("the leader", fields.get("controllerLeaderId", ""), leader)
    session.must_be("the leader's address", fields.get("controllerLeaderAddress", ""), leader)
    voters = cast(Sequence[str], first["voters"])
    session.must_be("the peers", fields["peers"], ";".join(f"{name}:{name}" for name in voters))


async def _heartbeats(session: Session) -> None:
    """Send heartbeats of brokers behind one connection, of a group that is not there: its end is that of both, and
    fells nobody."""
    beat: dict[str, Any] = {"brokerName": _NOBODY, "clusterName": _CLUSTER, "maxOffset": 7, "epoch": 1, "generation": 1}
    for line in ("beats", "more beats"):
        for broker in (1, 2):
            at = f"{session.client}-{broker}"
            await session.expect(0, Request.BROKER_HEARTBEAT, line=line, brokerAddr=at, brokerId=broker, **beat)
    await session.expect(
        0, Request.BROKER_HEARTBEAT, line="beats", brokerAddr=f"{session.client}-1", brokerId=1, **beat
    )
    for line in ("beats", "more beats"):
        session.leave(line)
        for _ in range(2):
            await session.expect(0, Request.DESCRIBE)


async def _no_change(session: Session) -> None:
    """Check that who is there can't join, who leads can't be removed, and nobody hands over to itself."""
    fields = (await session.expect(0, Request.CONTROLLER_GET_METADATA_INFO)).fields
    change, refused = Request.CONTROLLER_CHANGE_MEMBERS, Response.CONTROLLER_INVALID_REQUEST
    if fields.get("isLeader") != "true":
        raise Failed("it leads no more")
    for peer in fields["peers"].split(";"):
        await session.expect(0, change, controllerName=peer.partition(":")[0], change="add")
    await session.expect(refused, change, controllerName=session.node, change="remove")
    await session.expect(refused, Request.CONTROLLER_TRANSFER_LEADER, controllerName=session.node)
