"""Whether a slave uploads, where replicas are asked for their role and for what they have uploaded."""

from __future__ import annotations

from typing import Any

from chaos.driver import Evidence
from chaos.verdict import Validity
from tests.checkers.histories import History
from tests.checkers.names import A, L

META = {
    "deployment": "netns",
    "tells": [Evidence.OPERATIONS, Evidence.TIER_CONTENT, Evidence.UPLOADS],
    "nodes": [{"name": name, "role": "broker"} for name in ("broker-0", "broker-1")],
}


def told(history: History, f: str, node: str, **value: Any) -> None:
    op = history.row("poll", type="invoke", f=f, node=node)
    history.row("poll", type="ok", op=op, f=f, node=node, value=value)


def polled(*sizes: int, role: str = "slave", first: str = "slave", every_s: float = 2.0, seen: bool = True) -> History:
    """broker-0 is the master and uploads. broker-1 is this, was that before, and notes these sizes, 5 s apart."""
    history = History(meta=dict(META))
    history.phase("load")
    told(history, "state", "broker-1", role=first)
    history.wait(3)
    for number, size in enumerate(sizes):
        history.wait(1)
        told(history, "uploads", "broker-0", files={"a": 100 * number}, late_s=2)
        told(history, "uploads", "broker-1", files={"a": size, f"new-{number}": 7 * number}, late_s=2)
        for _ in range(round(4 / every_s)):
            history.wait(every_s)
            told(history, "state", "broker-0", role="master")
            if seen:
                told(history, "state", "broker-1", role=role)
    return history


def test_what_a_slave_has_uploaded_grew() -> None:
    found = polled(0, 0, 50).expect(L.SINGLE_UPLOADER, A.STALE_UPLOADER, validity=Validity.INVALID)
    assert "broker-1" in found.anomalies[0].explanation and "50 bytes" in found.anomalies[0].explanation


def test_a_slave_that_uploads_nothing_is_lawful() -> None:
    polled(10, 10, 10).expect(L.SINGLE_UPLOADER, validity=Validity.VALID)


def test_who_is_or_was_the_master_may_upload() -> None:
    polled(0, 50, 90, role="master", first="master").expect(L.SINGLE_UPLOADER, validity=Validity.UNKNOWN)
    polled(0, 50, 90, first="master").expect(L.SINGLE_UPLOADER, validity=Validity.UNKNOWN)


def test_a_role_that_was_told_too_seldom_proves_nothing() -> None:
    polled(0, 50, 90, seen=False).expect(L.SINGLE_UPLOADER, validity=Validity.UNKNOWN)


def test_after_a_fault_has_hit_it_a_nodes_account_proves_nothing() -> None:
    history = polled(10, 10, 10)
    history.row("fault", type="invoke", f="kill", process="fault-0", value={"targets": ["broker-1"]})
    history.row("fault", type="ok", f="kill", process="fault-0", value={"targets": ["broker-1"]})
    history.wait(1)
    told(history, "uploads", "broker-1", files={"a": 500}, late_s=0)
    told(history, "state", "broker-1", role="slave")
    history.expect(L.SINGLE_UPLOADER, validity=Validity.VALID)
