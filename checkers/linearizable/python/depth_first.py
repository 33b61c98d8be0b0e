"""The depth-first search for a linearization of one object's operations, in Python.

Wing and Gong's search (1993) with Lowe's cache of visited configurations (2017). A *configuration* says which completed
operations are linearized (all below ``low``, and of those from ``low`` on the bits of ``mask``), how many crashed ones
of each kind, and the state. Operations of one *kind* have equal function and arguments, hence equal effect.

What keeps the search small, and why no linearization is missed. Take, of all completions of a configuration, one that
uses the fewest crashed operations:

* An operation that never changes a state and is legal now is placed at once: moved to the front it disturbs nobody.
* Of several operations of one kind the one that returns first is placed first, the crashed ones last and in the order
  of their calls: exchanging two of a kind keeps every state, and every promise of real time.
* A crashed operation is placed only where the operation right after it is illegal, or ends in another state, without
  it: else leaving it out would be a completion with fewer. So it is tried together with what follows it, as a *chain*
  of crashed operations that ends in a completed one, and only configurations between chains are cached.
* A configuration from which nothing was found rules out those with the same place and state that used as many or more
  crashed operations of every kind: what completes these completes that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from checkers.linearizable.history import Argument, Operation
from checkers.linearizable.models import Model, State, restricts_nothing

ILLEGAL = -1
#: After every return.
NEVER = 1 << 62
#: How many configurations that differ in their crashed operations alone are compared one by one.
COMPARED = 64
#: How many dead ends are kept.
DEAD_ENDS = 10


class Status(Enum):
    RUNNING = "running"
    LINEARIZABLE = "linearizable"
    VIOLATION = "violation"


class Configuration(NamedTuple):
    """``used`` packs the counts of crashed operations, a field a kind."""

    low: int
    mask: int
    state: int
    used: int


class Branch(NamedTuple):
    """The end of a branch: operations in order, the state there, the pending operations, all of them illegal."""

    order: tuple[int, ...]
    state: str
    illegal: tuple[int, ...]


class Transitions:
    """What each kind of operation does to each state, asked of the model once. States and kinds are small numbers."""

    def __init__(self, model: Model, init: tuple[Argument, ...]) -> None:
        self.model = model
        self.states: list[State] = []
        self._number_of: dict[State, int] = {}
        self._kind_of: dict[tuple[object, ...], int] = {}
        self.effects: list[tuple[Operation, bool]] = []  # by kind: one operation of it, whether it only observes
        self._after: list[dict[int, int]] = []  # by kind
        self._number(model.initial(init))

    def kind(self, operation: Operation) -> int:
        what = (operation.f, operation.arguments)
        if what not in self._kind_of:
            self._kind_of[what] = len(self.effects)
            self.effects.append((operation, self.model.observes(operation.f, operation.arguments)))
            self._after.append({})
        return self._kind_of[what]

    def step(self, state: int, kind: int) -> int:
        """Return the state after an operation of that kind, or ILLEGAL."""
        known = self._after[kind].get(state)
        if known is None:
            operation = self.effects[kind][0]
            after = self.model.step(self.states[state], operation.f, operation.arguments)
            known = ILLEGAL if after is None else self._number(after)
            self._after[kind][state] = known
        return known

    def _number(self, state: State) -> int:
        if state not in self._number_of:
            self._number_of[state] = len(self.states)
            self.states.append(state)
        return self._number_of[state]


class DepthFirst:
    """One search, stopped and resumed by ``run``. ``numbers`` names the object's operations among ``operations``."""

    def __init__(
        self, model: Model, init: tuple[Argument, ...], operations: Sequence[Operation], numbers: Sequence[int]
    ) -> None:
        self.transitions = Transitions(model, init)
        wanted = sorted((n for n in numbers if not restricts_nothing(operations[n])), key=lambda n: operations[n].call)
        self.completed = [n for n in wanted if operations[n].ret is not None]
        self._calls = [operations[n].call for n in self.completed]
        self._returns = [operations[n].ret or 0 for n in self.completed]
        self._kinds = [self.transitions.kind(operations[n]) for n in self.completed]
        self._observes = [self.transitions.effects[kind][1] for kind in self._kinds]
        self._crashed: dict[int, list[int]] = {}  # kind -> numbers, in the order of their calls
        for n in wanted:
            if operations[n].ret is None:
                self._crashed.setdefault(self.transitions.kind(operations[n]), []).append(n)
        self._crashed_calls = {k: [operations[n].call for n in crashed] for k, crashed in self._crashed.items()}
        self._lay_out_counts()
        self.status = Status.RUNNING if self.completed else Status.LINEARIZABLE
        self.visited = 0
        self.placed = 0
        self.frontier = -1  # the latest return up to which everything could be placed
        self.blocked = -1
        self.dead_ends: list[Branch] = []
        self._seen: set[Configuration] = set()
        self._least: dict[tuple[int, int, int], list[int]] = {}
        self._path: list[tuple[int, ...]] = []
        self._stack = [self._moves(Configuration(0, 0, 0, 0))]

    def _lay_out_counts(self) -> None:
        """Give each crashed kind a field in ``used``: its shift and mask, with a guard bit above, so that one
        subtraction compares all fields."""
        shift = 0
        self._fields: dict[int, tuple[int, int]] = {}
        self._guards = 0
        for kind, crashed in self._crashed.items():
            width = len(crashed).bit_length()
            self._fields[kind] = (shift, (1 << width) - 1)
            self._guards |= 1 << (shift + width)
            shift += width + 1

    def run(self, configurations: int) -> Status:
        """Go on until decided, or until that many more configurations were visited."""
        limit = self.visited + configurations
        while self.status is Status.RUNNING and self.visited < limit:
            move = next(self._stack[-1], None)
            if move is None:
                self._stack.pop()
                if not self._stack:
                    self.status = Status.VIOLATION
                else:
                    self._path.pop()
                continue
            order, after = move
            if not order:  # a chain goes on: its parts count as visited, so that a long one ends a slice too
                continue
            if after.low == len(self.completed):
                self._path.append(order)
                self.placed = after.low
                self.status = Status.LINEARIZABLE
            elif not self._known(after):
                self.visited += 1
                self.placed = max(self.placed, after.low + after.mask.bit_count())
                self._path.append(order)
                self._stack.append(self._moves(after))
        return self.status

    def order(self) -> tuple[int, ...]:
        """Return the operations placed so far, in order; once LINEARIZABLE, a linearization."""
        return tuple(number for part in self._path for number in part)

    def _known(self, here: Configuration) -> bool:
        """Return whether this configuration, or one that has more crashed operations left, was visited before."""
        if here in self._seen:
            return True
        self._seen.add(here)
        if not self._guards:
            return False
        rivals = self._least.setdefault(here[:3], [])
        guarded = here.used | self._guards
        if any((guarded - rival) & self._guards == self._guards for rival in rivals):
            return True
        if len(rivals) < COMPARED:
            rivals.append(here.used)
        return False

    def _pending(self, here: Configuration) -> tuple[list[int], int]:
        """Return the completed operations that may be placed next, earliest return first, and that return's place: an
        operation may be next when no pending one returned before its call."""
        returns, calls, low, mask = self._returns, self._calls, here.low, here.mask
        deadline = returns[low]
        pending = [low]
        place = low + 1
        while place < len(calls) and calls[place] < deadline:
            if not mask >> (place - low) & 1:
                pending.append(place)
                deadline = min(deadline, returns[place])
            place += 1
        pending = [place for place in pending if calls[place] < deadline]
        pending.sort(key=returns.__getitem__)
        return pending, deadline

    def _moves(self, here: Configuration) -> Iterator[tuple[tuple[int, ...], Configuration]]:
        """Yield what can come next: operations, and the configuration after them; no operations: still searching."""
        pending, deadline = self._pending(here)
        if deadline > self.frontier:
            self.frontier, self.blocked = deadline, self.completed[pending[0]]
            self.dead_ends = []
        step, kinds = self.transitions.step, self._kinds
        first: dict[int, int] = {}  # kind -> the one of it that returns first
        for place in pending:
            if self._observes[place] and step(here.state, kinds[place]) != ILLEGAL:
                yield (self.completed[place],), self._after(here, place, here.state, here.used)
                return
            first.setdefault(kinds[place], place)
        stuck = True
        for kind, place in first.items():
            after = step(here.state, kind)
            if after != ILLEGAL:
                stuck = False
                yield (self.completed[place],), self._after(here, place, after, here.used)
        if self._crashed:
            for move in self._chains(here, first, deadline):
                stuck = stuck and not move[0]
                yield move
        if stuck and deadline == self.frontier and len(self.dead_ends) < DEAD_ENDS:
            state = self.transitions.model.describe(self.transitions.states[here.state])
            self.dead_ends.append(Branch(self.order(), state, tuple(self.completed[place] for place in pending)))

    def _chains(
        self, here: Configuration, first: dict[int, int], deadline: int
    ) -> Iterator[tuple[tuple[int, ...], Configuration]]:
        """Yield the moves that begin with crashed operations, those with the fewest first on every branch."""
        step = self.transitions.step
        usable = [kind for kind in self._crashed if kind not in first and self._crashed_calls[kind][0] < deadline]
        seen: set[tuple[int, int, int]] = set()
        open_ends: list[tuple[int, int, int, tuple[int, ...]]] = [(-2, here.state, here.used, ())]
        while open_ends:
            before, state, used, order = open_ends.pop()
            if order:
                self.visited += 1
                yield (), here
                for kind, place in first.items():
                    after = step(state, kind)
                    if after != ILLEGAL and after != step(before, kind):
                        yield (*order, self.completed[place]), self._after(here, place, after, used)
            for kind in reversed(usable):
                shift, field = self._fields[kind]
                count = used >> shift & field
                if count == len(self._crashed[kind]) or self._crashed_calls[kind][count] > deadline:
                    continue
                after = step(state, kind)
                if after in (ILLEGAL, state) or (order and step(before, kind) == after):
                    continue
                link = (state, after, used + (1 << shift))
                if link not in seen:
                    seen.add(link)
                    open_ends.append((*link, (*order, self._crashed[kind][count])))

    def _after(self, here: Configuration, place: int, state: int, used: int) -> Configuration:
        """Return the configuration once the completed operation at ``place`` is linearized too."""
        low, mask = here.low, here.mask | 1 << (place - here.low)
        ones = (~mask & mask + 1).bit_length() - 1  # how many of the lowest bits are set
        return Configuration(low + ones, mask >> ones, state, used)
