"""Planted bugs of what a replica believes about its own disk when it comes back."""

from __future__ import annotations

from chaos.node import Env
from reference.broker.commitlog import CommitLog
from reference.broker.files import Then
from reference.mutants._planted import Planted


class WholeLogCalledDamaged(CommitLog):
    """A log that holds exactly what its disk was sure to hold, and no byte more, is taken for one that lacks some."""

    @property
    def is_damaged(self) -> bool:
        exactly = 0 < self.end == max(self.confirm, self._held)
        return exactly or super().is_damaged


class EpochsUnsaved(CommitLog):
    """The history of epochs is written down at a cut and when the log begins again, and not when an epoch begins."""

    def begin_epoch(self, env: Env, epoch: int, then: Then) -> None:
        self._trim_epochs(self.end)
        self.epochs.append((epoch, self.end))
        then(env)


MUTANTS = (
    Planted(
        name="whole-log-called-damaged",
        law="roles",
        stands_for="a replica that takes a sound log for a damaged one, forgets who it is, and copies all anew",
        parts={"broker": {"log": WholeLogCalledDamaged}},
        scenario="crash_after_switch",
    ),
    Planted(
        name="epochs-unsaved",
        law="roles",
        stands_for="an epoch file that is written later than the records of its epochs: a crash forgets whose they are",
        parts={"broker": {"log": EpochsUnsaved}},
        scenario="crash_after_switch",
    ),
)
