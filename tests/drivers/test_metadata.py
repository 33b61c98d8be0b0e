"""What each answer means for an operation on metadata: it happened, it did not, or nobody knows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chaos.driver import Disconnected
from chaos.ops import Answer, Failed, Unknown
from chaos.services import CanKeepMetadata
from drivers.reference.driver import Options, create
from drivers.reference.metadata import KINDS, MetadataClient
from reference.metadata.catalog import KINDS as CATALOG_KINDS
from reference.metadata.catalog import check_value, content
from reference.wire.codes import Request, Response
from reference.wire.command import Command

Answering = Callable[[Command], Command | Exception]


class OneNode:
    """A network whose only node gives the answers that the test wants; it is its own connection."""

    def __init__(self, answering: Answering) -> None:
        self.answering = answering
        self.asked: list[Command] = []

    def connect(self, client: str, node: str) -> OneNode:
        assert (client, node) == ("client", "n")
        return self

    async def request(self, message: Command, timeout_s: float) -> Command:
        self.asked.append(message)
        answer = self.answering(message)
        if isinstance(answer, Exception):
            raise answer
        return answer


def client(answering: Answering) -> tuple[MetadataClient, OneNode]:
    node = OneNode(answering)
    return MetadataClient(node, "client", ("n",), ("n",)), node  # type: ignore[arg-type]


def run(call: Coroutine[Any, Any, Answer]) -> Answer:
    return asyncio.run(call)


def says(code: int = 0, body: bytes = b"", **fields: str) -> Answering:
    return lambda message: message.reply(code, fields=fields, body=body, remark="r")


def test_only_a_cluster_that_keeps_metadata_has_the_power() -> None:
    assert not isinstance(create(Options()), CanKeepMetadata)
    made = create(Options(metadata=True))
    assert isinstance(made, CanKeepMetadata)
    nodes = {node.name: node.options for node in made.cluster("").nodes}
    assert all(nodes[name]["metadata"] for name in ("controller-0", "nameserver-0", "broker-0"))
    assert nodes["nameserver-0"]["controllers"] == ["controller-0", "controller-1", "controller-2"]
    plain = [node.options for node in create(Options()).cluster("").nodes]
    assert not any("metadata" in options for options in plain)


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_becomes_a_value_that_the_controllers_take_and_comes_back(kind: str) -> None:
    assert tuple(KINDS) == tuple(CATALOG_KINDS) == MetadataClient.kinds
    it, node = client(says(version="2", revision="9"))
    assert run(it.compare_and_set(f"{kind}/a/b", "n", expected=1, value=7)).value == {"version": 2, "revision": 9}
    (asked,) = node.asked
    assert asked.code == Request.METADATA_PUT
    assert asked.fields == {"kind": kind, "name": "a/b", "expectedVersion": "1"}
    value = json.loads(asked.body)
    assert check_value(kind, "a/b", value) == value
    it, node = client(says(body=asked.body, version="2", revision="9"))
    assert run(it.read(f"{kind}/a/b", "n")) == Answer(node="n", value={"version": 2, "revision": 9, "value": 7})
    assert run(it.view(f"{kind}/a/b", "n")).value["content"] == content(value)


def test_an_entry_that_is_not_there_has_no_value_and_no_content() -> None:
    it, node = client(says(version="3"))
    told = {"version": 3, "revision": -1, "value": None, "content": -1}
    assert run(it.view("topic/t", "n")) == Answer(node="n", value=told)
    run(it.write("topic/t", "n", None))
    assert node.asked[-1].body == b"" and node.asked[-1].fields["expectedVersion"] == "-1"


def test_a_value_that_nobody_made_so_is_no_number() -> None:
    for body in (b"[]", b"{}", b'{"queues": "x"}', b'{"queues": true}'):
        assert run(client(says(body=body, version="1"))[0].read("topic/t", "n")).value["value"] == -1


@pytest.mark.parametrize("code", [Response.CONTROLLER_NOT_LEADER, Response.NO_PERMISSION, Response.INVALID_PARAMETER])
def test_a_refused_change_did_not_happen(code: Response) -> None:
    with pytest.raises(Failed) as told:
        run(client(says(code))[0].write("topic/t", "n", 1))
    assert told.value.answer == Answer(node="n")


def test_a_change_at_another_version_is_an_observation() -> None:
    with pytest.raises(Failed) as told:
        run(client(says(Response.METADATA_CONFLICT))[0].compare_and_set("topic/t", "n", expected=1, value=1))
    assert told.value.answer.value == {"refused": True}


@pytest.mark.parametrize(
    "answering",
    [says(Response.SYSTEM_ERROR), says(Response.SYSTEM_BUSY), lambda m: TimeoutError(), lambda m: Disconnected("x")],
)
def test_nobody_knows_what_became_of_another_change_and_a_read_has_no_effect(answering: Answering) -> None:
    with pytest.raises(Unknown):
        run(client(answering)[0].write("topic/t", "n", 1))
    for read in (MetadataClient.read, MetadataClient.view):
        with pytest.raises(Failed):
            run(read(client(answering)[0], "topic/t", "n"))


def test_a_damaged_answer_to_a_read_tells_nothing() -> None:
    with pytest.raises(Failed, match="damaged"):
        run(client(says(body=b"{"))[0].read("topic/t", "n"))
