"""A message's way through a storage cluster, of a written history row by row."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.events import SliceOpened
from chaos.history.history import History
from chaos.history.run_meta import RunMeta
from chaos.verdict import Anomaly
from checkers.placement import POSITION_BITS
from reports.explanation.sequence import sequence
from reports.explanation.storage import is_storage_cluster, near, places, way
from reports.explanation.storage_words import entry_words
from reports.explanation.words import words
from tests.checkers.histories import History as MadeHistory
from tests.checkers.histories import content, m

GROUP, EPOCH = 4, 2
STORES = ("store-0", "store-1")


def physical(position: int) -> int:
    return GROUP << POSITION_BITS | position


def entry(history: MadeHistory, epoch: int, broker: str) -> int:
    value = {"broker": broker, "life": 7, "epoch": epoch}
    owner = {"type": "entry", "kind": "owner", "name": "slice-0", "version": 1, "revision": 1, "value": value}
    return history.trace("meta-0", "applied", position=epoch, epoch=1, value={"entry": owner})


def take_over(history: MadeHistory, epoch: int, broker: str, end: int) -> None:
    entry(history, epoch, broker)
    fence = {"group": GROUP, "slice": "slice-0", "broker": broker, "life": 7, "end": end, "accepted": True}
    for node in STORES:
        history.trace(node, "fence", epoch=epoch, position=10 * epoch, value=fence)
    opened = {"slice": "slice-0", "life": 7, "ends": {str(GROUP): end}}
    history.trace(broker, "opened", epoch=epoch, value=opened)


def append(history: MadeHistory, index: int, begin: int, end: int, **more: Any) -> None:
    value = {"group": GROUP, "log_index": index, "end": end, "crc": 1, "accepted": True, **more}
    for node in STORES:
        history.trace(node, "group_append", epoch=EPOCH, position=begin, value=value)


def written() -> tuple[MadeHistory, Anomaly]:
    """broker-0 opens the slice, adds message 1 to bytes 100 to 300 of the group, and acknowledges it; it is sealed, and
    trimmed."""
    history = MadeHistory()
    history.phase("load")
    take_over(history, EPOCH, "broker-0", 100)
    sent = history.invoke("send", process="producer-1.0", queue=0, message=m(1), hash=content(m(1)))
    append(history, 21, 100, 300)
    append(history, 22, 300, 500)
    history.trace("broker-0", "group_acked", epoch=EPOCH, position=300, value={"group": GROUP})
    answer = history.complete(sent, offset=1, position=physical(100), node="broker-0", epoch=EPOCH, incarnation=1)
    piece = {"group": GROUP, "topic": 17, "end": 300, "digest": "ab"}
    history.trace("store-0", "sealed", position=0, value={**piece, "log_index": 23, "size": 300})
    history.trace("store-0", "held", position=0, value={**piece, "source": "made"})
    put = {"caller": "store-0", "key": "seg/17/4/0-300-ab", "request": "r", "outcome": "created"}
    history.trace("tier-0", "store_put", value=put)
    for node in STORES:
        history.trace(node, "uploaded", position=0, value={**piece, "log_index": 24, "key": put["key"]})
    starts = {"group": GROUP, "log_index": 25, "topic": 17, "rule": "size", "starts": {"0": 2}}
    history.trace("store-0", "trim", value=starts)
    take_over(history, EPOCH + 1, "broker-1", 500)
    append(history, 21, 100, 300)  # applied again, after a restart
    rows = (sent, answer)
    return history, Anomaly(law="durability", name="lost", explanation="", rows=rows, queue=0, offset=1, message=m(1))


def recorded(history: MadeHistory) -> History:
    return History.of(history.recorded(), RunMeta(deployment="sim"))


def test_a_lost_message_is_followed_through_broker_and_group() -> None:
    made, anomaly = written()
    arrows, _ = sequence(anomaly, recorded(made))
    shown = [(arrow.source, arrow.target, arrow.phrase) for arrow in arrows]
    assert shown == [
        ("meta-0", "meta-0", "gives slice-0 to broker-0 in epoch 2"),
        ("meta-0", "store-0", "fences group 4 for broker-0 in epoch 2; it ends at 100"),
        ("store-0", "store-1", "fences group 4 for broker-0 in epoch 2; it ends at 100"),
        ("store-1", "broker-0", "opens slice-0 in epoch 2"),
        ("producer-1", "producer-1", "send 0/1"),
        ("producer-1", "store-0", "adds bytes 100 to 300 of group 4 (epoch 2)"),
        ("store-0", "store-1", "adds bytes 100 to 300 of group 4 (epoch 2)"),
        ("store-1", "broker-0", "acknowledges group 4 up to 300 (epoch 2)"),
        ("broker-0", "producer-1", "send 0/1: ok at offset 1"),
    ]


def test_the_way_of_a_message_goes_to_the_tier_and_ends_with_its_trim() -> None:
    history = recorded(written()[0])
    lying = places({m(1)}, history)
    assert lying == {(GROUP, 100)}
    found = [(row.node, row.f) for row in way(lying, {(0, 1)}, history)]
    assert found[:6] == [
        ("meta-0", "applied"), ("store-0", "fence"), ("store-1", "fence"), ("broker-0", "opened"),
        ("store-0", "group_append"), ("store-1", "group_append"),
    ]  # fmt: skip
    assert found[6:13] == [
        ("broker-0", "group_acked"), ("store-0", "sealed"), ("store-0", "held"), ("tier-0", "store_put"),
        ("store-0", "uploaded"), ("store-1", "uploaded"), ("store-0", "trim"),
    ]  # fmt: skip
    assert ("broker-1", "opened") in found  # whose fence ended the epoch


def test_an_opening_is_followed_back_to_meta_and_the_fences() -> None:
    history = recorded(written()[0])
    row = next(row.index for row in history.each(SliceOpened) if row.epoch == EPOCH + 1)
    arrows, _ = sequence(Anomaly(law="fencing", name="opened-unfenced", explanation="", rows=(row,)), history)
    assert [(arrow.target, arrow.phrase) for arrow in arrows] == [
        ("meta-0", "gives slice-0 to broker-1 in epoch 3"),
        ("store-0", "fences group 4 for broker-1 in epoch 3; it ends at 500"),
        ("store-1", "fences group 4 for broker-1 in epoch 3; it ends at 500"),
        ("broker-1", "opens slice-0 in epoch 3"),
    ]


def test_what_is_kept_of_a_large_run_holds_the_whole_way() -> None:
    history = recorded(written()[0])
    lying = places({m(1)}, history)
    small = history.with_rows(history.table.filter(near(lying)(history.table)))
    assert len(small.table) < len(history.table)
    whole, kept = ([(row.node, row.f) for row in way(lying, {(0, 1)}, one)] for one in (history, small))
    assert whole == kept


def test_a_system_without_slices_has_no_such_way() -> None:
    history = MadeHistory()
    history.append("broker-0", 0)
    rows = recorded(history)
    assert not is_storage_cluster(rows) and way({(0, 0)}, {(0, 0)}, rows) == []


def test_what_is_there_in_the_end_has_words() -> None:
    history = MadeHistory()
    history.row("final", f="object", value={"key": "seg/17/4/0-300-ab", "size": 300, "digest": "ab"})
    history.row("final", f="group", node="store-0", position=500, value={"group": GROUP, "sealed": 300})
    history.row("final", f="complete", node="store-0")
    rows = recorded(history)
    assert [words(row, [], "") for row in rows.of_table(rows.table)] == [
        "in the end: the object seg/17/4/0-300-ab",
        "in the end: group 4 up to 500, sealed up to 300",
        "in the end: complete",
    ]


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("owner", {"broker": "", "epoch": 3}, "gives x to nobody in epoch 3"),
        ("store", {"state": "gone"}, "store x: gone"),
        ("topic", {"queues": 4}, "topic x: changed"),
        ("group", {"voters": ["a"], "learners": ["b"], "wanted": ["c"]}, "group x: voters a, learner b, wants c"),
        ("group", {"voters": 3, "wanted": []}, "group x: voters none"),
    ],
)
def test_entries_of_meta_have_words(kind: str, value: dict[str, Any], said: str) -> None:
    assert entry_words({"type": "entry", "kind": kind, "name": "x", "value": value}) == said
    assert entry_words({"type": "elect", "value": value}) == entry_words({"type": "entry", "value": 3}) == ""
