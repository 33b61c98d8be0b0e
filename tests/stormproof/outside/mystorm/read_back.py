"""What was acknowledged is read back unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.law import Partial, Rows, RunContext, Scope
from chaos.verdict import Anomaly, AnomalyName, LawName, Validity, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Nothing to choose."""


class ReadBack:
    name = LawName.DURABILITY
    scope = Scope.QUEUE

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        acked = rows.where(kind="op", type="ok", f="send")
        read = set(rows.column("message")[rows.where(kind="op", f="delivered")].tolist())
        lost = [row for row in acked.tolist() if int(rows.column("message")[row]) not in read]
        found = [
            Anomaly(
                law=LawName.DURABILITY,
                name=AnomalyName.LOST,
                explanation=f"nobody read message {rows.column('message')[row]}",
                rows=(int(rows.column("index")[row]),),
            )
            for row in lost
        ]
        return Partial(counts={"toy_acked": len(acked)}, anomalies=found)

    def judge(self, partials: Sequence[Partial], context: RunContext) -> Verdict:
        acked = sum(partial.counts["toy_acked"] for partial in partials)
        found = tuple(anomaly for partial in partials for anomaly in partial.anomalies)
        validity = Validity.INVALID if found else Validity.VALID if acked else Validity.UNKNOWN
        return Verdict(law=self.name, validity=validity, anomalies=found, counts={"toy_acked": acked})


def create(options: Options) -> ReadBack:
    return ReadBack()
