"""What a slave does with an answer to its handshake that its log has outrun."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from reference.broker.slave_replication import SlaveReplication
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request
from reference.wire.command import Command


def slave(cut: list[int], life: str = "a") -> SlaveReplication:
    """One with a log from 100 to 900, in its first life on that disk; ``cut`` is told where it is cut."""
    log = SimpleNamespace(first=100, end=900, synced=900, epochs=[(1, 0)], bootstrapping=False)
    log.truncate = lambda env, point, then: cut.append(point)
    broker: Any = SimpleNamespace(log=log, epoch=2, membership=SimpleNamespace(broker_id=1, generation=1, life=life))
    broker.tier = SimpleNamespace(views=dict)
    broker.queues = SimpleNamespace(truncate=lambda point: True)
    return SlaveReplication(broker, SimpleNamespace(flush="sync", may_ack=lambda: 900, log_version=lambda: 2))  # type: ignore[arg-type]


@pytest.mark.parametrize(("first", "cuts"), [(100, True), (300, True), (301, False), (700, False)])
def test_a_slave_whose_log_begins_behind_the_cut_by_now_asks_again(first: int, cuts: bool) -> None:
    sent: list[Command] = []
    env: Any = SimpleNamespace(send=lambda to, message: sent.append(message), set_timer=lambda name, ns: None)
    env.trace = lambda f, **told: None
    cut: list[int] = []
    it = slave(cut)
    it.start(env, "master")
    (hello,) = sent
    it._broker.log.first = first  # retention
    answer = Command(code=0, flags=1, opaque=hello.opaque, fields={**hello.fields, "point": "300"})
    it.answered(env, "master", answer)
    assert cut == ([300] if cuts else [])
    assert [(one.code, json.loads(one.body)["first"]) for one in sent[1:]] == (
        [] if cuts else [(Request.REPLICA_HELLO, first)]
    )
    it.answered(env, "master", answer)  # it belongs to a session that is over, or the cut is under way
    assert len(sent) == (1 if cuts else 2)


def test_an_answer_to_an_earlier_life_finds_nobody_though_the_disk_went_back_in_time() -> None:
    sent: list[Command] = []
    env: Any = SimpleNamespace(send=lambda to, message: sent.append(message), set_timer=lambda name, ns: None)
    env.trace = lambda f, **told: None
    cut: list[int] = []
    before, after = slave(cut, "a"), slave(cut, "b")
    for it in (before, after):
        it.recovered(env)
        it.start(env, "master")
    old, new = sent
    assert old.opaque == new.opaque and old.fields["session"] != new.fields["session"]
    after.answered(env, "master", Command(code=0, flags=1, opaque=old.opaque, fields={**old.fields, "point": "300"}))
    assert cut == []
    after.answered(env, "master", Command(code=0, flags=1, opaque=new.opaque, fields={**new.fields, "point": "300"}))
    assert cut == [300]


def test_a_disk_in_its_ten_thousandth_life_still_follows() -> None:
    sent: list[Command] = []
    env: Any = SimpleNamespace(send=lambda to, message: sent.append(message), set_timer=lambda name, ns: None)
    env.trace = lambda f, **told: None
    cut: list[int] = []
    it = slave(cut)
    for generation in (1, 2047, 2048, 10_000):
        it._broker.membership.generation = generation  # type: ignore[misc]
        it.recovered(env)
        it.start(env, "master")
        hello = sent[-1]
        (read,) = RemotingCodec().decode(bytearray(RemotingCodec().encode(hello)))
        assert read == hello
