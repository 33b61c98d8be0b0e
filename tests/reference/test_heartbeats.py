"""Heartbeats that followers gather and pass on."""

from __future__ import annotations

import pytest

from chaos.node import Malformed
from reference.controller.heartbeats import Gathered, read_bundle
from reference.controller.liveness import Heartbeat
from reference.mutants.availability import StaleHeartbeats

MS = 1_000_000


def test_a_bundle_tells_each_heartbeat_once_and_how_old_it_is() -> None:
    gathered = Gathered()
    assert gathered.add("b0", Heartbeat("g", 1, 100 * MS, (1, 200, 3)))
    assert not gathered.add("b1", Heartbeat("g", 2, 150 * MS, (1, 100, 1)))
    assert not gathered.add("b0", Heartbeat("g", 1, 170 * MS, (1, 300, 3)))
    told = read_bundle(gathered.bundle(200 * MS), 1000 * MS)
    assert told == {
        "b0": Heartbeat("g", 1, 970 * MS, (1, 300, 3)),
        "b1": Heartbeat("g", 2, 950 * MS, (1, 100, 1)),
    }
    assert read_bundle(gathered.bundle(300 * MS), 1000 * MS) == {}


def test_a_planted_bug_tells_of_silent_brokers_for_ever() -> None:
    gathered = StaleHeartbeats()
    gathered.add("b0", Heartbeat("g", 1, 100 * MS, (1, 200, 3)))
    gathered.bundle(200 * MS)
    told = read_bundle(gathered.bundle(9000 * MS), 1000 * MS)
    assert told == {"b0": Heartbeat("g", 1, 1000 * MS, (1, 200, 3))}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[1]",
        b'[["b0", "g", 1, 0, 1, 2]]',
        b'[["b0", "g", -1, 0, 1, 2, 3]]',
        b'[["b0", "g", 1, -5, 1, 2, 3]]',
        b'[[1, "g", 1, 0, 1, 2, 3]]',
        b'[["b0", "g", "1", 0, 1, 2, 3]]',
    ],
)
def test_a_malformed_bundle_is_refused(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_bundle(body, 0)
