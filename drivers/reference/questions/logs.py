"""What brokers report of their logs and of themselves: whatever request asks for it, the answer is the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from chaos.ops import Failed
from drivers._remoting import records
from drivers._remoting.requests import number
from drivers.reference.questions.question import ASKER, BROKER, MASTER, Question, Talk, of_json, talked
from reference.wire.codes import Request, Response
from reference.wire.command import Command

_MOST = (1 << 63) - 1
#: So many messages are read to find one by its time.
_MOST_READ = 4096


def of_logs(topic: str) -> dict[str, Question]:
    async def bounds(talk: Talk) -> None:
        await _bounds(talk, topic)

    async def times(talk: Talk) -> None:
        await _times(talk, topic)

    return {
        "a log record by record": talked(BROKER, _records),
        "what a broker is": talked(BROKER, _broker),
        "what a master tells of its slaves": talked(MASTER, _slaves),
        "both ends of a queue": talked(MASTER, bounds),
        "messages by their time": talked(MASTER, times),
    }


async def _records(talk: Talk) -> None:
    """Check that records stand back to back, and that a slice begins at one of them and nowhere else."""
    log = await _slice(talk, -1)
    rows = cast(list[list[Any]], log["records"])
    if not rows:
        return
    places = [row[1] for row in rows]
    ends = [row[1] + row[2] for row in rows]
    talk.must_be("where records begin", places[1:], ends[:-1])
    talk.must_be("where the next slice begins", log["next"], ends[-1])
    talk.must_be("whether the log's end lies behind its records", cast(int, log["end"]) >= ends[-1], True)
    epochs = [row[0] for row in rows]
    talk.must_be("the epochs of records", epochs, sorted(epochs))
    middle = len(rows) // 2
    again = cast(list[list[Any]], (await _slice(talk, places[middle]))["records"])
    talk.must_be("the record at a position", again[:1], rows[middle : middle + 1])
    await talk.expect(Response.INVALID_PARAMETER, Request.READ_LOG, position=places[middle] + 1)
    await talk.expect(Response.INVALID_PARAMETER, Request.READ_LOG, position=ends[middle] - 1)
    await _slice(talk, cast(int, log["end"]))
    behind = await _slice(talk, _MOST)
    talk.must_be("the records behind the end", behind["records"], [])


async def _slice(talk: Talk, position: int) -> Mapping[str, object]:
    return of_json(await talk.expect(0, Request.READ_LOG, position=position))


async def _broker(talk: Talk) -> None:
    """Check that what a broker says of itself in one form lies between what it says in another one before and after."""
    first = of_json(await talk.expect(0, Request.DESCRIBE))
    state = of_json(await talk.expect(0, Request.READ_STATE))
    cache = of_json(await talk.expect(0, Request.GET_BROKER_EPOCH_CACHE))
    table = cast(Mapping[str, str], of_json(await talk.expect(0, Request.GET_BROKER_RUNTIME_INFO))["table"])
    last = of_json(await talk.expect(0, Request.DESCRIBE))
    if (first["role"], first["epoch"]) != (last["role"], last["epoch"]):
        raise Failed("its role changed meanwhile")
    talk.must_be("its role and epoch", (state["role"], state["epoch"]), (first["role"], first["epoch"]))
    for name in ("first", "end", "confirm"):
        _between(talk, name, first[name], state[name], last[name])
    _between(talk, "maxOffset", first["end"], cache["maxOffset"], last["end"])
    _between(talk, "commitLogMinOffset", first["first"], int(table["commitLogMinOffset"]), last["first"])
    _between(talk, "commitLogMaxOffset", first["end"], int(table["commitLogMaxOffset"]), last["end"])
    talk.must_be("brokerActive", table["brokerActive"], "true" if first["role"] == "master" else "false")
    talk.must_be("brokerId of a master alone is 0", cache["brokerId"] == 0, first["role"] == "master")
    known = [[one["epoch"], one["startOffset"]] for one in cast(Sequence[Mapping[str, int]], cache["epochList"])]
    talk.must_be("the epochs", known, cast(list[list[int]], state["epochs"]))
    bounds = cast(Mapping[str, Sequence[int]], last["queues"])
    talk.must_be("queues that end before they begin", [one for one in bounds.values() if one[0] > one[1]], [])


def _between(talk: Talk, what: str, before: object, said: object, after: object) -> None:
    low, high = cast(int, before), cast(int, after)
    if low <= high and not low <= cast(int, said) <= high:
        talk.must_be(what, said, f"{low} to {high}")


async def _slaves(talk: Talk) -> None:
    """Check that the slaves in sync are the members of its set, none of which has acknowledged more than there is."""
    first = of_json(await talk.expect(0, Request.DESCRIBE))
    status = of_json(await talk.expect(0, Request.GET_BROKER_HA_STATUS))
    last = of_json(await talk.expect(0, Request.DESCRIBE))
    if (first["role"], first["epoch"], first["set"]) != (last["role"], last["epoch"], last["set"]):
        raise Failed("its role or its set changed meanwhile")
    talk.must_be("whether it is master", status["master"], first["role"] == "master")
    _between(talk, "masterCommitLogMaxOffset", first["end"], status["masterCommitLogMaxOffset"], last["end"])
    slaves = cast(Sequence[Mapping[str, Any]], status["haConnectionInfo"])
    in_sync = sorted(one["addr"] for one in slaves if one["inSync"])
    others = sorted(name for name in cast(Sequence[str], first["set"]) if name != talk.node)
    talk.must_be("the slaves in sync", in_sync, others)
    talk.must_be("inSyncSlaveNums", status["inSyncSlaveNums"], len(in_sync))
    for one in slaves:
        behind = one["slaveAckOffset"] + one["diff"]
        talk.must_be("a slave's distance", behind, status["masterCommitLogMaxOffset"])


async def _bounds(talk: Talk, topic: str) -> None:
    """Check that the two requests for the ends of a queue agree."""
    first, lowest, last = [
        await talk.expect(0, code, topic=topic, queueId=0)
        for code in (Request.GET_MAX_OFFSET, Request.GET_MIN_OFFSET, Request.GET_MAX_OFFSET)
    ]
    _same_term(first, last)
    ends = [number(one.fields, "minOffset") for one in (first, last)]
    _between(talk, "the beginning of the queue", ends[0], number(lowest.fields, "offset"), ends[1])


async def _times(talk: Talk, topic: str) -> None:
    """Check that a time leads to the first message of the local log that was stored then or later, and one after all of
    them to the end of the queue. Where clocks went back nothing is said."""

    async def search(timestamp: int) -> int:
        answer = await talk.expect(0, Request.SEARCH_OFFSET_BY_TIMESTAMP, topic=topic, queueId=0, timestamp=timestamp)
        return number(answer.fields, "offset")

    first = await talk.expect(0, Request.GET_MAX_OFFSET, topic=topic, queueId=0)
    begin, end = await search(-1), await search(_MOST)
    stored = await _read(talk, topic, begin, end)
    times = [one.store_ms for one in stored]
    wanted = times[len(times) // 2] if times and times == sorted(times) else -1
    found = await search(wanted)
    beginning = await search(-1)
    last = await talk.expect(0, Request.GET_MAX_OFFSET, topic=topic, queueId=0)
    _same_term(first, last)
    _between(talk, "the end by time", number(first.fields, "offset"), end, number(last.fields, "offset"))
    if beginning == begin and wanted >= 0:
        documented = next(one.offset for one in stored if one.store_ms >= wanted)
        talk.must_be("the first message of a time", found, documented)


async def _read(talk: Talk, topic: str, begin: int, end: int) -> list[records.Record]:
    """Return all messages of the local log from one offset to another one; none of them if they are many."""
    found: list[records.Record] = []
    if end - begin > _MOST_READ:
        return []
    while begin < end:
        answer = await talk.ask(
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
        talk.must_be("a read of the local log", answer.code, 0)
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
