"""Which bytes of a log count as durable is told when they do, for each epoch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from reference.broker.node import Broker


def test_epochs_that_become_durable_in_one_step_are_each_told() -> None:
    told: list[int] = []
    # The second epoch's bytes are on the disk already.
    log = SimpleNamespace(synced=100, waits_for_epoch=True, synced_file=dict)
    broker: Any = SimpleNamespace(log=log, _unreported=True, replication=SimpleNamespace(synced=lambda env: None))
    env: Any = SimpleNamespace(trace=lambda event: told.append(event.position))
    Broker.epoch_durable(broker, env)
    log.synced, log.waits_for_epoch = 200, False
    Broker.epoch_durable(broker, env)
    assert told == [100, 200]
