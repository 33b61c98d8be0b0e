"""What a node shows of metadata that it follows is the state after a prefix of the log, and the prefix never shrinks.

Nothing that a node says of its own view is needed: of each answer, the entry's version says after which changes of the
log it can have been true, from the one that made this version to the one before the next. If the node says up to which
revision it knows the log, that has to lie in between, and counts in place of what follows from the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.events import Crash, MetadataApplied
from chaos.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Law, Partial, Promise, RunContext
from chaos.law import Rows as LawRows
from chaos.operations import CompareAndSet, FaultRow, HarnessRow, ReadObject, ViewEntry, WriteObject
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts.arrays import NEVER, Flags, Ints
from checkers._facts.faults import were_calm

#: So long after recovery a node may not show yet what was agreed on before.
VIEW_S = 5.0
#: Who is asked for its view so often in vain, for longer than that, does not know it.
ASKS = 3
NOT_A_PREFIX, WENT_BACK, BEHIND = "view-not-a-prefix", "view-went-back", "view-behind"
PROMISE = Promise(
    name="watched-views",
    place=121,
    meaning="What a node shows of metadata that it follows is a prefix of the log, and one that never gets shorter.",
    anomalies=(
        AnomalyKind(
            name=NOT_A_PREFIX,
            meaning="a node showed an entry as the log has it after no such change",
            headline=("A node showed a state that never was",),
            decision=(ViewEntry,),
        ),
        AnomalyKind(
            name=WENT_BACK,
            meaning="a node showed an older state than it had shown before",
            headline=("A node showed an older state than before",),
            decision=(ViewEntry,),
        ),
        AnomalyKind(
            name=BEHIND, meaning="a node lacked what was agreed on long before, in calm time, or showed nothing"
        ),
    ),
)
CHANGES = ("read", "write", "cas")
_VERSION_BITS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


class WatchedViews(Law):
    promise = PROMISE
    key = Key.RUN
    reads = (ViewEntry, ReadObject, WriteObject, CompareAndSet, MetadataApplied, Crash, HarnessRow, FaultRow)
    evidence = (Evidence.OPERATIONS, Evidence.ELECTIONS)
    uses = (Use.METADATA,)

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        found = Findings(PROMISE)
        log, shown = _log(rows, found), _shown(rows, found)
        found.count("changes", len(log.revision))
        found.count("views", len(shown.at))
        if facts.may_lack_ends(rows):
            found.gap("a host was lost, and with it perhaps changes that its controller alone had reported")
            return found.partial()
        _answers(rows, context, found)
        if len(shown.at) and len(log.revision):
            claims = _claims(log, shown)
            _prefixes(rows, found, log, shown, claims)
            _never_back(rows, found, shown, claims)
            _caught_up(rows, context, found, shown, claims)
            _current(rows, context, found, shown, claims)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        needs = [("changes", "no change of the metadata was reported"), ("views", "no node was asked for its view")]
        return decide(PROMISE, partial, needs=needs)


@dataclass(frozen=True, slots=True)
class _Log:
    """The changes, in the order of ``key`` (object, then version). ``at``: a row that reports each."""

    at: Ints
    key: Ints
    revision: Ints
    content: Ints
    is_whole: bool
    objects: dict[str, int]


def _keys(objects: Ints, versions: Ints) -> Ints:
    return (objects << _VERSION_BITS) | versions


def _log(rows: Rows, found: Findings) -> _Log:
    """Return each change once, though every controller reports it. Note gaps where some are missing or differ."""
    at = rows.where(kind="trace", f="metadata")
    revision, version, content = (rows.numbers(name, at) for name in ("revision", "version", "content"))
    label, names = rows.labels("object", at)
    if len(at) and (revision.min() < 1 or version.min() < 1 or version.max() >= 1 << _VERSION_BITS):
        found.gap("a controller reported a change without its revision or version")
        at, revision, version, content, label = (part[:0] for part in (at, revision, version, content, label))
    changes = np.stack([revision, _keys(label, version), content], axis=1)
    different = np.unique(changes, axis=0)
    if len(different) > len(np.unique(revision)):
        found.gap("controllers report different changes of one revision of the metadata")
    first, last = (int(revision.min()), int(revision.max())) if len(at) else (0, 0)
    if len(at) and len(np.unique(revision)) <= last - first:
        found.gap("a change of the metadata is missing from what controllers reported")
    _, once = np.unique(changes[:, 1], return_index=True)  # sorted by key
    objects = {name: code for code, name in enumerate(names)}
    return _Log(at[once], changes[once, 1], revision[once], content[once], first <= 1, objects)


@dataclass(frozen=True, slots=True)
class _Shown:
    """The answers of nodes, in the order in which they came: their two rows, and what they say. ``began`` and ``ended``
    are indices; ``knew`` is the revision that the node named, -1 for none."""

    at: Ints
    asked: Ints
    began: Ints
    ended: Ints
    node: Ints
    object: Ints
    names: list[str]
    version: Ints
    content: Ints
    knew: Ints


def _shown(rows: Rows, found: Findings) -> _Shown:
    calls = facts.calls(rows, "view")
    order = np.argsort(calls.ended[calls.ok], kind="stable")
    asked, done = calls.invoke[calls.ok][order], calls.done[calls.ok][order]
    version = rows.numbers("version", done)
    if (unclear := version < 0).any():
        found.gap("a node answered for its view, and did not say which version of the entry it shows")
        asked, done, version = asked[~unclear], done[~unclear], version[~unclear]
    index, (label, names) = rows.column("index"), rows.labels("object", asked)
    knew, content = rows.numbers("revision", done), rows.numbers("content", done)
    node = rows.column("node")[done]
    return _Shown(done, asked, index[asked], index[done], node, label, names, version, content, knew)


@dataclass(frozen=True, slots=True)
class _Claims:
    """Of each answer: after which revisions it can have been true, ``least`` to ``most``; ``change``: the place in the
    log of the change that it shows, -1 where it shows none of it; ``fits``: whether the log bears it out."""

    least: Ints
    most: Ints
    change: Ints
    fits: Flags


def _claims(log: _Log, shown: _Shown) -> _Claims:
    codes = np.array([log.objects.get(name, -1) for name in shown.names] or [-1], dtype=np.int64)
    code, size = codes[shown.object], len(log.key)
    wanted = _keys(code, shown.version)
    place = np.searchsorted(log.key, wanted)
    inside = np.minimum(place, size - 1)
    known = (code >= 0) & (place < size) & (log.key[inside] == wanted)
    following = np.where(known, place + 1, place)
    inside = np.minimum(following, size - 1)
    has_next = (code >= 0) & (following < size) & (log.key[inside] >> _VERSION_BITS == code)
    before_first = ~known & (has_next | (code < 0))
    before_first &= (following == 0) | (log.key[np.maximum(following - 1, 0)] >> _VERSION_BITS != code)
    # Before the first change there is nothing, or, where the log began before the run, something unknown.
    as_before = before_first & ((shown.version == 0) & (shown.content == -1) | (not log.is_whole))
    least = np.where(known, log.revision[np.minimum(place, size - 1)], 0)
    most = np.where(has_next, log.revision[inside] - 1, NEVER)
    fits = np.where(known, log.content[np.minimum(place, size - 1)] == shown.content, as_before)
    named = shown.knew >= 0
    fits &= ~named | ((shown.knew >= least) & (shown.knew <= most) & (shown.knew <= log.revision.max()))
    least, most = np.where(named, shown.knew, least), np.where(named, shown.knew, most)
    return _Claims(least, most, np.where(known, place, -1), fits.astype(np.bool_))


def _prefixes(rows: Rows, found: Findings, log: _Log, shown: _Shown, claims: _Claims) -> None:
    index = rows.column("index")

    def report(one: int) -> None:
        knew, change = int(shown.knew[one]), int(claims.change[one])
        of = f"version {shown.version[one]} of {shown.names[shown.object[one]]}"
        if change < 0:
            why = "which the log does not hold"
        elif int(log.content[change]) != int(shown.content[one]):
            why = "with another content than the log's"
        else:
            why = f"which is not what the log says after revision {knew}, up to which it claims to know it"
        said = f"{rows.text('node', shown.at[one])} showed at {facts.at_s(rows, int(shown.at[one]))} {of}, {why}."
        change_row = [int(index[log.at[change]])] if change >= 0 else []
        found.add(NOT_A_PREFIX, said, *sorted((*change_row, int(shown.began[one]), int(shown.ended[one]))))

    wrong = np.flatnonzero(~claims.fits)
    found.add_each(NOT_A_PREFIX, wrong, report, acted_ns=facts.since_load_ns(rows, shown.at[wrong]))


def _never_back(rows: Rows, found: Findings, shown: _Shown, claims: _Claims) -> None:
    """Compare each answer with the newest that the same node had given before it was asked."""
    for node in np.unique(shown.node[claims.fits]):
        mine = np.flatnonzero((shown.node == node) & claims.fits)
        least = claims.least[mine]
        newest = np.maximum.accumulate(least)
        raises = np.concatenate([[True], newest[1:] > newest[:-1]])
        witness = np.maximum.accumulate(np.where(raises, np.arange(len(mine)), 0))
        before = np.searchsorted(shown.ended[mine], shown.began[mine]) - 1
        back = np.flatnonzero((before >= 0) & (newest[np.maximum(before, 0)] > claims.most[mine]))

        def report(one: int, mine: Ints = mine, witness: Ints = witness, before: Ints = before) -> None:
            later, earlier = int(mine[one]), int(mine[witness[before[one]]])
            name = rows.text("node", int(shown.at[later]))
            said = (
                f"{name} showed at {facts.at_s(rows, int(shown.at[earlier]))} {_said(shown, earlier)}, and when it was"
            )
            said += (
                f" asked after that it showed at {facts.at_s(rows, int(shown.at[later]))} {_said(shown, later)}: the"
            )
            said += (
                f" first is of revision {claims.least[earlier]} or later, the second of {claims.most[later]} at most."
            )
            of_both = (shown.began[earlier], shown.ended[earlier], shown.began[later], shown.ended[later])
            found.add(WENT_BACK, said, *map(int, of_both))

        found.add_each(WENT_BACK, back, report, acted_ns=facts.since_load_ns(rows, shown.at[mine[back]]))


def _said(shown: _Shown, one: int) -> str:
    return f"version {shown.version[one]} of {shown.names[shown.object[one]]}"


def _caught_up(rows: Rows, context: RunContext, found: Findings, shown: _Shown, claims: _Claims) -> None:
    """Check that in the end each node shows what clients had learned from the log before."""
    drain, agreed = facts.phase_index(rows, "drain"), 0
    if drain < 0 or not facts.has_recovered(rows):
        found.gap("the system did not recover, so it is unknown whether its nodes caught up")
        return
    for f in CHANGES:
        calls = facts.calls(rows, f)
        known = calls.done[calls.ok & (calls.ended < drain)]
        agreed = max(agreed, int(rows.numbers("revision", known).max(initial=0)))
    bound_s = _bound_s(context)
    due_ns = facts.phase_time(rows, "drain") + int(bound_s * 1e9)
    final = shown.began >= drain
    late = rows.column("time_ns")[shown.asked] >= due_ns
    lacks = final & claims.fits & (claims.most < agreed)

    def report(one: int) -> None:
        at = int(shown.at[one])
        said = f"{rows.text('node', at)} showed at {facts.at_s(rows, at)} {_said(shown, one)}, which is of revision"
        said += f" {claims.most[one]} at most; clients had learned of revision {agreed} more than {bound_s:g} s before."
        found.add(BEHIND, said, int(shown.began[one]), int(shown.ended[one]))

    wrong = np.flatnonzero(lacks & late)
    found.add_each(BEHIND, wrong, report, acted_ns=facts.since_load_ns(rows, shown.at[wrong]))
    _asked_in_the_end(rows, found, shown, final & ~lacks, final & lacks & late)


def _current(rows: Rows, context: RunContext, found: Findings, shown: _Shown, claims: _Claims) -> None:
    """Check that in calm time a node shows what clients had learned from the log for longer than the bound, whenever it
    is asked: that it does when it is asked again excuses nothing."""
    if context.unfinished:  # which faults were in force may be known only when they are undone
        return
    times, bound_s = rows.column("time_ns"), _bound_s(context)
    calls = [facts.calls(rows, f) for f in CHANGES]
    done = np.concatenate([one.done[one.ok] for one in calls])
    done = done[np.argsort(times[done], kind="stable")]
    revision = np.maximum.accumulate(rows.numbers("revision", done))
    by_ns = times[shown.asked] - int(bound_s * 1e9)
    agreed = np.append(-1, revision)[np.searchsorted(times[done], by_ns, "right")]
    stale = np.flatnonzero(claims.fits & (claims.most < agreed))
    stale = stale[were_calm(rows, by_ns[stale], times[shown.at[stale]])]
    drain = facts.phase_index(rows, "drain")
    stale = stale[(shown.began[stale] < drain) | (drain < 0)]

    def report(one: int) -> None:
        at, witness = int(shown.at[one]), int(done[np.searchsorted(revision, agreed[one])])
        found.add(
            BEHIND,
            f"{rows.text('node', at)} showed at {facts.at_s(rows, at)} {_said(shown, one)}, which is of revision "
            f"{claims.most[one]} at most; clients had learned of revision {agreed[one]} at "
            f"{facts.at_s(rows, witness)}, more than {bound_s:g} s before, with no fault in the way.",
            *sorted((int(rows.column("index")[witness]), int(shown.began[one]), int(shown.ended[one]))),
        )

    found.add_each(BEHIND, stale, report, acted_ns=facts.since_load_ns(rows, shown.at[stale]))


def _bound_s(context: RunContext) -> float:
    return facts.bound(context, "route_s", VIEW_S)


def _answers(rows: Rows, context: RunContext, found: Findings) -> None:
    """Check that after recovery no node that runs is asked again and again, for longer than the bound, and shows
    nothing."""
    drain = facts.phase_index(rows, "drain")
    if drain < 0 or not facts.has_recovered(rows) or len(rows.where(kind="harness", f="stall")):
        return
    calls, index, times = facts.calls(rows, "view"), rows.column("index"), rows.column("time_ns")
    final = calls.began >= drain
    asked, refused = calls.invoke[final], calls.failed[final]
    label, names = rows.labels("to", asked)
    number = np.bincount(label, minlength=len(names))
    silent = number == np.bincount(label[refused], minlength=len(names))
    crashed = {rows.text("node", at) for at in rows.where(kind="trace", f="crash").tolist()}
    for which in np.flatnonzero(silent & (number >= ASKS)).tolist():
        mine = asked[label == which]
        first, last = int(mine[0]), int(mine[-1])
        lasted_s = float(times[last] - times[first]) / 1e9
        if lasted_s <= _bound_s(context) or names[which] in {"", *crashed}:
            continue
        found.add(
            BEHIND,
            f"{names[which]} was asked {number[which]} times for its view from {facts.at_s(rows, first)} on, for "
            f"{lasted_s:.1f} s, and never showed one, though the system had recovered.",
            int(index[first]),
            int(index[last]),
        )


def _asked_in_the_end(rows: Rows, found: Findings, shown: _Shown, current: Flags, guilty: Flags) -> None:
    """Check that each node that is ever asked is asked in the end, until it shows what was agreed on."""
    calls = facts.calls(rows, "view")
    judged = {rows.text("node", at) for at in shown.at[current | guilty].tolist()}
    for name in sorted(set(rows.words("to", calls.invoke)) - judged - {""}):
        found.gap(f"{name} did not show after the run that it had caught up")


def create(options: Options) -> WatchedViews:
    return WatchedViews()
