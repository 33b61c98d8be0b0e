"""The requests that meta nodes and stores take: to whom, with which header fields, and with what in the body.

A test holds nodes to this table, as to those of :mod:`reference.wire.requests`, where brokers' and name servers' stand.
The messages of groups between stores have a form of their own (:mod:`reference.split.hosting.bundles`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from reference.broker.records import MAX_TOPIC_BYTES
from reference.split.layout import MAX_GROUPS
from reference.split.meta.entries import KEEP, MAX_QUEUES
from reference.split.requests import LOCAL_ONLY, MAX_POSITION, TIER_ONLY
from reference.wire.codes import Request
from reference.wire.requests import (
    FREE,
    MAYBE_I64,
    MAYBE_NAME,
    NAME,
    Field,
    Form,
    Json,
    Listed,
    Object,
    Pattern,
    Table,
    Text,
    Whole,
    Word,
)

#: Whom a request is for: any meta node, the one that leads, or any store.
META, META_LEADER, STORE = "meta", "leader of the meta nodes", "store"

_COUNT, _NATURAL = Whole(least=0), Whole(least=0, most=(1 << 62) - 1)
_GROUP = Whole(least=0, most=MAX_GROUPS - 1)
_POSITION = Whole(least=0, most=MAX_POSITION - 1)
_LIMIT = Whole(needed=False, least=KEEP)
_QUEUE: Mapping[str, Field] = {"group": _GROUP, "topic_id": _NATURAL, "number": _NATURAL}
_SEGMENT: Mapping[str, Field] = {"group": _COUNT, "topic_id": _COUNT, "start": _COUNT, "end": Whole(least=1)}
_DIGEST = Pattern(re.compile(r"[0-9a-f]{32}"), example="0" * 32)


def _of_node(kind: str, **fields: Field) -> Form:
    """Return the form in which a node of this kind speaks for itself."""
    return Form(META, {"cluster": FREE, "node": NAME, "kind": Word(words=(kind,)), **fields})


#: A request whose form depends on who sends it is here once for each.
FORMS: Sequence[tuple[Request, Form]] = (
    # brokers, stores → meta
    (Request.META_REGISTER, Form(META_LEADER, _of_node("broker", nonce=NAME).fields)),
    (Request.META_REGISTER, Form(META_LEADER, _of_node("store", word=NAME, zone=MAYBE_NAME).fields)),
    (Request.META_HEARTBEAT, _of_node("broker", life=_COUNT)),
    (Request.META_HEARTBEAT, _of_node("store", disk=_COUNT)),
    (
        Request.META_REPORT,
        Form(
            META_LEADER,
            {"cluster": FREE, "node": NAME, **dict.fromkeys(("disk", "group", "index"), _COUNT)},
            Object({"voters": Listed(str), "learners": Listed(str)}),
            may_be_empty=False,
        ),
    ),
    # all → meta
    (Request.METADATA_GET, Form(META, {"kind": NAME, "name": NAME})),
    (Request.METADATA_WATCH, Form(META, {"after": MAYBE_I64})),
    # brokers, administrators → meta
    (
        Request.META_TOPIC,
        Form(
            META_LEADER,
            {
                "topic": Text(most=MAX_TOPIC_BYTES),
                "queues": Whole(needed=False, least=0, most=MAX_QUEUES),
                **dict.fromkeys(("retain_ms", "retain_bytes", "expectedVersion"), _LIMIT),
            },
        ),
    ),
    (Request.META_DELETE_TOPIC, Form(META_LEADER, {"topic": NAME, "expectedVersion": _LIMIT})),
    (Request.META_DRAIN, Form(META_LEADER, {"node": NAME})),
    (Request.META_UNDRAIN, Form(META_LEADER, {"node": NAME})),
    # brokers → stores
    (
        Request.GROUP_FENCE,
        Form(STORE, {"group": _GROUP, "slice": _GROUP, "epoch": _NATURAL, "broker": NAME, "life": _NATURAL}),
    ),
    (
        Request.GROUP_APPEND,
        Form(
            STORE,
            {
                "group": _GROUP,
                "epoch": _NATURAL,
                "position": _POSITION,
                "crc": Whole(least=0, most=(1 << 32) - 1),
                "topics": Json(Table(int)),
            },
        ),
    ),
    (Request.GROUP_COMMIT, Form(STORE, {**_QUEUE, "epoch": _NATURAL, "consumer": NAME, "offset": _NATURAL})),
    (
        Request.GROUP_READ,
        Form(
            STORE,
            {
                **_QUEUE,
                "map": MAYBE_I64,
                **dict.fromkeys(("offset", "count", "bytes"), _NATURAL),
                "tier": Word(needed=False, words=(TIER_ONLY, LOCAL_ONLY)),
            },
        ),
    ),
    (Request.GROUP_CONFIRM, Form(STORE, {"group": _GROUP, "epoch": _NATURAL})),
    # stores → stores
    (Request.SEGMENT_GET, Form(STORE, {**_SEGMENT, "digest": _DIGEST, "offset": _NATURAL})),
    # harness → stores
    (Request.READ_STATE, Form(STORE, {"group": _GROUP})),
    (Request.READ_LOG, Form(STORE, {"group": _GROUP, "position": _NATURAL})),
)
