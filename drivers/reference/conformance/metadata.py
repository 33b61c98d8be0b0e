"""What controllers make of an entry of the metadata, and who hears of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chaos.ops import Failed
from drivers._remoting.requests import number
from drivers.reference.conformance.case import AS_DOCUMENTED, Case, Session, asked, conversation, of_json
from drivers.reference.conformance.malformed import of_malformed_metadata
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import BROKER, CONTROLLER, LEADER, NAMESERVER

_KIND = "group"
#: So many changes are asked for; a controller that remembers fewer sends all that there is.
_LAST = 60


def of_metadata() -> dict[str, Case]:
    return {
        **of_malformed_metadata(),
        "an entry of the metadata through its changes": conversation(LEADER, _changes),
        "the route of a group with brokers": Case(LEADER, AS_DOCUMENTED, _route),
        "a watch that ends without a change": conversation(CONTROLLER, _quiet_watch),
        "the last changes that a watch reports": Case(CONTROLLER, AS_DOCUMENTED, _last_changes),
        **{f"what a {role} knows of the metadata": conversation(role, _view) for role in (NAMESERVER, BROKER)},
        "an entry of the metadata without a name": asked(Request.METADATA_GET, Response.INVALID_PARAMETER, name=None),
    }


def _entry(session: Session) -> dict[str, Any]:
    """Return one of the entries that these cases change. There are few, since one that is deleted is still an
    entry."""
    return {"kind": _KIND, "name": f"limits-{session.number % 4}"}


async def _get(session: Session, **named: Any) -> tuple[int, int, object]:
    answer = await session.expect(0, Request.METADATA_GET, **named)
    value = of_json(answer) if answer.body else None
    return number(answer.fields, "version"), number(answer.fields, "revision"), value


async def _put(session: Session, expected: int, value: object, **fields: Any) -> tuple[int, int]:
    body = b"" if value is None else json.dumps(value).encode()
    answer = await session.expect(expected, Request.METADATA_PUT, body, **fields)
    return number(answer.fields, "version"), number(answer.fields, "revision")


async def _changes(session: Session) -> None:
    """Check that versions count an entry's changes, revisions those of all, and that a change under another version
    changes nothing."""
    named = _entry(session)
    version, revision, _ = await _get(session, **named)
    value = {"retries": session.number}
    conflict = Response.METADATA_CONFLICT
    await _put(session, conflict, value, expectedVersion=version + 1, **named)
    made, first = await _put(session, 0, value, expectedVersion=version, **named)
    session.must_be("the version after a change", made, version + 1)
    session.must_be("whether the revision has grown", first > revision, True)
    await _put(session, conflict, {"retries": -1}, expectedVersion=version, **named)
    session.must_be("the entry", (await _get(session, **named))[::2], (made, value))
    row = [named["kind"], named["name"], made, first, value]
    changes = _rows(await session.expect(0, Request.METADATA_WATCH, after=first - 1))
    session.must_be("the first change that a watch reports", changes[:1], [row])
    every = await session.expect(0, Request.METADATA_WATCH, after=-1)
    session.must_be("whether all entries hold it", row in _rows(every, "entries"), True)
    gone, last = await _put(session, 0, None, **named)
    session.must_be("the version after a deletion", gone, made + 1)
    session.must_be("whether the revision has grown again", last > first, True)
    session.must_be("an entry that is deleted", (await _get(session, **named))[::2], (gone, None))
    changes = _rows(await session.expect(0, Request.METADATA_WATCH, after=first - 1))
    session.must_be(
        "the revisions that a watch reports", [one[3] for one in changes], list(range(first, first + len(changes)))
    )
    session.must_be(
        "whether the watch reports both changes", row in changes and [*row[:2], gone, last, None] in changes, True
    )
    await _put(session, conflict, {"retries": -1}, expectedVersion=made, **named)


def _rows(answer: Command, what: str = "changes") -> list[list[Any]]:
    """Return what a watch reports; its revision is that of its last change."""
    rows = of_json(answer).get(what)
    if not isinstance(rows, list):
        raise Failed(f"a watch without {what}")
    if what == "changes" and rows and rows[-1][3] != number(answer.fields, "revision"):
        raise Failed(f"a watch that ends at revision {rows[-1][3]}, and says {answer.fields.get('revision')}")
    return rows


async def _route(session: Session) -> str:
    """Check that elections alone change it, and that it names the master that the controllers have elected, or nobody.
    Epochs only grow, so what says the same before and after was so in between."""
    for name, group in (await _groups(session)).items():
        if not group["epoch"] or any("/" in replica for replica in group["brokers"]):  # those are no brokers
            continue
        body = json.dumps({"master": "nobody", "epoch": 1}).encode()
        await session.expect(Response.NO_PERMISSION, Request.METADATA_PUT, body, kind="route", name=name)
        route = (await _get(session, kind="route", name=name))[2]
        after = (await _groups(session)).get(name, {})
        documented = {"master": group["master"], "epoch": group["epoch"]}
        if documented == {key: after.get(key) for key in documented} and route != documented:
            return f"the route of {name} is {route}, where {documented} was elected"[:300]
    return AS_DOCUMENTED


async def _groups(session: Session) -> Mapping[str, Mapping[str, Any]]:
    found = of_json(await session.expect(0, Request.DESCRIBE)).get("groups")
    return found if isinstance(found, dict) else {}


async def _quiet_watch(session: Session) -> None:
    """Check that a watch ends after a second at the revision from which it began; a change ends it before."""
    first = await session.expect(0, Request.METADATA_WATCH, after=-1)
    revision = number(first.fields, "revision")
    answer = await session.expect(0, Request.METADATA_WATCH, after=revision)
    changes = _rows(answer)
    if not changes:
        session.must_be("the revision of a watch without changes", number(answer.fields, "revision"), revision)
    else:
        session.must_be("the first revision that a watch reports", changes[0][3], revision + 1)


async def _last_changes(session: Session) -> str:
    """Ask for the last changes: they begin right after the revision that was named, or all that there is is sent."""
    revision = number((await session.expect(0, Request.METADATA_WATCH, after=-1)).fields, "revision")
    if revision < _LAST:
        return AS_DOCUMENTED
    answer = await session.expect(0, Request.METADATA_WATCH, after=revision - _LAST)
    changes = of_json(answer).get("changes")
    if changes is None or (isinstance(changes, list) and changes and changes[0][3] == revision - _LAST + 1):
        return AS_DOCUMENTED
    return f"changes after revision {revision - _LAST}, of {revision}: {changes}"[:300]


async def _view(session: Session) -> None:
    """Check the view of a name server, or of a broker."""
    answer = await session.expect(0, Request.METADATA_GET, kind=_KIND, name="nobody-knows-this")
    session.must_be("the version of an entry that is not there", answer.fields.get("version"), "0")
    session.must_be("its value", answer.body, b"")
    session.must_be("whether it knows a revision", number(answer.fields, "revision") >= 0, True)
