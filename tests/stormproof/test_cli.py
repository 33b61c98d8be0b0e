"""The command line: one new file each adds a driver, a workload, a fault and a checker, and every contract holds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.history import directory
from chaos.history.directory import read_meta
from chaos.plugins import PluginKind, aliases, names
from stormproof import cli

ROOT = Path(__file__).parents[2]
TOYS = Path(__file__).parent / "outside" / "mystorm"
#: Which packages a tree of its own needs, and where the four new files go. The shipped laws are left out: they ask for
#: observations that the toy system doesn't give.
WHOLE = ("stormproof", "chaos", "workloads", "nemesis", "drivers", "reports", "reference", "examples")
PLACES = {
    "toy": "drivers/toy",
    "trickle": "workloads/trickle",
    "hiccup": "nemesis/hiccup",
    "read_back": "checkers/read_back",
}
STORM = """\
name: toy
system: toy
duration: 3s
workloads: [trickle]
faults:
  - hiccup: {target: server-0}
    at: 1s
    for: 500ms
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """The project with four more files and no edit."""
    tree = tmp_path_factory.mktemp("tree")
    for package in WHOLE:
        shutil.copytree(ROOT / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "checkers").mkdir()
    shutil.copy(ROOT / "checkers" / "__init__.py", tree / "checkers")
    for toy, place in PLACES.items():
        shutil.copy(TOYS / f"{toy}.py", tree / f"{place}.py")
    (tree / "storm.yaml").write_text(STORM)
    return tree


def stormproof(cwd: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stormproof", *words]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=120, env={**os.environ, **environment}, check=False
    )


def test_four_new_files_make_a_run_that_is_judged(tree):
    done = stormproof(tree, "run", "storm.yaml", "--on", "sim", "--seed", "4", "--engine", "local", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["verdict"] == "VALID" and told["seed"] == 4 and told["engine"] == "local"
    assert set(told) >= {"run", "seed", "verdict", "digest", "anomalies", "engine", "seconds", "skipped_faults"}
    run = tree / told["run"]
    assert json.loads((run / "verdict.json").read_text())["laws"][0]["counts"]["toy_acked"] > 20
    meta = read_meta(run).json
    assert meta["faults"] == ["hiccup"] and meta["summary"]["effective_faults"] == ["hiccup"]
    assert (run / "report.html").exists() and (run / "junit.xml").exists()


def test_a_planted_bug_is_found_and_the_last_line_replays_it(tree):
    words = ["run", "storm.yaml", "--on", "sim", "--seed", "4", "--bug", "forgetful", "--engine", "local"]
    done = stormproof(tree, *words)
    assert done.returncode == 1, done.stderr
    assert "17 messages were not read back" in done.stdout and "no consumer read message" in done.stdout
    assert done.stdout.splitlines()[-1] == "stormproof run storm.yaml --on sim --seed 4 --bug forgetful"


def test_one_seed_is_one_digest_on_every_run_and_check_whatever_the_hash_seed(tree, tmp_path):
    run = ["run", "storm.yaml", "--on", "sim", "--engine", "local", "--json", "--out", str(tmp_path)]
    check = ["check", "latest", "--engine", "local", "--json", "--out", str(tmp_path)]
    told = [stormproof(tree, *words, PYTHONHASHSEED=seed) for words, seed in ((run, "1"), (run, "2"), (check, "3"))]
    assert [one.returncode for one in told] == [0, 0, 0], told
    assert len({json.loads(one.stdout)["digest"] for one in told}) == 1


def test_a_sweep_runs_all_seeds_and_keeps_of_valid_runs_only_what_was_found(tree, tmp_path):
    words = [
        "run",
        "storm.yaml",
        "--on",
        "sim",
        "--seeds",
        "0..3",
        "--engine",
        "local",
        "--out",
        str(tmp_path),
        "--json",
    ]
    done = stormproof(tree, *words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [run["seed"] for run in told] == [0, 1, 2, 3]
    assert len({run["digest"] for run in told}) == 4
    assert "4 seeds: 4 VALID" in done.stderr
    for run in directory.runs(tmp_path):
        assert sorted(path.name for path in run.iterdir()) == ["manifest", "run.json", "verdict.json"]


def test_a_sweep_stops_at_the_first_failure_and_says_what_did_not_run(tree, tmp_path):
    words = ["run", "storm.yaml", "--on", "sim", "--seeds", "0..40", "--engine", "local", "--out", str(tmp_path)]
    done = stormproof(tree, *words, "--bug", "forgetful", "--stop-on-first")
    assert done.returncode == 1, done.stderr
    assert "not run" in done.stdout and "VALID" in done.stdout
    last = done.stdout.splitlines()[-1]  # of the seed that failed first; two run at a time
    assert re.fullmatch(r"stormproof run storm.yaml --on sim --seed [01] --bug forgetful", last)


def test_a_folder_with_packages_of_our_names_changes_nothing(tmp_path):
    for package in ("checkers", "nemesis", "examples"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemError('not ours')")
    done = stormproof(tmp_path, "list", "faults", "--json", PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert "kill" in {entry["name"] for entry in json.loads(done.stdout)}


@pytest.mark.parametrize("package", ["chaos", "reports", "workloads", "drivers"])
def test_a_folder_on_the_path_in_front_of_ours_is_one_sentence_that_names_both(tmp_path, package):
    (tmp_path / "theirs" / package).mkdir(parents=True)
    (tmp_path / "theirs" / package / "__init__.py").write_text("")
    done = stormproof(tmp_path, "list", "faults", PYTHONPATH=f"{tmp_path / 'theirs'}:{ROOT}")
    assert done.returncode == 3 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert str(tmp_path / "theirs" / package) in line and str(ROOT / package) in line


def call(capsys, *words: object) -> tuple[int, str, str]:
    code = cli._run([str(word) for word in words])
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["rnu"], "there is no command 'rnu'; did you mean 'run'? See `stormproof --help`"),
        (["run"], "Missing argument"),
        (["run", "none.yaml"], "cannot read none.yaml"),
        (["run", "none.yaml", "--seeds", "5..3"], "A <= B"),
        (["run", "none.yaml", "--seed", "1", "--seeds", "1..3"], "exclude each other"),
        (["run", "none.yaml", "--stop-on-first"], "need --seeds"),
        (["run", "none.yaml", "--seeds", "1..3", "--on", "process"], "--on sim only"),
        (["run", "none.yaml", "--engine", "duck"], "duck"),
        (["run", "none.yaml", "--seeds", "1..3", "--time-budget", "5"], "expected a duration"),
        (["check", "no-such-run"], "no-such-run"),
        (["report", "no-such-run"], "no-such-run"),
        (["list", "fautls"], "'fautls' can't be listed; did you mean 'faults'?"),
        (["list", "fault"], "did you mean 'faults'?"),
        (["exlpain"], "did you mean 'explain'?"),
        (["report", "latst"], "there is no run latst, here or in runs; did you mean 'latest'?"),
        (["report", "latest", "--as", "isue"], "did you mean 'issue'?"),
        (["report", "--cause", "2"], "--cause is for"),
        (["report", "--as", "issue", "--open"], "--open is for pages"),
        (["explain", "--rows", "1", "--markdown"], "--rows prints rows"),
        (["explain", ".", "--rows", "1"], "is not a run directory"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_3(capsys, words, reason):
    code, out, err = call(capsys, *words)
    assert code == 3 and out == ""
    assert err.startswith("error: ") and reason in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("groups: 0", "groups: expected 1 to 4096, got 0"),
        ("slices: 17, groups: 32, brokers: 1", "1 brokers own 16 slices at most"),
        ("stores: 2", "2 stores can't hold 3 replicas"),
        ("brokers: 0", "brokers: expected 1 to 32, got 0"),
        ("metas: 2", "metas: expected one of 1, 3, 5, got 2"),
        ("group: 4", "unknown key 'group'; did you mean 'groups'?"),
        ("store_options: {segmnt_bytes: 4}", "unknown key 'segmnt_bytes'; did you mean 'segment_bytes'?"),
        ("broker_options: {heartbeat_ms: 0}", "heartbeat_ms must be a whole number that is 1 or more, not 0"),
    ],
)
def test_a_cluster_that_can_not_be_is_one_message_and_exit_code_3(capsys, tmp_path, options, reason):
    path = tmp_path / "bad.yaml"
    path.write_text(f"system:\n  split: {{{options}}}\nduration: 5s\nworkloads: [queue]\n")
    code, out, err = call(capsys, "run", path, "--on", "sim")
    assert (code, out, len(err.splitlines())) == (3, "", 1) and reason in err and "bad.yaml:2" in err, err


def test_every_mistake_of_a_file_is_a_line_of_its_own(capsys, tmp_path):
    path = tmp_path / "storm.yaml"
    path.write_text("system: refrence\nduration: 5\nworkloads: [queu]\n")
    code, _, err = call(capsys, "run", path, "--on", "sim")
    assert code == 3
    assert [line.partition("storm.yaml:")[2][:2] for line in err.splitlines()] == ["1:", "2:", "3:"]


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["ascii", "posix"],
)
def test_a_terminal_that_lacks_letters_costs_no_verdict(tree, environment):
    done = stormproof(tree, "run", "storm.yaml", "--on", "sim", "--seed", "4", **environment)
    assert done.returncode == 0 and done.stdout.startswith("VALID  toy, seed 4, sim\n"), (done.stdout, done.stderr)


@pytest.mark.parametrize("kind", ["faults", "workloads", "laws", "drivers", "deployments", "bugs"])
def test_list_prints_json_or_a_table(capsys, kind):
    code, out, _ = call(capsys, "list", kind, "--json")
    entries = json.loads(out)
    assert code == 0 and all(entry["name"] for entry in entries)
    if kind == "bugs":
        assert all({"name", "law", "stands_for", "scenario"} <= set(entry) for entry in entries)
    code, out, _ = call(capsys, "list", kind)
    assert code == 0 and all(entry["name"] in out for entry in entries)


def test_init_copies_the_examples_and_overwrites_nothing(capsys, tmp_path):
    code, out, _ = call(capsys, "init", tmp_path / "new")
    assert code == 0 and str(tmp_path / "new" / "start" / "quickstart.yaml") in out
    code, _, err = call(capsys, "init", tmp_path / "new")
    assert code == 3 and "already has" in err


def test_the_schema_knows_every_plugin_and_option(capsys):
    code, out, _ = call(capsys, "schema")
    schema = json.loads(out)
    assert code == 0
    fault = schema["$defs"]["FaultEntry"]
    times = {"at", "every", "random", "when", "after", "for", "on", "draws"}
    assert set(fault["properties"]) - times == {*names(PluginKind.FAULT), *aliases(PluginKind.FAULT)}
    assert fault["additionalProperties"] is False and [{"required": ["kill"]} in one["oneOf"] for one in fault["allOf"]]
    kill = resolved(schema, fault["properties"]["kill"]["anyOf"][0])
    assert kill["properties"]["target"]["type"] == "string" and kill["properties"]["target"]["default"] == "master"
    driver = schema["properties"]["system"]["anyOf"][1]["properties"]["reference"]["anyOf"][0]
    brokers, drawn = resolved(schema, driver)["properties"]["brokers"]["anyOf"]
    assert set(drawn["properties"]) == {"one_of"}
    assert (brokers["minimum"], brokers["maximum"], brokers["default"]) == (1, 9, 3)
    assert "kill" in schema["$defs"]["SequenceEntry"]["properties"]["sequence"]["items"]["anyOf"][0]["enum"]
    assert "durability" in schema["properties"]["laws"]["items"]["enum"]
    assert set(schema["required"]) == {"system", "duration", "workloads"}


def resolved(schema, described):
    """What a reference refers to."""
    return schema["$defs"][described["$ref"].rpartition("/")[2]] if "$ref" in described else described


def test_doctor_and_version_tell(capsys):
    code, out, _ = call(capsys, "doctor", "--json")
    assert code in (0, 3) and {"Python", "Java", "SSH", "Disk"} <= {finding["what"] for finding in json.loads(out)}
    assert all(finding["ok"] or finding["mend"] for finding in json.loads(out))
    assert call(capsys, "--version")[:2] == (0, "stormproof 0.1.0\n")


def test_clean_says_what_it_removed(capsys, tmp_path):
    run = tmp_path / "a-1"
    run.mkdir()
    directory.write_meta(run, {"state": "finished"})
    assert call(capsys, "clean", "--out", tmp_path)[:2] == (0, "1 runs removed, 0 kept\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete_our_words(capsys, monkeypatch, shell):
    monkeypatch.setenv("_STORMPROOF_COMPLETE", f"{shell}_source")
    code, out, err = call(capsys)
    assert (code, err) == (0, "") and "_STORMPROOF_COMPLETE" in out


def test_commands_are_completed(capsys, monkeypatch):
    for name, value in {"COMP_WORDS": "stormproof re", "COMP_CWORD": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("_STORMPROOF_COMPLETE", "bash_complete")
    assert call(capsys)[:2] == (0, "plain,replay\nplain,report\n")
