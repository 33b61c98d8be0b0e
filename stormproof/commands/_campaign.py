"""What the commands share that make many runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from stormproof.commands import _console, _progress

if TYPE_CHECKING:
    from chaos.judging.engine import Session
    from stormproof.campaign.campaign import Campaign
    from stormproof.sweeping.sweep import Sweep


def is_carried_out(campaign: Campaign, run: Callable[[], None], goes_on: str) -> bool:
    """Run a campaign and return whether nothing ended it early. What does is one sentence on stderr, before that which
    says how it ``goes_on``."""
    why = ""
    try:
        run()
    except KeyboardInterrupt:
        why = "interrupted: the runs that have ended are judged"
    if campaign.hopeless:
        why = f"error: {campaign.hopeless}"
    if why:
        _console.err().print(why, markup=False)
        _console.err().print(goes_on, markup=False)
    return not why


def drive(sweep: Sweep, session: Session | None, *, stop_on: int, budget_s: float) -> bool:
    """Run a sweep and write its page. Returns as :func:`is_carried_out`."""
    from stormproof.campaign.campaign import alone

    def run() -> None:
        with _progress.sweep_progress(len(sweep.plan.runs())) as progress:
            sweep.run(session=session, stop_on=stop_on, budget_s=budget_s, on_progress=progress)

    with alone(sweep.directory):
        is_whole = is_carried_out(sweep, run, f"go on with: stormproof sweep --resume {sweep.directory}")
        sweep.finish()
    return is_whole
