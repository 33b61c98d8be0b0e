"""In which order things are left out: what costs most comes first, so that later tries are quick; then what makes the
rest simpler to read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from stormproof.shrinking import reductions
from stormproof.shrinking.document import Document
from stormproof.shrinking.leaps import leap
from stormproof.shrinking.reductions import Attempt
from stormproof.shrinking.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One kind of reduction; ``name`` says in the progress what is tried."""

    name: str
    reduce: Callable[[Document, Attempt, Trial], Document]


PASSES = (
    Pass(name="leaps", reduce=leap),
    Pass(name="faults", reduce=partial(reductions.fewer, key="faults", keep=0)),
    Pass(name="steps of sequences", reduce=reductions.fewer_steps),
    Pass(name="workloads", reduce=partial(reductions.fewer, key="workloads", keep=1)),
    Pass(name="time", reduce=reductions.less_time),
    Pass(name="load and nodes", reduce=partial(reductions.smaller_numbers, sections=("workloads", "system"))),
    Pass(name="length of faults", reduce=reductions.shorter_faults),
    Pass(name="targets", reduce=reductions.fewer_targets),
    Pass(name="strength of faults", reduce=partial(reductions.smaller_numbers, sections=("faults",))),
    Pass(name="options", reduce=reductions.plainer),
    Pass(name="other seeds", reduce=reductions.other_seeds),
    Pass(name="order of messages", reduce=reductions.steadier),
)

#: Of a run whose nodes are processes: its schedule and its load; a try takes as long as it says.
SCHEDULE_AND_LOAD = (
    *(one for one in PASSES if one.name in ("leaps", "faults", "steps of sequences", "workloads", "time")),
    Pass(name="load", reduce=partial(reductions.smaller_numbers, sections=("workloads",))),
    *(one for one in PASSES if one.name == "length of faults"),
)

#: In the place of the passes of these names, for failures that need little load once there is a fault.
WITH_A_FAULT = {
    one.name: one
    for one in (
        Pass(name="leaps", reduce=partial(leap, bare=False)),
        Pass(name="faults", reduce=partial(reductions.fewer, key="faults", keep=1)),
    )
}
