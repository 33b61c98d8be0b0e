"""Whatever a node of a split cluster is sent: it refuses what it can't understand, does nothing then, and lives on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivers.reference.conformance.malformed import right_request, wrong_requests
from reference.broker.records import decode_all
from reference.split.forms import FORMS, META, META_LEADER, STORE
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, RESPONSE, Command
from reference.wire.requests import FORMS as FORMS_OF_CLIENTS
from reference.wire.requests import NAME, NAMESERVER, Form
from tests.drivers.test_request_tables import Fields
from tests.reference.seam import deliver
from tests.reference.split.owner import records_at
from tests.reference.split.whole_world import WholeWorld

BROKER, TOPIC = "broker", "t"
_RECORDS = records_at(0, 0, (TOPIC, 0, 0, b"m"))
#: What makes a request of the tables one of this world: who asks is called client, and records are records.
RIGHT: Mapping[int, Mapping[str, Any]] = {
    Request.META_REPORT: {"fields": {"node": "client"}, "body": b'{"voters":["client#0"],"learners":[]}'},
    Request.META_REGISTER: {"fields": {"node": "client"}},
    Request.META_HEARTBEAT: {"fields": {"node": "client"}},
    Request.GROUP_APPEND: {"fields": {"crc": str(crc32(_RECORDS)), "topics": '{"t":1}'}, "body": _RECORDS},
    Request.SEND_MESSAGE_V2: {"fields": {"n": "slice-0"}},
}
_OF_QUEUE = {"fields": {"bname": "slice-0"}}
#: What brokers and name servers of a split cluster take of clients.
CLIENTS: Sequence[tuple[Request, Form]] = (
    *(
        (code, replace(FORMS_OF_CLIENTS[code], to=BROKER))
        for code in (
            Request.SEND_MESSAGE,
            Request.SEND_MESSAGE_V2,
            Request.UPDATE_CONSUMER_OFFSET,
            Request.QUERY_CONSUMER_OFFSET,
            Request.SEARCH_OFFSET_BY_TIMESTAMP,
            Request.GET_MAX_OFFSET,
            Request.GET_MIN_OFFSET,
            Request.PULL_MESSAGE,
            Request.LITE_PULL_MESSAGE,
            Request.UPDATE_AND_CREATE_TOPIC,
            Request.HEART_BEAT,
            Request.UNREGISTER_CLIENT,
            Request.CHECK_CLIENT_CONFIG,
            Request.GET_CONSUMER_LIST_BY_GROUP,
        )
    ),
    (Request.GET_ROUTEINFO_BY_TOPIC, FORMS_OF_CLIENTS[Request.GET_ROUTEINFO_BY_TOPIC]),
    *((Request.METADATA_GET, Form(role, {"kind": NAME, "name": NAME})) for role in (BROKER, NAMESERVER)),
)
ALL = (*FORMS, *CLIENTS)


class Quiet(WholeWorld):
    """A cluster that holds a few records and has nothing left to do."""

    def __init__(self) -> None:
        super().__init__(member_grace_ms=0)
        for number in (0, 1):
            for queue in range(4):
                assert self.send(self.owner(number), b"kept", number, queue).code == 0
        self.run(15_000)

    def node_of(self, role: str) -> str:
        return {
            META: next(name for name in self.envs if name.startswith("meta") and name != self.meta_leader),
            META_LEADER: self.meta_leader,
            STORE: self.leader(0),
            BROKER: self.owner(0),
            NAMESERVER: "nameserver-0",
        }[role]

    def state(self) -> dict[str, Any]:
        """Return all that only what is understood may change."""
        found: dict[str, Any] = {}
        for name, node in self.nodes.items():
            if name.startswith("meta"):
                found[name] = node.raft.log.last, node.catalog.revision
            elif name.startswith("store"):
                logs = {group: replica.log.last for group, replica in node.groups.host.replicas.items()}
                found[name] = logs, {group: one.group.end for group, one in node.groups.machines.items()}
            elif name.startswith("broker"):
                found[name] = {
                    number: (one.epoch, one.is_open, one.ends()) for number, one in node.slices.owned.items()
                }
        return found

    def is_sound(self) -> bool:
        """Return whether what was acknowledged can be read, and more be sent."""
        return all(
            decode_all(self.pull(self.owner(number), 0, number, queue).body)[0].body == b"kept"
            and self.send(self.owner(number), b"more", number, queue).code == 0
            for number in (0, 1)
            for queue in range(4)
        )


@pytest.fixture(scope="module")
def quiet() -> Quiet:
    """A cluster that the tests only ask."""
    return Quiet()


def right(code: Request, form: Form) -> Command:
    made = right_request(code, form, TOPIC)
    of_queue = _OF_QUEUE if "queueId" in form.fields else {}
    more = RIGHT.get(code, of_queue)
    return replace(made, fields={**made.fields, **more.get("fields", {})}, body=more.get("body", made.body))


@pytest.mark.parametrize(("code", "form"), ALL, ids=[f"{code.name} {form.to}" for code, form in ALL])
def test_what_can_not_be_understood_is_refused_in_a_sentence_and_changes_nothing(
    quiet: Quiet, code: Request, form: Form
) -> None:
    refusals = {Response.SYSTEM_ERROR} if code == Request.GET_ROUTEINFO_BY_TOPIC else {Response.INVALID_PARAMETER}
    node, before = quiet.node_of(form.to), quiet.state()
    for what, request in wrong_requests(code, form, TOPIC, right(code, form)):
        answer = quiet.ask(node, code, request.body, **request.fields)
        assert answer is not None and answer.remark, what
        assert answer.code in refusals, f"code {answer.code} to one {what}: {answer.remark}"
    assert quiet.state() == before


def test_every_request_of_a_split_cluster_is_in_a_table(quiet: Quiet) -> None:
    of_groups = {Request.GROUPS_MESSAGES, Request.GROUPS_BEATS, Request.GROUP_REMOVED}  # between replicas, one-way
    own = {code for code in Request if Request.META_REGISTER <= code <= Request.SEGMENT_GET} - of_groups
    assert own <= {code for code, _ in FORMS}
    of_brokers = {code for code, form in CLIENTS if form.to == BROKER}
    without_fields = {Request.GET_BROKER_RUNTIME_INFO, Request.DESCRIBE}
    assert quiet.nodes["broker-0"]._handlers.keys() == of_brokers | without_fields


def test_nodes_understand_what_is_right_and_look_for_the_fields_of_the_table() -> None:
    world = Quiet()
    for code, form in FORMS:
        asked = replace(right(code, form), opaque=9)
        fields = Fields(asked.fields)
        asked = replace(asked, fields=fields)
        fields.seen.clear()
        node = world.node_of(form.to)
        world.nodes[node].message(world.envs[node], "client", asked)
        assert fields.seen == {*form.fields}, f"{code.name} to a {form.to}"


#: Names and values that mean something somewhere, or are wrong everywhere.
_NAMES = sorted({name for _, form in ALL for name in form.fields} | {"cluster", "from", "to", "wall", "answer", "term"})
_VALUES = ("", "x", "-1", "0", "1", "7", str(1 << 40), str(1 << 63), "n" * 256, "t", "client", "broker", "store", "{}")
_BODIES = (b"", b"{}", b"[]", b"[[1]]", b'{"voters":[1]}', b'{"entries":[],"changes":[]}', _RECORDS, _RECORDS + b"x")
_ANY = st.builds(
    Command,
    code=st.sampled_from([*Request, 0, -1, 4711]),
    flags=st.sampled_from([0, ONEWAY, RESPONSE]),
    opaque=st.integers(0, 1 << 31),
    fields=st.dictionaries(st.sampled_from(_NAMES), st.sampled_from(_VALUES), max_size=12),
    body=st.one_of(st.sampled_from(_BODIES), st.binary(max_size=64), st.integers(0, 60).map(lambda n: _RECORDS[:n])),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(_ANY, min_size=10, max_size=10))
def test_whatever_code_comes_with_whatever_content_no_node_dies(quiet: Quiet, messages: list[Command]) -> None:
    for message in messages:
        for name in (*quiet.nodes,):
            deliver(quiet.nodes[name], quiet.envs[name], "client", message)
    quiet.run(10)
    assert quiet.is_sound()


class Tampered(WholeWorld):
    """Of the messages between nodes, some come without their end, with something behind it, or with another value."""

    rate = 0.0

    def transmit(self, source: str, to: str, message: Command) -> None:
        if self.rng.random() < self.rate and source in self.make and to in self.make:
            message = self.tampered(message)
        super().transmit(source, to, message)

    def tampered(self, message: Command) -> Command:
        key = self.rng.choice(sorted(message.fields) or [""])
        others = {name: value for name, value in message.fields.items() if name != key}
        body, at = message.body, self.rng.randrange(len(message.body) + 1)
        ways = [{"body": body[:at]}, {"body": body + b"{"}]
        if key not in ("", "leader"):
            ways += [{"fields": {**others, key: value}} for value in ("x", str(1 << 63), "-" + str(1 << 63))]
        return replace(message, **self.rng.choice(ways))


@pytest.mark.parametrize("seed", range(2))
def test_messages_that_make_no_sense_take_nothing_that_is_acknowledged(seed: int) -> None:
    world = Tampered(seed, segment_bytes=2000, election_ms=250, heartbeat_ms=50)
    acknowledged: dict[int, bytes] = {}
    world.rate = 0.2
    for number in range(60):
        body = json.dumps(number).encode() * 20
        owner = world.owner(0)
        answer = world.send(owner, body)
        if answer.code == 0:
            acknowledged[int(answer.fields["queueOffset"])] = body
    world.rate = 0.0
    world.run(10_000)
    assert len(acknowledged) > 10
    found: dict[int, bytes] = {}
    while len(found) <= max(acknowledged):
        answer = world.pull(world.owner(0), len(found))
        assert answer.code == 0, answer.remark
        found |= {one.offset: one.body for one in decode_all(answer.body)}
    assert {offset: found[offset] for offset in acknowledged} == acknowledged
