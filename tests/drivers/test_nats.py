"""The driver for NATS: how each call ends, whatever a server answers, and who is said to lead."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from chaos.driver import CanRemoveBrokers, Client, ClientCommand, ClusterView, Disconnected, Evidence, Profile
from chaos.errors import BadInput
from chaos.ops import Answer, Delivered, Failed, Unknown
from chaos.workload import body_hash
from drivers.nats import Options, create, final_state, recipe
from drivers.nats.driver import Nats
from drivers.nats.frames import NatsFrames, frames

T = TypeVar("T")
#: What a server sends for a request: an object of JSON, the bytes after the inbox's name, or nothing.
Said = dict[str, Any] | bytes | None
Say = Callable[[str, Any], Said]
NO_RESPONDERS = b" 16 16\r\nNATS/1.0 503\r\n\r\n\r\n"
KEY = f"{7:032X}"
SINCE = "2026-11-29T12:00:00Z"


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine under load is no silent server."""
    monkeypatch.setattr("drivers.nats.api.REQUEST_S", 60.0)


@dataclass
class Servers:
    """A network with servers that say what the test wants: ``say(subject, asked)``. A node in ``down`` refuses
    connections. ``asked`` has what came, ``frames`` the bytes of it."""

    say: Say
    down: frozenset[str] = frozenset()
    greeting: bytes = b'INFO {"server_id":"N"}\r\n'
    after_greeting: bytes = b"PONG\r\n"
    asked: list[tuple[str, Any]] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    dialled: list[str] = field(default_factory=list)
    clock_ns: int = 0
    step_ns: int = 50_000_000
    _serving: list[asyncio.Future[None]] = field(default_factory=list)

    async def dial(self, client: str, node: str, port: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.dialled.append(node)
        if node in self.down:
            raise Disconnected("refused", sent=False)
        ours, theirs = socket.socketpair()
        self._serving.append(asyncio.ensure_future(self._serve(*await asyncio.open_connection(sock=theirs))))
        return await asyncio.open_connection(sock=ours)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.greeting)
        assert (await reader.readline()).startswith(b"CONNECT {")
        assert (await reader.readline()).startswith(b"SUB _INBOX.")
        assert await reader.readline() == b"PING\r\n"
        writer.write(self.after_greeting)
        while line := await reader.readline():
            if line == b"PONG\r\n":
                continue
            verb, subject, inbox, head, total = line.decode().split()
            assert verb == "HPUB"
            content = await reader.readexactly(int(total) + 2)
            self.frames.append(content[:-2])
            body = content[int(head) : -2]
            asked = json.loads(body) if body.startswith(b"{") else body
            self.asked.append((subject, asked))
            self._reply(writer, inbox, self.say(subject, asked))

    def _reply(self, writer: asyncio.StreamWriter, inbox: str, said: Said) -> None:
        if isinstance(said, dict):
            body = json.dumps(said).encode()
            writer.write(f"PING\r\nMSG {inbox} 1 {len(body)}\r\n".encode() + body + b"\r\n")
        elif said:
            writer.write(f"HMSG {inbox} 1".encode() + said)
        if said is not None and isinstance(said, bytes) and not said.startswith(b" "):
            writer.close()

    def now_ns(self) -> int:
        self.clock_ns += self.step_ns
        return self.clock_ns


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


def driver(**options: Any) -> Nats:
    return create(Options(**options))


QUEUE = driver().queues()[0]


def client(network: Servers, **options: Any) -> Client:
    return driver(**options).client(network, "c")  # type: ignore[arg-type]


def stored(**of_seq: Any) -> dict[str, Any]:
    """Return the answer with one message: ``seq``, and ``body`` and ``key``."""
    head = f"NATS/1.0\r\nStorm-Key: {of_seq.get('key', KEY)}\r\n\r\n".encode()
    return {
        "message": {
            "seq": of_seq["seq"],
            "data": b64encode(of_seq.get("body", b"x")).decode(),
            "hdrs": b64encode(head).decode(),
        }
    }


def missing() -> dict[str, Any]:
    return {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}


def leading(first: int = 1, last: int = 3, leader: str = "nats-1", since: str = SINCE) -> dict[str, Any]:
    cluster = {"leader": leader, "raft_group": "S-R3F-a", "leader_since": since}
    return {"cluster": cluster, "state": {"first_seq": first, "last_seq": last}}


def raft(state: str = "LEADER", term: int = 4, since: str = SINCE) -> dict[str, Any]:
    return {"data": {"STORM": {"S-R3F-a": {"state": state, "term": term, "leader_since": since}}}}


def holding(messages: Sequence[int], info: Said = None, about: Said = None, last: int = 0) -> Servers:
    """Return servers with a stream that has these messages, by their sequence numbers."""

    def say(subject: str, asked: Any) -> Said:
        if ".INFO." in subject:
            return info or leading(last=last or max(messages, default=0))
        if subject.startswith("storm.servers."):
            return about or raft()
        assert ".MSG.GET." in subject
        found = [one for one in messages if one >= asked["seq"]]
        return stored(seq=found[0], body=b"body %d" % found[0]) if found else missing()

    return Servers(say)


# Sending


def test_a_message_is_acknowledged_at_the_offset_before_its_sequence_number() -> None:
    network = Servers(lambda subject, asked: {"stream": "STORM-0", "seq": 12})
    assert run(client(network).send(QUEUE, KEY, b"hello")) == Answer(offset=11)
    assert network.asked == [("storm.queue.STORM-0", b"hello")]
    assert network.frames == [f"NATS/1.0\r\nStorm-Key: {KEY}\r\n\r\nhello".encode()]


def test_with_deduplication_a_message_has_an_id_and_a_duplicate_is_unknown() -> None:
    network = Servers(lambda subject, asked: {"stream": "STORM-0", "seq": 3, "duplicate": True})
    with pytest.raises(Unknown, match="an earlier attempt has stored it as number 3") as unknown:
        run(client(network, deduplicate=True).send(QUEUE, KEY, b"x"))
    assert unknown.value.answer.offset == 2
    assert f"Nats-Msg-Id: {KEY}\r\n".encode() in network.frames[0]


@pytest.mark.parametrize("deduplicate", [True, False])
def test_a_retry_of_what_is_in_doubt_says_that_it_is_one(deduplicate: bool) -> None:
    """Not so of a message that was acknowledged, or that no server heard of."""
    said: list[Said] = [
        {"stream": "OTHER"},
        {"stream": "STORM-0", "seq": 4},
        NO_RESPONDERS,
        {"stream": "STORM-0", "seq": 5},
    ]

    async def both() -> list[object]:
        ends: list[object] = []
        mine = client(Servers(lambda subject, asked: said.pop(0)), deduplicate=deduplicate)
        for key in (KEY, KEY, "A" * 32, "A" * 32):
            try:
                ends.append((await mine.send(QUEUE, key, b"x")).value)
            except (Failed, Unknown) as error:
                ends.append(type(error))
        return ends

    assert run(both()) == [Unknown, {"again": 1} if deduplicate else {}, Failed, {}]


def refusing(code: int) -> Servers:
    return Servers(lambda subject, asked: {"error": {"code": 500, "err_code": code, "description": "no"}, "seq": 0})


ENDS: list[tuple[str, Servers, type[Exception]]] = [
    ("refused connection", Servers(lambda subject, asked: None, down=frozenset(driver().nodes)), Failed),
    ("no greeting", Servers(lambda subject, asked: None, greeting=b"SSH-2.0\r\n"), Failed),
    ("refused greeting", Servers(lambda subject, asked: None, after_greeting=b"-ERR 'Authorization'\r\n"), Failed),
    ("no responders", Servers(lambda subject, asked: NO_RESPONDERS), Failed),
    ("too large", refusing(10054), Failed),
    ("not stored by the leader", refusing(10077), Unknown),
    ("out of resources", refusing(10023), Unknown),
    ("an error that is none", Servers(lambda subject, asked: {"error": "no"}), Unknown),
    ("another stream", Servers(lambda subject, asked: {"stream": "OTHER", "seq": 1}), Unknown),
    ("no number", Servers(lambda subject, asked: {"stream": "STORM-0", "seq": "1"}), Unknown),
    ("no JSON", Servers(lambda subject, asked: b" 12 13\r\nNATS/1.0\r\n\r\n{\r\n"), Unknown),
    ("an unknown status", Servers(lambda subject, asked: b" 16 18\r\nNATS/1.0 408\r\n\r\n{}\r\n"), Unknown),
    ("sizes that can't be", Servers(lambda subject, asked: b" 20 10\r\n"), Unknown),
    ("a wrong frame", Servers(lambda subject, asked: b" 12 13\r\nNATS/1.0\r\n\r\n{??"), Unknown),
    ("another version", Servers(lambda subject, asked: b" 12 13\r\nNATS/9.0\r\n\r\n{\r\n"), Unknown),
    ("half a reply", Servers(lambda subject, asked: b"0"), Unknown),
]


@pytest.mark.parametrize("network, ends", [one[1:] for one in ENDS], ids=[one[0] for one in ENDS])
def test_a_message_fails_only_when_it_surely_was_not_stored_and_a_read_always(
    network: Servers, ends: type[Exception]
) -> None:
    with pytest.raises(ends):
        run(client(network).send(QUEUE, KEY, b"x"))
    with pytest.raises(ends):
        run(client(network).commit(QUEUE, "group", 3))
    for read in (client(network).pull(QUEUE, 0, limit=3), client(network).committed(QUEUE, "group")):
        with pytest.raises(Failed):
            run(read)


def test_silence_is_unknown_after_its_time_and_the_next_server_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivers.nats.api.REQUEST_S", 1.0)
    network = Servers(lambda subject, asked: None)
    sender = client(network)

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(Unknown, match="no answer within 1 s"):
                await sender.send(QUEUE, KEY, b"x")

    run(twice())
    assert len(set(network.dialled)) == 2


# Reading


def test_messages_are_read_from_the_leader_whose_term_is_asked_for_afterwards() -> None:
    network = holding([1, 2, 3])
    answer = run(client(network).pull(QUEUE, 1, limit=32))
    bodies = [Delivered(offset=at, message=7, hash=body_hash(b"body %d" % (at + 1))) for at in (1, 2)]
    assert answer == Answer(node="nats-1", epoch=4, minimum=0, maximum=3, following=3, messages=tuple(bodies))
    subjects = [subject for subject, _ in network.asked]
    assert subjects[0].endswith("STREAM.INFO.STORM-0") and subjects[-1] == "storm.servers.RAFTZ"
    assert network.asked[-1][1] == {"server_name": "nats-1", "account": "STORM", "group": "S-R3F-a"}


def test_a_hole_is_passed_over_and_a_leader_with_less_ends_the_read() -> None:
    hole = run(client(holding([1, 4, 5])).pull(QUEUE, 1, limit=32))
    assert [one.offset for one in hole.messages] == [3, 4] and hole.following == 5
    less = run(client(holding([1, 2], last=5)).pull(QUEUE, 1, limit=32))
    assert [one.offset for one in less.messages] == [1] and (less.following, less.maximum) == (2, 5)
    begun_later = run(client(holding([4, 5], info=leading(first=4, last=5))).pull(QUEUE, 0, limit=1))
    assert (begun_later.minimum, begun_later.following) == (3, 4)


def test_no_more_is_read_than_was_asked_for() -> None:
    assert len(run(client(holding([1, 2, 3])).pull(QUEUE, 0, limit=2)).messages) == 2
    assert len(run(client(holding([1, 2, 3])).pull(QUEUE, 0, limit=3, max_bytes=13)).messages) == 2
    assert len(run(client(holding([1, 2, 3])).pull(QUEUE, 0, limit=3, max_bytes=1)).messages) == 1
    assert run(client(holding([1, 2, 3])).bounds(QUEUE)) == Answer(
        node="nats-1", epoch=4, minimum=0, maximum=3, following=0
    )


@pytest.mark.parametrize(
    "about",
    [raft(state="FOLLOWER"), raft(since="2026-11-29T12:00:09Z"), {"data": {"STORM": {}}}, {"data": {"STORM": 5}}],
)
def test_an_answer_of_a_leader_that_leads_no_more_counts_for_nothing(about: dict[str, Any]) -> None:
    with pytest.raises(Failed, match="leads no more"):
        run(client(holding([1], about=about)).pull(QUEUE, 0, limit=1))


@pytest.mark.parametrize("later", ["nats-1", "nats-2"])
def test_a_version_without_terms_is_asked_again_who_leads(later: str) -> None:
    leaders = ["nats-1", later]

    def say(subject: str, asked: Any) -> Said:
        if ".STREAM.INFO." in subject:
            return leading(leader=leaders.pop(0))
        return holding([1]).say(subject, asked)

    reader = client(Servers(say), version="2.10.20")
    if later == "nats-1":
        assert run(reader.pull(QUEUE, 0, limit=1)).epoch == -1
    else:
        with pytest.raises(Failed, match="nats-1 has answered, and leads no more"):
            run(reader.pull(QUEUE, 0, limit=1))


def test_a_version_that_reports_no_terms_has_none() -> None:
    assert run(client(holding([1], about=NO_RESPONDERS)).pull(QUEUE, 0, limit=1)).epoch == -1


@pytest.mark.parametrize("info", [leading(leader=""), {"cluster": 5}, {"cluster": {"leader": "nats-1"}, "state": []}])
def test_without_a_leader_nothing_is_read(info: dict[str, Any]) -> None:
    with pytest.raises(Failed):
        run(client(holding([1], info=info)).pull(QUEUE, 0, limit=1))


@pytest.mark.parametrize("key, number", [("F" * 32, -1), ("zz", -1), ("7", 7), ("", -1)])
def test_a_damaged_key_is_none_of_ours(key: str, number: int) -> None:
    def say(subject: str, asked: Any) -> Said:
        return holding([1]).say(subject, asked) if ".MSG.GET." not in subject else stored(seq=1, key=key)

    (found,) = run(client(Servers(say)).pull(QUEUE, 0, limit=1)).messages
    assert found.message == number


# Offsets


def keeping(offset: Said) -> Servers:
    def say(subject: str, asked: Any) -> Said:
        if subject.startswith("storm.offsets."):
            return {"stream": "OFFSETS", "seq": 9}
        return offset if ".MSG.GET." in subject else holding([9]).say(subject, asked)

    return Servers(say)


def test_offsets_are_kept_in_a_stream_by_group_and_queue() -> None:
    network = keeping(stored(seq=9, body=b"42"))
    assert run(client(network).commit(QUEUE, "a.b >", 42)).epoch == 4
    assert network.asked[0] == (f"storm.offsets.{b'a.b >'.hex()}.STORM-0", b"42")
    assert run(client(network).committed(QUEUE, "a.b >")).offset == 42
    assert run(client(keeping(missing())).committed(QUEUE, "a")).offset == -1
    with pytest.raises(Failed, match="a stored offset that is none"):
        run(client(keeping(stored(seq=9, body=b"-5"))).committed(QUEUE, "a"))


# Who leads


def saying(leader: str, *, terms: dict[str, int], current: bool | None = True, healthy: bool = True) -> Servers:
    """Return servers that all follow ``leader``, in these terms."""

    def say(subject: str, asked: Any) -> Said:
        if subject.startswith("$JS.API."):
            return {}
        node = asked["server_name"]
        if subject.endswith("HEALTHZ"):
            return {"data": {"status": "ok" if healthy else "unavailable"}}
        group = {"state": "LEADER" if node == leader else "FOLLOWER", "term": terms[node]}
        if subject.endswith("RAFTZ"):
            return {"data": {"STORM": dict.fromkeys(("S-0", "S-1"), group)}}
        lag = {} if current is None else {"current": False, "lag": 3 if current else 101}
        others = [{"name": other, **(lag if node == leader else {})} for other in terms if other != node]
        streams = [
            {
                "name": name,
                "cluster": {"leader": leader, "replicas": others},
                "state": {"last_seq": 5},
                "stream_raft_group": raft_group,
            }
            for name, raft_group in (("STORM-0", "S-0"), ("OFFSETS", "S-1"))
        ]
        return {"data": {"account_details": [{"name": "STORM", "stream_detail": streams}]}}

    return Servers(say)


def seen(network: Servers) -> tuple[ClusterView, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []

    def record(kind: str, **columns: Any) -> int:
        rows.append({"kind": kind, **columns})
        return len(rows) - 1

    return run(driver().view(network, record)), rows  # type: ignore[arg-type]


EQUAL = dict.fromkeys(("nats-0", "nats-1", "nats-2"), 3)


def test_a_stream_that_no_server_has_any_more_is_gone() -> None:
    nats, network, there = driver(), saying("nats-1", terms=EQUAL), [True]
    say = network.say

    def said(subject: str, asked: Any) -> Said:
        found = say(subject, asked)
        if subject.endswith("JSZ") and isinstance(found, dict) and not there[0]:
            found["data"]["account_details"][0]["stream_detail"] = []
        return found

    network.say = said
    assert run(nats.view(network)).settled  # type: ignore[arg-type]
    there[0] = False
    view = run(nats.view(network))  # type: ignore[arg-type]
    assert not view.settled and view.lacks() == "STORM-0 is not there any more"
    view = run(driver().view(network))  # type: ignore[arg-type]
    assert "STORM-0 has no leader" in view.lacks()  # it never was there


def test_a_version_that_says_no_terms_is_not_asked_for_them() -> None:
    """2.10 leaves such a question without an answer."""
    network = saying("nats-1", terms=EQUAL)
    nats = driver(version="2.10.20")
    view = run(nats.view(network))  # type: ignore[arg-type]
    assert view.settled and (view.groups[0].leader, view.groups[0].epoch) == ("nats-1", -1)
    assert not [subject for subject, _ in network.asked if subject.endswith("RAFTZ")]


def test_the_view_shows_who_leads_and_who_is_in_sync() -> None:
    view, rows = seen(saying("nats-1", terms=EQUAL))
    (group,) = view.groups
    assert view.settled and (group.name, group.leader, group.epoch) == ("STORM-0", "nats-1", 3)
    assert set(group.in_sync) == set(group.replicas) == set(EQUAL)
    assert {row["value"]["group"] for row in rows if row["type"] == "ok"} == {"STORM-0"} == {QUEUE.group}
    roles = {row["node"]: (row["value"]["role"], row["epoch"]) for row in rows if row["type"] == "ok"}
    assert roles == {"nats-0": ("slave", 3), "nats-1": ("master", 3), "nats-2": ("slave", 3)}


def test_a_replica_whose_name_the_leader_does_not_know_stays_one() -> None:
    others = dict.fromkeys(("nats-0", "nats-1", "Server name unknown at this time (peerID: cnrtt3eg)"), 3)
    view, _ = seen(Servers(saying("nats-1", terms=others).say, down=frozenset({"nats-2"})))
    assert view.groups[0].replicas == ("nats-0", "nats-1", "nats-2") and not view.settled


@pytest.mark.parametrize(
    "network",
    [
        saying("", terms=EQUAL),
        saying("nats-1", terms=EQUAL, current=False),
        saying("nats-1", terms=EQUAL, current=None),
        saying("nats-1", terms=EQUAL, healthy=False),
        saying("nats-1", terms={**EQUAL, "nats-2": 2}),
        Servers(saying("nats-1", terms=EQUAL).say, down=frozenset({"nats-2"})),
        Servers(lambda subject, asked: {"data": {"account_details": [5]}}),
        Servers(lambda subject, asked: NO_RESPONDERS),
    ],
    ids=["leaderless", "lagging", "unknown", "ill", "older term", "down", "damaged", "nothing"],
)
def test_it_is_not_settled_while_a_copy_lacks_anything(network: Servers) -> None:
    assert not seen(network)[0].settled


def test_the_set_up_creates_the_streams_and_the_view_does_not() -> None:
    network = saying("nats-1", terms=EQUAL)
    system = driver()

    async def look_twice() -> None:
        assert await system.set_up(network)  # type: ignore[arg-type]
        await system.view(network)  # type: ignore[arg-type]

    run(look_twice())
    created = [asked for subject, asked in network.asked if ".STREAM.CREATE." in subject]
    assert [(one["name"], one["num_replicas"], one["max_msgs_per_subject"]) for one in created] == [
        ("STORM-0", 3, -1),
        ("OFFSETS", 3, 1),
    ]


@pytest.mark.parametrize(
    "answer, ends, said",
    [
        ({"error": {"code": 400, "err_code": 10005, "description": "no"}}, Failed, "error 10005: no"),
        (b"0", Unknown, "the connection ended"),
        ({"success": True}, Unknown, "which did not lead within"),
    ],
)
def test_a_switch_fails_only_when_it_was_refused(answer: Said, ends: type[Exception], said: str) -> None:
    network = saying("nats-1", terms=EQUAL)
    usual = network.say
    network.say = lambda subject, asked: answer if ".LEADER.STEPDOWN." in subject else usual(subject, asked)
    system = driver()

    async def switch() -> None:
        with pytest.raises(Failed, match="no server leads"):
            await system.switch(network, "nats-2", "STORM-0")  # type: ignore[arg-type]
        await system.view(network)  # type: ignore[arg-type]
        await system.switch(network, "nats-2", "STORM-0")  # type: ignore[arg-type]

    network.step_ns = 2_000_000_000
    with pytest.raises(ends, match=said):
        run(switch())


def test_only_where_there_are_spares_a_replica_can_be_taken_out() -> None:
    assert not isinstance(driver(), CanRemoveBrokers)
    system = driver(servers=5)
    assert isinstance(system, CanRemoveBrokers)
    network = saying("nats-1", terms=EQUAL)
    usual = network.say
    network.say = lambda subject, asked: {"success": True} if ".PEER.REMOVE." in subject else usual(subject, asked)
    network.down = frozenset({"nats-3", "nats-4"})

    async def remove() -> None:
        await system.view(network)  # type: ignore[arg-type]
        for node in ("nats-1", "nats-4"):
            with pytest.raises(Failed, match="leads, or holds nothing"):
                await system.remove_broker(network, node)  # type: ignore[arg-type]
        removed = await system.remove_broker(network, "nats-2")  # type: ignore[arg-type]
        assert removed == {"removed": ["STORM-0"]}

    run(remove())
    assert ("$JS.API.STREAM.PEER.REMOVE.STORM-0", {"peer": "nats-2"}) in network.asked


# What is left on disks

#: One record as NATS 2.15.3 has written it.
RECORDED = (
    "dQAAgAEAAAAAAAAAmlTDYXKk7BgTAHN0b3JtLnF1ZXVlLlNUT1JNLTA5AAAATkFUUy8xLjANClN0b3JtLUtleTogMDAwMDAwMDAwMDAwMDAwMDAw"
    "MDAwMDAwMDAwMDAwMDANCg0KMDpwcm9iZd9nTs+MJ/E2"
)
HEAD = f"NATS/1.0\r\nStorm-Key: {KEY}\r\n\r\n".encode()


def block(*records: tuple[int, bytes, bytes]) -> bytes:
    """Return the bytes of a block with these records: sequence number, headers and body."""
    found = b""
    for sequence, head, body in records:
        rest = b"storm" + (struct.pack("<I", len(head)) + head if head else b"") + body + bytes(8)
        found += struct.pack("<IQqH", 22 + len(rest) | (len(head) > 0) << 31, sequence, 99, 5) + rest
    return found


WHOLE = block((1, HEAD, b"a"), (1 << 62 | 2, b"", b""), (1 << 63, b"", b"gone"), (3, b"", b"bc"))


def test_blocks_hold_messages_and_marks_of_what_is_gone() -> None:
    assert list(final_state.messages(WHOLE)) == [(0, 7, b"a"), (2, -1, b"bc")]
    assert list(final_state.messages(b64decode(RECORDED))) == [(0, 0, b"0:probe")]


@pytest.mark.parametrize("content", [WHOLE[:-1], WHOLE + b"\x01", WHOLE[:10], b"\x00" * 40, b"\xff" * 60])
def test_a_damaged_block_is_no_block(content: bytes) -> None:
    with pytest.raises(ValueError, match="the record at"):
        list(final_state.messages(content))


@dataclass
class Disks(Servers):
    """Servers whose disks hold blocks: ``blocks`` by the names of their files, on each of them."""

    blocks: dict[str, bytes] = field(default_factory=dict)

    async def files(self, node: str, globs: Sequence[str]) -> dict[str, int]:
        assert globs == ["js/jetstream/STORM/streams/STORM-0/msgs/*.blk"]
        return {name: len(content) for name, content in self.blocks.items()}

    async def read_file(self, node: str, path: str, begin: int = 0, length: int = 7) -> bytes:
        return self.blocks[path][begin : begin + length]


def collected(blocks: dict[str, bytes], say: Say | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def record(kind: str, **columns: Any) -> int:
        rows.append({"kind": kind, **columns})
        return len(rows) - 1

    network = Disks(say or saying("nats-1", terms=EQUAL).say, down=frozenset({"nats-0"}), blocks=blocks)
    run(driver().collect(network, record))  # type: ignore[arg-type]
    return rows


def test_disks_of_servers_that_answer_are_read_to_the_end_that_these_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = collected({"a/10.blk": block((5, HEAD, b"e")), "a/9.blk": block((2, HEAD, b"b"), (4, HEAD, b"d"))})
    assert {row["node"] for row in rows} == {"nats-1", "nats-2"}
    of_one = [row for row in rows if row["node"] == "nats-1"]
    assert [row["f"] for row in of_one] == ["log", "log", "log", "node", "complete"]
    assert [(row["position"], row["offset"], row["message"]) for row in of_one[:3]] == [(1, 1, 7), (3, 3, 7), (4, 4, 7)]
    assert of_one[2]["hash"] == body_hash(b"e") and of_one[3]["value"]["end"] == 5
    monkeypatch.setattr(final_state, "RETRY_S", 0.0)
    assert not collected({"a/9.blk": block((4, HEAD, b"d"))}), "the server says that there is one more"
    assert not collected({"a/9.blk": WHOLE[:-1]})


@pytest.mark.parametrize("leader", ["nats-1", "nats-3"])
def test_a_server_that_is_no_replica_by_its_leaders_word_holds_nothing(leader: str) -> None:
    """nats-2 has no copy. Without a leader no server says that it is not to have one."""
    others = saying(leader, terms=dict.fromkeys(("nats-0", "nats-1", "nats-3"), 3) | {"nats-2": 3})

    def say(subject: str, asked: Any) -> Said:
        said = others.say(subject, asked)
        if subject.endswith("JSZ") and isinstance(said, dict):
            (account,) = said["data"]["account_details"]
            for stream in account["stream_detail"]:
                stream["cluster"]["replicas"] = [{"name": "nats-0"}]
            account["stream_detail"] = [] if asked["server_name"] == "nats-2" else account["stream_detail"]
        return said

    rows = [row for row in collected({"a/1.blk": block((5, HEAD, b"e"))}, say) if row["node"] == "nats-2"]
    assert [row["f"] for row in rows] == (["node", "complete"] if leader == "nats-1" else [])
    assert all(row["value"]["end"] == 0 for row in rows if row["f"] == "node")


# Options and promises


@pytest.mark.parametrize(
    "options, said",
    [
        ({"version": "1.4.1"}, r"version: expected one of NATS 2\.10\.0 or newer"),
        ({"version": "2.15.3; rm -rf /"}, "version: expected"),
        ({"servers": 3, "replicas": 5}, "replicas: expected at most 3"),
        ({"sync_interval": '1s" }'}, "sync_interval: expected always"),
        ({"sync_interval": "0s"}, "sync_interval: expected always"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Options(**options)


@pytest.mark.parametrize(
    "profile, said",
    [
        (Profile(acks="master"), "leave out acks and unclean"),
        (Profile(unclean=True), "leave out acks and unclean"),
        (Profile(min_in_sync=3), "more than the 2 replicas that JetStream waits for with replicas: 3"),
    ],
)
def test_what_jetstream_can_not_promise_is_refused(profile: Profile, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        driver().promising(profile)


@pytest.mark.parametrize(
    "options, profile, interval, window_s",
    [
        ({}, None, "always", 0.0),
        ({}, Profile(flush="async"), "2m", 120.0),
        ({"sync_interval": "500ms"}, Profile(flush="sync"), "500ms", 0.5),
        ({"sync_interval": "2h"}, None, "2h", 3600.0),
    ],
)
def test_how_often_it_syncs_follows_from_the_profile_unless_the_experiment_says_it(
    options: dict[str, Any], profile: Profile | None, interval: str, window_s: float
) -> None:
    system = driver(**options)
    system = system.promising(profile) if profile else system
    (config,) = {str(node.program.files["nats.conf"]) for node in system.cluster("").nodes if node.program}
    assert f'sync_interval: "{interval}"' in config and system.exposure().loss_window_s == window_s
    assert profile is None or system.profile() == profile


def test_without_a_word_it_promises_what_its_options_say() -> None:
    assert driver().profile() == Profile()
    assert driver(sync_interval="1m").profile() == Profile(flush="async")
    assert driver(replicas=1).profile() == Profile(min_in_sync=1)


def test_evidence_is_of_one_stream_with_copies_and_roles_of_versions_that_have_terms() -> None:
    assert driver().evidence() == {Evidence.POLLS, Evidence.FINAL_LOGS}
    assert driver(version="2.10.20").evidence() == {Evidence.FINAL_LOGS}
    assert driver(streams=2).evidence() == {Evidence.POLLS} and not driver(replicas=1).evidence()


def test_any_version_can_be_built_and_a_lone_server_has_no_routes() -> None:
    assert recipe("2.14.2").steps[0].command[-1] == "github.com/nats-io/nats-server/v2@v2.14.2"
    (node,) = driver(servers=1, replicas=1, version="2.14.2").cluster("").nodes
    assert node.program is not None and "routes" not in str(node.program.files["nats.conf"])
    assert node.program.recipe == recipe("2.14.2")


def test_another_version_has_the_same_ports_and_promises() -> None:
    system = driver(version="2.14.2").promising(Profile(flush="async"))
    found = system.in_version("2.15.3")
    (before, *_), after = system.cluster("").nodes, found[system.nodes[0]]
    assert before.program is not None and after.program is not None and tuple(found) == system.nodes
    assert after.program.recipe == recipe("2.15.3") and after.program.ports == before.program.ports
    assert 'sync_interval: "2m"' in str(after.program.files["nats.conf"])
    with pytest.raises(ValueError, match="version: expected"):
        system.in_version("1.0.0")


# NATS's own client


def started(**orders: int) -> ClientCommand:
    class Proxies(Servers):
        async def endpoint(self, client: str, node: str, port: str = "") -> tuple[str, int]:
            return "127.0.0.1", 4220 + int(node[-1])

    network = Proxies(lambda subject, asked: None)
    return run(driver(streams=2).library_command(network, "library", orders))  # type: ignore[arg-type]


def test_the_program_with_the_official_client_is_given_servers_streams_and_orders() -> None:
    pytest.importorskip("nats")
    command = started(sync=2, pop=1, push=0, batch_size=4)
    assert command.argv[1:] == ("-m", "drivers.nats.nats_py_program")
    given = json.loads(command.env["STORMPROOF_ORDERS"])
    assert given["servers"] == [f"nats://127.0.0.1:{port}" for port in (4220, 4221, 4222)]
    assert given["streams"][1] == ["STORM-1", "storm.queue.STORM-1"]
    assert (given["header"], given["sync"], given["pop"]) == ("Storm-Key", 2, 1)


def test_what_the_official_client_can_not_do_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert driver().library_lacks().keys() >= {"push", "transaction"}
    assert not driver().library_lacks().keys() & {"sync", "pop", "orderly"}
    monkeypatch.setattr("drivers.nats.library.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'stormproof\[nats\]'"):
        started(sync=1)


# Requests of a kind


def read_frames() -> NatsFrames:
    reader = frames("client")
    assert reader is not None and frames("cluster") is None
    reader.requests(bytearray(b"CONNECT {}\r\nSUB _INBOX.a.* 1\r\nSUB _INBOX.b.> q 2\r\nPING\r\n"))
    return reader


def publishing(subject: str, inbox: str = " _INBOX.a.1") -> bytes:
    return f"HPUB {subject}{inbox} 12 14\r\nNATS/1.0\r\n\r\nhi\r\n".encode()


@pytest.mark.parametrize(
    "subject, kind",
    [
        ("storm.queue.STORM-0", "send"),
        ("storm.offsets.ab.STORM-0", "commit"),
        ("$JS.API.STREAM.MSG.GET.OFFSETS", "committed"),
        ("$JS.API.STREAM.MSG.GET.STORM-0", "pull"),
        ("$JS.API.STREAM.INFO.STORM-0", "bounds"),
        ("storm.servers.RAFTZ", ""),
    ],
)
def test_a_request_is_known_by_its_subject_and_paired_by_that_of_its_reply(subject: str, kind: str) -> None:
    reader, data = read_frames(), publishing(subject)
    buffer = bytearray(data + data[:20])
    (asked,) = reader.requests(buffer)
    assert (asked.data, asked.kind, asked.number, asked.paired) == (data, kind, "_INBOX.a.1", True)
    assert buffer == data[:20], "the next one is not whole"
    (said,) = reader.answers(bytearray(b"MSG _INBOX.a.1 1 2\r\n{}\r\n"), ended=False)
    assert (said.number, said.paired) == (asked.number, True)


def test_what_wants_no_reply_and_what_a_server_says_unasked_is_paired_with_nothing() -> None:
    reader = read_frames()
    (asked,) = reader.requests(bytearray(publishing("storm.queue.STORM-0", "")))
    assert (asked.kind, asked.paired) == ("", False)
    said = reader.answers(bytearray(b"INFO {}\r\nPONG\r\n-ERR 'no'\r\n"), ended=False)
    assert [one.paired for one in said] == [False] * 3


@pytest.mark.parametrize("inbox, number", [("_INBOX.a.1", "1"), ("_INBOX.b.x.y", "2")])
def test_a_refusal_is_that_nobody_listens_at_the_place_where_the_client_does(inbox: str, number: str) -> None:
    reader = read_frames()
    (asked,) = reader.requests(bytearray(publishing("storm.queue.STORM-0", f" {inbox}")))
    refusal = reader.refusal(asked)
    assert refusal.startswith(f"HMSG {inbox} {number} ".encode())
    (said,) = reader.answers(bytearray(refusal), ended=False)
    assert said.number == inbox and b"NATS/1.0 503 stormproof" in said.data
    network = Servers(lambda subject, asked: refusal.removeprefix(f"HMSG {inbox} {number}".encode()))
    with pytest.raises(Failed):
        run(client(network).send(QUEUE, KEY, b"x"))


@pytest.mark.parametrize("unheard", [b"UNSUB 1\r\n", b""])
def test_nothing_is_refused_that_the_client_would_not_hear(unheard: bytes) -> None:
    reader = read_frames() if unheard else NatsFrames()
    reader.requests(bytearray(unheard))
    (asked,) = reader.requests(bytearray(publishing("storm.queue.STORM-0")))
    assert reader.refusal(asked) == b""


@pytest.mark.parametrize(
    "nonsense", [b"\x16\x03\x01\r\n", b"\r\n", b"PUB a x\r\n", b"PUB a -1\r\n", b"PUB\r\n", b"x" * 70_000]
)
def test_what_is_not_the_protocol_is_no_frame(nonsense: bytes) -> None:
    with pytest.raises(ValueError, match=r"words|size|ends|invalid|index"):
        NatsFrames().requests(bytearray(nonsense))


def test_other_servers_are_named_to_clients_by_addresses_that_lead_through_the_proxies() -> None:
    def moved(line: bytes) -> bytes:
        (frame,) = read_frames().answers(bytearray(line), ended=False)
        return read_frames().readdress(None, frame, {"127.1.2.3:4222": "127.0.0.1:5001"}.__getitem__)

    told = moved(b'INFO {"server_id":"x","connect_urls":["127.1.2.3:4222"]} \r\n')
    assert json.loads(told[5:]) == {"server_id": "x", "connect_urls": ["127.0.0.1:5001"]} and told.endswith(b"\r\n")
    for line in (b'INFO {"server_id":"x"} \r\n', b"INFO [] \r\n", b"PING\r\n", b"MSG a 1 5\r\nINFO \r\n"):
        assert moved(line) == line
    with pytest.raises(ValueError, match="Expecting"):
        moved(b"INFO x\r\n")
