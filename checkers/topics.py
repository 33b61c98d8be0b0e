"""A topic whose creation was acknowledged is there from then on, with all its queues, until somebody deletes it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import AnomalyKind, Harm, Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use
from checkers import _facts as facts
from checkers._facts import losses, reads
from checkers._facts.reads import everywhere, own

OPERATIONS = ("create_topic", "delete_topic", "find_topic")
#: So long after recovery a name server may not know a topic yet.
ROUTE_S = 5.0
TOPIC_LOST = "topic-lost"
TOPIC_LOST_BY_POLICY = "topic-lost-by-policy"
TOPIC_RETURNED = "topic-returned"
TOPIC_RETURNED_BY_POLICY = "topic-returned-by-policy"
TOPIC_UNASKED = "topic-unasked"
#: The deployment that takes a system as it is, with the topics that it had.
AS_IT_IS = "attach"
PROMISE = Promise(
    name="topics",
    place=103,
    meaning="A topic whose creation was acknowledged, or that a client was shown, is there until somebody deletes it.",
    anomalies=(
        AnomalyKind(
            name=TOPIC_LOST,
            meaning="a topic was acknowledged and is not there, or lacks queues, in the end",
            headline=("An acknowledged topic was lost", "{n} acknowledged topics were lost"),
            harm=Harm.DATA,
        ),
        AnomalyKind(
            name=TOPIC_LOST_BY_POLICY,
            meaning="the same under a profile that permits the loss",
            lawful=True,
            by_policy=True,
        ),
        AnomalyKind(
            name=TOPIC_RETURNED,
            meaning="a topic's deletion was acknowledged, and it is there in the end",
            headline=("A deleted topic came back", "{n} deleted topics came back"),
            harm=Harm.DATA,
        ),
        AnomalyKind(
            name=TOPIC_RETURNED_BY_POLICY,
            meaning="the same under a profile that permits the loss",
            lawful=True,
            by_policy=True,
        ),
        AnomalyKind(
            name=TOPIC_UNASKED,
            meaning="a topic, or more queues of one, is there in the end than anybody asked for",
            headline=("A topic appeared that nobody created",),
            harm=Harm.CLIENTS,
        ),
    ),
)


NEEDS = Needs(
    key=Key.RUN,
    rows=(
        own("op", *OPERATIONS),
        everywhere("final", "topics"),
        everywhere("trace", "applied"),
        *(*losses.TERMS, *reads.REPLICAS),
    ),
    columns=(*reads.BASIC, *reads.OPERATIONS, *losses.COLUMNS, "position"),
    uses=(Use.TOPICS,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Topics:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        found = Findings(PROMISE)
        created, deleted = _created(rows), _deleted(rows)
        found.count("created_topics", len(created) + len(deleted))
        if (created or deleted) and not facts.has_recovered(rows):
            found.gap("the system did not recover, so it is unknown which topics are there")
        else:
            _still_there(rows, context, found, created)
            _still_gone(rows, context, found, deleted)
            _nothing_unasked(rows, context, found, {topic.name for topic in deleted})
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        unless = "" if Use.TOPICS in context.uses else f"no workload uses {Use.TOPICS}"
        return decide(PROMISE, partial, needs=[("created_topics", "no topic was created")], unless=unless)


@dataclass(frozen=True, slots=True)
class _Created:
    """A topic by its first acknowledged creation, or by who was shown it first: the rows that ask for it and answer it,
    and its number of queues."""

    name: str
    invoke: int
    done: int
    queues: int


def _created(rows: Rows) -> list[_Created]:
    """Return all of them that nobody asked to delete since then, in the order of their creation; each with the most
    queues that were acknowledged or shown."""
    calls, until = facts.calls(rows, "create_topic"), _deleted_until(rows)
    asked, done = calls.invoke[calls.ok], calls.done[calls.ok]
    topics: dict[str, _Created] = {}
    creations = zip(
        rows.words("topic", asked), asked, done, rows.numbers("queues", asked), calls.began[calls.ok], strict=True
    )
    for name, invoke, end, queues, began in creations:
        if until.get(name, -1) < began:
            _take(topics, _Created(name, int(invoke), int(end), max(1, int(queues))))
    for seen in _shown(rows):
        if seen.name not in until:
            _take(topics, seen)
    return list(topics.values())


def _deleted_until(rows: Rows) -> dict[str, int]:
    """Return by when each topic that anybody asked to delete may have been deleted last."""
    calls = facts.calls(rows, "delete_topic")
    until: dict[str, int] = {}
    for name, ended in zip(rows.words("topic", calls.invoke), calls.ended.tolist(), strict=True):
        until[name] = max(until.get(name, -1), ended)
    return until


@dataclass(frozen=True, slots=True)
class _Deleted:
    """A topic by its first acknowledged deletion: the rows that ask for it and answer it."""

    name: str
    invoke: int
    done: int


def _deleted(rows: Rows) -> list[_Deleted]:
    """Return topics that nobody can have created after their deletion was asked for, in the order of their
    deletions."""
    creations, calls = facts.calls(rows, "create_topic"), facts.calls(rows, "delete_topic")
    until: dict[str, int] = {}
    for name, ended in zip(rows.words("topic", creations.invoke), creations.ended.tolist(), strict=True):
        until[name] = max(until.get(name, -1), ended)
    topics: dict[str, _Deleted] = {}
    asked = calls.invoke[calls.ok]
    deletions = zip(rows.words("topic", asked), calls.began[calls.ok], asked, calls.done[calls.ok], strict=True)
    for name, began, invoke, done in deletions:
        if until.get(name, -1) < began:
            topics.setdefault(name, _Deleted(name, int(invoke), int(done)))
    return list(topics.values())


def _take(topics: dict[str, _Created], one: _Created) -> None:
    if one.name not in topics or one.queues > topics[one.name].queues:
        topics[one.name] = one


def _shown(rows: Rows) -> list[_Created]:
    """Return topics that clients were shown before they looked for them in the end."""
    calls = facts.calls(rows, "find_topic")
    early = calls.ok & (calls.began < max(facts.phase_index(rows, "drain"), 0))
    asked, done = calls.invoke[early], calls.done[early]
    answers = zip(rows.words("topic", asked), asked, done, rows.numbers("queues", done), strict=True)
    return [_Created(name, int(invoke), int(end), int(many)) for name, invoke, end, many in answers if many > 0]


@dataclass(frozen=True, slots=True)
class _Look:
    """The last answer to who looked for a topic after the run: its two rows, and how many queues it names."""

    invoke: int
    done: int
    queues: int

    def said(self, rows: Rows, name: str = "it") -> str:
        return (
            f"{rows.text('node', self.done) or 'the system'} said at {facts.at_s(rows, self.done)} that "
            f"{f'topic {name}' if name != 'it' else name} has {self.queues} queues"
        )


def _looks(rows: Rows) -> dict[str, _Look]:
    calls = facts.calls(rows, "find_topic")
    final = calls.ok & (calls.began >= max(facts.phase_index(rows, "drain"), 0))
    final[final] = rows.numbers("queues", calls.done[final]) >= 0  # an answer without a number says nothing
    asked, done = calls.invoke[final], calls.done[final]
    answers = zip(rows.words("topic", asked), asked, done, rows.numbers("queues", done), strict=True)
    return {name: _Look(int(invoke), int(end), int(queues)) for name, invoke, end, queues in answers}


def _still_there(rows: Rows, context: RunContext, found: Findings, created: list[_Created]) -> None:
    """Judge each topic by the last answer to who looked for it, and by the list of the last master."""
    looks, listed = rows.memo(_looks), _of_the_last_master(rows)
    bound_s = facts.bound(context, "route_s", ROUTE_S)
    due_ns = facts.phase_time(rows, "drain") + int(bound_s * 1e9)
    destroyed = facts.all_destroyed(rows, context)
    for topic in created:
        look = looks.get(topic.name)
        if look is None:
            found.gap("a topic was created, and no client learned after the run whether it is there")
            continue
        there = look.queues >= topic.queues
        denied = listed is not None and listed.of.get(topic.name, 0) < topic.queues
        if there and not denied:
            found.count("found_topics", 1)
        elif destroyed:
            found.gap(f"topic {topic.name} is not there any more, but {destroyed}")
        elif not there and int(rows.column("time_ns")[look.invoke]) < due_ns:
            found.gap(f"topic {topic.name} was not there, and nobody looked for it for as long as {bound_s:g} s")
        else:
            _report_lost(rows, context, found, topic, look if not there else None, listed)


def _still_gone(rows: Rows, context: RunContext, found: Findings, deleted: list[_Deleted]) -> None:
    """Judge each deletion by the last answer to who looked for the topic, once a name server has had time to forget,
    and by the list of the last master."""
    looks, times, listed = rows.memo(_looks), rows.column("time_ns"), _of_the_last_master(rows)
    bound_s = facts.bound(context, "route_s", ROUTE_S)
    due_ns = facts.phase_time(rows, "drain") + int(bound_s * 1e9)
    destroyed = facts.all_destroyed(rows, context)
    for topic in deleted:
        look = looks.get(topic.name)
        known = listed is not None and listed.of.get(topic.name, 0) > 0
        if look is None and not known:
            found.gap("a topic was deleted, and no client learned after the run whether it is there")
        elif look is not None and not look.queues and not known:
            found.count("gone_topics", 1)
        elif destroyed:
            found.gap(f"topic {topic.name} is there again, but {destroyed}")
        elif known:
            assert listed is not None, "a list has it"
            _report_returned(rows, context, found, topic, listed.said(rows, topic.name), listed.at)
        elif look is not None and int(times[look.invoke]) < due_ns:
            found.gap(f"topic {topic.name} was still there, and nobody looked for it for as long as {bound_s:g} s")
        elif look is not None:
            _report_returned(rows, context, found, topic, look.said(rows), look.invoke, look.done)


def _report_returned(rows: Rows, context: RunContext, found: Findings, topic: _Deleted, said: str, *seen: int) -> None:
    text = (
        f"The deletion of topic {topic.name} was acknowledged at {facts.at_s(rows, topic.done)} by "
        f"{facts.who(rows.text('node', topic.done), int(rows.column('epoch')[topic.done]))}, but {said}."
    )
    names = (TOPIC_RETURNED, TOPIC_RETURNED_BY_POLICY)
    _report(rows, context, found, topic, names, text, topic.invoke, topic.done, *seen)


def _nothing_unasked(rows: Rows, context: RunContext, found: Findings, deleted: Set[str]) -> None:
    """Judge each topic that is there in the end, but for those that a deletion did not end, by all that anybody asked
    to create and that was not definitely refused. A system that the run took as it was may have had any."""
    if context.meta.deployment == AS_IT_IS:
        return
    asked, there = rows.memo(_asked), _there(rows, context)
    index = rows.column("index")
    for name in sorted(there.keys() - deleted):
        queues, said, seen = there[name]
        most, row = asked.get(name, (0, -1))
        if queues > most:
            wanted = f"only {most} queues of it were asked for" if most else "nobody asked for it without being refused"
            witnesses = (*((row,) if row >= 0 else ()), *seen)
            found.add(TOPIC_UNASKED, f"{said}, but {wanted}.", *(int(index[at]) for at in witnesses))


def _there(rows: Rows, context: RunContext) -> dict[str, tuple[int, str, tuple[int, ...]]]:
    """Return of each topic that is there in the end the most queues that a client was shown or the last master lists,
    how that is said, and its rows. Topics that the run did not ask for by name count where it is known which the system
    had from the beginning, and where nothing but the operations on topics creates any."""
    found: dict[str, tuple[int, str, tuple[int, ...]]] = {
        name: (look.queues, look.said(rows, name), (look.invoke, look.done)) for name, look in rows.memo(_looks).items()
    }
    listed, first = _of_the_last_master(rows), {queue.topic for queue in context.meta.queues}
    named = {name for f in OPERATIONS for name in rows.words("topic", facts.calls(rows, f).invoke)}
    any_name = bool(first) and Use.LIMITS not in context.uses
    for name, queues in listed.of.items() if listed is not None else ():
        if name not in first and (any_name or name in named) and queues > found.get(name, (0,))[0]:
            assert listed is not None, "it lists topics"
            found[name] = queues, listed.said(rows, name), (listed.at,)
    return found


def _asked(rows: Rows) -> dict[str, tuple[int, int]]:
    """Return of each topic the most queues that a creation asked for which was not definitely refused, and the row that
    asked. One that asks for no number may be given any."""
    calls, found = facts.calls(rows, "create_topic"), dict[str, tuple[int, int]]()
    asked = calls.invoke[~calls.failed]
    for name, queues, at in zip(rows.words("topic", asked), rows.numbers("queues", asked), asked.tolist(), strict=True):
        most = int(queues) if queues >= 0 else facts.NEVER
        if most > found.get(name, (0, -1))[0]:
            found[name] = most, at
    return found


def _report_lost(
    rows: Rows, context: RunContext, found: Findings, topic: _Created, look: _Look | None, listed: _Listed | None
) -> None:
    done = topic.done
    if look is not None:
        queues = f"has {look.queues} queues" if look.queues else "does not exist"
        why = f"{rows.text('node', look.done) or 'the system'} said at {facts.at_s(rows, look.done)} that it {queues}"
        seen = [look.invoke, look.done]
    else:
        assert listed is not None, "who was found by clients is only denied by a list"
        why = f"{rows.text('node', listed.at)}, the master after the run, does not know it, or not all its queues"
        seen = [listed.at]
    shown = rows.text("f", done) == "find_topic"
    what = f"Topic {topic.name} with {topic.queues} queues was shown to a client"
    if not shown:
        what = f"The creation of topic {topic.name} with {topic.queues} queues was acknowledged"
    text = (
        f"{what} at {facts.at_s(rows, done)} by "
        f"{facts.who(rows.text('node', done), int(rows.column('epoch')[done]))}, but {why}."
    )
    _report(rows, context, found, topic, (TOPIC_LOST, TOPIC_LOST_BY_POLICY), text, topic.invoke, done, *seen)


def _report(
    rows: Rows,
    context: RunContext,
    found: Findings,
    topic: _Created | _Deleted,
    names: tuple[str, str],
    text: str,
    *at: int,
) -> None:
    """Report it under the first name, or under the second one where something was cut since it was acknowledged, which
    the profile permits. A topic takes effect when it is confirmed, as what readers see."""
    state, why = losses.cuts_of_read(rows, context).why(rows, topic.done)
    witnesses = [int(rows.column("index")[one]) for one in at]
    if state is losses.Lost.UNDECIDED:
        found.gap(f"{text} And {why}.")
    elif state is losses.Lost.PERMITTED:
        found.add(names[1], f"{text} As {why}.", *witnesses, policy=why)
    else:
        found.add(names[0], text, *witnesses)


@dataclass(frozen=True, slots=True)
class _Listed:
    """What a replica lists after the run: how many queues each topic has. ``at`` is its row."""

    at: int
    of: dict[str, int]

    def said(self, rows: Rows, name: str) -> str:
        return f"{rows.text('node', self.at)}, the master after the run, lists topic {name} with {self.of[name]} queues"


def _of_the_last_master(rows: Rows) -> _Listed | None:
    """Return the list of the last master; None where it reported none, or several call themselves master."""
    last = [
        rows.text("node", at) for at in rows.where(kind="final", f="node") if rows.value(at).get("role") == "master"
    ]
    lists = [at for at in rows.where(kind="final", f="topics").tolist() if rows.text("node", at) in last]
    if len(last) != 1 or not lists:
        return None
    topics = rows.value(lists[-1]).get("topics") or {}
    return _Listed(lists[-1], {str(name): int(topic.get("queues", 0)) for name, topic in topics.items()})


def create(options: Options) -> Topics:
    return Topics()
