"""Requests that can't be understood: each part of each request that a client may send, missing, too long, of another
type, or outside of its range. Every node refuses all of them with one code, and does nothing.

The requests are made from the tables of the wire (:mod:`reference.wire.requests`). By hand stand the codes of the
refusals, and what only some value of another part makes wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drivers.reference.conformance.case import Case, Session, must_be_final, one_request
from drivers.reference.conformance.examples import NAME, example, right_fields
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import MAX_DEPTH, MAX_NAME_BYTES
from reference.wire.requests import (
    BROKER,
    CONTROLLER,
    FORMS,
    LEADER,
    MASTER,
    METADATA_FORMS,
    NAMESERVER,
    STORE,
    Field,
    Flag,
    Form,
    Free,
    Json,
    Listed,
    Object,
    Pattern,
    Shape,
    Table,
    Text,
    Whole,
    Wholes,
    Word,
)

#: The code by which each role refuses what it can't understand, and that for the metadata, whatever the role.
REFUSAL: Mapping[str, Response] = {
    MASTER: Response.INVALID_PARAMETER,
    BROKER: Response.INVALID_PARAMETER,
    CONTROLLER: Response.CONTROLLER_INVALID_REQUEST,
    LEADER: Response.CONTROLLER_INVALID_REQUEST,
    NAMESERVER: Response.SYSTEM_ERROR,
    STORE: Response.MESSAGE_ILLEGAL,
}
METADATA_REFUSAL = Response.INVALID_PARAMETER
#: Values that are wrong for a key of an object, or for the beginning of one.
_NO_KEYS = ("../x", "/x", "x/", "x//y", ".x", "x/.y", "x y", "x@y", "x" * 201, "x/" * 127 + "xy", "x" * 256, "ä")
#: No JSON as nodes understand it, whatever it means.
_NO_JSON: Mapping[str, bytes] = {
    "a body that ends early": b'{"a":1',
    "a body that is no text": b'"\xff"',
    "a number of 65 bits": b'{"a":9223372036854775808}',
    "a negative number of 65 bits": b'{"a":-9223372036854775809}',
    "a number that is none": b'{"a":NaN}',
    "an infinite number": b'{"a":1e999}',
    "half a character": b'{"a":"\\ud800"}',
    "lists that are too deep": b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}",
}
#: JSON values, each with what it is.
_TEXT, _NUMBER, _FRACTION = ("a text", "1"), ("a number", 1), ("a fraction", 1.5)
_LIST, _OBJECT = ("a list", [[1]]), ("an object", {"a": 1})
#: By what is asked for, values that are something else.
_OTHERS: Mapping[type, Sequence[tuple[str, Any]]] = {
    str: (_NUMBER, _LIST),
    int: (_TEXT, _FRACTION, _LIST),
    Listed: (_NUMBER, _OBJECT),
    Table: (_NUMBER, _LIST),
    Object: (_TEXT, _NUMBER, _LIST),
}
#: What is no name of a member, in a few words.
_NO_NAMES = (("no name", ""), ("too long a name", "n" * (MAX_NAME_BYTES + 1)))
#: Bodies that are wrong because of what a field says.
_MORE: Mapping[Request, Mapping[str, bytes]] = {
    Request.STORE_CAS: {"a version that is not above the expected one": b'{"version":0}'},
    Request.METADATA_PUT: {"the member of another kind": b'{"queues":1}'},
}


def of_malformed(topic: str) -> dict[str, Case]:
    """Return the cases of all nodes, whatever their options are. ``topic``: one that is there."""
    return _cases(FORMS, topic)


def of_malformed_metadata() -> dict[str, Case]:
    """Return the cases for nodes with the option ``metadata``."""
    return _cases(METADATA_FORMS, "", METADATA_REFUSAL)


def _cases(forms: Mapping[Request, Form], topic: str, refusal: Response | None = None) -> dict[str, Case]:
    return {
        f"requests {request.name} that can't be understood": _case(
            form.to, list(wrong_requests(request, form, topic)), refusal or REFUSAL[form.to]
        )
        for request, form in forms.items()
    }


def _case(role: str, requests: list[tuple[str, Command]], refusal: Response) -> Case:
    """Return a case that sends all of them, one after the other. It names the first that is taken otherwise than
    documented."""
    expected = f"code {int(refusal)} to each"

    async def converse(session: Session) -> str:
        for what, request in requests:
            answer = await one_request(session, request)
            if answer.code != refusal:
                must_be_final(answer)
                return f"code {answer.code} to one {what}"
        return expected

    return Case(role, expected, converse)


def right_request(request: Request, form: Form, topic: str) -> Command:
    """Return one that can be understood. ``topic``: one that is there."""
    body = b"x" if form.body is None else _json(example(form.body))
    return Command(code=request, fields=right_fields(form, topic), body=body)


def wrong_requests(
    request: Request, form: Form, topic: str, right: Command | None = None
) -> Iterator[tuple[str, Command]]:
    """Yield the requests that can't be understood, each with what is wrong about it: they differ in one place from
    ``right``, which is :func:`right_request` by default."""
    right = right or right_request(request, form, topic)
    good, body = right.fields, right.body
    for key, kind in form.fields.items():
        if kind.needed:
            rest = {name: text for name, text in good.items() if name != key}
            yield f"without {key}", Command(code=request, fields=rest, body=body)
    for key, kind in form.fields.items():
        for text in _wrong(kind):
            yield f"with {key} = {text[:20]}", Command(code=request, fields={**good, key: text}, body=body)
    for what, content in _wrong_bodies(form).items():
        yield f"with {what}", Command(code=request, fields=good, body=content)
    for what, content in _MORE.get(request, {}).items():
        yield f"with {what}", Command(code=request, fields=good, body=content)


def _wrong(kind: Field) -> Iterator[str]:
    match kind:
        case Text(most=most):
            yield "n" * (most + 1)
            if isinstance(kind, Word):
                yield "nothing"
        case Pattern(expression=expression):
            yield from (text for text in _NO_KEYS if not expression.fullmatch(text))
        case Whole(bits=bits, least=least, most=most):
            yield from ("x", str(1 << bits - 1), str((-1 << bits - 1) - 1))
            if most is not None:
                yield str(most + 1)
            if least is not None:
                yield from map(str, sorted({least - 1, min(least - 1, -1)}, reverse=True))
        case Wholes():
            yield from ("x", f"1;{1 << 63}")
        case Json(shape=shape):
            yield "{"
            yield from (json.dumps(value) for _, value in _wrong_values(shape, ""))
        case Flag() | Free():
            pass


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _wrong_bodies(form: Form) -> dict[str, bytes]:
    """Return wrong bodies for a form, each in a few words."""
    if form.body is None:
        return {}
    wrong = {what: _json(value) for what, value in _wrong_values(form.body, "a body that is")}
    if not form.may_be_empty:
        wrong["no body"] = b""
    if form.most_bytes is not None:
        wrong["too much content"] = _json({**example(form.body), "a": "a" * form.most_bytes})
    return {**_NO_JSON, **wrong}


def _wrong_values(shape: Shape, what: str) -> Iterator[tuple[str, Any]]:
    """Yield JSON values that are of this shape but for one place, each in words that begin with ``what``."""
    others = _OTHERS[shape if isinstance(shape, type) else type(shape)]
    yield from ((f"{what} {kind}", value) for kind, value in others)
    right = example(shape)
    match shape:
        case Listed(shape=inner, most=most):
            yield from ((words, [value]) for words, value in _wrong_values(inner, f"{what} a list of"))
            if most is not None:
                yield f"{what} too long a list", right * (most + 1)
        case Table(shape=inner):
            yield from ((f"{what} a table with {words}", {name: example(inner)}) for words, name in _NO_NAMES)
            yield from ((words, {NAME: value}) for words, value in _wrong_values(inner, f"{what} a table of"))
        case Object(members=members, optional=optional, closed=closed):
            for key, inner in members.items():
                if key not in optional:
                    yield f"{what} an object without {key}", {name: right[name] for name in right if name != key}
                yield from ((words, {**right, key: value}) for words, value in _wrong_values(inner, f"{key} that is"))
            if closed:
                yield f"{what} an object with one member more", {**right, "more": 1}
