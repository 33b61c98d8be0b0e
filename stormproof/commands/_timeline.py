"""From a history and what a checker found to the interactive timeline of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from chaos.errors import MachineError
from checkers.linearizable.history import History, Result, Undecided
from checkers.linearizable.witness import dead_ends as why
from checkers.linearizable.witness.explanation import blocked, call, gap, reason, value
from reports.timeline import page as lanes

#: From what a person wants to see first to last.
_RANK: dict[bool | None, int] = {False: 0, None: 1, True: 2}


class Gallery:
    """Where the pictures of many histories go. ``target`` is one page if its name ends in ``.html``: of the first
    history with the worst verdict. Else it is a directory, which gets a page for each that is not VALID."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._single = target.suffix == ".html"
        self._worst = len(_RANK)
        self._names: set[str] = set()

    def add(self, file: Path, history: History, result: Result) -> Path | None:
        """Draw a history if it belongs here; return the page's path. Raises :class:`chaos.errors.MachineError` when
        the page can't be written."""
        rank = _RANK[result.valid]
        if rank >= self._worst if self._single else result.valid is True:
            return None
        self._worst = rank
        path = self._target if self._single else self._target / self._name(file, history)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lanes.write(path, f"{history.id} ({history.model})", objects(history, result))
        except OSError as error:
            raise MachineError(f"cannot write the picture {path}: {error.strerror or error}") from error
        return path

    def _name(self, file: Path, history: History) -> str:
        text = str(history.id) if history.id == file.name else f"{file.name}-{history.id}"
        stem = "".join(c if c.isalnum() or c in "-_." else "_" for c in text).strip(".")[:100] or "history"
        name = next(name for name in _numbered(stem) if name not in self._names)
        self._names.add(name)
        return name


def _numbered(stem: str) -> Iterator[str]:
    yield f"{stem}.html"
    yield from (f"{stem}-{number}.html" for number in count(2))


def objects(history: History, result: Result) -> list[lanes.Lanes]:
    """Each object of the history with its calls and what was found about it. Where the checker stopped at the first
    violation, the other objects are undecided."""
    by_key: dict[str | None, list[int]] = {}
    for number, operation in enumerate(history.operations):
        by_key.setdefault(operation.key, []).append(number)
    undecided = {one.key: one for one in result.undecided}
    return [
        _object(history, result, key, numbers, undecided.get(key, undecided.get(None)))
        for key, numbers in by_key.items()
    ]


def _object(
    history: History, result: Result, key: str | None, numbers: Sequence[int], undecided: Undecided | None
) -> lanes.Lanes:
    calls = [_call(history, number) for number in numbers]
    name = None if key is None else value(key)
    witness = result.witness
    if result.valid is False and witness is not None and witness.key == key:
        return lanes.Lanes(
            key=name,
            verdict="invalid",
            calls=calls,
            reason=f"{reason(history, witness) or blocked(history, result)}.",
            blocked=witness.blocked if witness.blocked >= 0 else None,
            routes=[_route(step) for step in why.dead_ends(history, witness)],
            minimal=witness.minimal,
            minimal_routes=[_route(step) for step in why.minimal_dead_ends(history, witness.minimal)],
        )
    if undecided is not None:
        return lanes.Lanes(
            key=name,
            verdict="unknown",
            calls=calls,
            reason=f"Nobody can tell: {gap(replace(undecided, key=None))}.",
            placed=undecided.placed if undecided.key == key else 0,
            of=undecided.of if undecided.key == key else 0,
        )
    order = result.orders.get(key)
    routes = [_route(why.linearization(history, order))] if order else []
    if result.valid is True or order:
        return lanes.Lanes(key=name, verdict="valid", calls=calls, routes=routes)
    untold = "Nothing is told of it: another object is not linearizable." if result.valid is False else ""
    return lanes.Lanes(key=name, verdict="unknown", calls=calls, reason=untold)


def _call(history: History, number: int) -> lanes.Call:
    operation = history.operations[number]
    lines = [f"{name} {row}" for name, row in zip(("line", "to"), operation.rows, strict=True) if row >= 0]
    return lanes.Call(
        number=number,
        process=operation.process,
        label=call(operation, history.model),
        call=operation.call,
        ret=operation.ret,
        detail=" ".join(lines),
    )


def _route(step: why.Step) -> lanes.Route:
    untold = [""] * (len(step.order) - len(step.states)) if step.states else []
    return lanes.Route(order=step.order, states=[*untold, *step.states], state=step.state, illegal=dict(step.illegal))
