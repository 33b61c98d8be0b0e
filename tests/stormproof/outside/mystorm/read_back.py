"""What was acknowledged is read back unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Reads, Rows, RunContext
from chaos.verdict import Anomaly, Validity, Verdict

PROMISE = Promise(
    name="read-back",
    meaning="What was acknowledged is read back.",
    anomalies=(AnomalyKind(name="not-read-back", meaning="nobody read the message"),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Nothing to choose."""


class ReadBack:
    promise = PROMISE
    needs = Needs(
        key=Key.QUEUE,
        rows=(Reads(kind="op", f=("send", "delivered", "drain")),),
        columns=("index", "type", "message"),
    )

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        acked = rows.where(kind="op", type="ok", f="send")
        read = set(rows.column("message")[rows.where(kind="op", f="delivered")].tolist())
        lost = [row for row in acked.tolist() if int(rows.column("message")[row]) not in read]
        found = [
            Anomaly(
                law=PROMISE.name,
                name="not-read-back",
                explanation=f"nobody read message {rows.column('message')[row]}",
                rows=(int(rows.column("index")[row]),),
            )
            for row in lost
        ]
        if not len(rows.where(kind="op", type="ok", f="drain")):
            return Partial(gaps=["a queue was not read to its end after the run"])
        return Partial(counts={"toy_acked": len(acked)}, anomalies=found)

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        found, proven = tuple(partial.anomalies), partial.counts.get("toy_acked") and not partial.gaps
        validity = Validity.INVALID if found else Validity.VALID if proven else Validity.UNKNOWN
        return Verdict(
            law=PROMISE.name,
            validity=validity,
            anomalies=found,
            counts=partial.counts,
            why="; ".join(partial.gaps),
        )


def create(options: Options) -> ReadBack:
    return ReadBack()
