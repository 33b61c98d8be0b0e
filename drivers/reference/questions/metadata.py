"""What controllers make of an entry of the metadata, and who hears of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chaos.ops import Failed
from drivers._remoting.requests import number
from drivers.reference.questions.malformed import as_questions, of_metadata_requests
from drivers.reference.questions.question import (
    AS_DOCUMENTED,
    BROKER,
    CONTROLLER,
    LEADER,
    NAMESERVER,
    Question,
    Talk,
    asked,
    of_json,
    talked,
)
from reference.wire.codes import Request, Response
from reference.wire.command import Command

_KIND = "group"
#: So many changes are asked for; a controller that remembers fewer sends all that there is.
_LAST = 60


def of_metadata() -> dict[str, Question]:
    return {
        **as_questions(of_metadata_requests()),
        "an entry of the metadata through its changes": talked(LEADER, _changes),
        "the route of a group with brokers": Question(LEADER, AS_DOCUMENTED, _route),
        "a watch that ends without a change": talked(CONTROLLER, _quiet_watch),
        "the last changes that a watch tells": Question(CONTROLLER, AS_DOCUMENTED, _last_changes),
        **{f"what a {role} knows of the metadata": talked(role, _view) for role in (NAMESERVER, BROKER)},
        "an entry of the metadata without a name": asked(
            CONTROLLER, Request.METADATA_GET, Response.INVALID_PARAMETER, kind=_KIND
        ),
    }


def _entry(talk: Talk) -> dict[str, Any]:
    """Return one of the entries that these questions change. There are few, since one that is deleted is still an
    entry."""
    return {"kind": _KIND, "name": f"limits-{talk.number % 4}"}


async def _get(talk: Talk, **named: Any) -> tuple[int, int, object]:
    answer = await talk.expect(0, Request.METADATA_GET, **named)
    value = of_json(answer) if answer.body else None
    return number(answer.fields, "version"), number(answer.fields, "revision"), value


async def _put(talk: Talk, expected: int, value: object, **fields: Any) -> tuple[int, int]:
    body = b"" if value is None else json.dumps(value).encode()
    answer = await talk.expect(expected, Request.METADATA_PUT, body, **fields)
    return number(answer.fields, "version"), number(answer.fields, "revision")


async def _changes(talk: Talk) -> None:
    """Check that versions count an entry's changes, revisions those of all, and that a change under another version
    changes nothing."""
    named = _entry(talk)
    version, revision, _ = await _get(talk, **named)
    value = {"retries": talk.number}
    conflict = Response.METADATA_CONFLICT
    await _put(talk, conflict, value, expectedVersion=version + 1, **named)
    made, first = await _put(talk, 0, value, expectedVersion=version, **named)
    talk.must_be("the version after a change", made, version + 1)
    talk.must_be("whether the revision has grown", first > revision, True)
    await _put(talk, conflict, {"retries": -1}, expectedVersion=version, **named)
    talk.must_be("the entry", (await _get(talk, **named))[::2], (made, value))
    row = [named["kind"], named["name"], made, first, value]
    changes = _rows(await talk.expect(0, Request.METADATA_WATCH, after=first - 1))
    talk.must_be("the first change that a watch reports", changes[:1], [row])
    every = await talk.expect(0, Request.METADATA_WATCH, after=-1)
    talk.must_be("whether all entries hold it", row in _rows(every, "entries"), True)
    gone, last = await _put(talk, 0, None, **named)
    talk.must_be("the version after a deletion", gone, made + 1)
    talk.must_be("whether the revision has grown again", last > first, True)
    talk.must_be("an entry that is deleted", (await _get(talk, **named))[::2], (gone, None))
    changes = _rows(await talk.expect(0, Request.METADATA_WATCH, after=first - 1))
    talk.must_be(
        "the revisions that a watch reports", [one[3] for one in changes], list(range(first, first + len(changes)))
    )
    talk.must_be(
        "whether the watch reports both changes", row in changes and [*row[:2], gone, last, None] in changes, True
    )
    await _put(talk, conflict, {"retries": -1}, expectedVersion=made, **named)


def _rows(answer: Command, what: str = "changes") -> list[list[Any]]:
    """Return what a watch reports; its revision is that of its last change."""
    rows = of_json(answer).get(what)
    if not isinstance(rows, list):
        raise Failed(f"a watch without {what}")
    if what == "changes" and rows and rows[-1][3] != number(answer.fields, "revision"):
        raise Failed(f"a watch that ends at revision {rows[-1][3]}, and says {answer.fields.get('revision')}")
    return rows


async def _route(talk: Talk) -> str:
    """Check that elections alone change it, and that it names the master that the controllers have elected, or nobody.
    Epochs only grow, so what says the same before and after was so in between."""
    for name, group in (await _groups(talk)).items():
        if not group["epoch"] or any("/" in replica for replica in group["brokers"]):  # those are no brokers
            continue
        body = json.dumps({"master": "nobody", "epoch": 1}).encode()
        await talk.expect(Response.NO_PERMISSION, Request.METADATA_PUT, body, kind="route", name=name)
        route = (await _get(talk, kind="route", name=name))[2]
        after = (await _groups(talk)).get(name, {})
        documented = {"master": group["master"], "epoch": group["epoch"]}
        if documented == {key: after.get(key) for key in documented} and route != documented:
            return f"the route of {name} is {route}, where {documented} was elected"[:300]
    return AS_DOCUMENTED


async def _groups(talk: Talk) -> Mapping[str, Mapping[str, Any]]:
    found = of_json(await talk.expect(0, Request.DESCRIBE)).get("groups")
    return found if isinstance(found, dict) else {}


async def _quiet_watch(talk: Talk) -> None:
    """Check that a watch ends after a second at the revision from which it began; a change ends it before."""
    first = await talk.expect(0, Request.METADATA_WATCH, after=-1)
    revision = number(first.fields, "revision")
    answer = await talk.expect(0, Request.METADATA_WATCH, after=revision)
    changes = _rows(answer)
    if not changes:
        talk.must_be("the revision of a watch without changes", number(answer.fields, "revision"), revision)
    else:
        talk.must_be("the first revision that a watch reports", changes[0][3], revision + 1)


async def _last_changes(talk: Talk) -> str:
    """Ask for the last changes: they begin right after the revision that was named, or all that there is is sent."""
    revision = number((await talk.expect(0, Request.METADATA_WATCH, after=-1)).fields, "revision")
    if revision < _LAST:
        return AS_DOCUMENTED
    answer = await talk.expect(0, Request.METADATA_WATCH, after=revision - _LAST)
    changes = of_json(answer).get("changes")
    if changes is None or (isinstance(changes, list) and changes and changes[0][3] == revision - _LAST + 1):
        return AS_DOCUMENTED
    return f"changes after revision {revision - _LAST}, of {revision}: {changes}"[:300]


async def _view(talk: Talk) -> None:
    """Check the view of a name server, or of a broker."""
    answer = await talk.expect(0, Request.METADATA_GET, kind=_KIND, name="nobody-knows-this")
    talk.must_be("the version of an entry that is not there", answer.fields.get("version"), "0")
    talk.must_be("its value", answer.body, b"")
    talk.must_be("whether it knows a revision", number(answer.fields, "revision") >= 0, True)
