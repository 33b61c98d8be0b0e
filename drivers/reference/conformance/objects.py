"""What an object store makes of an object, from its creation to its deletion."""

from __future__ import annotations

import json
from typing import Any

from chaos.ops import Failed
from chaos.tasks import gather
from drivers.reference.conformance.case import ASKER, Case, Session, conversation, must_be_final
from reference.tier.objects import content_hash
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import MAX_CONTENT_BYTES, STORE

_PREFIX = "limits/"
#: Not the least and not the last of the three in a list.
_KEYS = (f"{_PREFIX}a-2", f"{_PREFIX}b.1", f"{_PREFIX}b_1")
#: Nobody deletes it.
_LEFT = "limits-left/empty"
_IS_THERE = "it is there"


def of_objects() -> dict[str, Case]:
    confirmed: set[str] = set()

    async def left(session: Session) -> str:
        return await _left_there(session, confirmed)

    return {
        "an object from its creation to its deletion": conversation(STORE, _life),
        "a list of objects": conversation(STORE, _list),
        "requests for one object at once": conversation(STORE, _at_once),
        "changes of one object at once": conversation(STORE, _changes_at_once),
        "an object without bytes that was left there": Case(STORE, _IS_THERE, left, kept=True),
        "an object that is larger than a manifest may be": conversation(STORE, _large),
    }


async def _absent(session: Session, *keys: str) -> None:
    """See to it that these objects are not there, whatever an earlier conversation has left."""
    for key in keys:
        await session.ask(Request.STORE_DELETE, key=key, request=ASKER)
        await session.expect(Response.STORE_ABSENT, Request.STORE_GET, key=key, request=ASKER)


def _stands(session: Session, what: str, answer: Command, content: bytes) -> None:
    """Check that the answer describes this content."""
    documented = {"version": "-1", "hash": str(content_hash(content)), "size": str(len(content))}
    session.must_be(what, {key: answer.fields.get(key) for key in documented}, documented)


async def _life(session: Session) -> None:
    key, content = _KEYS[0], f"content {session.number}".encode()
    named: dict[str, Any] = {"key": key, "request": ASKER}
    await _absent(session, key)
    _stands(session, "an object that is made", await session.expect(0, Request.STORE_PUT, content, **named), content)
    again = await session.expect(Response.STORE_EXISTS, Request.STORE_PUT, b"another", **named)
    _stands(session, "an object that is there", again, content)
    found = await session.expect(0, Request.STORE_GET, **named)
    _stands(session, "an object", found, content)
    session.must_be("its content", found.body, content)
    refused = await session.expect(Response.STORE_CONFLICT, Request.STORE_CAS, b'{"version":9}', expected=8, **named)
    session.must_be("the content in the way of a change", refused.body, content)
    _stands(session, "the object in the way of a change", refused, content)
    gone = await session.expect(0, Request.STORE_DELETE, **named)
    session.must_be("the version of an object that is deleted", gone.fields.get("version"), "-1")
    await session.expect(Response.STORE_ABSENT, Request.STORE_GET, **named)
    await session.expect(Response.STORE_ABSENT, Request.STORE_DELETE, **named)


async def _at_once(session: Session) -> None:
    """Check that they are served in their order, and that another client that leaves meanwhile takes nothing of them
    along."""
    named: dict[str, Any] = {"key": f"{_PREFIX}at-once", "request": ASKER}
    await _absent(session, named["key"])
    await session.expect(0, Request.DESCRIBE, line="leaves")
    steps = (
        *((Request.STORE_PUT, 0), (Request.STORE_PUT, Response.STORE_EXISTS), (Request.STORE_DELETE, 0)),
        *((Request.STORE_DELETE, Response.STORE_ABSENT), (Request.STORE_GET, Response.STORE_ABSENT)),
        *((Request.STORE_PUT, 0), (Request.STORE_GET, 0), (Request.STORE_DELETE, 0), (Request.STORE_PUT, 0)),
        (Request.STORE_DELETE, 0),
    )

    async def leave() -> None:
        await session.expect(0, Request.DESCRIBE)
        session.leave("leaves")

    await gather(*(_served(session, code, expected, named) for code, expected in steps), leave())


async def _served(session: Session, code: int, expected: int, named: dict[str, Any]) -> None:
    await session.expect(expected, code, **named)


async def _changes_at_once(session: Session) -> None:
    """Check that each compares with what the one before it has left."""
    named: dict[str, Any] = {"key": f"{_PREFIX}changed-at-once", "request": ASKER}
    await _absent(session, named["key"])
    contents = {version: f'{{"version":{version}}}'.encode() for version in (1, 2, 3, 4)}
    await session.expect(0, Request.STORE_CAS, contents[1], expected=-1, **named)

    async def change(expected: int, version: int) -> None:
        answer = await session.expect(expected, Request.STORE_CAS, contents[version], expected=1, **named)
        session.must_be("the version after a change", answer.fields.get("version"), "2")
        if expected == Response.STORE_CONFLICT:
            session.must_be("the content in the way of a change", answer.body, contents[2])

    await gather(change(0, 2), change(Response.STORE_CONFLICT, 3), change(Response.STORE_CONFLICT, 4))
    await _absent(session, named["key"])


async def _left_there(session: Session, confirmed: set[str]) -> str:
    """Ask for an object that is left there. ``confirmed``: the stores that have said that it is there, which is durable
    then."""
    named: dict[str, Any] = {"key": _LEFT, "request": ASKER}
    if session.node not in confirmed:
        made = await session.ask(Request.STORE_PUT, b"", may=(Response.STORE_EXISTS,), **named)
        _stands(session, "an object without bytes", made, b"")
        confirmed.add(session.node)
    found = await session.ask(Request.STORE_GET, may=(Response.STORE_ABSENT,), **named)
    if found.code == Response.STORE_ABSENT:
        confirmed.discard(session.node)
        return "it is gone"
    must_be_final(found)
    _stands(session, "an object without bytes that was left there", found, b"")
    return _IS_THERE


async def _list(session: Session) -> None:
    await _absent(session, *_KEYS)
    for key in (_KEYS[1], _KEYS[0], _KEYS[2]):
        await session.expect(0, Request.STORE_PUT, key.encode(), key=key, request=ASKER)
    every = [[key, len(key)] for key in _KEYS]
    await _is_listed(session, every, prefix=_PREFIX)
    await _is_listed(session, every[1:], prefix=f"{_PREFIX}b")
    await _is_listed(session, every[1:], prefix=_PREFIX, after=_KEYS[0])
    await _is_listed(session, every[2:], prefix=_PREFIX, after=_KEYS[1])
    await _is_listed(session, every[:1], prefix=f"{_PREFIX}a", after=_PREFIX)
    await _is_listed(session, [], prefix=_PREFIX, after=_KEYS[2])
    await session.expect(0, Request.STORE_DELETE, key=_KEYS[1], request=ASKER)
    await _is_listed(session, [every[0], every[2]], prefix=_PREFIX)
    await _absent(session, *_KEYS)
    await _is_listed(session, [], prefix=_PREFIX)


async def _is_listed(session: Session, documented: list[list[object]], **fields: Any) -> None:
    answer = await session.expect(0, Request.STORE_LIST, request=ASKER, **fields)
    try:
        listed = json.loads(answer.body)
    except ValueError as error:
        raise Failed(f"a list that is no JSON: {error}") from error
    session.must_be(f"the list of {fields}", (listed, answer.fields.get("more")), (documented, "false"))


async def _large(session: Session) -> None:
    key, content = f"{_PREFIX}large", b"l" * (MAX_CONTENT_BYTES + 1)
    await _absent(session, key)
    made = await session.expect(0, Request.STORE_PUT, content, key=key, request=ASKER)
    _stands(session, "a large object", made, content)
    await _absent(session, key)
