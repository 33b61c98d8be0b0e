"""The real store behind a gateway, reached through the library obstore: a node's outside
(:class:`chaos.shell.outside.Outside`).

It does what the gateway asks for, once, and says how that ended; whether to try again is the gateway's to decide. So
the library's own retries are off: a second attempt of a conditional write fails because of the first one. What it says
of an error holds no text of the store but a status and a code, for those may repeat credentials and signatures.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import shutil
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaos.shell.outside import Unfit
from reference.objectstore.address import StoreAddress
from reference.objectstore.asking import ABSENT, ANY, BARE, CONDITION, SAME, TAGS, tags
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import KEY

if TYPE_CHECKING:
    from chaos.node import NodeSpec

#: So many requests to the store are under way at a time.
MOST_AT_ONCE = 64
#: A store that can't be reached when the gateway begins is tried for so long.
PROOF_S, PROOF_PAUSE_S = 10.0, 0.5
#: An object is the content of one request, and its head.
MAX_STORED_BYTES = 16 << 20
#: So many objects are listed at a time.
CHUNK = 1000
NO_BUCKET = "NoSuchBucket"
UNREACHED = "it can't be reached"
NO_CONDITIONS = "the store has no conditional writes by e_tag; single_writer: true does without, for one gateway alone"
#: What is said of an error that never became an answer, where its text has these words.
_HINTS = ("timed out", "error sending request", "dns error", "credential")
#: How requests end that the store has understood.
_ANSWERS = (Response.STORE_EXISTS, Response.STORE_CONFLICT, Response.STORE_ABSENT)
_STATUS = re.compile(r"status code: (\d{3})")
_KIND = re.compile(r"source: ([A-Z]\w{1,60})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")


class Bucket:
    """One gateway's objects: those under its ``prefix``. ``single_writer``: nobody else writes there, so that a store
    without conditional writes will do."""

    def __init__(
        self, address: StoreAddress, prefix: str, *, single_writer: bool = False, timeout_ms: int = 3000
    ) -> None:
        """Raise ``ImportError`` where obstore is not installed, ``ValueError`` for a prefix that is none, or where the
        address and the environment together make no store."""
        import obstore

        if not KEY.fullmatch(prefix):
            raise ValueError(f"prefix: expected letters, digits and ._-/, got {prefix[:80]!a}")
        self._obs = obstore
        self._store: Any = opened(address, timeout_ms)
        self._where = address.url
        self._is_local = address.scheme in ("file", "memory")
        self._folder = Path(address.path) if address.scheme == "file" else None
        self._prefix = prefix
        self._single_writer = single_writer
        self._gate = asyncio.Semaphore(MOST_AT_ONCE)
        self._said = ""

    @classmethod
    def of(cls, spec: NodeSpec) -> Bucket:
        """Make that of a gateway. Raises as the constructor does."""
        return cls(
            StoreAddress.of(str(spec.options.get("store", ""))),
            str(spec.options.get("prefix", "")),
            single_writer=bool(spec.options.get("single_writer")),
            timeout_ms=int(str(spec.options.get("timeout_ms", 3000))),
        )

    async def begin(self) -> None:
        """Prove that the store can serve: it is there, lets us write, and refuses writes whose condition does not hold.
        Raises :class:`Unfit`."""
        deadline_s = asyncio.get_running_loop().time() + PROOF_S
        while True:
            key = f".proof-{secrets.token_hex(8)}"
            problem = await self._proof(key)
            await self.answer(Command(code=Request.STORE_DELETE, fields={"key": key}))
            if not problem:
                print(f"objects stand at {self._where}/{self._prefix}/", flush=True)
                return
            if not problem.startswith(UNREACHED) or asyncio.get_running_loop().time() > deadline_s:
                raise Unfit(f"{self._where}: {problem}")
            await asyncio.sleep(PROOF_PAUSE_S)

    async def _proof(self, key: str) -> str:
        """Return what the store lacks; "" if nothing."""
        made = await self._try(key, b"1", **{CONDITION: ABSENT})
        if made.code != Response.SUCCESS:
            return _lacking(made, "no object can be made there")
        again = await self._try(key, b"2", **{CONDITION: ABSENT})
        if again.code != Response.STORE_EXISTS:
            return _lacking(again, "the store does not refuse to create what is there; no gateway can work with it")
        if self._single_writer:
            return ""
        for body, expected in ((b"3", Response.SUCCESS), (b"4", Response.STORE_CONFLICT)):
            changed = await self._try(key, body, **{CONDITION: SAME}, **tags(made.fields))
            if changed.code != expected:
                return _lacking(changed, NO_CONDITIONS)
        return ""

    async def _try(self, key: str, body: bytes, **fields: str) -> Command:
        return await self.answer(Command(code=Request.STORE_PUT, fields={"key": key, **fields}, body=body))

    # Requests of the gateway

    async def answer(self, request: Command) -> Command:
        """Do what is asked, once."""
        do = _DO[Request(request.code)]
        async with self._gate:
            try:
                return await do(self, request)
            except Exception as error:
                code, what = outcome(error)
        if code == Response.SYSTEM_ERROR and self._is_local:
            code = Response.SYSTEM_BUSY  # nothing is under way any more
        if code not in _ANSWERS and what != self._said:
            self._said = what  # once in a row: an outage has thousands
            print(f"{self._where}: {what}", flush=True)
        return request.reply(code, remark=what)

    async def _put(self, request: Command) -> Command:
        condition = request.fields[CONDITION]
        mode: Any = {ABSENT: "create", ANY: "overwrite"}.get(condition) or tags(request.fields)
        made = await self._obs.put_async(self._store, self._path(request), request.body, mode=mode, use_multipart=False)
        return request.reply(fields=_tags_of(made))

    async def _get(self, request: Command) -> Command:
        if BARE in request.fields:
            return request.reply(fields=_tags_of(await self._obs.head_async(self._store, self._path(request))))
        found = await self._obs.get_async(self._store, self._path(request))
        if found.meta["size"] > MAX_STORED_BYTES:
            return request.reply(fields=_tags_of(found.meta))  # it is none of ours, as its empty body shows
        return request.reply(fields=_tags_of(found.meta), body=bytes(await found.bytes_async()))

    async def _list(self, request: Command) -> Command:
        """Read all of a folder before the page is cut: not every store lists in the order of keys."""
        prefix, after, most = (request.fields[name] for name in ("prefix", "after", "most"))
        found = []
        folder = f"{self._prefix}/{prefix.rpartition('/')[0]}".rstrip("/")
        async for chunk in self._obs.list(self._store, prefix=folder, chunk_size=CHUNK):
            for meta in chunk:
                key = str(meta["path"]).removeprefix(f"{self._prefix}/")
                if key.startswith(prefix) and key > after and KEY.fullmatch(key):
                    found.append((key, meta["size"], meta["e_tag"] or ""))
        page = sorted(found)[: int(most)]
        more = {"more": "true" if len(page) < len(found) else "false"}
        return request.reply(fields=more, body=json.dumps(page).encode())

    async def _delete(self, request: Command) -> Command:
        await self._obs.delete_async(self._store, self._path(request))
        return request.reply()

    async def _clear(self, request: Command) -> Command:
        """Delete all objects under the prefix, also those that no key of a gateway fits."""
        async for chunk in self._obs.list(self._store, prefix=self._prefix, chunk_size=CHUNK):
            await self._obs.delete_async(self._store, [meta["path"] for meta in chunk])
        if self._folder is not None:
            shutil.rmtree(self._folder / self._prefix, ignore_errors=True)  # folders that are empty now
        return request.reply()

    def _path(self, request: Command) -> str:
        return f"{self._prefix}/{request.fields['key']}"


_DO: Mapping[Request, Callable[[Bucket, Command], Awaitable[Command]]] = {
    Request.STORE_PUT: Bucket._put,
    Request.STORE_GET: Bucket._get,
    Request.STORE_LIST: Bucket._list,
    Request.STORE_DELETE: Bucket._delete,
    Request.STORE_CLEAR: Bucket._clear,
}


def opened(address: StoreAddress, timeout_ms: int) -> Any:
    """Return the library's store. Raises ``ValueError``."""
    from obstore.store import LocalStore, MemoryStore, from_url

    limit = timedelta(milliseconds=timeout_ms)
    try:
        if address.scheme == "file":
            return LocalStore(address.path, mkdir=True)
        if address.scheme == "memory":
            return MemoryStore()
        return from_url(
            address.url,
            config=dict(address.settings),
            client_options={"timeout": limit, "connect_timeout": limit, "allow_http": address.speaks_plainly},
            retry_config={"max_retries": 0},
        )
    except Exception as error:
        kind = _KIND.search(str(error))
        why = f" ({kind[1]})" if kind else ""
        raise ValueError(f"{address.url}: the settings and the environment make no store{why}") from None


def outcome(error: Exception) -> tuple[Response, str]:
    """Return how a request ended that raised this, and what may be said of it."""
    from obstore import exceptions

    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    words = [type(error).__name__, *(found[1] for found in (status, code) if found)]
    if not status and (hint := next((hint for hint in _HINTS if hint in text), "")):
        words.append(hint)
    what = " ".join(words)
    if code and code[1] == NO_BUCKET:
        return Response.SYSTEM_ERROR, what
    for kind, response in (
        (exceptions.AlreadyExistsError, Response.STORE_EXISTS),
        (exceptions.PreconditionError, Response.STORE_CONFLICT),
        (FileNotFoundError, Response.STORE_ABSENT),
        ((exceptions.PermissionDeniedError, exceptions.UnauthenticatedError), Response.NO_PERMISSION),
    ):
        if isinstance(error, kind):
            return response, what
    return Response.SYSTEM_ERROR, what


def _tags_of(found: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(found[name]) for name in TAGS if found.get(name) is not None}


def _lacking(answer: Command, what: str) -> str:
    if answer.code == Response.SYSTEM_ERROR and NO_BUCKET not in answer.remark:
        what = UNREACHED
    return f"{what} ({answer.remark})" if answer.remark else what
