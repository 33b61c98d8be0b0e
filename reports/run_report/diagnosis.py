"""Why a run is UNKNOWN: each reason once, however many promises it keeps from being judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.verdict import RunVerdict, Validity

#: Reasons as they are recorded, the most telling first; what a title makes of them, and what would give evidence.
_TITLES = (
    (
        r"only (\d+) of (\d+) recorded rows are left",
        "The recording is damaged: {0} of {1} rows are left",
        "Record it again; what is missing does not come back.",
    ),
    (r"the run was interrupted", "The run was interrupted", "Let it come to its end."),
    (r"the harness failed: (.+)", "The run failed: {0}", "`error.txt` in the run says where, if it is a bug."),
    (r"a node died of its own error: (.{0,80}).*", "A node died of its own error: {0}", "Its log is in `logs/`."),
    (r"the Spark job failed.*", "The judging failed", "Judge it again, perhaps with `--engine local`."),
    (
        r"only (\d+) writes? of workloads? (?:was|were) acknowledged, and (\d+) are the least.*",
        "Too little evidence: {0} acknowledged writes, of at least {1}",
        "Make the load longer, or faults shorter; if few are meant, say `min_acked` in the experiment.",
    ),
    (
        r"no write of a workload was acknowledged.*",
        "No write was acknowledged: there was nothing to keep",
        "Look whether clients reach the system without faults.",
    ),
    (
        r"no queue was drained.*",
        "No queue was read to its end: what is missing can't be distinguished from what was not read",
        "Let the run come to its end, and give `bounds: {drain_s: …}` more time.",
    ),
    (
        r"no (.+) took effect, though the experiment asks for it",
        "No {0} took effect",
        "`stormproof doctor` says what this machine can do.",
    ),
    (
        r"the experiment demands the law (.+), which was not judged",
        "The promise {0}, which the experiment demands, was not judged",
        "Its reason stands under Promises.",
    ),
)
#: A title has so many letters of a reason that has no words of its own.
_LETTERS = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason; ``promises`` are those that it alone keeps from being judged, none where it concerns the run."""

    text: str
    promises: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """``advice``: what would give evidence, "" where that is not known. ``reasons``: those of the run first.
    ``promises``: all that could not be judged."""

    title: str
    advice: str
    reasons: Sequence[Reason]
    promises: Sequence[str]

    @property
    def json(self) -> dict[str, Any]:
        """The diagnosis as ``--json`` prints it."""
        reasons = [{"text": one.text, "promises": list(one.promises)} for one in self.reasons]
        return {"title": self.title, "advice": self.advice, "reasons": reasons, "promises": list(self.promises)}


def diagnosis(verdict: RunVerdict) -> Diagnosis:
    """Return why a run is UNKNOWN. A reason of a promise that is one of the whole run is said once."""
    unknown = [law for law in verdict.laws if law.validity is Validity.UNKNOWN]
    own = {f"{law.law}: {law.why}" for law in unknown}
    whole = [why for why in verdict.why if why not in own]
    by_text: dict[str, list[str]] = {}
    for law in unknown:
        for text in _folded(_others(law.why, whole)):
            by_text.setdefault(text, []).append(law.law)
    reasons = [Reason(text=text) for text in whole]
    reasons += [Reason(text=text, promises=names) for text, names in by_text.items()]
    title, advice = _title(reasons)
    return Diagnosis(title=title, advice=advice, reasons=reasons, promises=[law.law for law in unknown])


def _others(why: str, whole: Sequence[str]) -> Iterator[str]:
    """Yield the reasons in this text that are none of the whole run."""
    for text in whole:
        why = why.replace(text, "")
    yield from (part.strip() for part in why.split("; ") if part.strip(" ;"))


def _folded(reasons: Iterator[str]) -> list[str]:
    """Return reasons in which those of several queues are one."""
    found: dict[str, list[tuple[str, str]]] = {}
    for text in reasons:
        queue = re.search(r"\bqueue (\d+)\b", text)
        found.setdefault(re.sub(r"\bqueue \d+\b", "queue", text), []).append((queue[1] if queue else "", text))
    folded = []
    for same in found.values():
        queues = list(dict.fromkeys(queue for queue, _ in same[1:]))
        more = f" (and so queue{'' if len(queues) == 1 else 's'} {', '.join(queues)})" if queues and queues[0] else ""
        folded.append(same[0][1] + more)
    return folded


def _title(reasons: Sequence[Reason]) -> tuple[str, str]:
    for pattern, title, advice in _TITLES:
        for reason in reasons:
            if found := re.fullmatch(pattern, reason.text):
                parts = (f"{int(part):,}" if part.isdigit() else part for part in found.groups())
                return title.format(*parts), advice
    text = reasons[0].text if reasons else "evidence is missing"
    return text[:1].upper() + (text[1:] if len(text) <= _LETTERS else text[1 : _LETTERS - 1] + "…"), ""
