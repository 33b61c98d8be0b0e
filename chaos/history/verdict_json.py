"""What ``verdict.json`` holds: a :class:`chaos.verdict.RunVerdict` as JSON, and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from chaos.errors import DamagedHistory
from chaos.verdict import RunVerdict, Verdict

#: What every version has written.
REQUIRED = ("verdict", "seed", "anomalies", "laws", "why")
#: Of what an anomaly has, that which stands in the file only where it says something.
_SELDOM = ("dead_ends", "cycle", "lawful", "by_policy", "policy", "waived")


def verdict_json(verdict: RunVerdict) -> dict[str, Any]:
    """Return a verdict as ``verdict.json`` holds it and ``--json`` prints it. What another tool says stands under its
    name, and never in the place of anything that we say."""
    return {
        **verdict.other_results,
        "run": verdict.run,
        "seed": verdict.seed,
        "verdict": str(verdict.validity),
        "line": verdict.line,
        "by_policy": [dataclasses.asdict(permitted) for permitted in verdict.permitted],
        "no_loss_by_policy": verdict.no_loss_by_policy,
        "waived": [dataclasses.asdict(waived) for waived in verdict.waived],
        "digest": verdict.digest,
        "anomalies": verdict.anomaly_counts(),
        "engine": verdict.engine,
        "seconds": round(verdict.seconds, 3),
        "skipped_faults": list(verdict.skipped_faults),
        "why": list(verdict.why),
        "reasons": [dataclasses.asdict(reason) for reason in verdict.reasons],
        "not_judged": list(verdict.not_judged),
        "reached": dict(verdict.reached),
        "not_reached": list(verdict.not_reached),
        "laws": [_law_json(law) for law in verdict.laws],
    }


def _law_json(law: Verdict) -> dict[str, Any]:
    written = dataclasses.asdict(law)
    for name in ("unjudged", "moments"):
        if not written[name]:
            del written[name]
    for anomaly in written["anomalies"]:
        for name in _SELDOM:
            if not anomaly[name]:
                del anomaly[name]
    return written


def verdict_of(written: Mapping[str, Any]) -> RunVerdict:
    """Return the verdict that ``verdict.json`` holds, of this version or an older one.

    Raises :class:`chaos.errors.DamagedHistory` with the first place where it says what no version has written.
    """
    from pydantic import TypeAdapter, ValidationError  # only readers of a verdict wait for it

    if missing := [name for name in REQUIRED if name not in written]:
        raise DamagedHistory(f"it has no {missing[0]!r}")
    fields = {"run": "", "digest": "", "engine": "", "seconds": 0.0, **written}
    fields["validity"], fields["permitted"] = written["verdict"], written.get("by_policy", [])
    try:
        text = json.dumps(_complete(fields), ensure_ascii=False).encode("utf-8", "replace")  # halves of characters
        verdict = TypeAdapter(RunVerdict).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise DamagedHistory(f"{_place(first['loc'])}: {first['msg']}, not {first['input']!r:.200}") from None
    if not _are_counts(written["anomalies"]):
        raise DamagedHistory("anomalies: Input should be how many there are of each")
    counted = frozenset(written["anomalies"])
    laws = [_with_older_names(law, counted) for law in verdict.laws]
    return dataclasses.replace(verdict, laws=laws)


def _complete(fields: dict[str, Any]) -> dict[str, Any]:
    """Add to each anomaly the law that it stands under: an older version did not."""
    laws = fields["laws"]
    for law in laws if isinstance(laws, list) else ():
        anomalies = law.get("anomalies") if isinstance(law, dict) else None
        for anomaly in anomalies if isinstance(anomalies, list) else ():
            if isinstance(anomaly, dict):
                anomaly.setdefault("law", law.get("law"))
    return fields


def _are_counts(counts: object) -> bool:
    return isinstance(counts, dict) and all(type(count) is int for count in counts.values())


def _with_older_names(law: Verdict, counted: frozenset[str]) -> Verdict:
    """Mark what is no violation: an older version says so only by not counting its name."""
    anomalies = [
        anomaly if anomaly.lawful or anomaly.name in counted else dataclasses.replace(anomaly, lawful=True)
        for anomaly in law.anomalies
    ]
    return dataclasses.replace(law, anomalies=tuple(anomalies))


def _place(path: Iterable[int | str]) -> str:
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part:.100}" for part in path).removeprefix(".")
    return {"validity": "verdict", "permitted": "by_policy"}.get(shown, shown)
