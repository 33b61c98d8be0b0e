"""The object store: conditional writes, and nothing that was shown is lost by a crash."""

from __future__ import annotations

import json
from random import Random

import pytest

from chaos.events import Event
from chaos.node import DiskFull, NodeSpec
from reference.objectstore.node import RECOVERY_FILES_PER_STEP, ObjectStore
from reference.tier.objects import content_hash
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.free_events import fields_of, name_of
from tests.manifests import whole
from tests.reference.gateway_world import version
from tests.reference.seam import deliver


class CrashDisk:
    """Whole files in memory. Until its sync ends, a crash may keep a change, drop it, or tear it."""

    def __init__(self) -> None:
        self.now: dict[str, bytes] = {}
        self.durable: dict[str, bytes] = {}
        self.pending: list[tuple[int, list[str]]] = []  # syncs under way, with what they will make durable
        self.full = False
        self._token = 0

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        if path not in self.now:
            raise FileNotFoundError(path)
        return self.now[path][offset : None if length is None else offset + length]

    def size(self, path: str) -> int:
        return len(self.now[path]) if path in self.now else -1

    def list(self, prefix: str = "") -> list[str]:
        return sorted(path for path in self.now if path.startswith(prefix))

    def write(self, path: str, offset: int, data: bytes) -> None:
        if self.full:
            raise DiskFull("no room")
        old = self.now.get(path, b"").ljust(offset, b"\0")
        self.now[path] = old[:offset] + data + old[offset + len(data) :]

    def remove(self, path: str) -> None:
        self.now.pop(path, None)

    def sync(self, paths: list[str]) -> int:
        self._token += 1
        self.pending.append((self._token, list(paths)))
        return self._token

    def finish(self) -> int:
        """End the oldest sync."""
        token, paths = self.pending.pop(0)
        for path in paths:
            if path in self.now:
                self.durable[path] = self.now[path]
            else:
                self.durable.pop(path, None)
        return token

    def crash(self, rng: Random) -> None:
        for path in sorted(self.now.keys() | self.durable.keys()):
            if self.now.get(path) == self.durable.get(path):
                continue
            fate = rng.choice(["keep", "drop", "tear"])
            if fate == "keep" and path in self.now:
                self.durable[path] = self.now[path]
            elif fate == "keep":
                del self.durable[path]
            elif fate == "tear" and path in self.now:
                self.durable[path] = self.now[path][: rng.randrange(len(self.now[path]))]
        self.now = dict(self.durable)
        self.pending.clear()


class Harness:
    """One store, its disk, and a client called ``broker-0``; syncs end when the test says so."""

    name = "store-0"

    def __init__(self) -> None:
        self.disk = CrashDisk()
        self.rng = Random(0)
        self.incarnation = 0
        self.traces: list[dict[str, object]] = []
        self.sent: dict[int, Command] = {}
        self._opaque = 0
        self.start()

    def start(self) -> None:
        self.incarnation += 1
        self.timers: list[str] = []
        self.store = ObjectStore(NodeSpec(name=self.name, role="objectstore", package="reference"))
        self.store.start(self)

    def rows(self, name: str) -> list[dict[str, object]]:
        return [row for row in self.traces if row["f"] == name]

    def settle(self) -> None:
        while self.timers:
            self.store.timer(self, self.timers.pop(0))
        while self.disk.pending:
            self.sync_one()

    def sync_one(self) -> None:
        self.store.done(self, self.disk.finish())

    def send(self, to: str, message: Command, *, after: int | None = None) -> None:
        assert to == "broker-0" and message.is_response and message.opaque not in self.sent
        self.sent[message.opaque] = message

    def set_timer(self, name: str, delay_ns: int) -> None:
        self.timers.append(name)

    def trace(self, event: Event) -> None:
        self.traces.append({"f": name_of(event), **fields_of(event)})

    def ask(self, code: Request, body: bytes = b"", **fields: object) -> int:
        self._opaque += 1
        texts = {"request": f"r{self._opaque}", "queue": "3"} | {name: str(value) for name, value in fields.items()}
        deliver(self.store, self, "broker-0", Command(code=code, opaque=self._opaque, fields=texts, body=body))
        return self._opaque

    def do(self, code: Request, body: bytes = b"", **fields: object) -> Command:
        opaque = self.ask(code, body, **fields)
        self.settle()
        return self.sent[opaque]

    def put(self, key: str, body: bytes) -> Command:
        return self.do(Request.STORE_PUT, body, key=key)

    def cas(self, key: str, expected: int, body: bytes) -> Command:
        return self.do(Request.STORE_CAS, body, key=key, expected=expected)

    def get(self, key: str) -> Command:
        return self.do(Request.STORE_GET, key=key)

    def delete(self, key: str) -> Command:
        return self.do(Request.STORE_DELETE, key=key)

    def listing(self, prefix: str, after: str = "") -> Command:
        return self.do(Request.STORE_LIST, prefix=prefix, after=after)


def test_nothing_is_answered_traced_or_shown_before_it_is_durable() -> None:
    store = Harness()
    store.cas("m", -1, version(1))
    put = store.ask(Request.STORE_CAS, version(2), key="m", expected=1)
    seen = store.ask(Request.STORE_GET, key="m")
    assert put not in store.sent
    assert store.sent[seen].body == version(1)
    assert [row["version"] for row in store.traces if row["f"] == "store_cas"] == [1]
    store.sync_one()
    assert store.sent[put].code == Response.SUCCESS
    assert [row["version"] for row in store.traces if row["f"] == "store_cas"] == [1, 2]


def test_writes_to_one_key_take_effect_in_the_order_in_which_they_came() -> None:
    store = Harness()
    asked = [store.ask(Request.STORE_CAS, version(1, by=n), key="m", expected=-1) for n in range(3)]
    deleted = store.ask(Request.STORE_DELETE, key="m")
    late = store.ask(Request.STORE_GET, key="m")
    put = store.ask(Request.STORE_PUT, b"new", key="m")
    store.settle()
    codes = [store.sent[opaque].code for opaque in (*asked, deleted, late, put)]
    conflict = Response.STORE_CONFLICT
    assert codes[:4] == [Response.SUCCESS, conflict, conflict, Response.SUCCESS]
    assert codes[4:] == [Response.STORE_ABSENT, Response.SUCCESS]
    assert store.get("m").body == b"new"


def test_two_keys_do_not_wait_for_each_other() -> None:
    store = Harness()
    store.ask(Request.STORE_PUT, b"1", key="a")
    store.ask(Request.STORE_PUT, b"2", key="b")
    assert len(store.disk.pending) == 2


def test_a_full_disk_refuses_and_changes_nothing() -> None:
    store = Harness()
    store.cas("m", -1, version(1))
    store.disk.full = True
    assert store.cas("m", 1, version(2)).code == Response.SYSTEM_ERROR
    assert store.put("new", b"1").code == Response.SYSTEM_ERROR
    store.disk.full = False
    assert store.get("m").body == version(1)
    assert store.cas("m", 1, version(2)).code == Response.SUCCESS


@pytest.mark.parametrize("key", ["", "/abs", "a/../b", "a b", "a@1", "x" * 300])
def test_a_key_that_is_no_plain_name_is_refused(key: str) -> None:
    assert Harness().put(key, b"1").code == Response.MESSAGE_ILLEGAL


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"version":"2"}', b'{"version":1}', b"\xff"])
def test_content_without_a_higher_version_is_refused(body: bytes) -> None:
    store = Harness()
    store.cas("m", -1, version(1))
    assert store.cas("m", 1, body).code == Response.MESSAGE_ILLEGAL
    assert store.do(Request.STORE_CAS, version(2), key="m", expected="x").code == Response.MESSAGE_ILLEGAL
    assert store.get("m").body == version(1)


def test_a_byte_that_the_disk_has_changed_is_not_served() -> None:
    store = Harness()
    store.put("x", b"hello")
    (path,) = store.disk.list("objects/x")
    store.disk.now[path] = store.disk.now[path][:-1] + b"!"
    assert store.get("x").code == Response.SYSTEM_ERROR


def test_describe_counts_and_other_requests_are_refused() -> None:
    store = Harness()
    store.put("x", b"1")
    assert json.loads(store.do(Request.DESCRIBE).body)["objects"] == 1
    assert store.do(Request.SEND_MESSAGE).code == Response.REQUEST_CODE_NOT_SUPPORTED


def test_traces_say_who_asked_for_what_and_how_it_ended() -> None:
    store = Harness()
    content = version(1, epoch=4, end=20, position=900)
    store.cas("m", -1, content)
    store.cas("m", -1, content)
    rows = [row for row in store.traces if row["f"] == "store_cas"]
    about = {"f": "store_cas", "queue": 3, "caller": "broker-0", "key": "m", "hash": content_hash(content)}
    about |= {"epoch": 4, "offset": 20, "position": 900, "expected": -1, "version": 1, "content": json.loads(content)}
    assert rows == [
        about | {"request": "r1", "outcome": "applied"},
        about | {"request": "r2", "outcome": "conflict"},
    ]
    assert json.loads(json.dumps(store.traces)) == store.traces


def test_manifests_are_traced_by_their_changes_and_whole_again_after_a_restart() -> None:
    store = Harness()
    parts = [{"key": f"k{n}", "base": n} for n in range(9)]
    told = [parts[:3], parts[:4], parts[1:6], parts[1:6], parts[7:9], [], parts[8:]]
    for number, segments in enumerate(told):
        if number == 3:
            store.start()
            store.settle()
        store.cas("m", number - 1 if number else -1, version(number, segments=segments))
        store.cas("m", 77, version(78 + number, segments=[*segments, {"key": "refused"}]))
    rows = [row for row in store.traces if row["f"] == "store_cas" and "recovered" not in row]
    kept = [row["changes"]["kept"] if "changes" in row else None for row in rows if row["outcome"] == "applied"]
    assert kept == [None, [0, 3], [1, 3], None, None, None, None]
    whole(store.traces)
    assert [row["content"]["segments"] for row in rows] == [
        some for segments in told for some in (segments, [*segments, {"key": "refused"}])
    ]


def test_many_objects_are_recovered_in_slices() -> None:
    store = Harness()
    for n in range(RECOVERY_FILES_PER_STEP + 5):
        store.put(f"k{n}", b"%d" % n)
    store.start()
    assert store.sent[store.ask(Request.STORE_GET, key="k1")].code == Response.SYSTEM_BUSY
    store.settle()
    assert store.get("k1").body == b"1"
    assert len(json.loads(store.listing("k").body)) == RECOVERY_FILES_PER_STEP + 5


@pytest.mark.parametrize("seed", range(150))
def test_what_was_answered_or_read_survives_any_crash(seed: int) -> None:
    """Random writes, syncs and crashes: a key's version never falls below what anybody was shown."""
    rng = Random(seed)
    store = Harness()
    shown: dict[str, bytes] = {}  # what an answer has proven to stand, and nothing has been asked since
    doubtful: dict[str, set[bytes | None]] = {}
    for step in range(60):
        key = rng.choice(["a", "b"])
        stands = shown.get(key)
        number = json.loads(stands)["version"] if stands else -1
        action = rng.random()
        if key in doubtful or action < 0.25:
            store.settle()
            answer = store.get(key)
            body = answer.body if answer.code == Response.SUCCESS else None
            assert body in doubtful.pop(key, {stands})
            shown.pop(key, None)
            if body is not None:
                shown[key] = body
        elif action < 0.6:
            assert store.cas(key, number, version(max(1, number + 1), step=step)).code == Response.SUCCESS
            shown[key] = version(max(1, number + 1), step=step)
        elif action < 0.7 and stands:
            assert store.delete(key).code == Response.SUCCESS
            del shown[key]
        else:
            after = version(max(1, number + 1), step=step)
            opaque = store.ask(Request.STORE_CAS, after, key=key, expected=number)
            if rng.random() < 0.3:
                opaque, after = store.ask(Request.STORE_DELETE, key=key), b""
                doubtful[key] = {stands, version(max(1, number + 1), step=step), None}
            else:
                doubtful[key] = {stands, after}
            for _ in range(rng.randrange(3)):
                if store.disk.pending:
                    store.sync_one()
            if opaque in store.sent:
                doubtful[key] = {after or None}
            store.disk.crash(rng)
            store.start()
    store.settle()
    applied = {row["request"] for row in store.traces if row["f"] == "store_cas" and row["outcome"] == "applied"}
    objects = [store.get(key) for key in ("a", "b")]
    whole(store.traces)
    told = {json.dumps(row["content"]).encode() for row in store.traces if row["f"] == "store_cas"}
    assert all(answer.body in told for answer in objects if answer.code == Response.SUCCESS), applied


def test_a_write_that_a_crash_hid_from_the_trace_is_traced_at_recovery() -> None:
    store = Harness()
    store.cas("m", -1, version(1))
    store.ask(Request.STORE_CAS, version(2), key="m", expected=1)
    store.disk.finish()  # durable, but the node dies before it hears so
    store.disk.crash(Random(0))
    store.start()
    last = store.traces[-1]
    assert (last["version"], last["outcome"], last["recovered"]) == (2, "applied", True)
    assert store.get("m").body == version(2)


def test_a_torn_file_is_dropped_and_the_older_version_stands() -> None:
    store = Harness()
    store.cas("m", -1, version(1))
    store.ask(Request.STORE_CAS, version(2), key="m", expected=1)
    (path,) = (path for path in store.disk.list() if path not in store.disk.durable)
    store.disk.durable[path] = store.disk.now[path][:-1]
    store.disk.now = dict(store.disk.durable)
    store.disk.pending.clear()
    store.start()
    assert store.get("m").body == version(1)
    store.settle()
    assert len(store.disk.list()) == 1
