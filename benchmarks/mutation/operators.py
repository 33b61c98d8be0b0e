"""The small changes: from the syntax tree of a file to every place where one of the operators applies.

A change replaces bytes of the source by others, so that its diff is as small as the change. Places that say something
about the system but don't decide anything are left alone: traces (the laws' witnesses), messages of errors, remarks,
annotations, and what constructors set (without it nothing starts at all).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache


class Operator(StrEnum):
    """What is done to the code."""

    DROP_CONDITION = "drop-condition"  # one operand of and/or; an if that always, or never, does what it guards
    TURN_CONDITION = "turn-condition"  # == to !=, < to >=, in to not in, is to is not, not x to x
    OFF_BY_ONE = "off-by-one"  # < to <=, a small number one higher or lower
    MIN_MAX = "min-max"  # the one for the other
    DROP_BOUND = "drop-bound"  # one argument of min or max
    DROP_AFTER = "drop-after"  # a send that no longer waits for its sync
    DROP_CLEAR = "drop-clear"  # what clears, removes, trims, cancels or deletes
    DROP_STEP = "drop-step"  # any other call that is a statement
    SWAP_STEPS = "swap-steps"  # two neighbouring statements
    KEEP_STALE = "keep-stale"  # an assignment to an attribute or an element


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Bytes ``start`` to ``end`` of a file become ``new``. ``place`` is the function (with its class), ``statement``
    what the change stands in, as written by :func:`ast.unparse`; ``line`` counts from 1."""

    operator: Operator
    place: str
    statement: str
    line: int
    start: int
    end: int
    old: str
    new: str


_TURNED: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_SHIFTED: dict[type[ast.cmpop], str] = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
_SWAPPED = {"min": "max", "max": "min"}
_CLEARS = (
    *("clear", "pop", "popleft", "remove", "discard", "truncate", "trim", "drop_before", "cut_back", "cut_files"),
    *("cancel_timer", "unpin", "close", "stop", "forget", "compact"),
)
#: Numbers beyond this are sizes and times, where one more means nothing.
_SMALL = 16
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Delete)
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_CONSTRUCTORS = ("__init__", "__post_init__")
_SAYS = ("remark", "reason")


def changes(source: str) -> list[Change]:
    """Every change of a file, in the order of its places."""
    finder = _Finder(source)
    finder.module(ast.parse(source))
    return finder.found


class _Finder:
    """Walks the functions of one file; ``_names`` is where it is, ``_statement`` what it is in."""

    def __init__(self, source: str) -> None:
        self.found: list[Change] = []
        self._data = source.encode()
        self._lines = [0]
        for line in self._data.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._names: list[str] = []
        self._statement: ast.stmt = ast.Pass()

    def module(self, tree: ast.AST) -> None:
        """Only what stands in functions is changed: the rest are names, types and sizes."""
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.ClassDef):
                self._names.append(node.name)
                self.module(node)
                self._names.pop()
            elif isinstance(node, _FUNCTIONS):
                self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._names.append(node.name)
        self._block(node.body)
        self._names.pop()

    # Statements

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for first, second in zip(body, [*body[1:], None], strict=True):
            self._statement = first
            self._dropped(first)
            if second is not None and _swappable(first, second):
                self._swap(first, second)
            self._inside(first)

    def _inside(self, node: ast.stmt) -> None:
        """Visit the expressions of a statement, then its blocks."""
        if isinstance(node, _FUNCTIONS):
            self._function(node)
            return
        if isinstance(node, ast.Raise | ast.Assert | ast.ClassDef | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.If):
            self._guard(node)
        for name, value in ast.iter_fields(node):
            if name == "annotation":
                continue
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.expr | ast.withitem):
                    self._expression(part)
        for block in _blocks(node):
            self._block(block)

    def _guard(self, node: ast.If) -> None:
        """Change the condition of an if. One that leaves never leaves; any other always does what it guards. An else is
        another way of its own."""
        never = isinstance(node.body[-1], _LEAVES) and not node.orelse
        self._put(Operator.DROP_CONDITION, node.test, "False" if never else "True")
        if node.orelse:
            self._put(Operator.DROP_CONDITION, node.test, "False")

    def _dropped(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Delete):
            self._put(Operator.DROP_CLEAR, node, "pass")
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not _is_trace(node.value):
            name = node.value.func.attr if isinstance(node.value.func, ast.Attribute) else ""
            self._put(Operator.DROP_CLEAR if name in _CLEARS else Operator.DROP_STEP, node, "pass")
        elif isinstance(node, ast.Assign | ast.AugAssign) and self._names[-1] not in _CONSTRUCTORS:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            flat = [one for target in targets for one in (target.elts if isinstance(target, ast.Tuple) else [target])]
            if all(isinstance(one, ast.Attribute | ast.Subscript) for one in flat):
                self._put(Operator.KEEP_STALE, node, "pass")

    def _swap(self, first: ast.stmt, second: ast.stmt) -> None:
        start, middle, after, end = *self._span(first), *self._span(second)
        data = self._data
        new = data[after:end] + data[middle:after] + data[start:middle]
        self._add(Operator.SWAP_STEPS, first, start, end, new.decode())

    # Expressions

    def _expression(self, node: ast.AST) -> None:
        if isinstance(node, ast.JoinedStr | ast.Constant) or (isinstance(node, ast.Call) and _is_trace(node)):
            return
        if isinstance(node, ast.keyword) and node.arg in _SAYS:
            return
        if isinstance(node, ast.BoolOp):
            self._operands(node)
        elif isinstance(node, ast.Compare):
            self._comparison(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._put(Operator.TURN_CONDITION, node, f"({ast.unparse(node.operand)})")
        elif isinstance(node, ast.IfExp):
            self._put(Operator.DROP_CONDITION, node.test, "True")
            self._put(Operator.DROP_CONDITION, node.test, "False")
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                self._put(Operator.DROP_CONDITION, test, "True")
        elif isinstance(node, ast.Call):
            self._call(node)
        for number in _numbers(node):
            value = _small(number)
            self._put(Operator.OFF_BY_ONE, number, str(value + 1))
            self._put(Operator.OFF_BY_ONE, number, str(value - 1))
        for child in ast.iter_child_nodes(node):
            self._expression(child)

    def _operands(self, node: ast.BoolOp) -> None:
        for dropped in node.values:
            left = [value for value in node.values if value is not dropped]
            new = ast.unparse(left[0] if len(left) == 1 else ast.BoolOp(op=node.op, values=left))
            self._put(Operator.DROP_CONDITION, node, f"({new})")

    def _comparison(self, node: ast.Compare) -> None:
        for at, op in enumerate(node.ops):
            for operator, table in ((Operator.TURN_CONDITION, _TURNED), (Operator.OFF_BY_ONE, _SHIFTED)):
                if type(op) in table:
                    self._between(operator, node, at, table[type(op)])

    def _between(self, operator: Operator, node: ast.Compare, at: int, new: str) -> None:
        """Replace the operator between two operands, where nothing else stands there but space and parentheses."""
        left, right = (node.left, *node.comparators)[at : at + 2]
        start, end = self._span(left)[1], self._span(right)[0]
        gap = self._data[start:end].decode()
        old = gap.strip(" ()\n")
        begin = start + len(gap[: gap.index(old)].encode())
        self._add(operator, node, begin, begin + len(old.encode()), new)

    def _call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _SWAPPED:
            self._put(Operator.MIN_MAX, node.func, _SWAPPED[node.func.id])
            if len(node.args) > 1 and not node.keywords:
                for dropped in node.args:
                    left = [one for one in node.args if one is not dropped]
                    one_number = len(left) == 1 and not isinstance(left[0], ast.Starred)
                    new = ast.unparse(left[0] if one_number else ast.Call(func=node.func, args=left, keywords=[]))
                    self._put(Operator.DROP_BOUND, node, f"({new})" if one_number else new)
        if any(keyword.arg == "after" for keyword in node.keywords):
            without = copy(node)
            without.keywords = [keyword for keyword in without.keywords if keyword.arg != "after"]
            self._put(Operator.DROP_AFTER, node, ast.unparse(without))

    # Places

    def _put(self, operator: Operator, node: ast.expr | ast.stmt, new: str) -> None:
        self._add(operator, node, *self._span(node), new)

    def _add(self, operator: Operator, node: ast.expr | ast.stmt, start: int, end: int, new: str) -> None:
        old = self._data[start:end].decode()
        if old != new:
            place = ".".join(self._names)
            change = Change(
                operator=operator,
                place=place,
                statement=_head(self._statement),
                line=node.lineno,
                start=start,
                end=end,
                old=old,
                new=new,
            )
            self.found.append(change)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[node.end_lineno - 1] + node.end_col_offset


@lru_cache(maxsize=8)  # the changes of a statement follow one another
def _head(node: ast.stmt) -> str:
    """Return the statement without its blocks."""
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return node.name
    bare = copy(node)
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        if hasattr(bare, name):
            setattr(bare, name, [])
    return ast.unparse(bare)


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, [])
        if block:
            yield block
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def _swappable(first: ast.stmt, second: ast.stmt) -> bool:
    """Both are simple, one of them calls something, and neither needs a local name that the other one makes."""
    if not (isinstance(first, _SIMPLE) and isinstance(second, _SIMPLE)):
        return False
    calls = [[one for one in ast.walk(node) if isinstance(one, ast.Call)] for node in (first, second)]
    if not any(calls) or any(_is_trace(call) for call in (*calls[0], *calls[1])):
        return False
    if any(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in (first, second)):
        return False
    return not (_stored(first) & _names(second) or _stored(second) & _names(first))


def _stored(node: ast.stmt) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load)}


def _names(node: ast.stmt) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _is_trace(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "trace"


def _numbers(node: ast.AST) -> list[ast.expr]:
    """Return the small whole numbers that a node computes, compares, cuts or counts with."""
    parts: list[ast.expr | None] = []
    if isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
    elif isinstance(node, ast.Slice):
        parts = [node.lower, node.upper, node.step]
    elif isinstance(node, ast.Subscript):
        parts = [node.slice]
    elif isinstance(node, ast.Call):
        parts = [*node.args]
    return [part for part in parts if part is not None and _is_small(part)]


def _is_small(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(inner, ast.Constant) and type(inner.value) is int and inner.value <= _SMALL


def _small(node: ast.expr) -> int:
    return int(ast.literal_eval(node))
