"""Brokers of a split cluster give their readers what they want, as those of a group do."""

from __future__ import annotations

import json

from reference.broker.records import decode_all
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.split.whole_world import WholeWorld


def read(world: WholeWorld, owner: str, offset: int = 0, **fields: object) -> Command:
    limits = {"queueOffset": offset, "maxMsgNums": 32, "sysFlag": 4, **fields}
    return world.of_queue(owner, Request.PULL_MESSAGE, **limits)  # type: ignore[arg-type]


def test_readers_get_what_they_want() -> None:
    world = WholeWorld()
    owner = world.owner(0)
    for number, tag in enumerate("abac"):
        fields = {"b": "t", "e": 0, "f": 0, "g": 0, "h": 0, "n": "slice-0", "i": f"TAGS\x01{tag}\x02n\x01{number}\x02"}
        sent = world.ask(owner, Request.SEND_MESSAGE_V2, b"m", **fields)
        assert sent is not None and sent.code == 0
    some = read(world, owner, subscription="a || c")
    assert [record.offset for record in decode_all(some.body)] == [0, 2, 3]
    assert some.fields["nextBeginOffset"] == "4"
    none = read(world, owner, 1, subscription="d")
    assert (none.code, none.fields["nextBeginOffset"]) == (Response.PULL_RETRY_IMMEDIATELY, "4")
    by_number = {"expressionType": "SQL92", "subscription": "n > 2 OR TAGS = 'b'"}
    assert [record.offset for record in decode_all(read(world, owner, **by_number).body)] == [1, 3]
    refused = read(world, owner, expressionType="SQL92", subscription="n >")
    assert refused.code == Response.SUBSCRIPTION_PARSE_FAILED
    wanted = {"topic": "t", "subString": "b", "subVersion": 5}
    body = {"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": [wanted]}]}
    assert world.ask(owner, Request.HEART_BEAT, json.dumps(body).encode()) is not None
    registered = read(world, owner, sysFlag=0, consumerGroup="g")
    assert [record.offset for record in decode_all(registered.body)] == [1]
