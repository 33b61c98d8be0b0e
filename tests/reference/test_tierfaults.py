"""The store under rules of the harness: what it gets wrong, to whom, and what it still does right."""

from __future__ import annotations

import json

from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.seam import deliver
from tests.reference.test_objectstore import Harness, version

MS = 1_000_000


class Broken(Harness):
    """A store that is also spoken to by the harness, and whose clock the test moves."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.told: dict[int, Command] = {}
        super().__init__()

    def mono_ns(self) -> int:
        return self.now_ns

    def send(self, to: str, message: Command, *, after: int | None = None) -> None:
        if to == "harness":
            self.told[message.opaque] = message
        else:
            super().send(to, message, after=after)

    def settle(self) -> None:
        timers, self.timers = self.timers, []
        for name in timers:
            self.store.timer(self, name)
        while self.disk.pending:
            self.sync_one()

    def pass_time(self, ms: int) -> None:
        self.now_ns += ms * MS
        self.settle()

    def say(self, code: Request, rule: str, body: bytes = b"", **fields: str) -> Command:
        self._opaque += 1
        message = Command(code=code, opaque=self._opaque, fields={"rule": rule, **fields}, body=body)
        deliver(self.store, self, "harness", message)
        self.settle()
        return self.told[self._opaque]

    def break_it(self, effect: str, *verbs: str, rule: str = "r", per_mille: int = 1000, delay_ms: int = 0) -> Command:
        told = {"effect": effect, "verbs": verbs, "per_mille": per_mille, "delay_ms": delay_ms}
        return self.say(Request.STORE_BREAK, rule, json.dumps(told).encode())

    def hits(self, rule: str = "r") -> int:
        return int(self.say(Request.STORE_HITS, rule).fields["hits"])

    def holds(self) -> list[str]:
        """What there is, as the harness sees it."""
        return [key for key, _ in json.loads(self.say(Request.STORE_LIST, "", prefix="").body)]

    def keys(self) -> list[str]:
        return [key for key, _ in json.loads(self.listing("").body)]


def test_a_refused_write_stores_nothing_and_other_requests_go_on() -> None:
    store = Broken()
    store.put("a", b"1")
    assert store.break_it("refuse", "put", "cas").code == Response.SUCCESS
    assert store.put("b", b"2").code == store.cas("m", -1, version(1)).code == Response.SYSTEM_ERROR
    assert store.get("a").body == b"1" and store.keys() == ["a"] and store.hits() == 2
    store.say(Request.STORE_MEND, "r")
    assert store.put("b", b"2").code == Response.SUCCESS


def test_expired_credentials_refuse_everything_but_the_harness() -> None:
    store = Broken()
    store.put("a", b"1")
    store.break_it("expire", "put", "cas", "get", "list", "delete")
    for answer in (store.get("a"), store.listing(""), store.delete("a"), store.put("b", b"")):
        assert answer.code == Response.NO_PERMISSION
    assert store.say(Request.STORE_GET, "", key="a").body == b"1"


def test_an_answer_is_lost_but_what_was_asked_for_is_done() -> None:
    store = Broken()
    store.break_it("lose_answer", "put", "cas")
    for number, code in enumerate((Request.STORE_PUT, Request.STORE_CAS)):
        asked = store.ask(code, version(1), key=f"k{number}", expected=-1)
        store.settle()
        assert asked not in store.sent
    store.say(Request.STORE_MEND, "r")
    assert store.put("k0", version(1)).code == Response.STORE_EXISTS
    assert store.cas("k1", -1, version(1)).body == version(1)


def test_a_slow_store_takes_requests_later_and_in_order() -> None:
    store = Broken()
    store.break_it("slow", "put", "get", delay_ms=400)
    first = store.ask(Request.STORE_PUT, b"1", key="a")
    second = store.ask(Request.STORE_DELETE, key="a")
    store.pass_time(399)
    assert not store.sent
    store.pass_time(1)
    assert store.sent[first].code == store.sent[second].code == Response.SUCCESS and store.keys() == []


def test_what_a_slow_store_holds_is_done_also_when_the_rule_is_gone() -> None:
    store = Broken()
    store.break_it("slow", "put", delay_ms=400)
    asked = store.ask(Request.STORE_PUT, b"1", key="a")
    store.say(Request.STORE_MEND, "r")
    store.pass_time(400)
    assert store.sent[asked].code == Response.SUCCESS and store.put("b", b"").code == Response.SUCCESS


def test_a_stale_list_shows_what_there_was() -> None:
    store = Broken()
    for key in ("q/1", "q/2", "r"):
        store.put(key, key.encode())
    store.break_it("stale_list", "list")
    store.delete("q/1")
    store.put("q/3", b"")
    assert json.loads(store.listing("q/").body) == [["q/1", 3], ["q/2", 3]]
    assert store.get("q/1").code == Response.STORE_ABSENT and store.get("q/3").code == Response.SUCCESS
    store.say(Request.STORE_MEND, "r")
    assert store.keys() == ["q/2", "q/3", "r"]


def test_rules_act_together_on_what_they_hit_and_each_ends_alone() -> None:
    store = Broken()
    store.put("q/1", b"")
    store.break_it("slow", "put", "list", rule="slow", delay_ms=300)
    store.break_it("slow", "list", rule="slower", delay_ms=100)
    store.break_it("refuse", "put", rule="refused")
    store.break_it("stale_list", "list", rule="oldest")
    asked = store.ask(Request.STORE_PUT, b"", key="q/2")
    store.pass_time(299)
    assert asked not in store.sent
    store.pass_time(1)
    assert store.sent[asked].code == Response.SYSTEM_ERROR and store.holds() == ["q/1"]
    store.say(Request.STORE_MEND, "refused")
    store.ask(Request.STORE_PUT, b"", key="q/3")
    store.pass_time(300)
    store.break_it("stale_list", "list", rule="newer")
    asked = store.ask(Request.STORE_LIST, prefix="q/")
    store.pass_time(399)
    assert asked not in store.sent
    store.pass_time(1)
    assert json.loads(store.sent[asked].body) == [["q/1", 0]] and store.holds() == ["q/1", "q/3"]
    store.break_it("lose_answer", "put", rule="unheard")
    asked = store.ask(Request.STORE_PUT, b"", key="q/4")
    store.pass_time(300)
    assert asked not in store.sent and store.holds() == ["q/1", "q/3", "q/4"]
    hits = {rule: store.hits(rule) for rule in ("slow", "slower", "refused", "oldest", "newer", "unheard")}
    assert hits == {"slow": 4, "slower": 1, "refused": 0, "oldest": 1, "newer": 1, "unheard": 1}


def test_of_several_refusals_the_first_is_the_answer() -> None:
    store = Broken()
    store.break_it("refuse", "put", rule="one")
    store.break_it("expire", "put", "get", rule="two")
    assert store.put("a", b"").code == Response.SYSTEM_ERROR and store.get("a").code == Response.NO_PERMISSION
    store.say(Request.STORE_MEND, "one")
    store.say(Request.STORE_MEND, "one")
    assert store.put("a", b"").code == Response.NO_PERMISSION
    assert (store.hits("one"), store.hits("two")) == (0, 3)


def test_a_part_of_the_requests_is_hit_and_each_hit_is_traced() -> None:
    store = Broken()
    store.break_it("refuse", "put", per_mille=500)
    refused = [store.put(f"k{number}", b"").code == Response.SYSTEM_ERROR for number in range(200)]
    traced = [row for row in store.traces if row["f"] == "tier_fault"]
    assert 60 < sum(refused) < 140 and store.hits() == len(traced) == sum(refused)
    assert all(row["rule"] == "r" and row["verb"] == "put" for row in traced)


def test_a_store_that_starts_again_has_no_rules() -> None:
    store = Broken()
    store.break_it("expire", "put")
    store.start()
    store.settle()
    assert store.put("a", b"1").code == Response.SUCCESS and store.hits() == 0


def test_what_is_no_rule_is_refused() -> None:
    store = Broken()
    for body in (b"", b"[]", b'{"effect": "burn", "verbs": [], "per_mille": 1, "delay_ms": 0}'):
        assert store.say(Request.STORE_BREAK, "r", body).code == Response.MESSAGE_ILLEGAL
    assert store.put("a", b"1").code == Response.SUCCESS
