"""When violations were done: at the act that broke a promise, not when that was proven."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chaos.verdict import Anomaly, Verdict
from reports.explanation.decisions import is_decision
from reports.parts import Parts
from reports.run_report.fates import Fate
from reports.summary import Numbers, Story

#: Of these every one is known: the messages whose fate is bad.
LOST = "lost"
#: What is read after this phase has begun proves something, and does nothing.
PROOF = "drain"


def acts(
    laws: Sequence[Verdict], story: Story, fates: Sequence[Fate], parts: Parts
) -> list[tuple[str, int, int, Numbers]]:
    """Return each kind of violation, how often it was found, of how many of those it is known when they were done, and
    those moments, as exactly as a picture can show them."""
    made: list[tuple[str, int, int, Numbers]] = []
    for law in laws:
        found: dict[str, list[Anomaly]] = {}
        for anomaly in law.anomalies:
            if not anomaly.lawful:
                found.setdefault(anomaly.name, []).append(anomaly)
        for name, each in found.items():
            count = sum(one.count for one in each)
            moments: Numbers = [at for one in each if (at := act_s(one, story)) is not None]
            known = len(moments)
            if name == LOST and len(lost := _sent(fates, parts)) == count:
                moments, known = lost, count
            elif name in law.moments:
                every = law.moments[name]
                moments = [*moments, *(middle / 1e9 for middle in every.middles_ns())]
                known = count if every.whole else known
            made.append((name, count, known, moments))
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
