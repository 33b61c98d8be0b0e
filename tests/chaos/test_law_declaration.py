"""A law that declares classes of rows, fields and a key gets what it reads, however large the run is."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import chaos.law
from chaos import api, plugins
from chaos.errors import BadInput
from chaos.events import Append, Confirm, Role, Start, field_of
from chaos.findings import Findings, decide
from chaos.history.columns import COLUMNS
from chaos.history.run_meta import RunMeta
from chaos.judging import registry as registering
from chaos.judging.divided import parted
from chaos.judging.engine import judge_rows
from chaos.judging.plan import WHOLE, plan
from chaos.judging.registry import Registry
from chaos.kernel import Reads
from chaos.law import AnomalyKind, Key, Law, Partial, Promise, Rows, RunContext, Undeclared
from chaos.law_declaration import kernel_of, needs_of
from chaos.operations import Delivered, Drain, FaultRow, Pull, ReadObject, RowClass, Send, fields_of
from chaos.testing import history_of
from chaos.verdict import Validity, Verdict
from chaos.workload import Use

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/plugins/law.md").read_text("utf-8")
CONTEXT = RunContext(run="r", seed=1, meta=RunMeta())
QUEUES, MESSAGES = 60, 150


@pytest.fixture
def read_back(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The law of the guide, under the name that it has there."""
    spec = importlib.util.spec_from_file_location(
        "mystorm.read_back", ROOT / "tests/stormproof/outside/mystorm/read_back.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mystorm", ModuleType("mystorm"))
    monkeypatch.setitem(sys.modules, "mystorm.read_back", module)
    spec.loader.exec_module(module)
    return module


def large_run(rng: Random, *, undrained: int = 0) -> tuple[pa.Table, set[int]]:
    """A run with some lost messages, and the ``index`` of the sends of those."""
    rows: list[tuple[type[RowClass], dict[Any, object]]] = []
    for number in range(QUEUES * MESSAGES):
        queue = rng.randrange(QUEUES)
        rows.append(
            (Send, {Send.type: rng.choice(("ok", "ok", "ok", "info")), Send.queue: queue, Send.message: number})
        )
    sent = [*rows]
    lost = set()
    for index, (_, send) in enumerate(sent):
        if rng.random() < 0.97:
            rows.append((Delivered, {Delivered.queue: send[Send.queue], Delivered.message: send[Send.message]}))
        elif send[Send.type] == "ok" and int(str(send[Send.queue])) >= undrained:
            lost.add(index)
    rows += [(Drain, {Drain.type: "ok", Drain.queue: queue}) for queue in range(undrained, QUEUES)]
    return history_of(rows), lost


def judged(law: Law, tables: list[tuple[str, pa.Table]]) -> Verdict:
    (verdict,) = judge_rows(tables, CONTEXT, Registry({("law", 0): kernel_of(law)}, {}))
    return verdict


def shards_of(law: Law, table: pa.Table, most: int) -> list[tuple[str, pa.Table]]:
    return [*parted([table], plan({("law", 0): kernel_of(law)}), most)]


@pytest.mark.parametrize("most", [1, 300, 4_000])
def test_the_law_of_the_guide_judges_a_large_run_in_parts_as_in_one(read_back: ModuleType, most: int) -> None:
    table, lost = large_run(Random(most))
    law = read_back.ReadBack()
    whole, parts = judged(law, [(WHOLE, table)]), shards_of(law, table, most)
    assert len(parts) > (2 if most > 1_000 else 20)
    assert judged(law, parts) == whole
    assert whole.validity is Validity.INVALID
    shown = {row for anomaly in whole.anomalies for row in anomaly.rows}
    assert shown <= lost and sum(anomaly.count for anomaly in whole.anomalies) == len(lost)


def test_of_a_queue_that_was_not_read_to_its_end_nothing_is_known_in_parts_either(read_back: ModuleType) -> None:
    table, lost = large_run(Random(7), undrained=QUEUES)
    law = read_back.ReadBack()
    assert not lost
    assert judged(law, [(WHOLE, table)]).validity is Validity.UNKNOWN
    assert judged(law, shards_of(law, table, 300)) == judged(law, [(WHOLE, table)])


def test_the_test_of_the_guide_passes(read_back: ModuleType) -> None:
    law, test = re.findall(r"^```python\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
    assert "class ReadBack(Law)" in law
    space: dict[str, Any] = {}
    exec(test, space)
    space["test_what_nobody_read_is_found"]()


PROMISE = Promise(name="toy", meaning="A toy.", anomalies=(AnomalyKind(name="wrong", meaning="it is wrong"),))


class Toy(Law):
    """What is common to the laws of this file."""

    promise = PROMISE
    key = Key.QUEUE
    reads: tuple[object, ...] = (Send,)

    def examine(self, rows: Rows) -> Partial:
        return Partial()

    def judge(self, partial: Partial) -> Verdict:
        return decide(PROMISE, partial, needs=[("seen", "nothing was seen")])


class ConfirmsGrow(Toy):
    """By node, and told by faults: a confirm offset falls only where a fault of the run excuses the node."""

    key = Key.NODE
    reads = (Confirm.index, Confirm.node, Confirm.position, FaultRow.targets)

    def examine(self, rows: Rows) -> Partial:
        found = Findings(PROMISE)
        excused = {name for names in rows.values(FaultRow.targets, rows.of(FaultRow)) for name in names or ()}
        at = rows.of(Confirm)
        found.count("seen", len(at))
        nodes, positions = rows.values(Confirm.node, at), rows.values(Confirm.position, at)
        for node in sorted(set(nodes) - excused):
            mine = nodes == node
            falls = np.flatnonzero(np.diff(positions[mine]) < 0)
            for index in rows.values(Confirm.index, at[mine][falls + 1]):
                found.add("wrong", f"{node} fell", index)
        return found.partial()


def test_a_law_by_node_sees_the_faults_of_the_run_in_every_shard() -> None:
    rng = Random(3)
    nodes = [f"n{number}" for number in range(40)]
    rows: list[Any] = [(FaultRow, {FaultRow.targets: nodes[:20]})]
    falls = {rng.randrange(5_000) for _ in range(20)}
    for number in range(5_000):
        position = number if number not in falls else 0
        rows.append((Confirm, {Confirm.node: rng.choice(nodes), Confirm.position: position}))
    law, table = ConfirmsGrow(), history_of(rows)
    parts = shards_of(law, table, 100)
    whole = judged(law, [(WHOLE, table)])
    assert len(parts) > 10 and judged(law, parts) == whole and whole.validity is Validity.INVALID
    assert not any(name in anomaly.explanation.split() for anomaly in whole.anomalies for name in nodes[:20])


def test_rows_that_can_not_have_the_key_come_to_every_shard() -> None:
    def everywhere(key: Key, *reads: object) -> set[tuple[str, tuple[str, ...]]]:
        return {(one.kind, one.f) for one in needs_of(reads, key).rows if one.everywhere}

    reads = (Send, Append.position, Role, FaultRow, ReadObject)
    assert everywhere(Key.RUN, *reads) == {("fault", ())}
    assert everywhere(Key.QUEUE, *reads) == {("fault", ()), ("trace", ("role",)), ("op", ("read",))}
    assert everywhere(Key.NODE, *reads) == {("fault", ()), ("op", ("send", "read"))}
    assert everywhere(Key.GROUP, Pull, Send) == {("op", ("send",))}
    assert needs_of((Send, Delivered), Key.QUEUE).rows == (Reads(kind="op", f=("send", "delivered")),)


def test_fields_become_the_columns_in_which_they_stand() -> None:
    assert needs_of((Send.type, Pull.limit, Confirm.acks), Key.QUEUE).columns == ("type", "value")
    assert set(needs_of((Send, Start), Key.RUN).columns) <= set(COLUMNS)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"reads": ("send",)}, "it reads 'send', which is no class of rows"),
        ({"reads": (Send, 3)}, "it reads 3, which is no class of rows"),
        ({"reads": (RowClass,)}, "no class of rows"),
        ({"reads": ()}, "it reads nothing"),
        ({"key": "offset"}, "'offset' is not a valid Key; known: queue, node, group, object, run"),
    ],
)
def test_a_declaration_that_means_nothing_is_refused(declared: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=re.escape(words)):
        kernel_of(type("Odd", (Toy,), declared)())


class MayBeOwed(Toy):
    """A law about objects, which says itself whether anything is owed, or not."""

    uses = (Use.OBJECTS,)

    def __init__(self, not_owed: str | None, seen: int | None = 0, gap: str = "") -> None:
        self.not_owed, self.seen, self.gap = not_owed, seen, gap

    def examine(self, rows: Rows) -> Partial:
        found = Findings(PROMISE)
        if self.not_owed is not None:
            found.not_owed(self.not_owed)
        if self.seen is not None:
            found.count("seen", self.seen)
        if self.gap:
            found.gap(self.gap)
        return found.partial()


@pytest.mark.parametrize(
    ("law", "validity", "why"),
    [
        (MayBeOwed(None), Validity.NOT_APPLICABLE, "no workload uses objects"),
        (MayBeOwed(""), Validity.UNKNOWN, "nothing was seen"),
        (MayBeOwed("there is no store"), Validity.NOT_APPLICABLE, "there is no store"),
        (MayBeOwed("there is no store", seen=None), Validity.NOT_APPLICABLE, "there is no store"),
        (MayBeOwed("there is no store", seen=1), Validity.VALID, ""),
        (MayBeOwed("there is no store", gap="a node is silent"), Validity.UNKNOWN, "a node is silent"),
    ],
)
def test_a_law_says_itself_that_nothing_is_owed_or_its_uses_do(law: Law, validity: Validity, why: str) -> None:
    verdict = judged(law, [(WHOLE, history_of([(Send, {Send.queue: 1})]))])
    assert (verdict.validity, verdict.why) == (validity, why)


def test_what_is_owed_in_one_shard_is_owed() -> None:
    silent, owed, none = (Partial(not_owed=one) for one in (None, "", "there is no store"))
    for one, other, both in ((silent, none, none), (none, owed, owed), (silent, owed, owed), (silent, silent, silent)):
        assert one.merge(other) == other.merge(one) == both


def test_a_misspelt_field_is_an_error_when_the_module_is_loaded() -> None:
    for cls in (Send, Confirm):
        with pytest.raises(AttributeError, match="mesage"):
            _ = cls.mesage  # type: ignore[attr-defined]


class Asks(Toy):
    """A law that asks for what it is made with."""

    def __init__(self, rows: Any, field: Any = None) -> None:
        self.rows, self.field = rows, field

    def examine(self, rows: Rows) -> Partial:
        at = rows.of(self.rows)
        if self.field is not None:
            rows.values(self.field, at)
        return Partial()


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (Asks(Drain), "it asks for rows Drain, which it does not declare to read"),
        (Asks(Send, Drain.queue), "it asks for rows Drain, which it does not declare to read"),
        (Asks(Send, "queue"), "it asks for 'queue', which is no field of rows"),
    ],
)
def test_what_is_not_declared_is_not_given(law: Asks, words: str) -> None:
    verdict = judged(law, [(WHOLE, history_of([(Send, {Send.queue: 1})]))])
    assert verdict.validity is Validity.UNKNOWN and words in verdict.why


def test_fields_of_a_value_are_given_with_their_types() -> None:
    rows: list[Any] = [
        (Pull, {Pull.type: "ok", Pull.limit: 3, Pull.source: "tier"}),
        (Pull, {Pull.type: "ok"}),
        (Pull, {Pull.type: "ok", Pull.limit: 1 << 70, Pull.source: 5}),  # a stranger's
        (Confirm, {Confirm.node: "a", Confirm.position: 7, Confirm.acks: {"b": 5}}),
    ]
    seen: dict[str, Any] = {}

    class Looks(Toy):
        key = Key.RUN
        reads = (Pull, Confirm)

        def examine(self, rows: Rows) -> Partial:
            pulls, confirms = rows.of(Pull), rows.of(Confirm)
            seen.update(limit=rows.values(Pull.limit, pulls).tolist(), source=rows.values(Pull.source, pulls).tolist())
            seen.update(acks=rows.values(Confirm.acks, confirms).tolist(), of=rows.of(Pull, {Pull.limit: 3}).tolist())
            seen.update(run=rows.run, position=rows.values(Confirm.position, confirms).tolist(), length=len(rows))
            return Partial()

    judged(Looks(), [(WHOLE, history_of(rows))])
    assert seen == {
        "limit": [3, -1, (1 << 63) - 1],
        "source": ["tier", "", "5"],
        "acks": [{"b": 5}],
        "of": [0],
        "run": CONTEXT,
        "position": [7],
        "length": 4,
    }


class OfBefore:
    """A kernel as plug-ins declared it once."""

    promise = PROMISE
    needs = needs_of((Send,), Key.QUEUE)

    def examine(self, rows: Any, context: RunContext) -> Partial:
        return Partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (OfBefore(), "OfBefore declares `needs`, as laws did before: derive it from chaos.law.Law, and declare `key`"),
        (object(), "object is not a chaos.law.Law: derive it"),
    ],
)
def test_a_plug_in_of_the_old_contract_is_refused_in_one_sentence(
    made: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "build", lambda kind, name: made)
    with pytest.raises(BadInput, match=re.escape(words)):
        registering._made("elsewhere", False)


@pytest.mark.parametrize("module", [chaos.law, api])
@pytest.mark.parametrize("name", ["Needs", "Reads", "Sieve"])
def test_names_of_the_old_contract_name_what_replaces_them(name: str, module: ModuleType) -> None:
    with pytest.raises(ImportError, match=f"no {name} any more: a law derives from chaos.law.Law and declares `key`"):
        getattr(module, name)


@pytest.mark.parametrize("cls", [Send, Pull, FaultRow, Append, Start])
def test_every_field_of_a_class_can_be_asked_for_by_it(cls: Any) -> None:
    for name in fields_of(cls):
        field = field_of(getattr(cls, name))
        assert field is not None and (field.owner, field.name) == (cls, name)
    assert issubclass(Undeclared, Exception)
