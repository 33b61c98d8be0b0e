"""The gateway: conditional writes that a real store decides, outcomes that are settled and never guessed, and a trace
that names each write before anybody is shown it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from reference.tier.objects import content_hash
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.reference.gateway_world import ANSWER_LOST, DENIED, DONE, LATE, LOST, STORES, World, version, world_before

SEEDS = range(60)


def fates(*words: str) -> Callable[[Command], str]:
    """What becomes of the first writes; of all other requests, and of later ones, nothing bad."""
    left = list(words)
    return lambda request: left.pop(0) if left and request.code == Request.STORE_PUT else DONE


# Before a store of the library, and before one that is scripted


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with world_before(request.param, tmp_path) as world:
        yield world


def test_another_life_finds_everything_and_traces_it_again_before_it_shows_it(store: World) -> None:
    store.put("a", b"1")
    store.cas("m", -1, version(1, end=7))
    store.start()
    assert store.get("m").body == version(1, end=7)
    store.listing("")
    store.get("a")
    rows = [row for row in store.traces if row.get("recovered")]
    assert [(row["f"], row["key"], row["caller"], row["request"], row["queue"]) for row in rows] == [
        ("store_cas", "m", "broker-0", "r2", 3),
        ("store_put", "a", "broker-0", "r1", 3),
    ]
    assert rows[0]["offset"] == 7 and rows[0]["content"] == {"version": 1, "end": 7}
    before_shown = [row["f"] for row in store.traces if row.get("recovered") or row["f"] == "store_get"]
    assert before_shown == ["store_cas", "store_get", "store_put", "store_get"]


def test_only_what_stands_under_the_prefix_is_cleared(store: World, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "object").write_bytes(b"of somebody else")
    for key in ("a", "q/1/data/2", "q/1/manifest"):
        store.put(key, b"1")
    assert store.do(Request.STORE_CLEAR).code == Response.SUCCESS
    assert store.put("late", b"1").code == Response.SYSTEM_BUSY  # an uploader that goes on leaves nothing behind
    store.start()
    assert json.loads(store.listing("").body) == []
    assert (tmp_path / "other" / "object").read_bytes() == b"of somebody else"
    assert not (tmp_path / "run-1").exists()


def test_a_write_under_way_ends_before_all_is_cleared() -> None:
    world = World()
    write = world.ask(Request.STORE_PUT, b"1", key="x")
    clear = world.ask(Request.STORE_CLEAR)
    world.settle()
    assert [world.answers[one].code for one in (write, clear)] == [Response.SUCCESS] * 2
    assert not world.cloud.objects


@pytest.mark.parametrize(
    ("code", "body", "fields"),
    [
        (Request.STORE_PUT, b"1", {"key": "../up"}),
        (Request.STORE_PUT, b"1", {"key": "a/.."}),
        (Request.STORE_GET, b"", {"key": ""}),
        (Request.STORE_CAS, version(1), {"key": "m"}),
        (Request.STORE_CAS, version(1), {"key": "m", "expected": "1"}),
        (Request.STORE_CAS, b"[]", {"key": "m", "expected": "-1"}),
        (Request.STORE_LIST, b"", {"prefix": "$(rm)"}),
    ],
)
def test_bad_input_is_refused_before_the_store_is_asked(code: Request, body: bytes, fields: dict[str, str]) -> None:
    world = World()
    opaque = world.ask(code, body, **fields)
    assert not world.gateway().asked
    assert world.answers[opaque].code == Response.MESSAGE_ILLEGAL


# Answers that are lost


@pytest.mark.parametrize("fate", [ANSWER_LOST, LOST])
def test_a_write_whose_answer_is_lost_is_settled_by_its_mark(fate: str) -> None:
    world = World()
    world.cloud.fate = fates(fate)
    assert world.put("x", b"1").code == Response.SUCCESS
    world.cloud.fate = fates(fate)
    assert world.cas("m", -1, version(1)).code == Response.SUCCESS
    world.cloud.fate = fates(fate)
    assert world.cas("m", 1, version(2)).code == Response.SUCCESS
    assert len(world.cloud.history) == 3
    assert len(world.rows("store_put")) == 1 and [row["version"] for row in world.rows("store_cas")] == [1, 2]


def test_a_write_that_is_given_up_is_lost_to_its_caller_and_traced_when_it_is_seen() -> None:
    world = World(timeout_ms=500)
    world.cloud.fate = fates(LATE, *[LOST] * 20)
    assert world.put("x", b"1").code == Response.SYSTEM_ERROR
    (lost,) = world.rows("store_lost")
    assert (lost["verb"], lost["request"], lost["error"]) == ("put", "r1", LOST)
    assert not world.rows("store_put")
    assert world.get("x").code == Response.STORE_ABSENT
    world.cloud.fate = lambda request: DONE
    world.cloud.land()
    assert world.get("x").body == b"1"
    (row,) = world.rows("store_put")
    assert row["recovered"] and row["request"] == "r1"
    assert world.traces.index(row) < world.traces.index(world.rows("store_get")[-1])


def test_a_list_traces_what_landed_late_before_it_shows_it() -> None:
    world = World(timeout_ms=500)
    world.cloud.fate = fates(LATE, *[LOST] * 20)
    world.put("x", b"1")
    world.cloud.fate = lambda request: DONE
    assert json.loads(world.listing("").body) == []
    world.cloud.land()
    assert json.loads(world.listing("").body) == [["x", 1]]
    assert [row["f"] for row in world.traces][-2:] == ["store_put", "store_list"]


def test_a_write_that_may_have_been_replaced_is_in_no_conflict() -> None:
    """Its version may have stood there for a moment: to call that a conflict would be a guess."""
    world = World()
    world.cas("m", -1, version(1))
    world.cloud.fate = fates(ANSWER_LOST)
    mine = world.ask(Request.STORE_CAS, version(2), key="m", expected=1)
    world.step()  # it took effect, and the answer is lost
    assert world.cas("m", 2, version(3), at="store-1").code == Response.SUCCESS
    world.settle()
    assert world.answers[mine].code == Response.SYSTEM_ERROR
    assert [row["version"] for row in world.rows("store_cas") if row["outcome"] == "applied"][:2] == [1, 2]
    assert [row["verb"] for row in world.rows("store_lost")] == ["cas"]


def test_a_write_that_lost_to_another_of_the_same_version_is_in_conflict_for_good() -> None:
    world = World()
    world.cas("m", -1, version(1))
    world.cloud.fate = fates(LATE)
    mine = world.ask(Request.STORE_CAS, version(2, by="me"), key="m", expected=1)
    world.step()
    other = world.ask(Request.STORE_CAS, version(2, by="you"), key="m", expected=1, at="store-1")
    world.step()
    world.settle()
    assert (world.answers[mine].code, world.answers[other].code) in [
        (Response.SUCCESS, Response.STORE_CONFLICT),
        (Response.STORE_CONFLICT, Response.SUCCESS),
    ]
    stands = world.cloud.objects["m"]
    world.cloud.land()
    assert world.cloud.objects["m"] == stands


def test_a_write_is_tried_again_under_the_condition_that_it_had() -> None:
    """A read that began before shows another's version meanwhile: that one must not be replaced by an older one."""
    world = World()
    world.cas("m", -1, version(1))
    world.ask(Request.STORE_GET, key="m")
    world.cloud.fate = fates(LOST)
    mine = world.ask(Request.STORE_CAS, version(2), key="m", expected=1)
    read, write = world.gateway().asked
    world.gateway().asked[:] = [write]
    world.step()  # the write is lost
    world.cas("m", 1, version(2), at="store-1")
    world.cas("m", 2, version(3), at="store-1")
    world.gateway().asked[:] = [read]
    world.settle()
    assert world.get("m").body == version(3)
    assert world.answers[mine].code in (Response.SYSTEM_ERROR, Response.STORE_CONFLICT)


def test_a_content_that_comes_again_does_not_pass_for_the_old_one() -> None:
    """The e_tag is the content's hash: without the marks the first version and the third would have the same."""
    world = World()
    world.cas("m", -1, version(1))
    old = dict(world.gateway().node._seen)
    world.cas("m", 1, version(2), at="store-1")
    world.delete("m", at="store-1")
    world.cas("m", -1, version(1), at="store-1")
    assert world.gateway().node._seen == old  # so it believes that its own version stands there
    world.cas("m", 1, version(2, by="me"))
    assert len({mark for mark, _ in world.cloud.history}) == len(world.cloud.history)


def test_expired_credentials_lose_requests_until_there_are_new_ones() -> None:
    world = World(timeout_ms=500)
    world.cloud.fate = lambda request: DENIED
    assert world.put("x", b"1").code == Response.SYSTEM_ERROR
    assert world.get("x").code == Response.SYSTEM_ERROR
    assert world.listing("").code == Response.SYSTEM_ERROR
    assert {row["error"] for row in world.rows("store_lost")} == {"expired"} and len(world.rows("store_lost")) == 3
    world.cloud.fate = fates(DENIED, DENIED)
    assert world.put("x", b"1").code == Response.SUCCESS


def test_a_deletion_whose_answer_is_lost_is_a_deletion() -> None:
    world = World()
    world.put("x", b"1")
    left = [ANSWER_LOST]
    world.cloud.fate = lambda request: left.pop() if left and request.code == Request.STORE_DELETE else DONE
    assert world.delete("x").code == Response.SUCCESS
    assert [row["outcome"] for row in world.rows("store_delete")] == ["deleted"]


def test_bytes_that_are_not_a_gateways_are_damaged_and_show_nothing() -> None:
    world = World()
    world.put("x", b"1")
    for bad in (b"", b"0123456789", world.cloud.objects["x"][:-1] + b"2"):
        world.cloud.objects["x"] = bad
        assert world.get("x").code == Response.SYSTEM_ERROR
        assert world.rows("store_get")[-1]["outcome"] == "damaged"
    assert world.cas("x", 1, version(2)).code == Response.SYSTEM_ERROR
    assert world.cloud.objects["x"] == bad


def test_requests_for_one_key_wait_for_its_write_and_are_served_in_turn() -> None:
    world = World()
    first = world.ask(Request.STORE_CAS, version(1), key="m", expected=-1)
    read = world.ask(Request.STORE_GET, key="m")
    second = world.ask(Request.STORE_CAS, version(2), key="m", expected=1)
    assert len(world.gateway().asked) == 1
    world.settle()
    assert [world.answers[one].code for one in (first, read, second)] == [Response.SUCCESS] * 3
    assert world.answers[read].body == version(1)


# One writer alone, where the store takes every write


def test_a_write_without_a_condition_that_may_yet_take_effect_stops_all_others_on_its_key() -> None:
    world = World(single_writer=True, timeout_ms=500)
    world.cas("m", -1, version(1))
    world.cloud.fate = fates(LATE)
    assert world.cas("m", 1, version(2)).code == Response.SYSTEM_ERROR
    assert world.cas("m", 1, version(3)).code == Response.SYSTEM_ERROR
    assert world.get("m").body == version(1)
    world.cloud.land()
    assert world.cas("m", 1, version(3)).code == Response.STORE_CONFLICT
    assert world.cas("m", 2, version(3)).code == Response.SUCCESS
    assert [row["version"] for row in world.rows("store_cas") if row["outcome"] == "applied"] == [1, 2, 3]


# All of it together


def chance(rng: Random) -> Callable[[Command], str]:
    return lambda request: rng.choice([DONE] * 6 + [ANSWER_LOST, LOST, LATE, DENIED])


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_lost_one_write_wins_and_nothing_is_shown_untraced(seed: int) -> None:
    """Eight writers, three gateways that die, and a store that loses what it may lose."""
    rng = Random(seed)
    world = World(timeout_ms=400)
    asked: dict[int, int] = {}
    for round in range(6):
        world.cloud.fate = chance(rng)
        for writer in range(8):
            at = f"store-{rng.randrange(3)}"
            body = version(round + 1, by=writer)
            asked[world.ask(Request.STORE_CAS, body, key="m", expected=round or -1, at=at)] = round + 1
            for _ in range(rng.randrange(3)):
                world.step(rng)
        if rng.random() < 0.5:
            world.start(f"store-{rng.randrange(3)}")
        if rng.random() < 0.3:
            world.cloud.land()
        world.settle(rng)
    world.cloud.fate = lambda request: DONE
    world.cloud.land()
    world.settle(rng)
    _check_winners(world, asked)
    _check_trace(world)


def _check_winners(world: World, asked: dict[int, int]) -> None:
    """Each version has one winner at most, who was told so; and who was told of a conflict never wins."""
    took_effect = {request for _, request in world.cloud.history}
    won: dict[int, int] = {}
    for opaque, number in asked.items():
        answer = world.answers.get(opaque)
        if answer is not None and answer.code == Response.SUCCESS:
            won[number] = won.get(number, 0) + 1
            assert f"r{opaque}" in took_effect
        if answer is not None and answer.code == Response.STORE_CONFLICT:
            assert f"r{opaque}" not in took_effect
    assert set(won.values()) <= {1}


def _check_trace(world: World) -> None:
    """What the trace calls applied was, each version is one content, and what stands there in the end is named."""
    applied = [row for row in world.rows("store_cas") if row["outcome"] == "applied"]
    assert {row["request"] for row in applied} <= {request for _, request in world.cloud.history}
    contents: dict[int, set[int]] = {}
    for row in applied:
        contents.setdefault(row["version"], set()).add(row["hash"])
    assert all(len(hashes) == 1 for hashes in contents.values())
    answered = {f"r{opaque}" for opaque, answer in world.answers.items() if answer.code == Response.SUCCESS}
    assert answered - {row["request"] for row in world.rows("store_get")} <= {row["request"] for row in applied}
    shown = world.get("m")
    if shown.code == Response.SUCCESS:
        rows = [row for row in world.rows("store_cas") if row["outcome"] == "applied"]
        assert content_hash(shown.body) in {row["hash"] for row in rows}
