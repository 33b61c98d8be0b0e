"""A finding as JSON, for programs."""

from __future__ import annotations

from typing import Any

from reports.finding.model import Finding


def as_object(finding: Finding) -> dict[str, Any]:
    """Return all that the page shows, without its picture. Times are seconds since the load began; ``row`` is -1 where
    an event follows from several rows."""
    found, whole = finding.often
    return {
        "cause": finding.number,
        "of": finding.of,
        "title": finding.title,
        "sentence": finding.sentence,
        "chain": [step.json for step in finding.chain],
        "facts": dict(finding.facts),
        "seen": {"in": found, "of": whole},
        "replay": finding.replay,
        "events": [{"at_s": one.at_s, "who": one.lane, "what": one.text, "row": one.row} for one in finding.events],
        "violations": [{"law": law, "anomaly": name, "count": count} for law, name, count in finding.kinds],
        "quoted": [{"law": law, "explanation": words, "rows": list(rows)} for law, words, rows in finding.quoted],
        "nodes": {
            node: [{"row": one.index, "at_s": one.at_s, "what": one.what} for one in traced]
            for node, traced in finding.traced.items()
        },
        "logs": list(finding.logs),
        "unknown": list(finding.unknown),
        "versions": dict(finding.versions),
        "experiment": finding.experiment,
    }
