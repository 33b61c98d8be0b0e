"""The driver for etcd: how each call ends, whatever a server answers, and who is said to lead."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from chaos.driver import ClusterView, Disconnected
from chaos.ops import Answer, Failed, Unknown
from chaos.services import set_key, text_key
from drivers.etcd import Options, create
from drivers.etcd.api import packed
from drivers.etcd.locks import EtcdLocks
from drivers.etcd.objects import EtcdObjects

T = TypeVar("T")
HEADER = {"header": {"member_id": "7", "revision": "12", "raft_term": "3"}}
Say = Callable[[str, dict[str, Any]], bytes | None]


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine under load is no silent server."""
    for bound in ("objects.REQUEST_S", "locks.REQUEST_S", "locks.WAIT_S", "members.STATUS_S"):
        monkeypatch.setattr(f"drivers.etcd.{bound}", 60.0)


def http(status: int, body: object) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.0 %d Some Words\r\nContent-Type: application/json\r\n\r\n" % status + text


@dataclass
class Servers:
    """A network with servers that say what the test wants: ``say(path, asked)``, None for nothing at all. A node in
    ``down`` refuses connections. ``asked`` has what came."""

    say: Say
    down: frozenset[str] = frozenset()
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    clock_ns: int = 0
    _serving: list[asyncio.Future[None]] = field(default_factory=list)

    async def dial(self, client: str, node: str, port: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if node in self.down:
            raise Disconnected("refused", sent=False)
        ours, theirs = socket.socketpair()
        self._serving.append(asyncio.ensure_future(self._serve(*await asyncio.open_connection(sock=theirs))))
        return await asyncio.open_connection(sock=ours)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0])
        asked = json.loads(await reader.readexactly(length))
        path = head.split(" ")[1].removeprefix("/v3/")
        self.asked.append((path, asked))
        answer = self.say(path, asked)
        if answer is None:
            await reader.read()  # until the client gives up
        else:
            writer.write(answer)
        writer.close()

    def now_ns(self) -> int:
        self.clock_ns += 50_000_000
        return self.clock_ns


def always(status: int, body: object) -> Servers:
    return Servers(lambda path, asked: http(status, body))


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


def objects(network: Servers, *, serializable: bool = False) -> EtcdObjects:
    return EtcdObjects(network, "c", ("etcd-0",), serializable=serializable)  # type: ignore[arg-type]


def locks(network: Servers) -> EtcdLocks:
    return EtcdLocks(network, "c", ("etcd-0",))  # type: ignore[arg-type]


def test_a_key_that_is_not_there_reads_as_nothing() -> None:
    answer = run(objects(always(200, HEADER)).read(set_key("a"), "etcd-0"))
    assert answer == Answer(node="etcd-0", value={"value": None, "version": 0})
    assert run(objects(always(200, HEADER)).read(text_key("a"), "etcd-0")).value == {"value": None}


@pytest.mark.parametrize("serializable", [False, True])
def test_reads_tell_values_and_versions_and_ask_as_they_were_told(serializable: bool) -> None:
    pair = {"value": packed("[3,1]"), "version": "4", "mod_revision": "9"}
    network = always(200, {**HEADER, "kvs": [pair], "count": "1"})
    assert run(objects(network, serializable=serializable).read(set_key("a"), "etcd-0")).value == {
        "value": [1, 3],
        "version": 4,
    }
    assert network.asked == [("kv/range", {"key": packed("a/set"), "serializable": serializable})]


def test_a_compare_and_set_names_the_version_and_says_when_it_was_another() -> None:
    network = always(200, {**HEADER, "succeeded": True})
    assert run(objects(network).compare_and_set(set_key("a"), "etcd-0", expected=4, value=[2, 1])).value == {
        "version": 5
    }
    ((path, asked),) = network.asked
    assert path == "kv/txn" and asked["compare"][0] == {
        "key": packed("a/set"),
        "target": "VERSION",
        "result": "EQUAL",
        "version": "4",
    }
    assert asked["success"][0]["requestPut"]["value"] == packed("[1, 2]")
    with pytest.raises(Failed) as refused:
        run(objects(always(200, HEADER)).compare_and_set(set_key("a"), "etcd-0", expected=4, value=[1]))
    assert refused.value.answer.value == {"refused": True}


ENDS: list[tuple[str, Servers, type[Exception]]] = [
    ("refused connection", Servers(lambda path, asked: b"", down=frozenset({"etcd-0"})), Failed),
    ("wrong arguments", always(400, {"error": "no", "code": 3, "message": "no"}), Failed),
    ("too many requests", always(429, {"error": "no", "code": 8}), Failed),
    ("no leader", always(503, {"error": "etcdserver: no leader", "code": 14}), Unknown),
    ("timed out there", always(504, {"error": "etcdserver: request timed out", "code": 4}), Unknown),
    ("an error in an ok", always(200, {"error": {"code": 5}}), Unknown),
    ("nothing", Servers(lambda path, asked: b""), Unknown),
    ("half a head", Servers(lambda path, asked: b"HTTP/1.0 200 OK\r\nContent-"), Unknown),
    ("half a body", always(200, b'{"header": {'), Unknown),
    ("no JSON", always(200, b"\xff\xfe"), Unknown),
    ("no object", always(200, b"[1]"), Unknown),
    ("no header", always(200, {"succeeded": True}), Unknown),
    ("no HTTP", Servers(lambda path, asked: b"SSH-2.0-OpenSSH\r\n\r\n"), Unknown),
]


@pytest.mark.parametrize("network, ends", [(one[1], one[2]) for one in ENDS], ids=[one[0] for one in ENDS])
def test_a_write_fails_only_when_it_surely_did_not_happen_and_a_read_always(
    network: Servers, ends: type[Exception]
) -> None:
    changes: list[Callable[[EtcdObjects], Awaitable[Answer]]] = [
        lambda client: client.write(text_key("a"), "etcd-0", "x"),
        lambda client: client.create("a", "etcd-0", numbers=3),
        lambda client: client.compare_and_set(set_key("a"), "etcd-0", expected=1, value=[1]),
    ]
    for change in changes:
        with pytest.raises(ends) as raised:
            run(change(objects(network)))  # type: ignore[arg-type]
        assert raised.value.answer.node == "etcd-0"  # type: ignore[attr-defined]
    with pytest.raises(Failed):
        run(objects(network).read(text_key("a"), "etcd-0"))


def test_silence_is_unknown_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drivers.etcd.objects.REQUEST_S", 0.05)
    with pytest.raises(Unknown, match="timeout"):
        run(objects(Servers(lambda path, asked: None)).write(text_key("a"), "etcd-0", "x"))


@pytest.mark.parametrize("pair", [{"value": "!!"}, {"value": packed("{")}, {"value": packed("[1]"), "version": "x"}, 5])
def test_a_read_of_nonsense_fails(pair: object) -> None:
    with pytest.raises(Failed, match="damaged"):
        run(objects(always(200, {**HEADER, "kvs": [pair]})).read(set_key("a"), "etcd-0"))


# Locks


def lending(**answers: bytes | None) -> Servers:
    usual = {
        "grant": http(200, {**HEADER, "ID": "77", "TTL": "2"}),
        "lock": http(200, {**HEADER, "key": "a2V5"}),
        "keepalive": http(200, {"result": {**HEADER, "ID": "77", "TTL": "2"}}),
        "unlock": http(200, HEADER),
        "revoke": http(200, HEADER),
    }
    return Servers(lambda path, asked: {**usual, **answers}[path.rpartition("/")[2]])


def test_a_lock_is_taken_under_a_lease_renewed_and_given_back() -> None:
    network = lending()

    async def use() -> Answer:
        client = locks(network)
        taken = await client.acquire("a", "etcd-0", lease_s=1.5)
        await client.renew("a", "etcd-0")
        await client.release("a", "etcd-0")
        return taken

    assert run(use()).value == {"token": 12}
    assert network.asked == [
        ("lease/grant", {"TTL": 2}),
        ("lock/lock", {"name": packed("a"), "lease": "77"}),
        ("lease/keepalive", {"ID": "77"}),
        ("lock/unlock", {"key": "a2V5"}),
    ]


UNAVAILABLE = http(503, {"code": 14, "message": "no leader"})


@pytest.mark.parametrize(
    "answers, ends",
    [
        ({"grant": UNAVAILABLE}, Failed),  # nobody waits for a lock under that lease
        ({"lock": UNAVAILABLE}, Failed),  # its lease was revoked
        ({"lock": UNAVAILABLE, "revoke": UNAVAILABLE}, Unknown),
        ({"lock": http(200, HEADER)}, Unknown),
    ],
)
def test_a_lock_that_was_not_taken_may_be_ours_unless_its_lease_was_revoked(
    answers: dict[str, bytes], ends: type[Exception]
) -> None:
    with pytest.raises(ends):
        run(locks(lending(**answers)).acquire("a", "etcd-0", lease_s=2))


def test_a_lease_that_is_over_can_not_be_renewed() -> None:
    async def use() -> None:
        client = locks(lending(keepalive=http(200, {"result": {**HEADER, "ID": "77"}})))
        await client.acquire("a", "etcd-0", lease_s=2)
        await client.renew("a", "etcd-0")

    with pytest.raises(Failed, match="over"):
        run(use())


# Who leads


def view(*status: tuple[int, int, int] | None) -> ClusterView:
    """Servers with the ids 1, 2, 3, each with (leader, committed, applied), or None for one that is down."""
    driver = create(Options())
    down = frozenset(name for name, told in zip(driver.nodes, status, strict=True) if told is None)

    class Several(Servers):
        async def dial(self, client: str, node: str, port: str = "") -> Any:
            number = driver.nodes.index(node)
            leader, committed, applied = status[number] or (0, 0, 0)
            told = {"leader": str(leader), "raftIndex": str(committed), "raftAppliedIndex": str(applied)}
            one = always(200, {"header": {"member_id": str(number + 1)}, "raftTerm": "5", **told})
            one.down = self.down
            return await one.dial(client, node, port)

    return run(driver.view(Several(lambda path, asked: None, down=down)))  # type: ignore[arg-type]


def test_a_settled_cluster_follows_one_leader() -> None:
    found = view((2, 50, 50), (2, 50, 50), (2, 49, 48))
    (group,) = found.groups
    assert found.settled and (group.leader, group.epoch) == ("etcd-1", 5) and group.in_sync == group.replicas


@pytest.mark.parametrize(
    "status, leader, in_sync",
    [
        (((2, 50, 50), (2, 50, 50), None), "etcd-1", ("etcd-0", "etcd-1")),
        (((2, 5000, 5000), (2, 5000, 5000), (2, 9, 9)), "etcd-1", ("etcd-0", "etcd-1")),  # it lags
        (((1, 50, 50), (2, 50, 50), (2, 50, 50)), "etcd-1", ("etcd-1", "etcd-2")),  # one was cut off, and leads nobody
        (((1, 50, 50), None, None), "", ()),
        (((0, 50, 50), (0, 50, 50), (0, 50, 50)), "", ()),
        ((None, None, None), "", ()),
    ],
)
def test_the_leader_is_who_most_follow(
    status: tuple[tuple[int, int, int] | None, ...], leader: str, in_sync: tuple[str, ...]
) -> None:
    found = view(*status)
    assert not found.settled and (found.groups[0].leader, found.groups[0].in_sync) == (leader, in_sync)


@pytest.mark.parametrize(
    "wrong, text", [({"version": "2.3"}, "one of etcd 3.5.0"), ({"election_ms": 200}, "at least 5 times")]
)
def test_wrong_options_are_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Options(**wrong)
