"""YAML values that know their line, and a list of problems that grows until all have been found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from chaos.errors import BadInput
from chaos.plugins import nearest

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
#: Nothing in an experiment lasts longer; times in nanoseconds then fit into 64 bits many times over.
LONGEST_S = 366 * 24 * 3600.0
#: A document with more values is no experiment; aliases of aliases can make billions of a few lines.
MOST_VALUES = 100_000


@dataclass(frozen=True, slots=True)
class Located:
    """A YAML value: a dict or list of further located values, or a scalar. ``line`` counts from 1."""

    value: Any
    line: int

    @property
    def plain(self) -> Any:
        """The value without its places."""
        if isinstance(self.value, dict):
            return {key: child.plain for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain for child in self.value]
        return self.value


def located(value: Any, line: int) -> Located:
    """A plain value, all of it at one line."""
    if isinstance(value, Mapping):
        return Located({key: located(child, line) for key, child in value.items()}, line)
    if isinstance(value, list | tuple):
        return Located([located(child, line) for child in value], line)
    return Located(value, line)


@dataclass(slots=True)
class Problems:
    """Everything that is wrong with one file, in the order of its lines."""

    file: str
    _found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, text: str) -> None:
        self._found.append((line, text))

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        if self._found:
            ordered = sorted(self._found, key=lambda problem: problem[0])
            raise BadInput(*(f"{self.file}:{line}: {text}" if line else text for line, text in ordered))

    def mapping(self, node: Located, what: str) -> dict[str, Located]:
        """The node's children by key; anything but a mapping is a problem, and nothing at all is an empty one."""
        if node.value is None:
            return {}
        if isinstance(node.value, dict):
            return node.value
        self.add(node.line, f"{what}: expected keys and values, got {node.plain!r}")
        return {}

    def sequence(self, node: Located, what: str) -> list[Located]:
        if node.value is None:
            return []
        if isinstance(node.value, list):
            return node.value
        self.add(node.line, f"{what}: expected a list, got {node.plain!r}")
        return []

    def unknown_keys(self, given: dict[str, Located], known: Iterable[str], what: str) -> None:
        names = list(known)
        for key, node in given.items():
            if key not in names:
                self.add(node.line, f"{what}: unknown key {key!r}; {nearest(key, names) or 'it takes none'}")

    def duration(self, node: Located, what: str, *, number: bool = False) -> float:
        """Seconds of ``30s``, ``200ms`` or ``1m30s``; of a bare number only with ``number``. 0.0 when it is wrong."""
        value = node.value
        if number and isinstance(value, int | float) and not isinstance(value, bool):
            seconds: float | None = float(value)
        else:
            seconds = parse_duration(value) if isinstance(value, str) else None
        if seconds is None:
            self.add(node.line, f"{what}: expected a duration such as 30s, 200ms or 1m30s, got {node.plain!r}")
        elif not 0 <= seconds <= LONGEST_S:
            self.add(node.line, f"{what}: a duration can't be negative or more than a year, got {node.plain!r}")
        else:
            return seconds
        return 0.0


def parse_duration(text: str) -> float | None:
    """Seconds of a text such as ``1m30s``; None if it is no duration."""
    words = text.strip().removeprefix("-")
    parts = _PART.findall(words)
    if not parts or "".join(number + unit for number, unit in parts) != words:
        return None
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    return -seconds if text.strip().startswith("-") else seconds


def read_yaml(path: Path, text: str, problems: Problems) -> Located:
    """Parse a document; equal keys in one mapping are problems. Raises :class:`BadInput` on what is no YAML."""
    yaml = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(text)
        return Located({}, 1) if root is None else _Locator(path, yaml, problems).locate(root)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise BadInput(f"{path}:{mark.line + 1 if mark else 1}: this is no YAML: {reason}") from error
    except RecursionError:
        raise BadInput(f"{path}: this is nested too deeply") from None


class _Locator:
    """Walks a document's nodes; aliases are followed, but neither in circles nor for ever."""

    def __init__(self, path: Path, yaml: YAML, problems: Problems) -> None:
        self._path = path
        self._yaml = yaml
        self._problems = problems
        self._above: list[Node] = []
        self._count = 0

    def locate(self, node: Node) -> Located:
        line = node.start_mark.line + 1
        self._count += 1
        if any(node is above for above in self._above):
            raise BadInput(f"{self._path}:{line}: this contains itself, by an alias")
        if self._count > MOST_VALUES:
            raise BadInput(f"{self._path}:{line}: more than {MOST_VALUES} values, aliases counted each time")
        self._above.append(node)
        try:
            if isinstance(node, MappingNode):
                return Located(self._children(node), line)
            if isinstance(node, SequenceNode):
                return Located([self.locate(child) for child in node.value], line)
            assert isinstance(node, ScalarNode)
            return Located(self._scalar(node), line)
        finally:
            self._above.pop()

    def _children(self, node: MappingNode) -> dict[str, Located]:
        children: dict[str, Located] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._problems.add(line, "a key must be a word, not a list or a mapping")
                continue
            key = str(key_node.value)
            if key in children:
                self._problems.add(line, f"the key {key!r} stands here for the second time")
            value = self.locate(value_node)
            children[key] = Located(value.value, line if value.value is None else value.line)
        return children

    def _scalar(self, node: ScalarNode) -> object:
        try:
            return self._yaml.constructor.construct_object(node, deep=True)
        except ValueError as error:  # an integer of ten thousand digits, or the 31st of February
            line = node.start_mark.line + 1
            raise BadInput(f"{self._path}:{line}: {str(node.value)[:40]!r} is no value: {error}") from error
