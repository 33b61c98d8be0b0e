"""From the lines of an OpenChaos history to the rows of a run, in the same order.

The order of the lines is the order of the recorder, which writes one line at a time: a request before its call begins,
a response after it has ended. So it bounds when each call was; the times, in ms, are taken before, and need not follow
that order where several clients record at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chaos.driver import Record
from chaos.ops import OpType
from chaos.workload import body_hash
from stormproof.importing import REFUSED, How
from stormproof.importing.openchaos.lines import (
    FAILURE,
    ITEM,
    MODELS,
    NULL,
    PUTS,
    QUEUE,
    SUCCESS,
    Fault,
    Line,
    Place,
    Request,
    Response,
)

#: What our rows call the operations.
NAMES = {"enqueue": "enqueue", "dequeue": "dequeue", "put": "put", "getAll": "get_all"}
_NS = 1_000_000


@dataclass(slots=True)
class _Pending:
    """A request: its row and columns, and how far it was answered. ``gave``: it may have more lines, one an item."""

    at: Place
    op: int
    process: str
    time_ms: int
    key: str
    ended: bool = False
    gave: bool = False


@dataclass(slots=True)
class _Client:
    """A client of the history, which is one process after another: a new one begins after an unknown outcome, and where
    an operation begins before the last one has ended. ``puts`` are its open attempts by their values, ``ask`` its last
    dequeue or getAll, ``time_ms`` the latest time that it recorded of its own doing."""

    number: int
    life: int = 0
    time_ms: int = -1
    puts: dict[str, _Pending] = field(default_factory=dict)
    ask: _Pending | None = None
    is_pushed: bool = False

    @property
    def process(self) -> str:
        return f"client-{self.number}.{self.life}"

    @property
    def is_busy(self) -> bool:
        asks = () if self.ask is None or self.ask.ended else (self.ask,)
        return any(one.process == self.process for one in (*self.puts.values(), *asks))

    def retire(self, process: str) -> None:
        """End this process, if it is the current one."""
        self.life += process == self.process


class Rows:
    """Takes lines, and hands out rows. Raises :class:`chaos.errors.BadInput` for a line that can't follow those before
    it. ``model``: "" until an operation was seen."""

    def __init__(self, how: How, record: Record) -> None:
        self.model = ""
        self._how = how
        self._record = record
        self._clients: dict[int, _Client] = {}
        self._values: dict[str, int] = {}
        self._faults: dict[str, list[tuple[int, str, int]]] = {}
        self._number_of_faults = 0
        self._last_ms = 0

    def begin(self, time_ms: int) -> None:
        self._record("harness", f="phase", time_ns=time_ms * _NS, value={"phase": "load"})

    def end(self) -> None:
        last = {"time_ns": self._last_ms * _NS}
        if self._how.drained and self.model == QUEUE:
            value = {"by": "the option --drained of the import"}
            common = {"f": "emptied", "process": "import.0", "queue": 0, **last}
            op = self._record("op", type=OpType.INVOKE, value=value, **common)
            self._record("op", type=OpType.OK, op=op, value=value, **common)
        self._record("harness", f="end", value={"interrupted": False}, **last)

    def add(self, line: Line) -> None:
        self._last_ms = max(self._last_ms, line.time_ms)
        if isinstance(line, Fault):
            self._fault(line)
            return
        model = MODELS[line.op]
        if self.model not in ("", model):
            raise line.at.wrong(f"expected an operation of the model {self.model}, as before, got {line.op}")
        self.model = model
        client = self._clients.setdefault(line.client, _Client(line.client))
        if isinstance(line, Request):
            self._request(client, line)
        elif line.op in PUTS:
            self._put(client, line)
        elif line.op == "getAll":
            self._read_all(client, line)
        else:
            self._dequeued(client, line)

    def _request(self, client: _Client, line: Request) -> None:
        if client.is_busy:  # two threads, or a call that ended in an exception: nothing orders their times
            client.retire(client.process)
        else:
            _in_time(line, client.time_ms)
        client.time_ms = max(client.time_ms, line.time_ms)
        is_put = line.op in PUTS
        if is_put and self._values.setdefault(line.value, line.at.number) != line.at.number:
            first = self._values[line.value]
            raise line.at.wrong(f"expected a new value in field 4, but line {first} has put {line.value} in already")
        if not is_put and client.is_pushed:
            raise line.at.wrong(f"expected no request: client {line.client} was given items before without one")
        item = _item(line.value, line.key) if is_put else {}
        op = self._operation(OpType.INVOKE, line, client.process, **item)
        made = _Pending(line.at, op, client.process, line.time_ms, line.key)
        if is_put:
            client.puts[line.value] = made
        else:
            client.ask = made

    def _put(self, client: _Client, line: Response) -> None:
        pending = client.puts.pop(line.value, None)
        if pending is None:
            raise line.at.wrong(
                f"expected the {line.op} REQUEST of client {line.client} with the value {line.value[:60]!r} before, and"
                " no other response to it"
            )
        if line.key != pending.key:
            raise line.at.wrong(f"expected {pending.key} in field 6, the sharding key of line {pending.at.number}")
        types = {SUCCESS: OpType.OK, FAILURE: OpType.FAIL if self._how.failures == REFUSED else OpType.INFO}
        outcome = types.get(line.result, OpType.INFO)
        self._ends(client, pending, line, outcome, **_item(line.value, line.key, result=line.result, extra=line.extra))

    def _read_all(self, client: _Client, line: Response) -> None:
        pending = client.ask
        if pending is None or pending.ended:
            raise line.at.wrong(
                f"expected the getAll REQUEST of client {line.client} before, and no other response to it"
            )
        is_list = line.value.startswith("[") and line.value.endswith("]")
        if line.result == SUCCESS and not is_list:
            raise line.at.wrong(f"expected a list in field 5, as [1, 2], got {line.value[:60]!r}")
        self._ends(client, pending, line, OpType.OK if line.result == SUCCESS else OpType.FAIL)
        for value in _listed(line.value) if line.result == SUCCESS else ():
            self._came_out(pending, line, value, NULL)

    def _dequeued(self, client: _Client, line: Response) -> None:
        """Take a line of a dequeue, which has one for each item that it gave, or one that says that it gave none. What
        is pushed comes without a request."""
        pending, gives = client.ask, line.result == SUCCESS
        if pending is None:
            if not gives:
                raise line.at.wrong(f"expected a dequeue REQUEST of client {line.client} before a {line.result}")
            client.is_pushed = True
            self._came_out(_Pending(line.at, -1, f"pushed-{line.client}.0", -1, NULL), line, line.value, line.key)
            return
        if pending.ended and not (pending.gave and gives):
            raise line.at.wrong(f"expected another dequeue REQUEST of client {line.client} before this response")
        if not pending.ended:
            outcomes = {SUCCESS: OpType.OK, FAILURE: OpType.FAIL}
            self._ends(client, pending, line, outcomes.get(line.result, OpType.INFO))
        pending.gave = gives
        if gives:
            self._came_out(pending, line, line.value, line.key)

    def _ends(self, client: _Client, pending: _Pending, line: Response, outcome: OpType, **item: Any) -> None:
        _in_time(line, pending.time_ms)
        client.time_ms = max(client.time_ms, line.time_ms)
        pending.ended = True
        if outcome is OpType.INFO:
            client.retire(pending.process)
        value = item or {"value": {"result": line.result}}
        self._operation(outcome, line, pending.process, op=pending.op, **value)

    def _operation(self, outcome: OpType, line: Request | Response, process: str, **columns: Any) -> int:
        time_ns = line.time_ms * _NS
        common = {"f": NAMES[line.op], "process": process, "queue": 0, "time_ns": time_ns}
        return self._record("op", type=outcome, **common, **columns)

    def _came_out(self, pending: _Pending, line: Response, value: str, key: str) -> None:
        item = _item(value, key, extra=line.extra)
        common = {"f": "came_out", "process": pending.process, "queue": 0, "time_ns": line.time_ms * _NS}
        self._record("op", type=OpType.OK, op=pending.op, **common, **item)

    def _fault(self, line: Fault) -> None:
        """Take the start or the end of a fault. Its targets and effects are not on record, nor whether it took effect:
        so it has no row that says that it was injected."""
        open_ = self._faults.setdefault(line.name, [])
        common = {"f": line.name, "time_ns": line.time_ms * _NS}
        if line.starts:
            process = f"fault-{self._number_of_faults}"
            self._number_of_faults += 1
            asked: dict[str, Any] = {"targets": [], "detail": {}}
            op = self._record("fault", type=OpType.INVOKE, process=process, value=asked, **common)
            open_.append((op, process, line.time_ms))
            return
        if not open_:
            raise line.at.wrong(f"expected the start of the fault {line.name[:60]!r} before its end")
        op, process, began_ms = open_.pop()
        if line.time_ms < began_ms:
            name = line.name[:60]
            raise line.at.wrong(
                f"expected a time from {began_ms} on, when the fault {name!r} began, got {line.time_ms}"
            )
        self._record("fault", type=OpType.OK, op=op, process=process, value={"phase": "undo"}, **common)


def _in_time(line: Request | Response, earliest_ms: int) -> None:
    """Check that a client's own times go forward: it does one thing after another, on one clock."""
    if line.time_ms < earliest_ms:
        raise line.at.wrong(
            f"expected a time from {earliest_ms} on, which client {line.client} has reached before, got {line.time_ms}:"
            " a history whose clock goes back can't be judged"
        )


def _item(text: str, key: str, **more: str) -> dict[str, Any]:
    """Return the columns that name an item, which is known by its content; ``more`` of its row, but no ``null``."""
    said = {name: word for name, word in {"key": key, **more}.items() if word != NULL}
    return {
        "message": int(text) if ITEM.fullmatch(text) else -1,
        "hash": body_hash(text.encode()),
        "value": {"item": text, **said},
    }


def _listed(text: str) -> list[str]:
    """Return the elements of what Java prints of a list. No value that was put in has a comma."""
    return [one.strip() for one in text[1:-1].split(",")]
