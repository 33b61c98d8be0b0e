"""What a command doesn't need it doesn't import: that is what makes it start at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.reports.comparison.test_pair import recorded

ROOT = Path(__file__).parents[2]
#: What takes long to import, and is there for those who run, judge or draw.
HEAVY = {"pyspark", "matplotlib", "pyarrow", "numpy", "pydantic", "ruamel", "paramiko", "asyncio", "jinja2"}
COMMAND = "from stormproof import cli; cli._run({!r})"
JUDGE = """
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.verdict import Engine
judge([examine_run(__import__("pathlib").Path({!r}))], engine=Engine.LOCAL)
"""


def loaded(*steps: str) -> list[set[str]]:
    """The top-level packages that are loaded after each of these steps, which one process takes."""
    tell = 'import sys; print("loaded", *{name.partition(".")[0] for name in sys.modules})'
    words = [sys.executable, "-c", "\n".join(f"{step}\n{tell}" for step in steps)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    return [set(line.split()) for line in done.stdout.splitlines() if line.startswith("loaded ")]


def test_commands_begin_without_what_they_may_not_need(tmp_path: Path) -> None:
    """Mistakes and lists need none of it."""
    none = str(tmp_path / "none")
    commands = [["report", none], ["check", "--engine", "local", none], ["runs", str(tmp_path)], ["list"]]
    found = loaded(*map(COMMAND.format, commands))
    assert [names & HEAVY for names in found] == [set()] * 4 and "rich" in found[-1]


def test_judging_in_process_needs_no_spark_and_nothing_that_draws(tmp_path: Path) -> None:
    run = str(recorded(tmp_path / "run"))
    found = loaded(COMMAND.format(["diff", run, run]), JUDGE.format(run))
    assert all("pyarrow" in names and not names & {"pyspark", "py4j", "matplotlib", "paramiko"} for names in found)
    assert "checkers" in found[-1]
