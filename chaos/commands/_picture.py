"""From a history and what a checker found to the interactive timeline of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chaos.errors import MachineError
from checkers import _why as why
from checkers._operations import History, Result, Undecided
from reports import _lanes as lanes


def draw(path: Path, history: History, result: Result) -> Path:
    """Write the timeline of one history; return its path. ``path`` may be a directory, which then gets ``ID.html``.
    Raises :class:`chaos.errors.MachineError` when it can't be written."""
    if path.is_dir():
        path = path / f"{_file_name(str(history.id))}.html"
    try:
        lanes.write(path, f"{history.id} ({history.model})", objects(history, result))
    except OSError as error:
        raise MachineError(f"cannot write the picture {path}: {error.strerror or error}") from error
    return path


def objects(history: History, result: Result) -> list[lanes.Lanes]:
    """Each object of the history with its calls and what was found about it. Where the checker stopped at the first
    violation, the other objects are undecided."""
    by_key: dict[str | None, list[int]] = {}
    for number, operation in enumerate(history.operations):
        by_key.setdefault(operation.key, []).append(number)
    undecided = {one.key: one for one in result.undecided}
    return [_object(history, result, key, numbers, undecided.get(key)) for key, numbers in by_key.items()]


def _object(
    history: History, result: Result, key: str | None, numbers: Sequence[int], undecided: Undecided | None
) -> lanes.Lanes:
    calls = [_call(history, number) for number in numbers]
    witness = result.witness
    if result.valid is False and witness is not None and witness.key == key:
        return lanes.Lanes(
            key=key,
            verdict="invalid",
            calls=calls,
            reason=witness.reason,
            blocked=witness.blocked,
            routes=[_route(step) for step in why.dead_ends(history, witness)],
            minimal=witness.minimal,
            minimal_routes=[_route(step) for step in why.minimal_dead_ends(history, witness.minimal)],
        )
    if undecided is not None:
        reason = f"Nobody can tell: {undecided.reason}."
        return lanes.Lanes(
            key=key, verdict="unknown", calls=calls, reason=reason, placed=undecided.placed, of=undecided.of
        )
    order = result.orders.get(key)
    routes = [_route(why.linearization(history, order))] if order else []
    if result.valid is True or order:
        return lanes.Lanes(key=key, verdict="valid", calls=calls, routes=routes)
    reason = "Not looked at to the end: another object is not linearizable." if result.valid is False else ""
    return lanes.Lanes(key=key, verdict="unknown", calls=calls, reason=reason)


def _call(history: History, number: int) -> lanes.Call:
    operation = history.operations[number]
    lines = [f"{name} {row}" for name, row in zip(("line", "to"), operation.rows, strict=True) if row >= 0]
    return lanes.Call(
        number=number,
        process=operation.process,
        label=why.label(history.model, operation),
        call=operation.call,
        ret=operation.ret,
        detail=" ".join(lines),
    )


def _route(step: why.Step) -> lanes.Route:
    untold = [""] * (len(step.order) - len(step.states)) if step.states else []
    return lanes.Route(order=step.order, states=[*untold, *step.states], state=step.state, illegal=dict(step.illegal))


def _file_name(text: str) -> str:
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in Path(text).name).strip(".")
    return safe[:100] or "history"
