"""An acknowledged message stays readable at its queue and offset until retention removes it by its rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.durability.accounts import Accounts
from checkers.durability.acknowledged import Acknowledged
from checkers.durability.copies import Copies
from checkers.durability.deletions import Deletions
from checkers.durability.forgotten import Forgotten
from checkers.durability.messages import Messages
from checkers.durability.promise import PROMISE
from checkers.durability.queues import Queues

__all__ = ["PROMISE", "Options", "create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[Accounts | Acknowledged | Messages | Queues | Copies | Forgotten | Deletions]:
    return (Acknowledged(), Messages(), Queues(), Copies(), Forgotten(), Deletions(), Accounts())
