"""What is written on a bar: the longest of its labels that has room, so that no label is cut off."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reports.summary import Bar

_NUMBERED = re.compile(r"([A-Za-z])[A-Za-z_-]*(\d{1,3})")


def of_targets(targets: str, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return labels of a fault, the longest first: all its targets, the first one and how many more, and both with the
    initials of the nodes (``c1`` for ``controller-1``) where no two of ``nodes`` share them."""
    names = targets.split(", ")
    initials = _initials([*nodes, *names])
    brief = [initials.get(name, name) for name in names]
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    labels = (targets, f"{names[0]}{more}", ", ".join(brief), f"{brief[0]}{more}")
    return tuple(sorted(dict.fromkeys(labels), key=lambda label: -len(label)))


def _initials(nodes: Iterable[str]) -> dict[str, str]:
    names_of: dict[str, set[str]] = {}
    for name in nodes:
        if found := _NUMBERED.fullmatch(name):
            names_of.setdefault("".join(found.groups()), set()).add(name)
    return {name: brief for brief, names in names_of.items() if len(names) == 1 for name in names}


def of_role(bar: Bar) -> tuple[str, ...]:
    """Return labels of a role: with its epoch, or the epoch alone; the bar's colour says the role."""
    brief = bar.label.rpartition(" for ")[2].removeprefix(bar.kind).strip()
    return tuple(dict.fromkeys((bar.label, brief)))


def of_owner(bar: Bar) -> tuple[str, ...]:
    """Return labels of who served a slice or led a group: with the epoch; with initials; the epoch alone."""
    node, _, epoch = bar.label.rpartition(" ")
    return tuple(dict.fromkeys((f"{node}, {epoch}", f"{_initials([node]).get(node, node)}, {epoch}", epoch)))


def of_members(bar: Bar) -> tuple[str, ...]:
    """Return labels of a group's members: whole names, or the numbers of the stores."""
    return tuple(dict.fromkeys((bar.label, _NUMBERED.sub(r"\2", bar.label))))


def chosen(labels: Sequence[str], letters: int) -> str:
    """Return the first label of at most so many letters; "" if none has room."""
    return next((label for label in labels if len(label) <= letters), "")
