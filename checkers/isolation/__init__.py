"""Transactions over queues or keys seem to happen one after another: no cycles of what each of them read and wrote."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.driver import NoOptions
from checkers.isolation.keys import Keys
from checkers.isolation.promise import PROMISE
from checkers.isolation.queues import Queues
from checkers.isolation.transactions import Transactions

__all__ = ["PROMISE", "create"]


def create(options: NoOptions) -> Sequence[Queues | Transactions | Keys]:
    return (Queues(), Transactions(), Keys())
