"""A report is one safe page: it quotes hostile values as text, and says UNKNOWN where nobody can tell."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import reports
from chaos.history.directory import write_meta, write_verdict
from chaos.history.history import History
from chaos.history.recorder import Recorder
from chaos.verdict import Anomaly, Permitted, RunVerdict, Validity, Verdict
from reports.run_report.master_terms import EpochChange, MasterTerm
from reports.run_report.story import calm, title_of
from reports.summary import summarise
from tests.checkers.names import A, L

HOSTILE = "</script><script>alert('x')</script> $\\frac{1}{0}$ & <img src=x onerror=alert(1)>\x00"
SECOND = 1_000_000_000


def record_run(run: Path) -> None:
    """Ten seconds of load: a send each 100 ms, one kill, two master terms, one manifest."""
    clock = iter(range(0, 10**12, SECOND // 20))
    recorder = Recorder(run, lambda: next(clock))
    recorder.record("harness", f="phase", value={"phase": "setup"})
    recorder.record("harness", f="phase", value={"phase": "load"})
    for row in (
        {"node": "broker-0", "f": "role", "epoch": 1, "value": {"role": "master"}},
        {"node": "broker-1", "f": "role", "epoch": 1, "value": {"role": "slave"}},
    ):
        recorder.record_trace({"incarnation": 1, "step": 1, "time_ns": SECOND // 10, **row})
    for number in range(100):
        asked = {"process": HOSTILE if number == 50 else "producer-0.0", "f": "send", "queue": 0, "message": number}
        op = recorder.record("op", type="invoke", hash=number, **asked)
        recorder.record("op", type="ok", op=op, node="broker-0", incarnation=1, epoch=1, offset=number, **asked)
    recorder.record("fault", f="kill", process="fault-0", type="invoke", value={"targets": ["broker-0", HOSTILE]})
    recorder.record("fault", f="kill", process="fault-0", type="ok", value={"phase": "inject", "proof": {"pid": 7}})
    recorder.record("fault", f="kill", process="fault-0", type="ok", value={"phase": "undo", "effective": True})
    recorder.record("fault", f="partition", process="fault-1", type="invoke", value={"targets": ["broker-0"]})
    ways: dict[str, object] = {"across": {"broker-0 > broker-1": False}, "within": {"a > b": True, "c > d": False}}
    injected = {"phase": "inject", "proof": {}, "probe": {"effect": "full", **ways}}
    recorder.record("fault", f="partition", process="fault-1", type="ok", value=injected)
    undone = {
        "phase": "undo",
        "effective": False,
        "probe": {"effect": "unclear", "across": {"broker-0 > broker-1": None}, "within": {}},
        "restored": False,
    }
    recorder.record("fault", f="partition", process="fault-1", type="ok", value=undone)
    recorder.record("poll", type="ok", f="state", node="broker-0", value={"end": 4096, "confirm": 2048, "first": 0})
    recorder.record_trace({"node": "broker-0", "f": "synced", "position": 4096, "time_ns": 4 * SECOND})
    cas = {"outcome": "applied", "key": HOSTILE}
    recorder.record_trace(
        {"node": "store-0", "f": "store_cas", "queue": 0, "position": 2048, "time_ns": 5 * SECOND, "value": cas}
    )
    recorder.close()


def judged(validity: Validity, anomalies: tuple[Anomaly, ...] = (), why: tuple[str, ...] = ()) -> RunVerdict:
    durability = Verdict(
        law=L.DURABILITY,
        validity=validity,
        anomalies=anomalies,
        counts={"acknowledged": 100},
        why="; ".join(why),
    )
    order = Verdict(law=L.ORDER, validity=Validity.VALID, counts={"sends": 100})
    return RunVerdict(
        run="r",
        seed=7,
        validity=validity,
        laws=[durability, order],
        digest="0" * 64,
        engine="local",
        seconds=0.1,
        why=list(why),
    )


LOST = Anomaly(
    law=L.DURABILITY,
    name=A.LOST,
    explanation=f"message 3 was acknowledged and is gone {HOSTILE}",
    rows=(6, 7, 104),
    queue=0,
    offset=3,
)


class Page(HTMLParser):
    """Collects tags and visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def report(run: Path, verdict: RunVerdict) -> str:
    record_run(run)
    write_meta(run, {"run": HOSTILE, "seed": 7, "state": "finished"})
    write_verdict(run, verdict)
    return reports.render(run).read_text("utf-8")


def test_invalid_page_leads_with_the_verdict_and_quotes_the_witnesses(tmp_path: Path) -> None:
    page = Page(report(tmp_path, judged(Validity.INVALID, (LOST,))))
    words = " ".join(" ".join(page.text).split())
    assert words.startswith("✕ An acknowledged message was lost ·")
    assert words.index("✕ INVALID") < words.index("message 3 was acknowledged") < words.index("What happened")
    assert "1 of 2 promises broken · 1 of 2 faults took effect" in words
    assert "message 3 was acknowledged and is gone" in words
    assert "answered by broker-0 (incarnation 1)" in words
    assert "svg" in page.tags


def test_a_promise_says_folded_what_breaks_it_and_what_it_is_judged_from(tmp_path: Path) -> None:
    page = report(tmp_path, judged(Validity.INVALID, (LOST,)))
    (about,) = [one for one in page.split('<details class="about">')[1:] if "<b>durability</b>" in one]
    assert "<dt>lost</dt><dd>acknowledged, not removed by retention" in about and "lost-by-policy" not in about
    assert "Judged from: confirm; exchanges; operations</small></details>" in about


def test_hostile_values_stay_text_and_nothing_is_loaded_from_outside(tmp_path: Path) -> None:
    text = report(tmp_path, judged(Validity.INVALID, (LOST,)))
    page = Page(text)
    assert not {"img", "iframe", "object", "link"} & set(page.tags)
    assert page.tags.count("script") == 2, "the data of the axis and the one script that the policy admits"
    assert any("alert('x')" in piece for piece in page.text), "the value itself is shown"
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!#)""", re.sub(r"xlink:href=\"#[^\"]*\"", "", text))
    assert not re.search(r"url\((?!#)", text)


def test_what_was_seen_of_a_fault_from_outside_is_shown_with_whether_it_is_gone(tmp_path: Path) -> None:
    text = " ".join(Page(report(tmp_path, judged(Validity.VALID))).text)
    assert (
        "broker-0 > broker-1 fails, c > d, on one side, fails too; then broker-0 > broker-1 fails, but no rule" in text
    )
    line = next(fault for fault in summarise(History.open(tmp_path), ()).faults if fault.name == "partition")
    assert (line.effective, line.restored) == ("no", "no")


def test_unknown_page_says_why(tmp_path: Path) -> None:
    page = Page(report(tmp_path, judged(Validity.UNKNOWN, why=("the drain is missing", "so is the end"))))
    text = " ".join(page.text)
    assert "The drain is missing" in text and "so is the end" in text and "the drain is missing" not in text


@pytest.mark.parametrize(
    ("validity", "child"), [(Validity.VALID, None), (Validity.INVALID, "failure"), (Validity.UNKNOWN, "error")]
)
def test_junit_is_green_only_when_valid(tmp_path: Path, validity: Validity, child: str | None) -> None:
    why = ("no drain",) if validity is Validity.UNKNOWN else ()
    report(tmp_path, judged(validity, (LOST,) if validity is Validity.INVALID else (), why))
    cases = {case.get("name"): case for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")}
    assert [element.tag for element in cases["durability"] if element.tag in ("failure", "error")] == (
        [child] if child else []
    )
    assert not [element.tag for element in cases["order"]]


def test_an_empty_run_still_gives_a_page(tmp_path: Path) -> None:
    Recorder(tmp_path, lambda: 0).close()
    write_meta(tmp_path, {"run": "r", "seed": 7, "state": "failed"})
    write_verdict(tmp_path, judged(Validity.UNKNOWN, why=("nothing was recorded",)))
    assert "Nothing was recorded" in reports.render(tmp_path).read_text("utf-8")


def test_a_queue_without_service_shows_from_ack_to_ack(tmp_path: Path) -> None:
    """Two queues; queue 1 has no acknowledged send between second 2 and second 6."""
    recorder = Recorder(tmp_path, lambda: 0)
    recorder.record("harness", f="phase", time_ns=0, value={"phase": "load"})
    for second in range(1, 10):
        for queue in (0, 1):
            kind = "info" if queue == 1 and 2 < second < 6 else "ok"
            recorder.record("op", time_ns=second * SECOND, type=kind, f="send", process="p", queue=queue)
    recorder.close()
    rows = History.open(tmp_path)
    assert [(bar.lane, bar.start_s, bar.end_s) for bar in summarise(rows, ()).outages] == [("queue 1", 2.0, 6.0)]


POLICY = "`flush: async` allows at the power cut of 12.0 s"


def lossy(*, forbidden: bool = False) -> RunVerdict:
    """Two policies permit losses of which 21 are told one by one."""

    def one(row: int, count: int = 1, policy: str = POLICY) -> Anomaly:
        told = {"law": L.DURABILITY, "name": A.LOST_BY_POLICY, "lawful": not forbidden, "by_policy": True}
        rows = (row,) if count == 1 else ()
        return Anomaly(**told, explanation=f"message {row} is gone", rows=rows, count=count, policy=policy)  # type: ignore[arg-type]

    found = (*(one(row) for row in range(6, 26)), one(0, 839), one(40, policy=f"`acks: 1` allows {HOSTILE}"))
    made = judged(Validity.INVALID if forbidden else Validity.VALID, found)
    permitted = [
        Permitted(law=L.DURABILITY, name=A.LOST_BY_POLICY, policy=policy, count=count)
        for policy, count in ((POLICY, 859), (f"`acks: 1` allows {HOSTILE}", 1))
    ]
    return replace(made, permitted=permitted, no_loss_by_policy=forbidden)


def test_a_loss_that_the_profile_permits_is_told_before_anything_else(tmp_path: Path) -> None:
    record_run(tmp_path)
    meta = {"run": "r", "seed": 7, "profile": {"flush": "async", "acks": 1}, "profile_from": {"by": "driver"}}
    page = rendered(tmp_path, lossy(), meta)
    told = " ".join("".join(Page(page).text).split())
    assert "<title>✓ 860 lost, as the profile permits: 100 acknowledged writes went through 1 fault" in page
    line = "859 lost, as flush: async allows at the power cut of 12.0 s; 1 lost, as acks: 1 allows"
    assert told.index("✓ VALID") < told.rindex("860 lost, as the profile permits") < told.index(line)
    assert '<span class="pill VALID lossy">' in page and '<td class="lossy"><b>859 lost' in page
    assert "flush: async, acks: 1 (the driver's own)" in told
    folded = re.findall(r"<summary><b>lost-by-policy</b>(.*?)</summary>", page)
    assert len(folded) == 2 and " × 859, as <code>flush: async</code> allows" in folded[0]
    assert "<script>alert" not in page


def test_a_run_that_lost_nothing_has_the_bare_word_and_an_unqualified_colour(tmp_path: Path) -> None:
    record_run(tmp_path)
    page = rendered(tmp_path, judged(Validity.VALID), {"run": "r", "seed": 7, "profile": {}})
    assert '<span class="pill VALID">' in page and 'class="lossy"' not in page
    assert "<h1>Nothing was lost: 100 acknowledged writes survived 1 fault and 1 master</h1>" in page


def test_where_no_loss_is_allowed_it_is_a_violation_with_its_rows(tmp_path: Path) -> None:
    record_run(tmp_path)
    page = rendered(tmp_path, lossy(forbidden=True), {"run": "r", "seed": 7, "profile": {"flush": "async"}})
    assert "--no-loss-by-policy forbids it" in page and "1 of 2 promises broken" in page
    assert "Unusual but allowed" not in page


def test_what_nobody_judged_is_folded_and_each_reason_told_once(tmp_path: Path) -> None:
    record_run(tmp_path)
    verdict = judged(Validity.VALID)
    apart = Verdict(law=L.IN_SYNC, validity=Validity.NOT_APPLICABLE, why="the driver does not report confirm")
    verdict = replace(verdict, laws=[*verdict.laws, apart], not_judged=["in-sync: the driver does not report confirm"])
    page = rendered(tmp_path, verdict, {"run": "r", "seed": 7})
    assert "not exercised" not in page and "<summary>– 1 not visible</summary>" in page
    assert page.count("the driver does not report confirm") == 1
    idle = Verdict(law=L.TOPICS, validity=Validity.NOT_APPLICABLE, why="no workload uses topics")
    page = rendered(tmp_path, replace(verdict, laws=[*verdict.laws, idle]), {"run": "r", "seed": 7})
    assert '1 not exercised <a href="#idle">which?</a>' in page
    assert "<summary>– 1 not exercised, 1 not visible</summary>" in page


def rendered(run: Path, verdict: RunVerdict, meta: dict[str, object]) -> str:
    write_meta(run, meta)
    write_verdict(run, verdict)
    return reports.render(run).read_text("utf-8")


def test_a_system_without_terms_tiers_or_queues_is_not_told_to_have_none_of_them(tmp_path: Path) -> None:
    clock = iter(range(0, 10**12, SECOND // 20))
    recorder = Recorder(tmp_path, lambda: next(clock))
    recorder.record("harness", f="phase", value={"phase": "load"})
    for f in ("read", "write", "cas", "write"):
        op = recorder.record("op", type="invoke", f=f, process="client-0.0", value={"object": "x"})
        recorder.record("op", type="ok", f=f, op=op, process="client-0.0", node="node-0", value={"object": "x"})
    for node, epoch in (("node-0", 0), ("node-1", 1), ("node-1", 1)):
        recorder.record("poll", type="ok", f="state", node=node, epoch=epoch, value={"role": "master"})
    recorder.close()
    told = summarise(History.open(tmp_path), [])
    assert told.counts == {
        "reads answered": 1, "acknowledged changes": 2, "compare-and-set answered": 1, "master terms": 2,
        "effective faults": 0,
    }  # fmt: skip
    assert calm(told) == "0 faults took effect, 2 master terms, 4 answered calls on objects"
    assert {curve.label for curve in told.throughput} == {"read ok", "write ok", "cas ok"}
    alone = MasterTerm(group="", node="a", epoch=-1, start_s=0.0, end_s=1.0)
    assert title_of(EpochChange(group="", before=alone, after=None)) == "Master: a"
