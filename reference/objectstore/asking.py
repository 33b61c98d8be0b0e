"""What a gateway asks of the real store behind it, and how that answers: commands within one process.

The codes are those of the wire. ``STORE_PUT`` has the fields ``key`` and ``condition`` (:data:`ABSENT`, :data:`SAME`
with the tags of what must stand there, or :data:`ANY`), ``STORE_GET`` and ``STORE_DELETE`` a ``key``, ``STORE_LIST`` a
``prefix``, ``after`` and ``most``, ``STORE_CLEAR`` nothing. Answers: ``SUCCESS``, with the tags of what a put has made
or a get has found, or for a list ``more`` and a body [[key, bytes, e_tag], …]; ``STORE_EXISTS`` or ``STORE_CONFLICT``
when a condition did not hold; ``STORE_ABSENT``; and with a remark ``NO_PERMISSION``, ``SYSTEM_BUSY`` for what failed
and won't have any effect after that, and ``SYSTEM_ERROR``: then it is unknown whether a change has taken effect, or
will.
"""

from __future__ import annotations

from collections.abc import Mapping

#: What must stand under the key for a put: nothing, what has these tags, or anything.
CONDITION, ABSENT, SAME, ANY = "condition", "absent", "same", "any"
#: What distinguishes one content of an object from the others: which of the two a store heeds is its own affair.
TAGS = ("e_tag", "version")
#: Of a get: only whether there is an object, and its tags.
BARE = "bare"


def tags(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: fields[name] for name in TAGS if name in fields}
