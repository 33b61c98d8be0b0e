"""When violations were done: at the act that broke a promise; and when that was proven, where it was later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
#: A proof so many seconds after the act is seen as later.
LATER_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Acts:
    """Violations of one kind: ``count`` of them were found, and of ``known`` it is known when they were done: in these
    seconds, as exactly as a picture can show it. ``proven_s``: when the last row behind them was written, if the proof
    of any came noticeably later than its act."""

    name: str
    count: int
    known: int
    acted_s: Numbers
    proven_s: float | None = None


def acts(laws: Sequence[Verdict], story: Story, fates: Sequence[Fate], parts: Parts) -> list[Acts]:
    """Return each kind of violation with the moments at which those were done."""
    made: list[Acts] = []
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
            made.append(Acts(name=name, count=count, known=known, acted_s=moments, proven_s=_proven_s(each, story)))
    return made


def act_s(anomaly: Anomaly, story: Story) -> float | None:
    """Return the second of the last row that did something: of a decision, the decision."""
    read_s = next((phase.start_s for phase in story.phases if phase.kind == PROOF), float("inf"))
    seconds = _seconds(anomaly, story)
    done = seconds if is_decision(anomaly.name) else [at for at in seconds if at < read_s] or seconds[:1]
    return max(done, default=None)


def _proven_s(anomalies: Iterable[Anomaly], story: Story) -> float | None:
    """Return the second of the last row behind violations; None if each was proven when it was done."""
    spans = [(act_s(one, story), max(seconds)) for one in anomalies if (seconds := _seconds(one, story))]
    later = any(act is not None and proof - act >= LATER_S for act, proof in spans)
    return max(proof for _, proof in spans) if later else None


def _seconds(anomaly: Anomaly, story: Story) -> list[float]:
    return [story.witnesses[row].at_s for row in anomaly.rows if row in story.witnesses]


def _sent(fates: Sequence[Fate], parts: Parts) -> Numbers:
    """Return when each message was sent that is missing, as exactly as a picture can show it in runs of any size."""
    bad = [fate for fate in fates if fate.bad]
    moments = [np.repeat(np.asarray(fate.sent_s, float), 1 if fate.counts is None else fate.counts) for fate in bad]
    if not moments:
        return ()
    found, counts = parts.counted(np.concatenate(moments))
    return np.repeat(parts.seconds(found), counts)
