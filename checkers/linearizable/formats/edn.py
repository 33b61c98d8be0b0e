"""Reads EDN, the notation of Clojure's data, in which Jepsen and Knossos write histories.

Integers, floats, strings, booleans, nil, vectors and lists become what Python has for them; tags are dropped and their
values kept, which is right for records. What Python has nothing for keeps a type of its own, so that no two values
that differ become equal unseen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any


class Keyword(str):
    """``:name``, without the colon."""

    __slots__ = ()


class Symbol(str):
    """A name without a colon, and every atom that JSON has no type for: a ratio, a decimal, a character, ``##Inf``;
    the text is as it was written."""

    __slots__ = ()


class Map(dict[Any, Any]):
    """A map that knows the line on which it begins."""

    __slots__ = ("line",)
    line: int


class Set(list[Any]):
    """A set, in the order in which it was written; elements need not be hashable."""

    __slots__ = ()


class EdnError(ValueError):
    """The text is no EDN. ``line`` counts from one."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(problem)
        self.line = line


#: Nested deeper than this is no history.
DEEPEST = 200
#: Python itself reads no longer integers, nor writes them.
MOST_DIGITS = 4000
_TOKEN = re.compile(
    r"""[\s,]+ | ;[^\n]*
    | (?P<string> "(?:[^"\\]|\\.)*" )
    | (?P<open> \#\{ | [\[({] )
    | (?P<close> [\])}] )
    | (?P<discard> \#_ )
    | (?P<special> \#\#[A-Za-z]+ )
    | (?P<tag> \#[A-Za-z][^\s,;"\[\](){}]* )
    | (?P<char> \\(?: u[0-9a-fA-F]{4} | o[0-7]{1,3} | [a-z]{2,} | . ) )
    | (?P<atom> [^\s,;"\[\](){}\\\#][^\s,;"\[\](){}]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_CLOSES = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_WORDS = {"nil": None, "true": True, "false": False}
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)N?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]+N?")
_FLOAT = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_EXACT = re.compile(r"[+-]?(?:[0-9]+/[0-9]+|[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?M)")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_LONGEST_SHOWN = 40


class _Open:
    """A collection that is being read, or the word that waits for the value behind a tag or ``#_``."""

    __slots__ = ("items", "kind", "line")

    def __init__(self, kind: str, line: int) -> None:
        self.kind = kind
        self.line = line
        self.items: list[Any] = []


def read(text: str) -> Iterator[tuple[int, Any]]:
    """Each value at the top level with the line on which it begins; of one vector or list at the top, its elements
    are what :func:`elements` gives. Raises :class:`EdnError`."""
    stack: list[_Open] = []
    position, line, counted = 0, 1, 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            line += text.count("\n", counted, position)
            raise EdnError(line, _strange(text, position))
        kind = token.lastgroup
        if kind is None:
            position = token.end()
            continue
        line += text.count("\n", counted, position)
        counted = position
        position = token.end()
        word = token[0]
        if kind in ("open", "discard", "tag"):
            if len(stack) >= DEEPEST:
                raise EdnError(line, f"values are nested deeper than {DEEPEST}")
            stack.append(_Open(word if kind != "tag" else "#", line))
            continue
        start = line
        if kind == "close":
            if not stack or _CLOSES.get(stack[-1].kind) != word:
                raise EdnError(line, _mismatch(stack, word))
            start = stack[-1].line
            value = _collection(stack.pop())
        else:
            value = _atom(kind, word, line)
        discarded = False
        while stack and stack[-1].kind in ("#_", "#"):
            discarded = discarded or stack[-1].kind == "#_"
            start = stack.pop().line
            if discarded:
                break
        if discarded:
            continue
        if stack:
            stack[-1].items.append(value)
        else:
            yield start, value
    if stack:
        raise EdnError(stack[-1].line, f"what begins here with {stack[-1].kind!r} never ends: the text is cut off")


def elements(text: str) -> Iterator[Any]:
    """Yield what a history holds: the values at the top level, or the elements of the one vector or list there."""
    for _, value in read(text):
        if isinstance(value, list) and not isinstance(value, Set):
            yield from value
        else:
            yield value


def _atom(kind: str, word: str, line: int) -> Any:
    if kind == "string":
        return _ESCAPE.sub(lambda found: _unescape(found[1], line), word[1:-1]) if "\\" in word else word[1:-1]
    if kind in ("char", "special"):
        return Symbol(word)
    if word in _WORDS:
        return _WORDS[word]
    if word[0] == ":":
        if len(word) == 1:
            raise EdnError(line, "a keyword without a name")
        return Keyword(word[1:])
    if word[0].isdigit() or word[0] in "+-":
        return _number(word, line)
    return Symbol(word)


def _number(word: str, line: int) -> Any:
    """Return a number, or a symbol that begins with a sign."""
    if len(word) > MOST_DIGITS:
        raise EdnError(line, f"expected at most {MOST_DIGITS:,} digits, got {word[:_LONGEST_SHOWN]!r} and so on")
    if _INTEGER.fullmatch(word):
        return int(word.rstrip("N"))
    if _FLOAT.fullmatch(word):
        value = float(word)
        if math.isinf(value):
            raise EdnError(line, f"{word[:_LONGEST_SHOWN]!r} is larger than any number here")
        return value
    if _EXACT.fullmatch(word):
        return Symbol(word)
    if _HEXADECIMAL.fullmatch(word):
        return int(word.rstrip("N"), 16)
    if word[0].isdigit() or (word[0] in "+-" and word[1:2].isdigit()):
        raise EdnError(line, f"expected a number, got {word[:_LONGEST_SHOWN]!r}")
    return Symbol(word)


def _unescape(found: str, line: int) -> str:
    if found[0] == "u" and len(found) > 1:
        return chr(int(found[1:], 16))
    if found[0] in "01234567":
        return chr(int(found, 8))
    if found not in _ESCAPES:
        raise EdnError(line, f"a string with the unknown escape \\{found}")
    return _ESCAPES[found]


def _collection(opened: _Open) -> Any:
    if opened.kind == "#{":
        return Set(opened.items)
    if opened.kind != "{":
        return opened.items
    keys, values = opened.items[::2], opened.items[1::2]
    if len(keys) != len(values):
        raise EdnError(opened.line, "a map needs a value for each key, and the last key has none")
    made = Map(zip(map(_hashable, keys), values, strict=True))
    if len(made) != len(keys):
        raise EdnError(opened.line, "a map with the same key twice")
    made.line = opened.line
    return made


def _hashable(key: Any) -> Any:
    if isinstance(key, list):
        return tuple(map(_hashable, key))
    if isinstance(key, dict):
        return tuple((_hashable(name), _hashable(value)) for name, value in key.items())
    return key


def _mismatch(stack: list[_Open], word: str) -> str:
    if not stack:
        return f"{word!r} closes nothing"
    if stack[-1].kind in ("#_", "#"):
        return f"expected a value, got {word!r}"
    return f"expected {_CLOSES[stack[-1].kind]!r} to close what line {stack[-1].line} opens, got {word!r}"


def _strange(text: str, position: int) -> str:
    rest = text[position : position + _LONGEST_SHOWN].splitlines()[0]
    if rest.startswith('"'):
        return "a string that never ends: the text is cut off"
    return f"expected a value, got {rest!r}"
