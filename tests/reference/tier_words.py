"""Requests to the object store, its answers and what it holds, in words.

An object is called ``BASE-EPOCH-GENERATION-ATTEMPT``, as its key ends, without the zeros in front.
"""

from __future__ import annotations

from chaos.node import Env
from reference.broker import records
from reference.objectstore.node import ObjectStore
from reference.tier.manifest import Manifest
from reference.tier.objects import decode, parse_key
from reference.wire.codes import Request, Response
from reference.wire.command import Command

VERBS = {
    Request.STORE_PUT: "put",
    Request.STORE_CAS: "cas",
    Request.STORE_GET: "get",
    Request.STORE_LIST: "list",
    Request.STORE_DELETE: "delete",
}


def object_name(key: str) -> str:
    name = parse_key(key)
    return "manifest" if name is None else f"{name.base}-{name.epoch}-{name.generation}-{name.attempt}"


def content(key: str, data: bytes) -> str:
    if parse_key(key) is not None:
        return " ".join(records.decode(stored.data).body.decode().rstrip() for stored in decode(data))
    return manifest(Manifest.decode(data))


def manifest(it: Manifest) -> str:
    named = " ".join(f"{object_name(segment.key)}[{segment.count}]" for segment in it.segments) or "nothing"
    return f"epoch {it.epoch} of {it.writer}, T {it.end}, P {it.position}, names {named}"


class StoreWords:
    """Says what a message to or from the store says; remembers what was asked, to understand the answers."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._asked: dict[tuple[str, int], tuple[str, str]] = {}

    def say(self, source: str, to: str, message: Command) -> str:
        if source == self._store:
            return self._answer(*self._asked[to, message.opaque], message)
        verb = VERBS[Request(message.code)]
        key = message.fields.get("key", message.fields.get("prefix", ""))
        self._asked[source, message.opaque] = (verb, key)
        if verb == "list":
            return "list objects"
        if verb == "cas":
            expected = message.fields["expected"]
            now = f"version {expected}" if int(expected) >= 0 else "none"
            made = Manifest.decode(message.body)
            return f"replace manifest {now} by version {made.version}: {manifest(made)}"
        return f"{verb} {object_name(key)}" + (f": {content(key, message.body)}" if message.body else "")

    def _answer(self, verb: str, key: str, message: Command) -> str:
        if message.code == Response.STORE_ABSENT:
            return f"{object_name(key)} is absent"
        if message.code == Response.STORE_CONFLICT:
            return f"conflict, there is version {Manifest.decode(message.body).version}: {content(key, message.body)}"
        if message.code == Response.STORE_EXISTS:
            return f"{object_name(key)} exists"
        if message.code != Response.SUCCESS:
            return f"refused: {message.remark}"
        if verb == "get":
            version = f"version {Manifest.decode(message.body).version} of " if parse_key(key) is None else ""
            return f"{version}{object_name(key)}: {content(key, message.body)}"
        return {"put": "stored", "cas": "replaced", "list": "listed", "delete": "deleted"}[verb]


def objects_in(store: ObjectStore, env: Env) -> list[str]:
    """A line for each object, the manifests first."""
    held = {key: store._content(env, found) or b"" for key, found in sorted(store._objects.items())}
    manifests = {key: Manifest.decode(data) for key, data in held.items() if parse_key(key) is None}
    lines = [f"manifest version {it.version}: {manifest(it)}" for it in manifests.values()]
    named = {segment.key for it in manifests.values() for segment in it.segments}
    for key, data in held.items():
        if key not in manifests:
            left = "" if key in named else ", which no manifest names"
            lines.append(f"object {object_name(key)}: {content(key, data)}{left}")
    return lines or ["empty"]
