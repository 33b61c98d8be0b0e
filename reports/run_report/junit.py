"""JUnit XML of a run: one test case per law, so that any continuous-integration server shows the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from chaos import guarded
from chaos.history.directory import is_violation


def write(run: Path, verdict: Mapping[str, Any]) -> Path:
    """Write ``junit.xml`` into the run directory and return its path. INVALID is a failure, UNKNOWN an error: a law
    that nobody could decide must not look green. One that is NOT APPLICABLE is skipped."""
    suite = TestSuite(f"stormproof {run.name}")
    suite.add_property("seed", str(verdict["seed"]))
    suite.add_property("digest", verdict["digest"])
    if verdict.get("not_reached"):
        suite.add_property("not reached", _printable("; ".join(verdict["not_reached"])))
    for law in verdict["laws"]:
        case = TestCase(name=law["law"], classname=f"stormproof.{run.name}")
        if law["validity"] == "INVALID":
            found = [anomaly for anomaly in law["anomalies"] if is_violation(verdict, anomaly)]
            failure = Failure(f"{len(found)} findings", type_=found[0]["name"] if found else "violation")
            failure.text = _printable("\n".join(f"{anomaly['name']}: {anomaly['explanation']}" for anomaly in found))
            case.result = [failure]
        elif law["validity"] == "UNKNOWN":
            case.result = [Error(_printable(law["why"]), type_="UNKNOWN")]
        elif law["validity"] == "NOT APPLICABLE":
            case.result = [Skipped(_printable(law["why"]))]
        suite.add_testcase(case)
    if verdict["why"]:
        case = TestCase(name="run", classname=f"stormproof.{run.name}")
        case.result = [Error(_printable("; ".join(verdict["why"])), type_=verdict["verdict"])]
        suite.add_testcase(case)
    report = JUnitXml()
    report.add_testsuite(suite)
    path = run / "junit.xml"
    whole = BytesIO()
    report.write(whole, pretty=True)
    guarded.replace(path, whole.getvalue())
    return path


def _printable(text: str) -> str:
    """Drop the characters that XML 1.0 can't hold; values come from the system under test."""
    return "".join(
        c for c in text if c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"
    )
