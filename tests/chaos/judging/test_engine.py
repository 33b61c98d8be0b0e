"""The engine gives one verdict, however the rows are parted and wherever the kernels run; and it survives bad input."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaos import plugins
from chaos.errors import BadInput, MachineError
from chaos.findings import Findings
from chaos.history.run_meta import RunMeta
from chaos.judging import class_archive, divided
from chaos.judging import engine as _engine
from chaos.judging import registry as registry_module
from chaos.judging.engine import Session, examine_whole, judge_rows, verdicts
from chaos.judging.plan import WHOLE, plan
from chaos.judging.registry import Registry
from chaos.judging.shard import Shard
from chaos.kernel import Kernel, Key, Needs, Reads
from chaos.law import AnomalyKind, Partial, Promise, RunContext
from chaos.plugins import PluginKind
from chaos.shard_rows import Rows
from chaos.verdict import Anomaly, Validity, Verdict
from tests.checkers.histories import BROKERS, SIZE, History, table_of
from tests.checkers.names import LAWS, L


def busy(seed: int, *, queues: int = 4, sends: int = 60) -> History:
    """A history with everything in it, sometimes broken in several ways at once."""
    rng = random.Random(seed)
    history = History()
    for node in BROKERS:
        history.trace(node, "start", value={"generation": 1})
    history.phase("load")
    history.master("broker-0", 1)
    ends, position = [0] * queues, 0
    for _ in range(sends):
        queue = rng.randrange(queues)
        offset = ends[queue]
        ends[queue] += 1
        for node in BROKERS:
            history.append(node, offset, queue=queue, position=position)
        position += SIZE
        history.trace("broker-1", "synced", position=position)
        history.confirm("broker-0", position, value={"set": list(BROKERS)})
        history.send(offset, queue=queue, type="ok" if rng.random() < 0.9 else "info")
        if rng.random() < 0.3 and offset:
            asked = rng.randrange(offset)
            history.pull(asked, asked, queue=queue, group="g", maximum=offset - (rng.random() < 0.02))
            history.commit(asked + 1, queue=queue)
        if rng.random() < 0.05:
            history.committed(rng.randrange(offset + 1), queue=queue)
        if rng.random() < 0.1:
            value = {"version": offset, "outcome": "applied", "content": {"start": 0, "segments": []}}
            same: dict[str, Any] = {"queue": queue, "offset": offset, "position": position, "epoch": 1}
            history.trace("broker-0", "tier_commit", **same, value={"version": offset})
            history.trace("store-0", "store_cas", **same, hash=offset, value=value)
    history.undo("kill", history.inject("kill", "broker-1"))
    history.phase("heal")
    history.recovered()
    history.phase("drain")
    for queue, end in enumerate(ends):
        gone = end - (rng.random() < 0.2)
        history.drain(*range(gone), queue=queue, end=end)
        for node in BROKERS:
            history.log(node, *range(gone), queue=queue)
    for node in BROKERS:
        history.node(node, role="master" if node == "broker-0" else "slave", confirm=position)
    history.phase("stop")
    return history


def parted(history: History, most: int, rng: random.Random) -> list[tuple[str, Shard]]:
    """The rows as those of a large run are parted, with so many rows of its own in a shard at most; the run stands in
    pieces that end anywhere."""
    table = history.recorded()
    cuts = sorted(rng.sample(range(1, table.num_rows), rng.randrange(5)))
    pieces = [table.slice(begin, end - begin) for begin, end in pairwise([0, *cuts, table.num_rows])]
    return [*divided.shards(pieces, plan(_engine.registry().kernels), most)]


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 12))])
def test_shards_give_the_verdict_of_the_whole(seed: int) -> None:
    history, rng = busy(seed), random.Random(seed)
    whole = judge_rows([(WHOLE, history.table())], history.context())
    for rows in (10_000, 300, 1):
        found = parted(history, rows, rng)
        rng.shuffle(found)
        assert judge_rows(found, history.context()) == whole


def test_rows_out_of_order_are_put_in_order() -> None:
    history = busy(3)
    shuffled = list(history.rows)
    random.Random(1).shuffle(shuffled)
    context = history.context()
    assert judge_rows([(WHOLE, table_of(shuffled))], context) == judge_rows([(WHOLE, history.table())], context)


def test_the_generated_histories_are_not_all_alike() -> None:
    seen = {verdict.validity for seed in range(12) for verdict in judge_rows([(WHOLE, busy(seed).table())], CONTEXT)}
    assert {Validity.VALID, Validity.INVALID, Validity.UNKNOWN} <= seen


CONTEXT = RunContext(run="r", seed=1, meta=RunMeta.of({"deployment": "sim", "brokers": list(BROKERS)}))


REAL = _engine.registry()


def with_law(*laws: Kernel, broken: dict[str, str] | None = None) -> Registry:
    """What there would be if another package offered these laws."""
    return Registry({**REAL.kernels, **{("foreign", number): law for number, law in enumerate(laws)}}, broken or {})


SKIP = AnomalyKind(name="skip", meaning="a heart took its time", lawful=True)
PROMISE = Promise(
    name="hearts",
    meaning="Every heart beats.",
    anomalies=(
        AnomalyKind(name="silence", meaning="a heart stopped"),
        AnomalyKind(name="skip", meaning="", lawful=True),
    ),
)


BEATS = Needs(
    key=Key.QUEUE,
    rows=(
        Reads(kind="trace", f=("beat",)),
        Reads(kind="trace", f=("store_cas",), everywhere=True),  # others want it by queue
    ),
    columns=("queue",),
)


@dataclass
class Hearts:
    """A law from outside: it counts an unusual trace of each queue against one that every shard needs."""

    answer: Any = None
    verdict: Any = None
    promise: Promise = PROMISE
    needs: Needs = BEATS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if self.answer is not None:
            return self.answer() if callable(self.answer) else self.answer
        every = set(rows.column("queue")[rows.where(kind="trace", f="store_cas")].tolist())
        facts = [{"every": sorted(every)}]
        found = []
        for at in rows.where(kind="trace", f="beat").tolist():
            if (queue := int(rows.column("queue")[at])) not in every:
                found.append(
                    Anomaly(law="hearts", name="silence", explanation="?", rows=(int(rows.column("index")[at]),))
                )
            facts.append({"beat": queue})
        return Partial(counts={"beats": len(facts) - 1}, anomalies=found, facts=facts)

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        if self.verdict is not None:
            return self.verdict() if callable(self.verdict) else self.verdict
        assert len({str(fact["every"]) for fact in partial.facts if "every" in fact}) <= 1
        validity = Validity.INVALID if partial.anomalies else Validity.VALID
        return Verdict(law="hearts", validity=validity, anomalies=tuple(partial.anomalies), counts=partial.counts)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.full) for seed in (1, 2))])
def test_a_law_from_outside_with_an_unusual_trace_is_given_all_of_it_in_large_runs_too(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_engine, "registry", lambda: with_law(Hearts()))
    history = busy(seed)
    for number in range(50):
        history.trace("broker-0", "beat", queue=number % 7 - 1)
    whole = judge_rows([(WHOLE, history.table())], history.context())
    hearts = next(verdict for verdict in whole if verdict.law == "hearts")
    assert hearts.counts == {"beats": 50} and hearts.validity is Validity.INVALID
    for rows in (10_000, 300, 1):
        assert judge_rows(parted(history, rows, random.Random(rows)), history.context()) == whole


def apart(found: Sequence[Verdict]) -> tuple[Verdict, tuple[Verdict, ...]]:
    """The verdict on hearts, and those of the laws that are shipped."""
    (hearts,) = (one for one in found if one.law == "hearts")
    return hearts, tuple(one for one in found if one is not hearts)


def anomaly(law: str = "hearts", name: str = "silence") -> Anomaly:
    return Anomaly(law=law, name=name, explanation="?", rows=(1,))


def told(**changes: Any) -> Verdict:
    return Verdict(**{"law": "hearts", "validity": Validity.VALID, **changes})


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (Hearts(answer=lambda: 1 // 0), "division"),
        (Hearts(answer="nonsense"), "not a Partial"),
        (Hearts(answer=Partial(counts={"beats": "many"})), "check crashed"),
        (Hearts(answer=Partial(gaps=5)), "check crashed"),
        (Hearts(answer=Partial(anomalies=[anomaly(law="durability")])), "anomaly of 'durability'"),
        (Hearts(answer=Partial(anomalies=[anomaly(name="lost")])), "no anomaly 'lost'"),
        (Hearts(verdict=lambda: 1 // 0), "division"),
        (Hearts(verdict="VALID"), "gave 'VALID'"),
        (Hearts(verdict=told(law="order")), "judge() of the law hearts"),
        (Hearts(verdict=told(validity="GOOD")), "GOOD"),
        (Hearts(verdict=told(counts={"beats": None})), "judgement crashed"),
        (Hearts(verdict=told(anomalies=(anomaly(),))), "although it found violations"),
    ],
)
def test_a_law_that_crashes_or_answers_nonsense_is_unknown_and_nobody_elses_verdict_changes(
    law: Hearts, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [(WHOLE, busy(1).table())]
    before = judge_rows(tables, CONTEXT)
    monkeypatch.setattr(_engine, "registry", lambda: with_law(law))
    hearts, others = apart(judge_rows(tables, CONTEXT))
    assert (hearts.law, hearts.validity) == ("hearts", Validity.UNKNOWN)
    assert words in hearts.why
    assert others == before


def test_a_law_that_reads_what_it_does_not_declare_is_unknown_in_small_runs_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Curious(Hearts):
        def examine(self, rows: Rows, context: RunContext) -> Partial:
            rows.where(kind="op", f="send")
            return Partial()

    monkeypatch.setattr(_engine, "registry", lambda: with_law(Curious()))
    hearts, _ = apart(judge_rows([(WHOLE, busy(1).table())], CONTEXT))
    assert hearts.validity is Validity.UNKNOWN and "which it does not declare" in hearts.why


def test_a_broken_plug_in_is_listed_its_law_is_unknown_and_nobody_elses_verdict_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = [(WHOLE, busy(1).table())]
    before = judge_rows(tables, CONTEXT)
    monkeypatch.setattr(_engine, "registry", lambda: with_law(broken={"hearts": "no module named beats"}))
    hearts, others = apart(judge_rows(tables, CONTEXT))
    assert (hearts.law, hearts.validity) == ("hearts", Validity.UNKNOWN)
    assert "no module named beats" in hearts.why
    assert others == before


def test_a_kernel_judges_what_the_one_that_it_joins_has_told() -> None:
    """Without that one's facts, and with a gap in them, it is UNKNOWN."""

    class Teller(Hearts):
        def examine(self, rows: Rows, context: RunContext) -> Partial:
            return Partial(facts=({"beats": len(rows)},), counts={"told": 1}, gaps=gaps)

    class Joiner(Hearts):
        def examine(self, rows: Rows, context: RunContext) -> Partial:
            return Partial()

        def judge(self, partial: Partial, context: RunContext) -> Verdict:
            assert "told" not in partial.counts
            why = ", ".join(str(fact["beats"]) for fact in partial.facts)
            return Verdict(law=PROMISE.name, validity=Validity.VALID, why=why)

    tables = [(WHOLE, busy(1).table())]
    teller, joiner = (replace(one(), needs=replace(Hearts().needs, part=one.__name__)) for one in (Teller, Joiner))
    joiner = replace(joiner, needs=replace(joiner.needs, joins=("Teller",)))
    both = Registry({("hearts", 0): joiner, ("hearts", 1): teller}, {})
    gaps: tuple[str, ...] = ()
    (found,) = judge_rows(tables, CONTEXT, both)
    assert str(len(busy(1).rows)) in found.why and found.validity is not Validity.UNKNOWN
    gaps = ("a beat was missed",)
    (found,) = judge_rows(tables, CONTEXT, both)
    assert found.validity is Validity.UNKNOWN and "a beat was missed" in found.why
    (alone,) = judge_rows(tables, CONTEXT, Registry({("hearts", 0): joiner}, {}))
    assert alone.validity is Validity.UNKNOWN and "nothing reports Teller" in alone.why


def test_what_two_kernels_only_count_is_added_up() -> None:
    class Silent(Hearts):
        def examine(self, rows: Rows, context: RunContext) -> Partial:
            found = Findings(PROMISE)
            begin = 100 if self.answer else 0
            found.add_each("silence", np.arange(begin, begin + 25), lambda at: found.add("silence", f"{at}", at))
            return found.partial()

    both = Registry({("hearts", 0): Silent(), ("hearts", 1): Silent(answer="later")}, {})
    (found,) = judge_rows([(WHOLE, busy(1).table())], CONTEXT, both)
    assert sum(anomaly.count for anomaly in found.anomalies) == 50


class Impostor(Hearts):
    """It takes the name of a law of ours."""

    promise = next(promise for promise in REAL.promises if promise.name == L.DURABILITY)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: 1 // 0, "ZeroDivisionError"),
        (lambda: "nothing", "is not a chaos.law.Law"),
        (list, "made no law"),
        (Hearts, "declares `needs`, as laws did before"),
    ],
)
def test_what_is_no_law_is_broken_and_says_why(made: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = plugins.names(PluginKind.LAW)
    monkeypatch.setattr(plugins, "names", lambda kind: (*known, "hearts"))
    monkeypatch.setattr(plugins, "build", lambda kind, name: made())
    found = registry_module.registry.__wrapped__()
    assert list(found.broken) == ["hearts"] and words in found.broken["hearts"]
    assert list(found.kernels) == list(REAL.kernels)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ([replace(Hearts(), promise=replace(PROMISE, name=L.ORDER))], "already that of 'order'"),
        ([Hearts(), replace(Hearts(), promise=replace(PROMISE, meaning="else"))], "promise two things"),
        ([replace(Hearts(), promise=replace(PROMISE, anomalies=PROMISE.anomalies * 2))], "each of its anomalies"),
        ([replace(Hearts(), needs=replace(Hearts().needs, columns=("pulse",)))], "no column pulse"),
        ([replace(Hearts(), needs=replace(Hearts().needs, part="a", joins=("a",)))], "judges 'a'"),
        ([replace(Hearts(), needs=replace(Hearts().needs, rows=(Reads(kind="heart"),)))], "heart"),
    ],
)
def test_a_kernel_that_contradicts_itself_is_refused(made: Any, words: str) -> None:
    with pytest.raises((BadInput, ValueError), match=re.escape(words)):
        registry_module._check(made, {L.ORDER: "order"})


def test_a_shard_that_is_in_no_plan_is_not_taken_for_judged() -> None:
    for verdict in judge_rows([(WHOLE, busy(3).table()), ("control", busy(3).table())], CONTEXT):
        assert verdict.validity is not Validity.VALID


def test_without_memory_laws_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: Any) -> Any:
        raise MemoryError

    table = busy(3).table()
    monkeypatch.setattr(_engine, "registry", lambda: with_law(Hearts(answer=none_left)))
    hearts, _ = apart(verdicts(CONTEXT, examine_whole(table, CONTEXT)))
    assert hearts.validity is Validity.UNKNOWN and "a worker ran out of memory when it examined" in hearts.why
    monkeypatch.setattr(_engine, "Shard", none_left)
    for verdict in verdicts(CONTEXT, examine_whole(table, CONTEXT)):
        if verdict.is_not_visible:
            continue
        assert verdict.validity is Validity.UNKNOWN and "there was no memory left to look at its rows" in verdict.why


def test_damage_makes_valid_laws_unknown() -> None:
    history = History()
    history.send(0)
    context = RunContext(run="r", seed=1, meta=RunMeta(), damage=("batch 7 is torn",))
    order = next(v for v in judge_rows([(WHOLE, history.table())], context) if v.law == L.ORDER)
    assert (order.validity, order.why) == (Validity.UNKNOWN, "batch 7 is torn")


def test_every_law_has_a_verdict() -> None:
    assert {verdict.law for verdict in judge_rows([], CONTEXT)} == set(LAWS)


def test_missing_java_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(class_archive, "_version", lambda java: -1)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MachineError, match="Java 17 or newer"):
        Session().wait()
