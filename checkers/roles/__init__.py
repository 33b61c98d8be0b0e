"""One master per epoch, epochs only grow, a master comes from the SyncStateSet, and routes follow within a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.roles.answers import Answers
from checkers.roles.disks import Disks
from checkers.roles.elections import Elections
from checkers.roles.members import Members
from checkers.roles.polled import Polled
from checkers.roles.remembered import Remembered
from checkers.roles.routes import Routes
from checkers.roles.switches import Switches
from checkers.roles.unclean import Unclean


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


#: The kernels of the law.
Kernel = Elections | Routes | Members | Answers | Polled | Switches | Remembered | Disks | Unclean


def create(options: Options) -> Sequence[Kernel]:
    return (Elections(), Routes(), Members(), Answers(), Polled(), Switches(), Remembered(), Disks(), Unclean())
