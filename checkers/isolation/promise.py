"""The promise: transactions seem to happen one after another, as far as the system isolates them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from chaos.law import AnomalyKind, Harm, Promise

G1A = "G1a"
G1B = "G1b"
LOST_UPDATE = "lost-update"
INTERNAL = "internal"
INCOMPATIBLE_ORDER = "incompatible-order"
DUPLICATE_ELEMENTS = "duplicate-elements"
UNWRITTEN = "unwritten"
CYCLIC_VERSIONS = "cyclic-versions"
ALLOWED = "allowed-cycle"

#: What of a cycle its name says, and the orders of clients that it may need besides.
CYCLES = {
    "G0": "each of several transactions overwrote the one before it, in a circle",
    "G1c": "each of several transactions was read, or overwritten, by the next one, in a circle",
    "G-single": "a transaction missed a write of one on which it depends",
    "G2-item": "each of several transactions missed a write of another one, in a circle",
}
ORDERS = {
    "": "",
    "-process": "; this needs the order of one client",
    "-realtime": "; this needs that one had ended before another one began",
}
OTHERS = {
    G1A: "a transaction read what an aborted one had written",
    G1B: "a transaction read what another one overwrote itself before its end",
    LOST_UPDATE: "two transactions read the same version of a key, and both changed it",
    INTERNAL: "a transaction's read contradicts what it read or wrote before",
    INCOMPATIBLE_ORDER: "two reads of a list show orders of which neither begins as the other",
    DUPLICATE_ELEMENTS: "a read shows an element of a list twice that was appended once",
    UNWRITTEN: "a transaction read what none had written",
    CYCLIC_VERSIONS: "what transactions wrote after their reads puts a key's values in a circle",
}


def _kinds() -> Iterator[AnomalyKind]:
    for base, meaning in CYCLES.items():
        for suffix, besides in ORDERS.items():
            headline = (
                f"Transactions form a cycle ({base}{suffix})",
                f"Transactions form {{n}} cycles ({base}{suffix})",
            )
            yield AnomalyKind(name=base + suffix, meaning=meaning + besides, headline=headline, harm=Harm.DATA)
    for name, meaning in OTHERS.items():
        yield AnomalyKind(name=name, meaning=meaning, harm=Harm.DATA)
    yield AnomalyKind(name=ALLOWED, meaning="a cycle that the system's isolation allows", lawful=True)


PROMISE = Promise(
    name="isolation",
    place=91,
    meaning="Transactions happen as if one after another, as far as the system promises to isolate them.",
    counts={
        "transactions": "transactions",
        "transaction_edges": "orders between transactions",
        "ordered_sends": "sends whose order was compared with real time",
    },
    anomalies=tuple(_kinds()),
)

_ALL = frozenset(kind.name for kind in PROMISE.anomalies if not kind.lawful)
_REALTIME = frozenset(name for name in _ALL if name.endswith(("-process", "-realtime")))
_PLAIN = _ALL - _REALTIME
_OF_WRITES = frozenset({"G0", G1A, G1B, "G1c", UNWRITTEN, CYCLIC_VERSIONS, INCOMPATIBLE_ORDER, DUPLICATE_ELEMENTS})
#: Which violations each level of isolation rules out, by the name that a workload gives it. ``log``: each key is a
#: queue of a log, in which writes stand as they came, whether their transactions had ended or not, while readers see
#: what is committed. So only what was read orders transactions there.
LEVELS: Mapping[str, frozenset[str]] = {
    "strict-serializable": _ALL,
    "serializable": _PLAIN,
    "snapshot-isolation": _PLAIN - {"G2-item"},
    "read-committed": _OF_WRITES,
    "log": _ALL - {G1B, LOST_UPDATE, INTERNAL},
}
LOG = "log"
STRICT = "strict-serializable"
