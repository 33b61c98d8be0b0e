"""Names in meta's catalog, and entries that meta never writes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.node import Malformed
from reference.metadata.catalog import Entry
from reference.split.names import (
    KINDS,
    check_entry,
    check_group,
    check_members,
    check_replicas,
    node_of,
    replica_name,
    split_replica,
)
from reference.split.view import Cluster


@given(st.from_regex(r"[a-z#-]{1,20}", fullmatch=True), st.integers(0, 10**17))
def test_a_replica_is_a_store_and_its_disk(node: str, disk: int) -> None:
    assert split_replica(replica_name(node, disk)) == (node, disk) and node_of(replica_name(node, disk)) == node


@pytest.mark.parametrize(
    "name", ["", "#1", "store-1", "store-1#", "store-1#x", "store-1#-1", "s#01", "s#²", "s#" + "9" * 5000]
)
def test_other_names_are_no_replica(name: str) -> None:
    with pytest.raises(Malformed):
        split_replica(name)


@pytest.mark.parametrize("name", ["", "x", "-1", "01", "4096", "²", "9" * 5000])
def test_other_names_are_no_group(name: str) -> None:
    assert [check_group(str(number)) for number in (0, 4095)] == [0, 4095]
    with pytest.raises(Malformed):
        check_group(name)


def test_a_membership_has_a_voter_and_nobody_twice() -> None:
    check_members(["store-1#1", "store-1#2"], ["store-2#3"])
    for voters, learners in ([], ["s#1"]), (["s#1", "s#1"], []), (["s#1"], ["s#1"]), (["s"], []), (["s#1"], ["t"]):
        with pytest.raises(Malformed):
            check_members(voters, learners)
    with pytest.raises(Malformed):
        check_replicas(["store-1#1", "store-1#2"])


GOOD: dict[str, tuple[str, dict[str, Any]]] = {
    "broker": ("b", {"life": 1, "nonce": "n", "state": "up"}),
    "store": ("s", {"disk": 1, "word": "w", "zone": "", "state": "draining"}),
    "topic": ("t", {"id": 1, "queues": 1, "retain_ms": 0, "retain_bytes": 0, "deleted": False}),
    "owner": ("slice-0", {"broker": "", "life": 0, "epoch": 2}),
    "group": ("3", {"birth": ["s#1"], "voters": ["s#1"], "learners": [], "index": 0, "wanted": ["s#1"]}),
}


def entry(kind: str, name: str = "", **changed: Any) -> Entry:
    return Entry(kind, name or GOOD[kind][0], 1, 1, {**GOOD[kind][1], **changed})


@pytest.mark.parametrize(
    "bad",
    [
        entry("broker", state="gone?"),
        entry("store", disk=-1),
        entry("topic", queues=-1),
        entry("owner", "slice-x"),
        entry("owner", epoch=-1),
        entry("group", "x"),
        entry("group", voters=["s"]),
        entry("group", voters=[]),
        entry("group", wanted=["s#1", "s#2"]),
        entry("group", birth=["s"]),
        Entry("topic", "t", 1, 1, None),
    ],
)
def test_an_entry_that_meta_never_writes_is_malformed(bad: Entry) -> None:
    assert set(GOOD) == set(KINDS)
    for kind in KINDS:
        check_entry(entry(kind))
    with pytest.raises(Malformed):
        check_entry(bad)


class Known:
    """Entries, and how many changes they are of."""

    def __init__(self, *entries: Entry) -> None:
        self.revision = len(entries)
        self.entries = {one.key: one for one in entries}


def test_a_cluster_reads_entries_with_types_and_again_once_they_change() -> None:
    known = Known(*(entry(kind) for kind in KINDS))
    cluster = Cluster(known)
    topic, group, owner = cluster.topic("t"), cluster.group(3), cluster.owner(0)
    assert topic is not None and group is not None and (topic.version, topic.queues) == (1, 1)
    assert (group.members, group.is_settled, owner.epoch) == (("s#1",), True, 2)
    assert not cluster.is_current(owner) and cluster.owner(1).epoch == 0 and cluster.group(4) is None
    assert cluster.topic_of(1) == topic and not cluster.is_deleted(1) and not cluster.is_deleted(6)
    assert cluster.is_deleted(2), "an id that was passed and has no topic"
    known.entries["topic", "t"] = entry("topic", deleted=True)
    known.entries["owner", "slice-0"] = entry("owner", broker="b", life=1)
    known.revision += 2
    assert cluster.topic("t") is None and cluster.topics() == [] and cluster.is_deleted(1)
    assert cluster.last_topic("t") is not None and cluster.is_current(cluster.owner(0))
