"""JUnit XML of a run: one test case per law, so that any continuous-integration server shows the verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from chaos import guarded
from chaos.history.run_meta import RunMeta
from chaos.history.verdict_json import verdict_json, verdict_of
from chaos.verdict import RunVerdict, Validity, Verdict
from reports.run_report.first_screen import FirstScreen
from reports.run_report.story import profile_words


def write(run: Path, verdict: RunVerdict, meta: RunMeta, screen: FirstScreen | None = None) -> Path:
    """Write ``junit.xml`` into the run directory and return its path. INVALID is a failure, UNKNOWN an error: a law
    that nobody could decide must not look green. One that is NOT APPLICABLE is skipped. What was lost although the
    profile permits it, or is waived, is a property, and the output of the law's case and of ``run``, which goes on with
    what happened, and the steps that led to it, as the ``screen`` of the report says where there is one.

    The names of the cases stay the same from run to run, so that servers can show how each went before: the class is
    ``stormproof.EXPERIMENT.DEPLOYMENT``, the cases are the laws, and ``run`` for what concerns all of them. Seed,
    planted bug and replay command are properties. The time of ``run`` is how long judging took, in seconds; that of a
    single law is not measured."""
    verdict = verdict_of(_all_printable(verdict_json(verdict)))
    meta = RunMeta.of(_all_printable(meta.json))
    name = f"stormproof.{_word(meta.name, run.name)}.{_word(meta.deployment, 'unknown')}"
    suite = TestSuite(name)
    if meta.started:
        suite.timestamp = meta.started
    for key, value in _properties(run, verdict, meta):
        suite.add_property(key, value)
    for law in verdict.laws:
        case = TestCase(name=law.law, classname=name)
        case.result = _result(law)
        if by_policy := _by_policy(verdict, law):
            case.system_out = by_policy
        suite.add_testcase(case)
    whole = TestCase(name="run", classname=name, time=verdict.seconds)
    steps = [_printable(line) for line in _lines_of(screen)] if screen else []
    if lines := [*([verdict.line] if verdict.qualifiers else []), *steps]:
        whole.system_out = "\n".join(lines)
    if verdict.why:
        whole.result = [Error("; ".join(verdict.why), type_=str(verdict.validity))]
    suite.add_testcase(whole)
    report = JUnitXml()
    report.add_testsuite(suite)
    path = run / "junit.xml"
    text = BytesIO()
    report.write(text, pretty=True)
    guarded.replace(path, text.getvalue())
    return path


def _lines_of(screen: FirstScreen) -> Iterator[str]:
    """Yield the title, and a line for each step."""
    yield screen.title
    for step in screen.chain:
        at = "" if step.at_s is None else f"{step.at_s:.3f} s "
        decided = f" (decided by {' or '.join(step.decided)})" if step.decided else ""
        yield f"{at}{step.label}: {step.text}{decided}"


def _properties(run: Path, verdict: RunVerdict, meta: RunMeta) -> Iterator[tuple[str, str]]:
    yield "run", _printable(run.name)
    yield "seed", str(verdict.seed)
    yield "digest", verdict.digest
    yield from ((name, str(known)) for name, known in (("planted bug", meta.mutant), ("replay", meta.replay_command))
                if known)  # fmt: skip
    if verdict.lost_by_policy:
        yield "lost by policy", "; ".join(verdict.lost_by_policy)
    if verdict.waived:
        yield "waived", "; ".join(one.words for one in verdict.waived)
    if profile := profile_words(meta):
        yield "profile", profile
    if verdict.not_reached:
        yield "not reached", "; ".join(verdict.not_reached)


def _by_policy(verdict: RunVerdict, law: Verdict) -> str:
    """Say what this law found that the profile permits, or the experiment waives, a line for each reason."""
    names = {anomaly.name for anomaly in law.anomalies}
    waived = [one.words for one in verdict.waived if one.anomaly in names]
    return "\n".join([*(one.words for one in verdict.permitted if one.law == law.law), *waived])


def _result(law: Verdict) -> list[Any]:
    if law.validity is Validity.UNKNOWN:
        return [Error(law.why, type_="UNKNOWN")]
    if law.validity is Validity.NOT_APPLICABLE:
        return [Skipped(law.why)]
    if law.validity is not Validity.INVALID:
        return []
    found = [anomaly for anomaly in law.anomalies if not anomaly.lawful]
    sums: dict[str, int] = {}
    for anomaly in found:  # one may stand for many of its kind
        sums[anomaly.name] = sums.get(anomaly.name, 0) + anomaly.count
    words = ", ".join(f"{count:,} × {name}" for name, count in sums.items())
    failure = Failure(words or "violated", type_=found[0].name if found else "violation")
    failure.text = "\n".join(f"{anomaly.name}: {anomaly.explanation}" for anomaly in found)
    return [failure]


def _word(value: object, instead: str) -> str:
    """Return one part of a dotted name."""
    return re.sub(r"[^\w-]+", "-", str(value or instead)).strip("-") or "unknown"


def _all_printable(value: Any) -> Any:
    """Return a JSON value, whose texts become attributes and contents of elements."""
    if isinstance(value, Mapping):
        return {_printable(key): _all_printable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_all_printable(one) for one in value]
    return _printable(value) if isinstance(value, str) else value


def _printable(text: str) -> str:
    """Drop the characters that XML 1.0 can't hold; values come from the system under test."""
    return "".join(
        c for c in text if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"
    )
