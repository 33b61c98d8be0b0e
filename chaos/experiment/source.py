"""A YAML file as plain values, and the line of each of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, ComposerError
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from chaos import guarded
from chaos.errors import BadInput

#: No experiment and no inventory that people write is larger.
LARGEST_BYTES = 1 << 20
#: Whole numbers fit into 64 bits: what is larger nobody could count to, nor even print.
LARGEST_NUMBER = 1 << 64
#: A document with more values is no experiment, and takes seconds to read. Aliases of aliases can make billions of
#: values of a few lines.
MOST_VALUES = 20_000

#: Where a value stands: the keys of mappings and the indices of lists that lead to it.
Place = tuple[str | int, ...]


@dataclass(slots=True, kw_only=True)
class Source:
    """``root``: the document, of dicts, lists, texts, numbers, true, false and null. ``lines``: by path, from 1; of
    what has a key, the key's line. ``problems``: what is wrong with it as YAML, each with its line."""

    path: Path
    text: str
    root: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[tuple[int, str]] = field(default_factory=list)

    def locate(self, place: Sequence[str | int]) -> tuple[int, list[str]]:
        """Return the line of a place, and the words that lead to it. Parts that the document doesn't have are left out;
        what a list's entry doesn't say itself, the mapping that holds the list says for it."""
        path: Place = ()
        bare = []
        for part in place:
            if (*path, part) in self.lines:
                path = (*path, part)
            elif path and isinstance(path[-1], int) and (*path[:-2], part) in self.lines:
                path = (*path[:-2], part)
            elif self._at(path) == part:
                bare = [str(part)]
        return self.lines[path], [part for part in path if isinstance(part, str)] + bare

    def _at(self, path: Place) -> object:
        value = self.root
        for part in path:
            value = value[part]
        return value


def _bare_entry(text: str, line: int) -> str:
    """Return the word that stands alone as an entry of a list above this line, which goes on with a key; "" if none
    does."""
    above, here = ["", *text.split("\n")][line : line + 2]
    entry = re.fullmatch(r"(\s*)- ([\w-]+)\s*", above)
    return entry[2] if entry and re.match(rf"{entry[1]}  \w+:(\s|$)", here) else ""


def read(path: Path, *, links: bool = True) -> Source:
    """Read a file; equal keys in one mapping are problems. Raises :class:`BadInput` on what can't be read or is no
    YAML. A link is followed (``links``), for the user who names the file has put it there; what it leads to must be a
    regular file. The file of a recorded run may be anybody's, and is no link."""
    try:
        text = guarded.read(path, LARGEST_BYTES, links=links).decode()
        source = Source(path=path, text=text.replace("\r\n", "\n").replace("\r", "\n"))
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"cannot read {path}: it is no UTF-8 text (byte {error.start})") from error
    yaml = YAML(typ="safe", pure=True)
    yaml.Composer = _Composer
    try:
        _Walk(source, yaml).document(yaml.compose(source.text))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).partition("\n")[0]
        if mark and (bare := _bare_entry(source.text, mark.line)):
            raise BadInput(f"{path}:{mark.line}: `{bare}` has keys of its own below: write `{bare}: {{}}`") from error
        raise BadInput(f"{path}:{mark.line + 1 if mark else 1}: this is not YAML: {reason}") from error
    except RecursionError:
        raise BadInput(f"{path}: this is nested too deeply") from None
    except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError) as error:  # %YAML 1.9, say
        raise BadInput(f"{path}: this is not YAML: {str(error) or type(error).__name__}") from error
    return source


class _Composer(Composer):
    """Composes no more than a document may hold, and says nothing of anchors that stand there twice."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.warn_double_anchors = False
        self._nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._nodes += 1
        if self._nodes > MOST_VALUES:
            mark = self.parser.peek_event().start_mark
            raise ComposerError(None, None, f"there are more than {MOST_VALUES:,} keys and values", mark)
        return super().compose_node(parent, index)


class _Walk:
    """Turns the nodes of a document into plain values; aliases are followed, but neither in circles nor for ever."""

    def __init__(self, source: Source, yaml: YAML) -> None:
        self._source = source
        self._yaml = yaml
        self._above: list[Node] = []
        self._count = 0

    def document(self, root: Node | None) -> None:
        self._source.lines[()] = 1
        self._source.root = None if root is None else self._value(root, (), root.start_mark.line + 1)

    def _value(self, node: Node, path: Place, line: int) -> Any:
        if any(node is above for above in self._above):
            raise self._refusal(node, "this contains itself, by an alias")
        self._count += 1
        if self._count > MOST_VALUES:
            raise self._refusal(node, f"more than {MOST_VALUES:,} values, aliases counted each time")
        self._source.lines[path] = line
        self._above.append(node)
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            if isinstance(node, SequenceNode):
                children = enumerate(node.value)
                return [self._value(child, (*path, index), child.start_mark.line + 1) for index, child in children]
            return self._scalar(node)
        finally:
            self._above.pop()

    def _mapping(self, node: MappingNode, path: Place) -> dict[str, Any]:
        children: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._source.problems.append((line, "a key must be a word, not a list or a mapping"))
                continue
            key = str(key_node.value)
            if key in children:
                self._source.problems.append((line, f"the key {key!r} stands here for the second time"))
            children[key] = self._value(value_node, (*path, key), line)
        return children

    def _scalar(self, node: ScalarNode) -> object:
        try:
            value = self._yaml.constructor.construct_object(node, deep=True)
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:  # the 31st of February, or `!!int ""`
            raise self._refusal(node, f"{str(node.value)[:40]!r} is no value: {error}") from error
        if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
            raise self._refusal(node, f"{str(node.value)[:40]!r} is larger than any number here")
        if isinstance(value, str | int | float | None):
            return value
        problem = f"{str(node.value)[:40]!r} is not a text, number, list or mapping; quote it"  # a date, say
        self._source.problems.append((node.start_mark.line + 1, problem))
        return str(node.value)

    def _refusal(self, node: Node, text: str) -> BadInput:
        return BadInput(f"{self._source.path}:{node.start_mark.line + 1}: {text}")
