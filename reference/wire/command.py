"""RocketMQ's ``RemotingCommand``: the message of the reference system, and of RocketMQ itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.node import Forbidden, Malformed
from reference.wire.codes import Response

#: Flags: an answer, and a request that wants none.
RESPONSE = 1
ONEWAY = 2

NO_FIELDS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. Implements :class:`chaos.node.Message`; :class:`reference.wire.codec.RemotingCodec` makes its frame.

    ``flags``: bit 0 response, bit 1 one-way. ``opaque`` pairs a response with its request on one connection.
    ``fields`` are the ``extFields``: names and values are strings. Raises ``TypeError`` for any other value.
    """

    code: int
    flags: int = 0
    opaque: int = 0
    fields: Mapping[str, str] = field(default_factory=lambda: NO_FIELDS)
    body: bytes = b""
    remark: str = ""

    def __post_init__(self) -> None:
        for name, value in self.fields.items():
            if value.__class__ is not str:
                raise TypeError(f"command {self.code}: field {name} is {value!r}, but fields are strings")

    @property
    def kind(self) -> int:
        return self.code

    @property
    def number(self) -> int:
        return self.opaque

    @property
    def size(self) -> int:
        return len(self.body)

    @property
    def is_response(self) -> bool:
        return bool(self.flags & RESPONSE)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flags & ONEWAY)

    def numbered(self, number: int, *, oneway: bool = False) -> Command:
        """Return the same command under this ``opaque``."""
        return Command(
            code=self.code,
            flags=self.flags | ONEWAY if oneway else self.flags,
            opaque=number,
            fields=self.fields,
            body=self.body,
            remark=self.remark,
        )

    def reply(
        self, code: int = 0, fields: Mapping[str, str] = NO_FIELDS, body: bytes = b"", remark: str = ""
    ) -> Command:
        """Answer this request: same ``opaque``, response bit set."""
        return Command(code=code, flags=RESPONSE, opaque=self.opaque, fields=fields, body=body, remark=remark)

    def refused(self, error: Exception) -> Command:
        """Answer with the code of this error, and its text as the remark."""
        code: int = Response.SYSTEM_ERROR
        if isinstance(error, Malformed):
            code = error.code or Response.INVALID_PARAMETER
        elif isinstance(error, Forbidden):
            code = Response.NO_PERMISSION
        return self.reply(code, remark=str(error))
