"""Judged runs as Markdown, for the summary that a CI server shows of a job."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from chaos.errors import ChaosError
from chaos.history.directory import read_meta, read_verdict
from chaos.verdict import Validity
from reports.in_words import story

#: So many runs are listed; servers show no page without bounds.
LISTED = 50
#: Characters that mean something in a line of Markdown, or in HTML.
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#!~$&])")
#: What servers make a link of although nobody wrote one: an address. And a name, whose owner would be notified.
_ADDRESS = re.compile(r"(?<=:)(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_MENTION = re.compile(r"@(?=\w)")
#: Characters that mean something in HTML or in a table, or that begin or end a code span.
_ENTITIES = {ord(c): f"&#{ord(c)};" for c in "\\`*_{}[]<>|#!~$&@:"}
#: The verdict of a run that nobody judged, or whose verdict can't be read.
NONE = "ERROR"
ORDER = ("INVALID", NONE, "UNKNOWN", "VALID")


def escaped(text: str) -> str:
    """Return a text as one line of Markdown that means nothing but itself; values come from the system under test."""
    shown = _ADDRESS.sub(r"\\", SPECIAL.sub(r"\\\1", _line(text)))
    return _MENTION.sub("@&#8203;", shown)  # a space without width, which no name has


def code(text: str) -> str:
    """Return a text as code in a line, whatever backquotes are in it, also within a table."""
    line = _line(text)
    if "\\|" in line:  # in a table nothing that is between backquotes can say that
        return f"<code>{line.translate(_ENTITIES)}</code>"
    line = line.replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def _line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def summary(runs: Sequence[Path]) -> str:
    """Summarise all runs: how many of each verdict, then those that are not VALID, the worst first, and those that lost
    something by policy, each with what happened and the replay command. A run without a verdict counts as an error,
    never as green."""
    reported = tell(runs)
    counts = [(word, sum(one["verdict"] == word for one in reported)) for word in ORDER]
    heading = ", ".join(f"{count} {word}{_lossy(word, reported)}" for word, count in counts if count) or "no runs"
    shown = [one for one in reported if one["verdict"] != "VALID" or one["by_policy"]]
    return "\n".join([f"## Stormproof: {heading}", *_table(shown)]) + "\n"


def _lossy(word: str, runs: Sequence[dict[str, Any]]) -> str:
    lossy = sum(one["verdict"] == word == "VALID" and bool(one["by_policy"]) for one in runs)
    return f" ({lossy} of them with losses by policy)" if lossy else ""


def tell(runs: Sequence[Path]) -> list[dict[str, Any]]:
    """Return an object for each run, the worst first: ``verdict``, ``name``, ``seed`` (-1: none), ``deployment``, the
    ``laws`` that are INVALID, ``by_policy`` (what was lost although the profile permits it; "" for nothing), ``story``
    (what happened; "" in a VALID run without such losses), ``replay`` and ``run``, its directory."""
    return sorted(map(_as_object, runs), key=lambda one: (ORDER.index(one["verdict"]), one["name"], one["seed"]))


def _as_object(run: Path) -> dict[str, Any]:
    fields: dict[str, Any] = {"verdict": NONE, "name": run.name, "seed": -1, "deployment": "", "laws": []}
    fields |= {"by_policy": "", "story": "", "replay": "", "run": str(run)}
    try:
        meta = read_meta(run)
        fields.update({"name": meta.name or run.name, "replay": meta.replay_command})
        fields.update({"seed": meta.seed, "deployment": meta.deployment})
        verdict = read_verdict(run)
        if verdict.validity not in ORDER:
            return {**fields, "story": f"the verdict is {str(verdict.validity)!r}"}
        laws = [law.law for law in verdict.laws if law.validity is Validity.INVALID]
        fields.update({"verdict": str(verdict.validity), "laws": laws, "by_policy": "; ".join(verdict.qualifiers)})
        return fields if verdict.validity is Validity.VALID else {**fields, "story": story(run)}
    except ChaosError as error:
        return {**fields, "story": str(error)}


def _table(runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    if not runs:
        return
    yield ""
    yield "| verdict | experiment | seed | what happened |"
    yield "|---|---|---|---|"
    for one in runs[:LISTED]:
        broken = f"{one['verdict']}: {', '.join(one['laws'])}" if one["laws"] else one["verdict"]
        replay = f"<br>{code(one['replay'])}" if one["replay"] else ""
        where = f" ({escaped(one['deployment'])})" if one["deployment"] else ""
        seed = one["seed"] if one["seed"] >= 0 else ""
        story = "; ".join(filter(None, (one["by_policy"], one["story"])))
        yield f"| **{escaped(broken)}** | {escaped(one['name'])}{where} | {seed} | {escaped(story)}{replay} |"
    if len(runs) > LISTED:
        yield ""
        lossy = any(one["verdict"] == "VALID" for one in runs[LISTED:])
        left = len(runs) - LISTED
        more = f"{left} more {'run is' if left == 1 else 'runs are'}"
        yield f"{more} not VALID{', or lost something by policy' if lossy else ''}."
