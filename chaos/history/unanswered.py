"""Workloads that never got an answer: what they were to show, nobody has seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from chaos.driver import Record
from chaos.ops import OpType

#: Called so in the history, in rows of the harness.
F = "unanswered"
#: Operations by which workloads change something; of one whose changes were never answered, reads show little.
CHANGES = ("send", "delay", "transact", "write", "cas", "acquire", "create_topic", "question")
#: What a workload makes before its load says nothing of that.
SETS_UP = ("create",)
REASON_CHARACTERS = 200


class Answers:
    """Passes rows on, and counts how the operations of one workload ended.

    An operation is answered by an ok, and by a refusal that says something: a compare-and-set that has met another
    version, a limit that was kept to. Who meant to be refused was answered, too."""

    def __init__(self, workload: str, record: Record) -> None:
        self._workload = workload
        self._record = record
        self._begun: Counter[str] = Counter()
        self._answered: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()

    def __call__(self, kind: str, **columns: object) -> int:
        f, type = str(columns.get("f", "")), columns.get("type")
        if kind == "op" and f not in (*SETS_UP, "delivered"):
            value = cast(Mapping[str, Any], columns.get("value") or {})
            if type == OpType.INVOKE:
                self._begun[f] += 1
            elif type == OpType.OK or value.get("refused") or "told" in value:
                self._answered[f] += 1
            else:
                self._reasons[" ".join(str(value.get("reason", "")).split())[:REASON_CHARACTERS]] += 1
        return self._record(kind, **columns)

    def note(self) -> None:
        """Have the history say so when none of the workload's operations was answered, or none of its changes."""
        lacking = [f for f in self._begun if f in CHANGES] or list(self._begun)
        if not lacking or any(self._answered[f] for f in lacking):
            return
        begun = sum(self._begun[f] for f in lacking)
        (error, times), *_ = self._reasons.most_common(1) or [("", 0)]
        value = {"workload": self._workload, "operations": begun, "f": lacking, "error": error, "times": times}
        self._record("harness", f=F, value=value)


def sentences(values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the rows of :meth:`Answers.note`, in sentences."""
    return [_sentence(value) for value in values]


def _sentence(value: Mapping[str, Any]) -> str:
    what = ", ".join(map(str, value.get("f") or ())) or "operation"
    error = f"; most often, {value.get('times', 0)} times: {value['error']}" if value.get("error") else ""
    return (
        f"the workload {value.get('workload', '?')} never got one ok: 0 of its {value.get('operations', '?')} × {what}"
        f" were answered{error}"
    )
