"""Which messages a subscription selects: by their tags, or by a condition on their properties.

A condition is a small part of SQL92: comparisons (``=``, ``<>``, ``>``, ``>=``, ``<``, ``<=``) of a property with a
number, a text or another property, ``BETWEEN``, ``IN``, ``IS NULL``, ``AND``, ``OR``, ``NOT``, parentheses, ``TRUE``
and ``FALSE``. As in RocketMQ, texts are compared for equality alone. A property that a message lacks is NULL, and so is
one that is no number where a number is asked for: what is compared with it is unknown, and only what is true is
selected.

RocketMQ's brokers compare hashes of tags and leave the rest to their clients; here the tags themselves are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne

from reference.broker import properties

#: Returns whether the record with these properties, as they stand in it, is selected.
Filter = Callable[[bytes], bool]
_Properties = Mapping[str, str]
#: Returns None for unknown.
_Condition = Callable[[_Properties], bool | None]
_Value = str | int | float | bool | None
_Operand = Callable[[_Properties], _Value]

TAG, SQL92 = "TAG", "SQL92"
#: What stands for all messages.
ALL = frozenset({"", "*"})
#: The longest subscription, and how deep its conditions may be nested: each is tried on every message that is read.
MAX_CHARACTERS, MAX_DEPTH = 2048, 32
#: A property with more characters is no number.
_MAX_DIGITS = 64

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]))
    |'(?P<text>(?:[^']|'')*)'
    |(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<sign><>|>=|<=|[=<>(),]))""",
    re.VERBOSE | re.ASCII,
)
_COMPARISONS: Mapping[str, Callable[[object, object], bool]] = {"=": eq, "<>": ne}
_ORDERS: Mapping[str, Callable[[float, float], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}
_WORDS = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "IS", "NULL", "TRUE", "FALSE"})
_TRUTHS = {"true": True, "false": False}


class BadSubscription(ValueError):
    """The text says which part of a subscription can't be understood, and why."""


@lru_cache(maxsize=256)
def read_filter(kind: str, subscription: str) -> Filter | None:
    """Return what a subscription selects; None for all messages. ``kind``: :data:`TAG` (also ""), or :data:`SQL92`.
    Raises :class:`BadSubscription`."""
    if len(subscription) > MAX_CHARACTERS:
        raise BadSubscription(f"a subscription has at most {MAX_CHARACTERS} characters, not {len(subscription)}")
    if kind == SQL92:
        condition = _Parser(subscription).condition()
        return lambda raw: condition(properties.read(raw)) is True
    if kind not in ("", TAG):
        raise BadSubscription(f"the type of a subscription is {TAG} or {SQL92}, not {kind[:40]!r}")
    if subscription in ALL:
        return None
    tags = frozenset(tag.strip() for tag in subscription.split("||")) - {""}
    if not tags:
        raise BadSubscription(f"{subscription[:40]!r} names no tag")
    return lambda raw: properties.read(raw).get("TAGS") in tags


class _Parser:
    """Reads one condition. ``_words``: its parts, each with its kind and where it begins."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words: list[tuple[str, str, int]] = []
        self._at = 0
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._error(at + len(text[at:]) - len(text[at:].lstrip()), "this can't be understood")
            kind = str(found.lastgroup)
            word, begin = found[kind], found.start(kind) - (kind == "text")
            is_word = kind == "name" and word.upper() in _WORDS
            self._words.append(("word", word.upper(), begin) if is_word else (kind, word, begin))
            at = found.end()
        self._words.append(("end", "", end))

    def condition(self) -> _Condition:
        """Read the whole of it."""
        found = self._either(0)
        if self._kind != "end":
            raise self._unexpected("AND, OR or the end")
        return found

    # Where the reader is

    @property
    def _kind(self) -> str:
        return self._words[self._at][0]

    @property
    def _word(self) -> str:
        """The word or sign here; "" for others."""
        kind, word, _ = self._words[self._at]
        return word if kind in ("word", "sign") else ""

    def _takes(self, *words: str) -> bool:
        """Return whether these words or signs come next, and go behind them if they do."""
        come = self._words[self._at : self._at + len(words)]
        taken = [word for kind, word, _ in come if kind in ("word", "sign")] == list(words)
        self._at += len(words) if taken else 0
        return taken

    def _must_take(self, word: str) -> None:
        if not self._takes(word):
            raise self._unexpected(word)

    def _unexpected(self, wanted: str) -> BadSubscription:
        return self._error(self._words[self._at][2], f"expected is {wanted}")

    def _error(self, at: int, reason: str) -> BadSubscription:
        here = self._text[at : at + 20]
        return BadSubscription(f"character {at + 1} of the condition, {here!r}: {reason}" if here else f"end: {reason}")

    # Conditions

    def _either(self, depth: int) -> _Condition:
        if depth > MAX_DEPTH:
            raise self._error(self._words[self._at][2], f"it is nested deeper than {MAX_DEPTH} levels")
        parts = [self._both(depth)]
        while self._takes("OR"):
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else _any_of(parts)

    def _both(self, depth: int) -> _Condition:
        parts = [self._negated(depth)]
        while self._takes("AND"):
            parts.append(self._negated(depth))
        return parts[0] if len(parts) == 1 else _all_of(parts)

    def _negated(self, depth: int) -> _Condition:
        odd = False
        while self._takes("NOT"):
            odd = not odd
        found = self._single(depth)
        return _not(found) if odd else found

    def _single(self, depth: int) -> _Condition:
        if self._takes("("):
            found = self._either(depth + 1)
            self._must_take(")")
            return found
        if self._word in ("TRUE", "FALSE"):
            truth = self._word == "TRUE"
            self._at += 1
            return lambda properties: truth
        return self._comparison()

    def _comparison(self) -> _Condition:
        left = self._operand("a property, a number, a text, NOT or (")
        if self._takes("IS"):
            negated = self._takes("NOT")
            self._must_take("NULL")
            return lambda properties: (left(properties) is None) != negated
        negated = self._takes("NOT")
        if self._takes("BETWEEN"):
            low = self._number()
            self._must_take("AND")
            between = _all_of([_ordered(ge, left, low), _ordered(le, left, self._number())])
            return _not(between) if negated else between
        if self._takes("IN"):
            return _not(_in(left, self._texts())) if negated else _in(left, self._texts())
        if negated:
            raise self._unexpected("BETWEEN or IN")
        return self._compared(left)

    def _compared(self, left: _Operand) -> _Condition:
        sign = self._word
        if sign in _COMPARISONS:
            self._at += 1
            return _equal(_COMPARISONS[sign], left, self._operand("a property, a number, a text, TRUE or FALSE"))
        if sign in _ORDERS:
            left_kind = self._words[self._at - 1]
            self._at += 1
            if left_kind[0] == "text":
                raise self._error(left_kind[2], "texts are compared by = and <> alone")
            return _ordered(_ORDERS[sign], left, self._number())
        raise self._unexpected("=, <>, >, >=, <, <=, BETWEEN, IN or IS")

    def _operand(self, wanted: str) -> _Operand:
        kind, word, begin = self._words[self._at]
        if kind == "name":
            self._at += 1
            return lambda properties: properties.get(word)
        value: _Value
        if kind == "number":
            value = _as_number(word)
            if value is None:
                raise self._error(begin, f"a number has at most {_MAX_DIGITS} characters")
        elif kind == "text":
            value = word.replace("''", "'")
        elif word in ("TRUE", "FALSE"):
            value = word == "TRUE"
        else:
            raise self._unexpected(wanted)
        self._at += 1
        return lambda properties: value

    def _number(self) -> _Operand:
        if self._kind not in ("number", "name"):
            raise self._unexpected("a number or a property: texts are compared by = and <> alone")
        return self._operand("a number or a property")

    def _texts(self) -> frozenset[str]:
        self._must_take("(")
        found = set()
        while True:
            kind, word, _ = self._words[self._at]
            if kind != "text":
                raise self._unexpected("a text")
            found.add(word.replace("''", "'"))
            self._at += 1
            if not self._takes(","):
                break
        self._must_take(")")
        return frozenset(found)


def _any_of(parts: Sequence[_Condition]) -> _Condition:
    def condition(properties: _Properties) -> bool | None:
        known: bool | None = False
        for part in parts:
            found = part(properties)
            if found:
                return True
            known = None if found is None else known
        return known

    return condition


def _all_of(parts: Sequence[_Condition]) -> _Condition:
    return _not(_any_of([_not(part) for part in parts]))


def _not(part: _Condition) -> _Condition:
    def condition(properties: _Properties) -> bool | None:
        found = part(properties)
        return None if found is None else not found

    return condition


def _equal(holds: Callable[[object, object], bool], left: _Operand, right: _Operand) -> _Condition:
    """A property's text is read as the other operand is: as a number, a truth, or a text."""

    def condition(properties: _Properties) -> bool | None:
        one, other = left(properties), right(properties)
        one, other = _read_like(one, other), _read_like(other, one)
        if one is None or other is None or isinstance(one, bool) != isinstance(other, bool):
            return None
        return holds(one, other)

    return condition


def _ordered(holds: Callable[[float, float], bool], left: _Operand, right: _Operand) -> _Condition:
    def condition(properties: _Properties) -> bool | None:
        one, other = _read_like(left(properties), 0), _read_like(right(properties), 0)
        if isinstance(one, str | bool | None) or isinstance(other, str | bool | None):
            return None
        return holds(one, other)

    return condition


def _in(left: _Operand, texts: frozenset[str]) -> _Condition:
    def condition(properties: _Properties) -> bool | None:
        found = left(properties)
        return None if found is None else found in texts

    return condition


def _read_like(value: _Value, other: _Value) -> _Value:
    """Return a text as what it is compared with is; None where it is none of that kind."""
    if not isinstance(value, str) or isinstance(other, str | None):
        return value
    return _TRUTHS.get(value.lower()) if isinstance(other, bool) else _as_number(value)


def _as_number(text: str) -> int | float | None:
    found = _NUMBER.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    if found is None:
        return None
    return float(text) if found[1] or found[2] else int(text)
