"""What an object store makes of an object, from its creation to its deletion."""

from __future__ import annotations

import json
from typing import Any

from chaos.ops import Failed
from chaos.tasks import gather
from drivers.reference.questions.question import ASKER, STORE, Question, Talk, must_be_final, talked
from reference.objectstore.node import MAX_CONTENT_BYTES
from reference.tier.objects import content_hash
from reference.wire.codes import Request, Response
from reference.wire.command import Command

_PREFIX = "limits/"
#: Not the least and not the last of the three in a list.
_KEYS = (f"{_PREFIX}a-2", f"{_PREFIX}b.1", f"{_PREFIX}b_1")
#: Nobody deletes it.
_LEFT = "limits-left/empty"
_IS_THERE = "it is there"


def of_objects() -> dict[str, Question]:
    confirmed: set[str] = set()

    async def left(talk: Talk) -> str:
        return await _left_there(talk, confirmed)

    return {
        "an object from its creation to its deletion": talked(STORE, _life),
        "a list of objects": talked(STORE, _list),
        "requests for one object at once": talked(STORE, _at_once),
        "changes of one object at once": talked(STORE, _changes_at_once),
        "an object without bytes that was left there": Question(STORE, _IS_THERE, left, kept=True),
        "an object that is larger than a manifest may be": talked(STORE, _large),
    }


async def _absent(talk: Talk, *keys: str) -> None:
    """See to it that these objects are not there, whatever an earlier conversation has left."""
    for key in keys:
        await talk.ask(Request.STORE_DELETE, key=key, request=ASKER)
        await talk.expect(Response.STORE_ABSENT, Request.STORE_GET, key=key, request=ASKER)


def _stands(talk: Talk, what: str, answer: Command, content: bytes) -> None:
    """Check that the answer describes this content."""
    documented = {"version": "-1", "hash": str(content_hash(content)), "size": str(len(content))}
    talk.must_be(what, {key: answer.fields.get(key) for key in documented}, documented)


async def _life(talk: Talk) -> None:
    key, content = _KEYS[0], f"content {talk.number}".encode()
    named: dict[str, Any] = {"key": key, "request": ASKER}
    await _absent(talk, key)
    _stands(talk, "an object that is made", await talk.expect(0, Request.STORE_PUT, content, **named), content)
    again = await talk.expect(Response.STORE_EXISTS, Request.STORE_PUT, b"another", **named)
    _stands(talk, "an object that is there", again, content)
    found = await talk.expect(0, Request.STORE_GET, **named)
    _stands(talk, "an object", found, content)
    talk.must_be("its content", found.body, content)
    refused = await talk.expect(Response.STORE_CONFLICT, Request.STORE_CAS, b'{"version":9}', expected=8, **named)
    talk.must_be("the content in the way of a change", refused.body, content)
    _stands(talk, "the object in the way of a change", refused, content)
    gone = await talk.expect(0, Request.STORE_DELETE, **named)
    talk.must_be("the version of an object that is deleted", gone.fields.get("version"), "-1")
    await talk.expect(Response.STORE_ABSENT, Request.STORE_GET, **named)
    await talk.expect(Response.STORE_ABSENT, Request.STORE_DELETE, **named)


async def _at_once(talk: Talk) -> None:
    """Check that they are served in their order, and that another client that leaves meanwhile takes nothing of them
    along."""
    named: dict[str, Any] = {"key": f"{_PREFIX}at-once", "request": ASKER}
    await _absent(talk, named["key"])
    await talk.expect(0, Request.DESCRIBE, line="leaves")
    steps = (
        *((Request.STORE_PUT, 0), (Request.STORE_PUT, Response.STORE_EXISTS), (Request.STORE_DELETE, 0)),
        *((Request.STORE_DELETE, Response.STORE_ABSENT), (Request.STORE_GET, Response.STORE_ABSENT)),
        *((Request.STORE_PUT, 0), (Request.STORE_GET, 0), (Request.STORE_DELETE, 0), (Request.STORE_PUT, 0)),
        (Request.STORE_DELETE, 0),
    )

    async def leave() -> None:
        await talk.expect(0, Request.DESCRIBE)
        talk.leave("leaves")

    await gather(*(_served(talk, code, expected, named) for code, expected in steps), leave())


async def _served(talk: Talk, code: int, expected: int, named: dict[str, Any]) -> None:
    await talk.expect(expected, code, **named)


async def _changes_at_once(talk: Talk) -> None:
    """Check that each compares with what the one before it has left."""
    named: dict[str, Any] = {"key": f"{_PREFIX}changed-at-once", "request": ASKER}
    await _absent(talk, named["key"])
    contents = {version: f'{{"version":{version}}}'.encode() for version in (1, 2, 3, 4)}
    await talk.expect(0, Request.STORE_CAS, contents[1], expected=-1, **named)

    async def change(expected: int, version: int) -> None:
        answer = await talk.expect(expected, Request.STORE_CAS, contents[version], expected=1, **named)
        talk.must_be("the version after a change", answer.fields.get("version"), "2")
        if expected == Response.STORE_CONFLICT:
            talk.must_be("the content in the way of a change", answer.body, contents[2])

    await gather(change(0, 2), change(Response.STORE_CONFLICT, 3), change(Response.STORE_CONFLICT, 4))
    await _absent(talk, named["key"])


async def _left_there(talk: Talk, confirmed: set[str]) -> str:
    """Ask for an object that is left there. ``confirmed``: the stores that have said that it is there, which is durable
    then."""
    named: dict[str, Any] = {"key": _LEFT, "request": ASKER}
    if talk.node not in confirmed:
        made = await talk.ask(Request.STORE_PUT, b"", may=(Response.STORE_EXISTS,), **named)
        _stands(talk, "an object without bytes", made, b"")
        confirmed.add(talk.node)
    found = await talk.ask(Request.STORE_GET, may=(Response.STORE_ABSENT,), **named)
    if found.code == Response.STORE_ABSENT:
        confirmed.discard(talk.node)
        return "it is gone"
    must_be_final(found)
    _stands(talk, "an object without bytes that was left there", found, b"")
    return _IS_THERE


async def _list(talk: Talk) -> None:
    await _absent(talk, *_KEYS)
    for key in (_KEYS[1], _KEYS[0], _KEYS[2]):
        await talk.expect(0, Request.STORE_PUT, key.encode(), key=key, request=ASKER)
    every = [[key, len(key)] for key in _KEYS]
    await _is_listed(talk, every, prefix=_PREFIX)
    await _is_listed(talk, every[1:], prefix=f"{_PREFIX}b")
    await _is_listed(talk, every[1:], prefix=_PREFIX, after=_KEYS[0])
    await _is_listed(talk, every[2:], prefix=_PREFIX, after=_KEYS[1])
    await _is_listed(talk, every[:1], prefix=f"{_PREFIX}a", after=_PREFIX)
    await _is_listed(talk, [], prefix=_PREFIX, after=_KEYS[2])
    await talk.expect(0, Request.STORE_DELETE, key=_KEYS[1], request=ASKER)
    await _is_listed(talk, [every[0], every[2]], prefix=_PREFIX)
    await _absent(talk, *_KEYS)
    await _is_listed(talk, [], prefix=_PREFIX)


async def _is_listed(talk: Talk, documented: list[list[object]], **fields: Any) -> None:
    answer = await talk.expect(0, Request.STORE_LIST, request=ASKER, **fields)
    try:
        listed = json.loads(answer.body)
    except ValueError as error:
        raise Failed(f"a list that is no JSON: {error}") from error
    talk.must_be(f"the list of {fields}", (listed, answer.fields.get("more")), (documented, "false"))


async def _large(talk: Talk) -> None:
    key, content = f"{_PREFIX}large", b"l" * (MAX_CONTENT_BYTES + 1)
    await _absent(talk, key)
    made = await talk.expect(0, Request.STORE_PUT, content, key=key, request=ASKER)
    _stands(talk, "a large object", made, content)
    await _absent(talk, key)
