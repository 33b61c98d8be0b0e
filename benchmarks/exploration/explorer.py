"""All that three members can do from one beginning, within bounds: every order of deliveries, syncs, timeouts, crashes,
broken connections and entries that clients propose, and what must hold in each state.

Breadth first, so that a violation is shown by a shortest path. Messages of one connection keep their order, as they do
over TCP, and are lost only with it; either end hears of that in its own time. A state that was met before is not gone
into again; each member's steps are taken once, and remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from benchmarks.exploration.event import Applied, Done, Event, Facts, Kind, Logged
from benchmarks.exploration.member import Make
from benchmarks.exploration.scope import Explored, Scope
from benchmarks.exploration.steps import Steps, Violation

NAMES = ("a", "b", "c")
_PAIRS = tuple(permutations(range(len(NAMES)), 2))
#: On a link: the connection with its other end has broken.
_BROKEN = -1


_Log = tuple[Logged | None, ...]


def _none(history: tuple[str, ...]) -> str:
    return ""


class State(NamedTuple):
    """``members``: numbers of their states, ``links``: messages under way from one to another, as :data:`_PAIRS`.
    ``committed``: what was applied, by index, and the term of the member that did so first. ``leaders``: by term. The
    rest is what may still happen."""

    members: tuple[int, ...]
    links: tuple[tuple[int, ...], ...]
    committed: tuple[tuple[Applied, int], ...]
    leaders: tuple[tuple[int, int], ...]
    timeouts: tuple[int, ...]
    crashes: tuple[int, ...]
    wipes: tuple[int, ...]
    entries: tuple[int, ...]
    reads: int
    heartbeats: int
    breaks: int


#: What happens next: at which member, and what; the state says no more of it than the words.
Action = tuple[str, int, Event | None, int]


class Explorer:
    def __init__(self, scope: Scope, make: Make, wrong_history: Callable[[tuple[str, ...]], str] = _none) -> None:
        self._scope = scope
        self._words = tuple(scope.entries)
        self._steps = Steps(make, at_once=scope.at_once)
        self._wrong_history = lru_cache(maxsize=None)(wrong_history)
        self._matching: set[tuple[_Log, _Log]] = set()

    def run(self, most_states: int) -> Explored:
        """Explore until there is a violation, nothing is left, or there are so many states."""
        state = self._beginning()
        came: dict[int, tuple[int, str]] = {hash(state): (0, "")}
        layer, depth, steps = [state], 0, 0
        while layer and len(came) < most_states:
            following: list[State] = []
            for state in layer:
                for words, reached in self._reached(state):
                    steps += 1
                    if isinstance(reached, Violation):
                        path = (*_path(came, hash(state)), words)
                        return self._explored(came, steps, depth + 1, violation=str(reached), path=path)
                    key = hash(reached)
                    if key not in came:
                        came[key] = (hash(state), words)
                        following.append(reached)
            layer = following
            depth += bool(layer)
        return self._explored(came, steps, depth, is_complete=not layer)

    def _explored(
        self,
        came: Mapping[int, object],
        steps: int,
        depth: int,
        *,
        is_complete: bool = False,
        violation: str = "",
        path: Sequence[str] = (),
    ) -> Explored:
        return Explored(
            scope=self._scope.name,
            states=len(came),
            steps=steps,
            depth=depth,
            is_complete=is_complete,
            violation=violation,
            path=tuple(path),
        )

    # The beginning

    def _beginning(self) -> State:
        scope, none = self._scope, (0,) * len(NAMES)
        members = tuple(self._steps.begin(name)[0] for name in NAMES)
        state = State(members, ((),) * len(_PAIRS), (), (), none, none, none, (0,) * len(self._words), 0, 0, 0)
        for command in scope.begin:
            state = self._played(state, *command.split())
        return state._replace(
            timeouts=tuple(scope.timeouts.get(name, 0) for name in NAMES),
            crashes=tuple(scope.crashes.get(name, 0) for name in NAMES),
            wipes=tuple(scope.wipes.get(name, 0) for name in NAMES),
            entries=tuple(scope.entries.values()),
            reads=scope.reads,
            heartbeats=scope.heartbeats,
            breaks=scope.breaks,
        )

    def _played(self, state: State, word: str, *names: str) -> State:
        if word == "drop":
            touched = {NAMES.index(name) for name in names or NAMES}
            kept = tuple(() if touched & {*pair} else queue for pair, queue in zip(_PAIRS, state.links, strict=True))
            return state._replace(links=kept)
        if word == "settle":
            return self._settled(state)
        at = NAMES.index(names[0])
        if word == "deliver":
            return self._delivered(state, _PAIRS.index((at, NAMES.index(names[1]))))
        if word in ("crash", "wipe"):
            return self._crashed(state, at, Kind.LOSE if word == "crash" else Kind.WIPE)
        kind = {"timeout": Kind.TIMEOUT, "propose": Kind.PROPOSE, "heartbeat": Kind.HEARTBEAT}[word]
        return self._stepped(state, at, self._event(state, kind, len(state.committed), " ".join(names[1:])))

    def _settled(self, state: State) -> State:
        while True:
            syncing = [at for at, number in enumerate(state.members) if self._steps.facts[number].syncing]
            busy = [link for link, queue in enumerate(state.links) if queue]
            if syncing:
                state = self._stepped(state, syncing[0], Event(Kind.SYNCED))
            elif busy:
                state = self._delivered(state, busy[0])
            else:
                return state

    # What can happen

    def _reached(self, state: State) -> Iterator[tuple[str, State | Violation]]:
        for words, at, event, more in self._actions(state):
            try:
                yield words, self._done(state, at, event, more)
            except Violation as violation:
                yield words, violation

    def _actions(self, state: State) -> Iterator[Action]:
        for link, queue in enumerate(state.links):
            if queue:
                source, to = _PAIRS[link]
                yield f"deliver {NAMES[source]} to {NAMES[to]}", to, None, link
        for at, name in enumerate(NAMES):
            facts = self._steps.facts[state.members[at]]
            if facts.syncing:
                yield f"synced {name}", at, Event(Kind.SYNCED), 0
            if state.timeouts[at]:
                yield f"timeout {name}", at, Event(Kind.TIMEOUT), 0
            for place, word in enumerate(self._words) if facts.leads else ():
                if state.entries[place] and (facts.may_change_members or not _concerned(word)):
                    event = self._event(state, Kind.PROPOSE, 100 + state.entries[place], word)
                    yield f"propose {name} {word}".rstrip(), at, event, place
            if state.heartbeats and facts.leads:
                yield f"heartbeat {name}", at, Event(Kind.HEARTBEAT), 0
            if state.reads and facts.leader:
                yield f"read {name}", at, Event(Kind.READ, number=len(state.committed)), 0
            if state.crashes[at]:
                yield f"crash {name}", at, Event(Kind.LOSE), 0
                if facts.unsynced:
                    yield f"crash {name}, nothing lost", at, Event(Kind.KEEP), 0
                if len(facts.unsynced) > 1:
                    yield f"crash {name}, all lost but the log", at, Event(Kind.KEEP_LOG), 0
            if state.wipes[at]:
                yield f"wipe {name}", at, Event(Kind.WIPE), 0
        for at, other in _PAIRS if state.breaks else ():
            if at < other and any(state.links[link] for link in _links_between(at, other)):
                yield f"break {NAMES[at]} and {NAMES[other]}", at, Event(Kind.CLOSED, NAMES[other]), 0

    def _event(self, state: State, kind: Kind, number: int, word: str) -> Event:
        """Return an event; a proposal that concerns a member names it as that calls itself now."""
        concerned = _concerned(word)
        name = self._steps.facts[state.members[NAMES.index(concerned)]].replica if concerned else ""
        return Event(kind, name, 0 if word else number, word)

    def _done(self, state: State, at: int, event: Event | None, place: int) -> State:
        if event is None:
            return self._delivered(state, place)
        match event.kind:
            case Kind.LOSE | Kind.KEEP | Kind.KEEP_LOG:
                return self._crashed(state, at, event.kind)._replace(crashes=_less(state.crashes, at))
            case Kind.WIPE:
                return self._crashed(state, at, event.kind)._replace(wipes=_less(state.wipes, at))
            case Kind.CLOSED:
                links = state.links
                for broken in _links_between(at, NAMES.index(event.peer)):
                    links = _with(links, broken, (_BROKEN,))
                return state._replace(links=links, breaks=state.breaks - 1)
            case Kind.TIMEOUT:
                state = state._replace(timeouts=_less(state.timeouts, at))
            case Kind.PROPOSE:
                state = state._replace(entries=_less(state.entries, place))
            case Kind.HEARTBEAT:
                state = state._replace(heartbeats=state.heartbeats - 1)
            case Kind.READ:
                state = state._replace(reads=state.reads - 1)
        return self._stepped(state, at, event)

    def _delivered(self, state: State, link: int) -> State:
        source, to = _PAIRS[link]
        message, *rest = state.links[link]
        state = state._replace(links=_with(state.links, link, tuple(rest)))
        event = Event(Kind.CLOSED, NAMES[source]) if message == _BROKEN else Event(Kind.DELIVER, NAMES[source], message)
        return self._stepped(state, to, event)

    def _crashed(self, state: State, at: int, kind: Kind) -> State:
        """Crash a member. It is back at once; that it may be away for long is nothing but others that act before it
        does."""
        links = state.links
        for link, pair in enumerate(_PAIRS):
            if at in pair:
                links = _with(links, link, (_BROKEN,) if pair[0] == at else ())
        return self._stepped(state._replace(links=links), at, Event(kind))

    # A step, and what must hold after it

    def _stepped(self, state: State, at: int, event: Event) -> State:
        number, did = self._steps.take(state.members[at], event)
        before, facts = self._steps.facts[state.members[at]], self._steps.facts[number]
        links = state.links
        for to, message in did.sent:
            link = _PAIRS.index((at, NAMES.index(to)))
            links = _with(links, link, (*links[link], message))
        leaders = state.leaders
        if facts.leads and (not before.leads or before.term != facts.term):
            leaders = _elected(state, at, facts)
        for floor, applied in did.reads:
            if applied < floor:
                raise Violation(
                    f"a read at {NAMES[at]} sees {applied} entries; {floor} were committed when it was asked"
                )
        committed = self._committed(state, at, facts, did)
        members = (*state.members[:at], number, *state.members[at + 1 :])
        if facts.log != before.log:
            self._check_logs(members, at)
        return state._replace(members=members, links=links, committed=committed, leaders=leaders)

    def _committed(self, state: State, at: int, facts: Facts, did: Done) -> tuple[tuple[Applied, int], ...]:
        """State-machine safety: what one member applies at an index, all do, and it leaves the same state; so does a
        snapshot. What clients are answered is committed is that."""
        committed = state.committed
        for one in did.applied:
            if one.place == len(committed) + 1:
                committed = (*committed, (one, facts.term))
                wrong = self._wrong_history(tuple(known.did for known, _ in committed))
                if wrong:
                    raise Violation(f"{NAMES[at]} applies entry {one.place}: {wrong}")
            elif one.place > len(committed) or committed[one.place - 1][0] != one:
                other = committed[one.place - 1][0] if one.place <= len(committed) else "nothing"
                raise Violation(f"{NAMES[at]} applies {one} at {one.place}, where {other} was committed")
        for index, left in did.restored:
            if index > len(committed) or committed[index - 1][0].state != left:
                raise Violation(f"{NAMES[at]} restores a snapshot of {index} entries with another state than they left")
        for index, data in did.acknowledged:
            if committed[index - 1][0].entry[1] != data:
                raise Violation(f"{NAMES[at]} acknowledges {data!r} at {index}, where something else was committed")
        return committed

    def _check_logs(self, members: tuple[int, ...], at: int) -> None:
        """Log matching: entries of one index and term are the same, and so are all before them."""
        own = self._steps.facts[members[at]].log
        for other, number in enumerate(members):
            log = self._steps.facts[number].log
            if other == at or (own, log) in self._matching:
                continue
            pairs = [pair for pair in zip(own, log, strict=False) if None not in pair]  # no snapshot holds either
            same = [index for index, (one, two) in enumerate(pairs) if one and two and one[0] == two[0]]
            if same and any(one != two for one, two in pairs[: same[-1] + 1]):
                raise Violation(f"the logs of {NAMES[at]} and {NAMES[other]} agree in a term, and not before it")
            self._matching.add((own, log))


def _elected(state: State, at: int, facts: Facts) -> tuple[tuple[int, int], ...]:
    """Election safety, and leader completeness."""
    known = dict(state.leaders).get(facts.term, at)
    if known != at:
        raise Violation(f"{NAMES[known]} and {NAMES[at]} lead in term {facts.term}")
    for index, (one, term) in enumerate(state.committed, 1):
        if term < facts.term and facts.log[index - 1 : index] not in ((one.entry,), (None,)):
            raise Violation(f"{NAMES[at]} leads in term {facts.term} without entry {index}, committed in term {term}")
    return tuple(sorted({*state.leaders, (facts.term, at)}))


def _concerned(word: str) -> str:
    """Return the member that an entry concerns: ``join c``; "" for none."""
    name = word.rpartition(" ")[2]
    return name if name in NAMES else ""


def _links_between(at: int, other: int) -> tuple[int, int]:
    return _PAIRS.index((at, other)), _PAIRS.index((other, at))


def _with(links: tuple[tuple[int, ...], ...], link: int, queue: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return (*links[:link], queue, *links[link + 1 :])


def _less(counts: tuple[int, ...], at: int) -> tuple[int, ...]:
    return (*counts[:at], counts[at] - 1, *counts[at + 1 :])


def _path(came: Mapping[int, tuple[int, str]], key: int) -> tuple[str, ...]:
    words: list[str] = []
    while True:
        key, step = came[key]
        if not step:
            return tuple(reversed(words))
        words.append(step)
