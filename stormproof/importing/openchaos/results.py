"""What OpenChaos's own checkers say of a history, under the names of its result files, for comparison.

Each follows the rules of the checker of that name in ``io.openchaos.checker`` (openmessaging/openchaos at d129a32),
with its weaknesses: ``isValid`` says that the checker ran, and nothing of the system.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from itertools import islice
from typing import Any

from stormproof.importing.openchaos.lines import FAILURE, NULL, QUEUE, SUCCESS, Fault, Line, Request, Response

#: So many messages and outages are named in one result, and so much of extra information is kept of each: run.json
#: holds the results. Counts are whole.
MOST_NAMED, MOST_LETTERS = 10_000, 1_000
#: A failure so soon after a recovery begins no new outage.
APART_MS = 2_000
#: Bounds of end-to-end latencies in ms, each with the name of what is up to it and above the one before.
LATENCIES = {bound: f"e2eIn{bound}msLatency" for bound in (1, 5, 10, 100, 1000, 3000)}
ABOVE = "e2eExceed3000msLatency"


def results_of(lines: Iterable[Line], model: str) -> dict[str, Any]:
    """Return all results for a history of this model, each under its name; ``OrderTestResult`` only where items have
    sharding keys."""
    change = "enqueue" if model == QUEUE else "put"
    checkers: list[_Checker] = [_Rto(change), _Recovery(change)]
    checkers += [_Queue(), _Order(), _EndToEndLatency()] if model == QUEUE else [_KV()]
    for line in lines:
        for checker in checkers:
            checker.add(line)
    found = ((checker.name, checker.result()) for checker in checkers)
    return {name: {"isValid": True, "name": name, **result} for name, result in found if result is not None}


class _Checker:
    """Takes each line; ``result`` is None where it has nothing to say."""

    name = ""

    def add(self, line: Line) -> None:
        raise NotImplementedError

    def result(self) -> Mapping[str, Any] | None:
        raise NotImplementedError


class _Queue(_Checker):
    """What comes out without waiting to be taken is a duplicate: what was never acknowledged, too."""

    name = "QueueTestResult"

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, type]] = Counter()
        self._waiting: dict[str, str] = {}
        self._again: Counter[str] = Counter()
        self._extra: dict[str, str] = {}

    def add(self, line: Line) -> None:
        if isinstance(line, Request) and line.op == "enqueue":
            self._counts["enqueue", Request] += 1
        if not isinstance(line, Response) or line.result != SUCCESS:
            return
        self._counts[line.op, Response] += 1
        if line.op == "enqueue":
            self._waiting[line.value] = line.extra[:MOST_LETTERS]
        elif self._waiting.pop(line.value, None) is None:
            self._again[line.value] += 1
            self._extra.setdefault(line.value, line.extra[:MOST_LETTERS])

    def result(self) -> Mapping[str, Any]:
        early = self._again.keys() & self._waiting.keys()  # they came out before their enqueue was acknowledged
        lost = {value: extra for value, extra in self._waiting.items() if value not in early}
        again = +(self._again - Counter(early))
        return {
            "enqueueInvokeCount": self._counts["enqueue", Request],
            "enqueueSuccessCount": self._counts["enqueue", Response],
            "dequeueSuccessCount": self._counts["dequeue", Response],
            "lostMessageCount": len(lost),
            "lostMessages": dict(islice(lost.items(), MOST_NAMED)),
            "duplicateMessageCount": again.total(),
            "duplicateMessages": {
                value: f"duplicate count = {count}, info = {self._extra[value]}"
                for value, count in islice(again.items(), MOST_NAMED)
            },
            "atMostOnce": not again,
            "atLeastOnce": not lost,
            "exactlyOnce": not lost and not again,
        }


class _KV(_Checker):
    name = "KVTestResult"

    def __init__(self) -> None:
        self._requests = 0
        self._put: dict[str, None] = {}
        self._got: set[str] = set()

    def add(self, line: Line) -> None:
        self._requests += isinstance(line, Request) and line.op == "put"
        if isinstance(line, Response) and line.result == SUCCESS:
            if line.op == "put":
                self._put[line.value] = None
            else:
                self._got |= {one.strip() for one in line.value[1:-1].split(",")}

    def result(self) -> Mapping[str, Any]:
        lost = [value for value in self._put if value not in self._got]
        return {
            "putInvokeCount": self._requests,
            "putSuccessCount": len(self._put),
            "getSuccessCount": len(self._got),
            "lostValueCount": len(lost),
            "lostValues": lost[:MOST_NAMED],
        }


class _Order(_Checker):
    """What was acknowledged of a key must be found among what came out of it, in this order and with anything between.
    The keys are asked in the order of their numbers, and the first one that fails is named."""

    name = "OrderTestResult"

    def __init__(self) -> None:
        self._put: dict[str, list[str]] = {}
        self._out: dict[str, list[str]] = {}

    def add(self, line: Line) -> None:
        if isinstance(line, Response) and line.result == SUCCESS and line.key != NULL:
            (self._put if line.op == "enqueue" else self._out).setdefault(line.key, []).append(line.value)

    def result(self) -> Mapping[str, Any] | None:
        if not self._put:
            return None
        for key in sorted(self._put, key=lambda key: (int("".join(filter(str.isdecimal, key)) or 0), key)):
            out = iter(self._out.get(key, ()))
            for value in self._put[key]:
                if value not in out:  # it takes from the iterator all up to the value
                    return {"order": False, "wrongShardingKey": key, "wrongStartValue": value}
        return {"order": True, "wrongShardingKey": None, "wrongStartValue": None}


class _Rto(_Checker):
    """From the first failure within a fault to the next success."""

    name = "RTOTestResult"

    def __init__(self, change: str) -> None:
        self._change = change
        self._records: list[dict[str, Any]] = []
        self._in_fault = self._is_down = self._unexpected = False

    def add(self, line: Line) -> None:
        if isinstance(line, Fault):
            self._fault(line)
        elif isinstance(line, Response) and line.op == self._change:
            self._response(line)

    def _fault(self, line: Fault) -> None:
        self._in_fault = line.starts
        if line.starts:
            names = ("isUnavailableInFaultInterval", "isRecoveryInFaultInterval")
            times = ("rtoTime", "startTimestamp", "endTimestamp")
            self._records.append({**dict.fromkeys(names, False), **dict.fromkeys(times, 0)})

    def _response(self, line: Response) -> None:
        good, record = line.result == SUCCESS, self._records[-1] if self._records else {}
        if self._in_fault and not self._is_down and not good and record["startTimestamp"] == 0:
            record |= {"isUnavailableInFaultInterval": True, "startTimestamp": line.time_ms - line.latency_ms}
            self._is_down = True
        if self._in_fault and self._is_down and good and record["endTimestamp"] == 0:
            record |= {"endTimestamp": line.time_ms, "rtoTime": line.time_ms - record["startTimestamp"]}
            record["isRecoveryInFaultInterval"] = True
            self._is_down = False
        if not self._in_fault:
            self._is_down = self._is_down and not good
            self._unexpected |= not self._is_down and line.result == FAILURE

    def result(self) -> Mapping[str, Any]:
        return {"results": self._records[:MOST_NAMED], "unexpectedUnavailableInNormalInterval": self._unexpected}


class _Recovery(_Checker):
    """From any failure to the next success."""

    name = "RecoveryTestResult"

    def __init__(self, change: str) -> None:
        self._change = change
        self._records: list[dict[str, int]] = []
        self._is_down = False

    def add(self, line: Line) -> None:
        if not isinstance(line, Response) or line.op != self._change:
            return
        if line.result == SUCCESS:
            if self._is_down:
                began = self._records[-1]["unavailableStartTimestamp"]
                self._records[-1] |= {"unavailableEndTimestamp": line.time_ms, "recoveryTime": line.time_ms - began}
            self._is_down = False
        elif not self._is_down and not self._is_soon(line):
            began = line.time_ms - line.latency_ms
            self._records.append({"recoveryTime": 0, "unavailableStartTimestamp": began, "unavailableEndTimestamp": 0})
            self._is_down = True

    def _is_soon(self, line: Response) -> bool:
        return bool(self._records) and line.time_ms - self._records[-1]["unavailableEndTimestamp"] < APART_MS

    def result(self) -> Mapping[str, Any]:
        return {"results": self._records[:MOST_NAMED]}


class _EndToEndLatency(_Checker):
    """Of all responses to a dequeue, one that gave nothing among them."""

    name = "EndToEndLatencyResult"

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, line: Line) -> None:
        if isinstance(line, Response) and line.op == "dequeue" and line.end_to_end_ms >= 0:
            self._counts[next((name for bound, name in LATENCIES.items() if line.end_to_end_ms <= bound), ABOVE)] += 1

    def result(self) -> Mapping[str, Any]:
        return {name: self._words(name) for name in (*LATENCIES.values(), ABOVE)}

    def _words(self, name: str) -> str:
        number, total = self._counts[name], self._counts.total()
        if not total:
            return str(number)
        share = Decimal(repr(number * 100.0 / total)).quantize(Decimal("0.01"), ROUND_HALF_UP)  # as Java rounds
        return f"{number}  {share}%"
