"""The faults of a run as people look at them: what each was to do, whom it hit, how that is proven."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.fault import Effect
from chaos.history.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultLine:
    """One injection as the report's table shows it. ``asked_s``: when it was asked for; ``ended``: the nodes whose
    lives it ended when it began; ``proven``: which effects took place, and on which nodes; ``cuts``: pairs of sides, of
    which the first doesn't reach the second while it lasts; ``unsynced``: see :func:`unsynced`."""

    name: str
    id: str
    targets: str
    start_s: float
    end_s: float
    effective: str
    proof: str
    seen: str = ""
    restored: str = ""
    ended: Sequence[str] = ()
    asked_s: float = 0.0
    proven: Mapping[str, Sequence[str]] = field(default_factory=dict)
    cuts: Sequence[tuple[Sequence[str], Sequence[str]]] = ()
    unsynced: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def fault_lines(history: History) -> list[FaultLine]:
    """Return all injections of a run, in the order in which they were asked for."""
    injections: dict[str, dict[str, Any]] = {}
    for row in history.each("fault"):
        at, value = row.at_s, row.value
        known = injections.setdefault(row.process, {"name": row.f, "start": at, "asked": at, "proven": {}})
        for effect, nodes in _mapping(value.get("proven")).items():
            known["proven"].setdefault(effect, []).extend(map(str, _list(nodes)))
        if row.type == "invoke":
            known["targets"] = _list(value.get("targets"))
            known["effects"] = _mapping(value.get("effects"))
            known["cuts"] = list(_cuts(_mapping(value.get("detail")).get("cuts")))
        elif row.type == "fail":
            known.update(end=at, effective="no", proof=value.get("reason", ""))
        elif value.get("phase") == "undo":
            known.update(end=at, after=value.get("probe"))
            if "effective" in value:  # who imported a run does not know
                known["effective"] = "yes" if value["effective"] else "no"
            restored = value.get("restored")
            known["restored"] = "yes" if restored is True else "no" if restored is False else ""
            known["proof"] = {**_mapping(known.get("proof")), **_mapping(value.get("proof"))}
        else:
            known.update(start=at, proof=value.get("proof", {}), effective="yes", during=value.get("probe"))
            known["ended"] = _ended(known.get("effects", {}), _mapping(value.get("proven")))
    return [
        FaultLine(
            name=str(known["name"]),
            id=name,
            targets=", ".join(map(str, known.get("targets", []))),
            start_s=known["start"],
            end_s=known.get("end", history.end_s),
            effective=known.get("effective", "unproven"),
            proof=shortened(known.get("proof", "")),
            seen=shortened("; then ".join(filter(None, (_seen(known.get("during")), _seen(known.get("after"))))), 240),
            restored=known.get("restored", ""),
            ended=known.get("ended", ()),
            asked_s=known["asked"],
            proven={effect: tuple(dict.fromkeys(nodes)) for effect, nodes in known["proven"].items()},
            cuts=known.get("cuts", ()),
            unsynced=unsynced(known.get("proof")),
        )
        for name, known in injections.items()
    ]


def unsynced(proof: object) -> dict[str, tuple[int, int]]:
    """Return what a power cut took from programs of others that they had not synced: files and blocks, by node, of
    those that lost any. A program that is only killed loses nothing that it wrote to the kernel."""
    found = {}
    for node, losses in _mapping(proof).items():
        files, blocks = (_mapping(losses).get(name, 0) for name in ("files_lost", "blocks_lost"))
        if isinstance(files, int) and isinstance(blocks, int) and files + blocks > 0:
            found[node] = (files, blocks)
    return found


def _cuts(detail: object) -> Iterator[tuple[list[str], list[str]]]:
    """Yield sides of a fault's detail, as far as they are what they should be."""
    for pair in detail if isinstance(detail, list) else ():
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(side, list) for side in pair):
            yield [str(node) for node in pair[0]], [str(node) for node in pair[1]]


def _ended(effects: Mapping[str, Any], proven: Mapping[str, Any]) -> tuple[str, ...]:
    """Return who was taken down by something that ends processes; one that only stands still keeps its role."""
    may_crash = [str(node) for node in _list(effects.get(Effect.MAY_CRASH))]
    return tuple(node for node in map(str, _list(proven.get(Effect.TAKES_DOWN))) if node in may_crash)


#: A connection through a cut, and one that no rule was seen to stop.
_FAILS = ("fails", "fails, but no rule was seen to stop it")


def _seen(probe: object) -> str:
    """Say what was seen from outside, in words."""
    seen = _mapping(probe)
    answers, ways = _mapping(seen.get("answers")), [*_mapping(seen.get("across")).items()]
    words = [f"{node} {'answers' if answer else 'is silent'}" for node, answer in answers.items()]
    words += [f"{way} {'works' if works else _FAILS[works is None]}" for way, works in ways]
    broken = [way for way, works in _mapping(seen.get("within")).items() if not works]
    words += [f"{way}, on one side, fails too" for way in broken] or (["within the sides all works"] if ways else [])
    others = {key: value for key, value in seen.items() if key not in ("effect", "answers", "across", "within")}
    return ", ".join([*words, *([shortened(others)] if others else [])])


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def shortened(value: object, limit: int = 160) -> str:
    """Return a value in few words: a text, or what a mapping says."""
    text = value if isinstance(value, str) else ", ".join(f"{k}: {_plain(v)}" for k, v in _mapping(value).items())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(", ", ": ")).replace('"', "")
