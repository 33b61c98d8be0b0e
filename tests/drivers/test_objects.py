"""What each answer of a controller means for an operation on an object: it happened, it did not, or nobody knows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chaos.driver import Disconnected
from chaos.ops import Answer, Failed, Unknown
from drivers._remoting.objects import ControllerObjects
from reference.wire.codes import Request, Response
from reference.wire.command import Command

Answering = Callable[[Command], Command | Exception]


class OneNode:
    """A network whose only node gives the answers that the test wants; it is its own connection."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.asked: list[Command] = []

    def connect(self, client: str, node: str) -> OneNode:
        assert (client, node) == ("client", "controller-0")
        return self

    async def request(self, message: Command, timeout_s: float) -> Command:
        self.asked.append(message)
        answer = self.answering(message)
        if isinstance(answer, Exception):
            raise answer
        return answer


def objects(answering: Answering) -> ControllerObjects:
    return ControllerObjects(OneNode(answering), "client", ("controller-0",))  # type: ignore[arg-type]


def answer(code: int, body: object = None) -> Answering:
    return lambda message: message.reply(
        code, body=b"" if body is None else json.dumps(body).encode(), remark="because"
    )


def run(operation: Coroutine[Any, Any, Answer]) -> Answer:
    return asyncio.run(operation)


def change(answering: Answering) -> Answer:
    return run(objects(answering).compare_and_set("o/set", "controller-0", expected=4, value=[1, 3]))


def read(answering: Answering) -> Answer:
    return run(objects(answering).read("o/set", "controller-0"))


def test_a_change_is_a_compare_and_set_of_ids() -> None:
    made = objects(answer(0, {"syncStateSet": [2, 4], "syncStateSetEpoch": 5}))
    told = run(made.compare_and_set("o/set", "controller-0", expected=4, value=[3, 1]))
    (asked,) = made._network.asked  # type: ignore[attr-defined]
    assert asked.code == Request.CONTROLLER_ALTER_SYNC_STATE_SET
    assert json.loads(asked.body) == {"syncStateSet": [2, 4], "syncStateSetEpoch": 4}
    assert (told.node, told.value) == ("controller-0", {"version": 5})


def test_a_refused_epoch_is_told_as_such() -> None:
    with pytest.raises(Failed) as refused:
        change(answer(Response.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH))
    assert refused.value.answer.value == {"refused": True}


@pytest.mark.parametrize(
    "code", [Response.CONTROLLER_NOT_LEADER, Response.CONTROLLER_INVALID_MASTER, Response.CONTROLLER_INVALID_REPLICAS]
)
def test_other_refusals_changed_nothing_and_saw_nothing(code: int) -> None:
    with pytest.raises(Failed) as refused:
        change(answer(code))
    assert refused.value.answer.value == {}


@pytest.mark.parametrize("code", [Response.SYSTEM_ERROR, Response.SYSTEM_BUSY, 4711])
def test_an_outcome_that_the_controller_does_not_know_is_unknown(code: int) -> None:
    with pytest.raises(Unknown):
        change(answer(code))


def test_a_lost_request_is_unknown_unless_it_never_left() -> None:
    for error in (TimeoutError(), Disconnected("cut")):
        with pytest.raises(Unknown):
            change(lambda message, error=error: error)  # type: ignore[misc]
    with pytest.raises(Failed):
        change(lambda message: Disconnected("refused", sent=False))


@pytest.mark.parametrize("error", [TimeoutError(), Disconnected("cut")])
def test_a_read_without_an_answer_had_no_effect(error: Exception) -> None:
    with pytest.raises(Failed):
        read(lambda message: error)
    with pytest.raises(Failed):
        read(answer(Response.CONTROLLER_NOT_LEADER))


def test_reads_tell_the_members_and_the_absence_of_an_object() -> None:
    assert read(answer(0, {"syncStateSet": [4, 2], "syncStateSetEpoch": 5})).value == {"value": [1, 3], "version": 5}
    gone = answer(Response.CONTROLLER_BROKER_METADATA_NOT_EXIST)
    assert read(gone).value == {"value": None, "version": 0}
    assert run(objects(answer(0, {})).read("o/text", "controller-0")).value == {"value": None}


@pytest.mark.parametrize("body", [{}, {"syncStateSet": None, "syncStateSetEpoch": 5}, {"syncStateSet": [None]}])
def test_an_answer_that_lacks_what_it_should_have_tells_nothing(body: object) -> None:
    for operation in (change, read) if body == {} else (read,):
        with pytest.raises(Unknown, match="damaged answer"):
            operation(answer(0, body))
    with pytest.raises(Unknown, match="damaged answer"):
        told = {"replicasInfoTable": {"o": {"inSyncReplicas": [body]}}}
        run(objects(answer(0, told)).read("o/text", "controller-0"))


def test_bytes_that_are_no_answer_tell_nothing() -> None:
    for answering in (lambda message: message.reply(body=b"\xff"), answer(0, [1])):
        with pytest.raises(Unknown):
            change(answering)
