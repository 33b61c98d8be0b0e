"""What any object store promises: the system's own, and a gateway before a store of the library, or a scripted one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from reference.objectstore import serving
from reference.tier.objects import content_hash
from reference.wire.codes import Response
from tests.reference.gateway_world import STORES, World, version, world_before
from tests.reference.test_objectstore import Harness

Store = World | Harness


@pytest.fixture(params=["own", *STORES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "own":
        yield Harness()
        return
    with world_before(request.param, tmp_path) as world:
        yield world


def test_a_put_creates_once_and_never_replaces(store: Store) -> None:
    assert store.put("a/b", b"one").code == Response.SUCCESS
    again = store.put("a/b", b"two")
    assert again.code == Response.STORE_EXISTS
    assert again.fields["hash"] == str(content_hash(b"one")) and again.fields["size"] == "3"
    assert store.get("a/b").body == b"one"
    assert [row["outcome"] for row in store.rows("store_put")] == ["created", "exists"]


def test_a_compare_and_set_needs_the_version_that_stands_there(store: Store) -> None:
    assert store.cas("m", 1, version(2)).code == Response.STORE_CONFLICT
    assert store.cas("m", -1, version(1)).code == Response.SUCCESS
    conflict = store.cas("m", -1, version(1))
    assert (conflict.code, conflict.body) == (Response.STORE_CONFLICT, version(1))
    assert store.cas("m", 1, version(2)).code == Response.SUCCESS
    assert store.cas("m", 1, version(2)).code == Response.STORE_CONFLICT
    assert store.get("m").body == version(2)
    outcomes = [(row["outcome"], row["version"]) for row in store.rows("store_cas")]
    assert outcomes == [("conflict", 2), ("applied", 1), ("conflict", 1), ("applied", 2), ("conflict", 2)]


def test_what_is_absent_is_said_to_be(store: Store) -> None:
    assert store.get("x").code == Response.STORE_ABSENT
    assert store.delete("x").code == Response.STORE_ABSENT
    assert json.loads(store.listing("").body) == []


def test_an_empty_object_is_an_object(store: Store) -> None:
    assert store.put("x", b"").code == Response.SUCCESS
    found = store.get("x")
    assert (found.code, found.body, found.fields["size"]) == (Response.SUCCESS, b"", "0")


def test_a_deleted_object_is_gone_and_may_be_made_again(store: Store) -> None:
    store.put("x", b"1")
    assert store.delete("x").code == Response.SUCCESS
    assert store.get("x").code == Response.STORE_ABSENT
    assert store.put("x", b"2").code == Response.SUCCESS
    assert store.get("x").body == b"2"


def test_a_list_is_sorted_by_key_cut_by_prefix_and_paged(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "LIST_LIMIT", 10)
    keys = [f"q/1/data/{n:05d}" for n in range(15)]
    for key in (*reversed(keys), "q/1/manifest", "q/10/data/0", "p"):
        store.put(key, key.encode())
    store.start()  # it knows nothing of what it has written
    first = store.listing("q/1/data/")
    assert [key for key, _ in json.loads(first.body)] == keys[:10]
    assert first.fields["more"] == "true"
    second = store.listing("q/1/data/", after=keys[9])
    assert json.loads(second.body) == [[key, len(key)] for key in keys[10:]]
    assert second.fields["more"] == "false"
    assert len(json.loads(store.listing("q/10").body)) == 1
    assert [key for key, _ in json.loads(store.listing("q/1", after=keys[-1]).body)] == ["q/1/manifest", "q/10/data/0"]
