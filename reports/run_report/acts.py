"""When violations were done: at the act that broke a promise, not when that was proven."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chaos.verdict import Anomaly
from reports.explanation.decisions import is_decision
from reports.parts import Parts
from reports.run_report.fates import Fate
from reports.summary import Numbers, Story

#: Of these every one is known: the messages whose fate is bad.
LOST = "lost"
#: What is read after this phase has begun proves something, and does nothing.
PROOF = "drain"


def acts(
    broken: Sequence[Anomaly], story: Story, fates: Sequence[Fate], parts: Parts
) -> list[tuple[str, int, Numbers]]:
    """Return each kind of violation, how often it was found, and when those were done of which that is known."""
    found: dict[str, list[Anomaly]] = {}
    for anomaly in broken:
        found.setdefault(anomaly.name, []).append(anomaly)
    made: list[tuple[str, int, Numbers]] = []
    for name, each in found.items():
        count = sum(one.count for one in each)
        moments: Numbers = [at for one in each if (at := act_s(one, story)) is not None]
        if name == LOST:
            lost = _sent(fates, parts)
            moments = lost if len(lost) == count else moments
        made.append((name, count, moments))
    return made


def act_s(anomaly: Anomaly, story: Story) -> float | None:
    """Return the second of the last row that did something: of a decision, the decision."""
    read_s = next((phase.start_s for phase in story.phases if phase.kind == PROOF), float("inf"))
    seconds = [story.witnesses[row].at_s for row in anomaly.rows if row in story.witnesses]
    done = seconds if is_decision(anomaly.name) else [at for at in seconds if at < read_s] or seconds[:1]
    return max(done, default=None)


def _sent(fates: Sequence[Fate], parts: Parts) -> Numbers:
    """Return when each message was sent that is missing, as exactly as a picture can show it in runs of any size."""
    bad = [fate for fate in fates if fate.bad]
    moments = [np.repeat(np.asarray(fate.sent_s, float), 1 if fate.counts is None else fate.counts) for fate in bad]
    if not moments:
        return ()
    found, counts = parts.counted(np.concatenate(moments))
    return np.repeat(parts.seconds(found), counts)
