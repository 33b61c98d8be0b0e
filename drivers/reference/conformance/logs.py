"""What brokers report of their logs and of themselves: whatever request asks for it, the answer is the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from chaos.ops import Failed
from drivers._remoting import records
from drivers._remoting.requests import number
from drivers.reference.conformance.case import ASKER, Case, Session, conversation, of_json
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import BROKER, MASTER

_MOST = (1 << 63) - 1
#: So many messages are read to find one by its time.
_MOST_READ = 4096


def of_logs(topic: str) -> dict[str, Case]:
    async def bounds(session: Session) -> None:
        await _bounds(session, topic)

    async def times(session: Session) -> None:
        await _times(session, topic)

    return {
        "a log record by record": conversation(BROKER, _records),
        "what a broker is": conversation(BROKER, _broker),
        "what a master reports of its slaves": conversation(MASTER, _slaves),
        "both ends of a queue": conversation(MASTER, bounds),
        "messages by their time": conversation(MASTER, times),
    }


async def _records(session: Session) -> None:
    """Check that records stand back to back, and that a slice begins at one of them and nowhere else."""
    log = await _slice(session, -1)
    rows = cast(list[list[Any]], log["records"])
    if not rows:
        return
    places = [row[1] for row in rows]
    ends = [row[1] + row[2] for row in rows]
    session.must_be("where records begin", places[1:], ends[:-1])
    session.must_be("where the next slice begins", log["next"], ends[-1])
    session.must_be("whether the log's end lies behind its records", cast(int, log["end"]) >= ends[-1], True)
    epochs = [row[0] for row in rows]
    session.must_be("the epochs of records", epochs, sorted(epochs))
    middle = len(rows) // 2
    again = cast(list[list[Any]], (await _slice(session, places[middle]))["records"])
    session.must_be("the record at a position", again[:1], rows[middle : middle + 1])
    await session.expect(Response.INVALID_PARAMETER, Request.READ_LOG, position=places[middle] + 1)
    await session.expect(Response.INVALID_PARAMETER, Request.READ_LOG, position=ends[middle] - 1)
    await _slice(session, cast(int, log["end"]))
    behind = await _slice(session, _MOST)
    session.must_be("the records behind the end", behind["records"], [])


async def _slice(session: Session, position: int) -> Mapping[str, object]:
    return of_json(await session.expect(0, Request.READ_LOG, position=position))


async def _broker(session: Session) -> None:
    """Check that what a broker says of itself in one form lies between what it says in another one before and after."""
    first = of_json(await session.expect(0, Request.DESCRIBE))
    state = of_json(await session.expect(0, Request.READ_STATE))
    cache = of_json(await session.expect(0, Request.GET_BROKER_EPOCH_CACHE))
    table = cast(Mapping[str, str], of_json(await session.expect(0, Request.GET_BROKER_RUNTIME_INFO))["table"])
    last = of_json(await session.expect(0, Request.DESCRIBE))
    if (first["role"], first["epoch"]) != (last["role"], last["epoch"]):
        raise Failed("its role changed meanwhile")
    session.must_be("its role and epoch", (state["role"], state["epoch"]), (first["role"], first["epoch"]))
    for name in ("first", "end", "confirm"):
        _between(session, name, first[name], state[name], last[name])
    _between(session, "maxOffset", first["end"], cache["maxOffset"], last["end"])
    _between(session, "commitLogMinOffset", first["first"], int(table["commitLogMinOffset"]), last["first"])
    _between(session, "commitLogMaxOffset", first["end"], int(table["commitLogMaxOffset"]), last["end"])
    session.must_be("brokerActive", table["brokerActive"], "true" if first["role"] == "master" else "false")
    session.must_be("brokerId of a master alone is 0", cache["brokerId"] == 0, first["role"] == "master")
    known = [[one["epoch"], one["startOffset"]] for one in cast(Sequence[Mapping[str, int]], cache["epochList"])]
    session.must_be("the epochs", known, cast(list[list[int]], state["epochs"]))
    bounds = cast(Mapping[str, Sequence[int]], last["queues"])
    session.must_be("queues that end before they begin", [one for one in bounds.values() if one[0] > one[1]], [])


def _between(session: Session, what: str, before: object, said: object, after: object) -> None:
    low, high = cast(int, before), cast(int, after)
    if low <= high and not low <= cast(int, said) <= high:
        session.must_be(what, said, f"{low} to {high}")


async def _slaves(session: Session) -> None:
    """Check that the slaves in sync are the members of its set, none of which has acknowledged more than there is."""
    first = of_json(await session.expect(0, Request.DESCRIBE))
    status = of_json(await session.expect(0, Request.GET_BROKER_HA_STATUS))
    last = of_json(await session.expect(0, Request.DESCRIBE))
    if (first["role"], first["epoch"], first["set"]) != (last["role"], last["epoch"], last["set"]):
        raise Failed("its role or its set changed meanwhile")
    session.must_be("whether it is master", status["master"], first["role"] == "master")
    _between(session, "masterCommitLogMaxOffset", first["end"], status["masterCommitLogMaxOffset"], last["end"])
    slaves = cast(Sequence[Mapping[str, Any]], status["haConnectionInfo"])
    in_sync = sorted(one["addr"] for one in slaves if one["inSync"])
    others = sorted(name for name in cast(Sequence[str], first["set"]) if name != session.node)
    session.must_be("the slaves in sync", in_sync, others)
    session.must_be("inSyncSlaveNums", status["inSyncSlaveNums"], len(in_sync))
    for one in slaves:
        behind = one["slaveAckOffset"] + one["diff"]
        session.must_be("a slave's distance", behind, status["masterCommitLogMaxOffset"])


async def _bounds(session: Session, topic: str) -> None:
    """Check that the two requests for the ends of a queue agree."""
    first, lowest, last = [
        await session.expect(0, code, topic=topic, queueId=0)
        for code in (Request.GET_MAX_OFFSET, Request.GET_MIN_OFFSET, Request.GET_MAX_OFFSET)
    ]
    _same_term(first, last)
    ends = [number(one.fields, "minOffset") for one in (first, last)]
    _between(session, "the beginning of the queue", ends[0], number(lowest.fields, "offset"), ends[1])


async def _times(session: Session, topic: str) -> None:
    """Check that a time leads to the first message of the local log that was stored then or later, and one after all of
    them to the end of the queue. Where clocks went back nothing is said."""

    async def offset_at(timestamp: int) -> int:
        answer = await session.expect(
            0, Request.SEARCH_OFFSET_BY_TIMESTAMP, topic=topic, queueId=0, timestamp=timestamp
        )
        return number(answer.fields, "offset")

    first = await session.expect(0, Request.GET_MAX_OFFSET, topic=topic, queueId=0)
    begin, end = await offset_at(-1), await offset_at(_MOST)
    stored = await _read(session, topic, begin, end)
    times = [one.store_ms for one in stored]
    wanted = times[len(times) // 2] if times and times == sorted(times) else -1
    found = await offset_at(wanted)
    beginning = await offset_at(-1)
    last = await session.expect(0, Request.GET_MAX_OFFSET, topic=topic, queueId=0)
    _same_term(first, last)
    _between(session, "the end by time", number(first.fields, "offset"), end, number(last.fields, "offset"))
    if beginning == begin and wanted >= 0:
        documented = next(one.offset for one in stored if one.store_ms >= wanted)
        session.must_be("the first message of a time", found, documented)


async def _read(session: Session, topic: str, begin: int, end: int) -> list[records.Record]:
    """Return all messages of the local log from one offset to another one; none of them if they are many."""
    found: list[records.Record] = []
    if end - begin > _MOST_READ:
        return []
    while begin < end:
        answer = await session.ask(
            Request.PULL_MESSAGE,
            topic=topic,
            queueId=0,
            queueOffset=begin,
            maxMsgNums=end - begin,
            sysFlag=0,
            consumerGroup=ASKER,
            demandSource="local",
        )
        if answer.code == Response.PULL_OFFSET_MOVED:
            return []  # retention was faster
        session.must_be("a read of the local log", answer.code, 0)
        try:
            found += records.decode_all(answer.body)
        except ValueError as error:
            raise Failed(f"records that can't be read: {error}") from error
        begin = number(answer.fields, "nextBeginOffset")
    return found


def _same_term(first: Command, last: Command) -> None:
    """Raise :class:`Failed` where another life or another master term has answered meanwhile."""
    one, other = (json.dumps([at.fields.get(key) for key in ("epoch", "incarnation")]) for at in (first, last))
    if one != other:
        raise Failed("another term began meanwhile")
