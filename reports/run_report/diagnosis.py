"""Why a run is UNKNOWN: each reason once, however many promises it keeps from being judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.verdict import RunVerdict, UnknownReason, Validity

#: A title has so many letters of a reason that has no words of its own.
_LETTERS = 140
#: What is said where nothing is recorded.
NO_REASON = "evidence is missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason; ``promises`` are those that it alone keeps from being judged, none where it concerns the run."""

    text: str
    promises: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """``advice``: what would give evidence, "" where that is not known. ``reasons``: those of the run first; ``said``:
    the text of the one that the title says in full, "" if it says less. ``promises``: all that could not be judged."""

    title: str
    advice: str
    reasons: Sequence[Reason]
    promises: Sequence[str]
    said: str = ""

    @property
    def further(self) -> list[Reason]:
        """The reasons that the title does not say already."""
        return [one for one in self.reasons if one.text != self.said]

    @property
    def json(self) -> dict[str, Any]:
        """The diagnosis as ``--json`` prints it."""
        reasons = [{"text": one.text, "promises": list(one.promises)} for one in self.reasons]
        return {"title": self.title, "advice": self.advice, "reasons": reasons, "promises": list(self.promises)}


def diagnosis(verdict: RunVerdict) -> Diagnosis:
    """Return why a run is UNKNOWN. A reason of a promise that is one of the whole run is said once."""
    unknown = [law for law in verdict.laws if law.validity is Validity.UNKNOWN]
    own = {f"{law.law}: {law.why}" for law in unknown}
    whole = verdict.reasons or [UnknownReason(text=why) for why in verdict.why if why not in own]
    texts = [reason.text for reason in whole]
    by_text: dict[str, list[str]] = {}
    for law in unknown:
        for text in _folded(_others(law.why, texts)):
            by_text.setdefault(text, []).append(law.law)
    reasons = [Reason(text=text) for text in texts]
    reasons += [Reason(text=text, promises=names) for text, names in by_text.items()]
    first = _most_telling(whole or [UnknownReason(text=text) for text in by_text])
    text = _capitalised(first.text)
    is_cut = not first.title and len(text) > _LETTERS
    return Diagnosis(
        title=first.title or (text[: _LETTERS - 1] + "…" if is_cut else text),
        advice=first.advice,
        reasons=reasons,
        promises=[law.law for law in unknown],
        said="" if first.detailed or is_cut else first.text,
    )


def _most_telling(reasons: Sequence[UnknownReason]) -> UnknownReason:
    """Return the first that has a title, or else the first."""
    return next((one for one in reasons if one.title), reasons[0] if reasons else UnknownReason(text=NO_REASON))


def _capitalised(text: str) -> str:
    """Return a clause as a title begins; a path stays as it is."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].isalpha() else text


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
