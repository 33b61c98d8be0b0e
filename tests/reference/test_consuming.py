"""What consumers are told of a queue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reference.broker.consumer_requests import ConsumerRequests
from reference.tier.interface import Level


@pytest.mark.parametrize(
    ("is_tiered", "view", "minimum"),
    [
        (True, (0, 40), 0),
        (True, (10, 40), 10),
        (True, (40, 40), 30),  # the tier was trimmed to nothing, and the log goes on
        (True, (0, 0), 0),  # of a manifest that has grown since: the log could not begin at 30 otherwise
        (True, None, 0),  # nobody knows yet
        (False, None, 30),
    ],
)
def test_a_queue_is_never_said_to_begin_above_what_the_tier_may_hold(
    is_tiered: bool, view: tuple[int, int] | None, minimum: int
) -> None:
    held = SimpleNamespace(start=view[0], end=view[1]) if view else None
    broker: Any = SimpleNamespace(
        is_tiered=is_tiered, tier=SimpleNamespace(level=Level.NOT_IN_DISK, view=lambda queue: held)
    )
    queue: Any = SimpleNamespace(index=0, first=30)
    assert ConsumerRequests(broker)._minimum(queue) == minimum
