"""What the commands share that run many seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stormproof.commands import _console, _progress

if TYPE_CHECKING:
    from chaos.judging.engine import Session
    from stormproof.sweeping.sweep import Sweep


def drive(sweep: Sweep, session: Session | None, *, stop_on: int, budget_s: float) -> bool:
    """Run a sweep and write its page. What ends it early is one sentence on stderr, with the command that goes on;
    returns whether nothing did."""
    from stormproof.sweeping.plan import alone

    with alone(sweep.directory):
        why = ""
        try:
            with _progress.sweep_progress(len(sweep.plan.runs())) as progress:
                sweep.run(session=session, stop_on=stop_on, budget_s=budget_s, on_progress=progress)
        except KeyboardInterrupt:
            why = "interrupted: the runs that have ended are judged"
        if sweep.hopeless:
            why = f"error: {sweep.hopeless}"
        if why:
            _console.err().print(why, markup=False)
            _console.err().print(f"go on with: stormproof sweep --resume {sweep.directory}", markup=False)
        sweep.finish()
    return not why
