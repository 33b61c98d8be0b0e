"""``stormproof import``: histories of OpenChaos become runs that are judged, drawn and looked at like any others.

``openchaos/NAME.tsv`` are made for these tests; ``NAME.json`` is what OpenChaos's own checkers (d129a32) wrote about
that file, its YAML as JSON.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stormproof import cli
from stormproof.importing.openchaos import results

DATA = Path(__file__).parent / "openchaos"
NAMES = sorted(file.stem for file in DATA.glob("*.tsv"))
VALID, INVALID, UNKNOWN, ERROR = range(4)
T = 1_700_000_000_000

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run a command in the test's folder: its exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> tuple[int, str, str]:
        code = cli._run([*map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def imported(command: Command, file: Path, *options: str) -> Path:
    code, out, err = command("import", "openchaos", *options, file)
    assert code == 0, err
    return Path(out.strip())


def judged(command: Command, file: Path, *options: str) -> tuple[int, dict[str, Any]]:
    run = imported(command, file, *options)
    code, out, _ = command("check", run, "--json")
    assert json.loads(out)["verdict"] == json.loads((run / "verdict.json").read_text())["verdict"]
    return code, json.loads((run / "verdict.json").read_text())


def law(verdict: dict[str, Any], name: str) -> str:
    return str(next(one["validity"] for one in verdict["laws"] if one["law"] == name))


def test_there_are_histories_of_each_workload_and_what_openchaos_says_of_each() -> None:
    assert len(NAMES) == 17 and {name.partition("_")[0] for name in NAMES} == {"queue", "ordered", "kv", "random"}
    assert all((DATA / f"{name}.json").exists() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_results_are_those_of_openchaos_itself(name: str, command: Command) -> None:
    _, verdict = judged(command, DATA / f"{name}.tsv")
    theirs = json.loads((DATA / f"{name}.json").read_text())
    ours = verdict["openchaos"]
    for one in (theirs, ours):
        if "KVTestResult" in one:
            one["KVTestResult"]["lostValues"].sort()
    assert ours == theirs


@pytest.mark.parametrize(
    ("name", "options", "code", "found"),
    [
        ("queue_good", (), VALID, {}),
        ("queue_lost", (), UNKNOWN, {}),
        ("queue_lost", ("--drained",), INVALID, {"lost": 1}),
        ("queue_good", ("--drained",), VALID, {}),
        ("queue_duplicate", (), VALID, {}),  # OpenChaos counts 2 duplicates: one was of unknown outcome
        ("queue_refused", (), VALID, {}),
        ("queue_refused", ("--failures", "refused"), INVALID, {"unexpected": 1}),
        ("queue_unexpected", (), INVALID, {"unexpected": 1}),  # OpenChaos calls it a duplicate
        ("queue_outage", (), VALID, {}),
        ("queue_outage", ("--failures", "refused", "--drained"), VALID, {}),
        ("ordered_good", (), VALID, {}),
        ("ordered_disorder", (), INVALID, {"out-of-order": 1}),
        ("ordered_disorder_again", (), INVALID, {"out-of-order": 1}),  # OpenChaos: in order
        ("ordered_lost", (), UNKNOWN, {}),  # OpenChaos: not in order
        ("ordered_lost", ("--drained",), INVALID, {"lost": 1}),
        ("kv_good", (), VALID, {}),
        ("kv_lost", (), INVALID, {"lost": 1}),
        ("kv_recovered", (), VALID, {}),
        ("kv_recovered", ("--failures", "refused"), INVALID, {"unexpected": 1}),
        ("kv_unread", (), UNKNOWN, {}),
    ],
)
def test_our_verdict(name: str, options: tuple[str, ...], code: int, found: dict[str, int], command: Command) -> None:
    got, verdict = judged(command, DATA / f"{name}.tsv", *options)
    assert (got, verdict["anomalies"]) == (code, found), verdict["why"]


def test_what_cannot_be_seen_is_not_judged(command: Command) -> None:
    _, verdict = judged(command, DATA / "queue_good.tsv")
    assert law(verdict, "durability") == "VALID"
    others = {one["law"]: one["validity"] for one in verdict["laws"] if one["law"] != "durability"}
    assert set(others.values()) == {"NOT APPLICABLE"}, others
    _, verdict = judged(command, DATA / "ordered_lost.tsv")
    assert (law(verdict, "deliveries"), law(verdict, "durability")) == ("VALID", "UNKNOWN")


def test_results_name_so_many_that_run_json_can_be_read(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MOST_NAMED", 1)
    _, verdict = judged(command, DATA / "random_queue.tsv")
    theirs = json.loads((DATA / "random_queue.json").read_text())["QueueTestResult"]
    ours = verdict["openchaos"]["QueueTestResult"]
    for kind in ("lost", "duplicate"):
        assert ours[f"{kind}MessageCount"] == theirs[f"{kind}MessageCount"] > 1 == len(ours[f"{kind}Messages"])


# Bugs planted in good histories


def lines(name: str) -> list[str]:
    return (DATA / f"{name}.tsv").read_text().splitlines()


def written(path: Path, some: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in some))
    return path


@pytest.mark.parametrize("name", ["queue_good", "ordered_good"])
def test_whatever_message_is_left_out_a_good_history_is_not_valid_any_more(
    name: str, command: Command, tmp_path: Path
) -> None:
    whole = lines(name)
    came = [number for number, line in enumerate(whole) if line.split("\t")[1:4] == ["dequeue", "RESPONSE", "SUCCESS"]]
    assert len(came) == 8
    for number in came[::3]:
        left = [*whole[:number], *whole[number + 1 :]]
        code, _ = judged(command, written(tmp_path / "left.tsv", left))
        assert code == UNKNOWN
        code, verdict = judged(command, written(tmp_path / "left.tsv", left), "--drained")
        assert code == INVALID and verdict["anomalies"] == {"lost": 1}


def test_whatever_two_messages_of_a_key_change_places_the_history_is_invalid(command: Command, tmp_path: Path) -> None:
    whole = lines("ordered_good")
    came = {line.split("\t")[4]: number for number, line in enumerate(whole) if "\tdequeue\tRESPONSE\tSUCC" in line}
    for one, two in (("0", "4"), ("2", "6"), ("1", "5")):
        swapped = list(whole)
        swapped[came[one]], swapped[came[two]] = whole[came[two]], whole[came[one]]
        times = {number: whole[number].split("\t")[6] for number in (came[one], came[two])}
        for number, time in times.items():
            fields = swapped[number].split("\t")
            swapped[number] = "\t".join([*fields[:6], time, *fields[7:]])
            swapped[number] = "\t".join([whole[number].split("\t")[0], *swapped[number].split("\t")[1:]])
        code, verdict = judged(command, written(tmp_path / "swapped.tsv", swapped))
        assert code == INVALID and set(verdict["anomalies"]) == {"out-of-order"}, (one, two, verdict["why"])


def test_whatever_value_getall_lacks_the_history_is_invalid(command: Command, tmp_path: Path) -> None:
    whole = lines("kv_lost")
    for value in ("0", "3", "5"):
        fields = whole[-1].split("\t")
        fields[4] = f"[{', '.join(one for one in '012345' if one != value)}]"
        code, verdict = judged(command, written(tmp_path / "lacks.tsv", [*whole[:-1], "\t".join(fields)]))
        (lost,) = [one for each in verdict["laws"] for one in each["anomalies"]]
        assert code == INVALID and lost["message"] == int(value)


# Bad input


def put(client: object = 0, value: object = 0, at: object = T, key: str = "null") -> str:
    return f"{client}\tenqueue\tREQUEST\t{value}\t{key}\t{at}\tnull"


def done(client: object = 0, value: object = 0, at: object = T + 3, result: str = "SUCCESS", key: str = "null") -> str:
    return f"{client}\tenqueue\tRESPONSE\t{result}\t{value}\t{key}\t{at}\t3\tnull\t0"


def came(value: object = 0, at: object = T + 5, result: str = "SUCCESS", client: int = 1) -> str:
    return f"{client}\tdequeue\tRESPONSE\t{result}\t{value}\tnull\t{at}\t0\tnull\t2"


def asks(at: object = T + 4, client: int = 1) -> str:
    return f"{client}\tdequeue\tREQUEST\tnull\tnull\t{at}\tnull"


BAD = {
    "fields": ([put(), done() + "\tmore"], 2, "expected 10 fields between tabs"),
    "few": ([put(), "0\tenqueue\tRESPONSE\tSUCCESS"], 2, "expected 10 fields"),
    "request": ([put() + "\tmore"], 1, "expected 7 fields"),
    "nothing": ([put(), ""], 2, "expected `fault` in the first"),
    "kind": ([put().replace("REQUEST", "ASK")], 1, "REQUEST or RESPONSE in the third"),
    "result": ([put(), done(result="MAYBE")], 2, "expected one of the results SUCCESS, FAILURE, UNKNOWN in field 4"),
    "operation": ([put().replace("enqueue", "delete")], 1, "expected one of the operations"),
    "client": ([put(client="x")], 1, "expected a whole number in field 1"),
    "negative": ([put(client=-1)], 1, "expected the number of a client"),
    "value": ([put(value="a,b")], 1, "expected a whole number in field 4"),
    "key": ([put(key='"x"')], 1, "expected a sharding key"),
    "other key": ([put(key="k"), done(key="l")], 2, "expected k in field 6"),
    "time": ([put(at="soon")], 1, "expected a whole number in field 6"),
    "far": ([put(at=10**15)], 1, "expected a Unix time in ms"),
    "back": ([put(), done(at=T - 1)], 2, "which client 0 has reached before"),
    "back later": ([put(), done(), put(value=1, at=T + 2)], 3, f"expected a time from {T + 3} on"),
    "again": ([put(), done(), put(at=T + 9)], 3, "line 1 has put 0 in already"),
    "answer": ([put(), done(value=1)], 2, "expected the enqueue REQUEST of client 0 with the value '1'"),
    "twice": ([put(), done(), done()], 3, "and no other response to it"),
    "none": ([put(), came(result="FAILURE")], 2, "expected a dequeue REQUEST of client 1 before a FAILURE"),
    "given on": ([put(), asks(), came(result="FAILURE"), came()], 4, "expected another dequeue REQUEST"),
    "asked late": ([put(), came(), asks()], 3, "expected no request: client 1 was given items before without one"),
    "models": ([put(), "0\tput\tREQUEST\t1\tnull\t1700000000001\tnull"], 2, "of the model queue, as before, got put"),
    "list": (["0\tgetAll\tREQUEST\tnull\tnull\t5\tnull", "0\tgetAll\tRESPONSE\tSUCCESS\t1\tnull\t6\t1\tnull\t0"], 2,
             "expected a list in field 5"),
    "read": (["0\tgetAll\tRESPONSE\tSUCCESS\t[1]\tnull\t6\t1\tnull\t0"], 1, "expected the getAll REQUEST of client 0"),
    "word": ([put(), "fault\trandom-kill\tstop\t5"], 2, "expected start or end"),
    "name": ([put(), "fault\t\tstart\t5"], 2, "expected the name of a fault"),
    "end": ([put(), "fault\trandom-kill\tend\t5"], 2, "expected the start of the fault 'random-kill' before its end"),
    "end back": ([put(), "fault\tx\tstart\t5", "fault\tx\tend\t4"], 3, "expected a time from 5 on"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_line_that_makes_no_sense_is_named_and_nothing_is_written(
    name: str, command: Command, tmp_path: Path
) -> None:
    some, number, words = BAD[name]
    file = written(tmp_path / "bad.tsv", some)
    code, out, err = command("import", "openchaos", DATA / "queue_good.tsv", file)
    assert (code, out) == (ERROR, "") and words in err and f"bad.tsv, line {number}: expected" in err
    assert len(err.strip().splitlines()) == 1 and not (tmp_path / "runs").exists()


def test_a_file_that_is_no_history_is_named(command: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "faults.tsv").write_text("fault\tx\tstart\t5\n")
    (tmp_path / "cut.tsv").write_text(f"{put()}\n{done()[:-1]}")
    (tmp_path / "bytes.tsv").write_bytes(b"\xff\n")
    os.mkfifo(tmp_path / "pipe.tsv")
    for name, words in {
        "empty.tsv": "the file is empty",
        "faults.tsv": "no line of it is about an operation",
        "cut.tsv": "line 2: expected the end of the line: the file was cut off within it",
        "bytes.tsv": "line 1: expected text in UTF-8",
        "pipe.tsv": "is a pipe; only a regular file is read",
        "missing.tsv": "can't be read: No such file",
        ".": "is a directory",
    }.items():
        code, out, err = command("import", "openchaos", tmp_path / name)
        assert (code, out) == (ERROR, "") and words in err, err
    code, _, err = command("import", "jepsen", DATA / "queue_good.tsv")
    assert code == ERROR and "'jepsen' is none of openchaos" in err
    assert not (tmp_path / "runs").exists()


# What a run is made of


def test_each_import_makes_a_run_of_its_own_and_says_of_what(command: Command, tmp_path: Path) -> None:
    before = (DATA / "queue_good.tsv").read_bytes()
    one, two = (imported(command, DATA / "queue_good.tsv", "--failures", "refused") for _ in range(2))
    assert one != two and (DATA / "queue_good.tsv").read_bytes() == before
    meta = json.loads((one / "run.json").read_text())
    assert (meta["system"], meta["state"], meta["nodes"], meta["profile"]) == ("openchaos", "finished", [], {})
    assert meta["started"] == "2023-11-14T22:13:20+00:00"
    source = meta["imported"]
    assert source["file"] == "queue_good.tsv" and len(source["sha256"]) == 64
    assert (source["format"], source["failures"], source["drained"]) == ("openchaos", "refused", False)


def test_rows_name_what_was_put_in_and_no_offset(command: Command) -> None:
    run = imported(command, DATA / "ordered_good.tsv")
    _, out, _ = command("rows", run, "0..60", "--json")
    rows = json.loads(out)
    assert {row.get("offset", -1) for row in rows} == {-1}
    sent = next(row for row in rows if row.get("f") == "enqueue" and row["type"] == "ok")
    assert sent["value"]["item"] == "0" and sent["value"]["key"] == "shardingKey0"
    assert sent["value"]["result"] == "SUCCESS" and sent["message"] == 0
    given = [row for row in rows if row.get("f") == "came_out"]
    assert [row["message"] for row in given] == [0, 2, 4, 6, 1, 3, 5, 7] and all(row["op"] >= 0 for row in given)


def test_a_client_has_another_process_after_an_unknown_outcome_and_an_unanswered_call(
    command: Command, tmp_path: Path
) -> None:
    some = [put(), done(result="UNKNOWN"), put(value=1, at=T + 9), put(value=2, at=T + 9), done(value=2, at=T + 9)]
    run = imported(command, written(tmp_path / "lives.tsv", [*some, done(value=1, at=T + 12)]))
    _, out, _ = command("rows", run, "0..20", "--json")
    ops = [(row["process"], row["type"]) for row in json.loads(out) if row["kind"] == "op"]
    assert ops == [
        *(("client-0.0", "invoke"), ("client-0.0", "info"), ("client-0.1", "invoke"), ("client-0.2", "invoke")),
        *(("client-0.2", "ok"), ("client-0.1", "ok")),
    ]


def test_a_dequeue_of_unknown_outcome_may_have_taken_what_is_missing(command: Command, tmp_path: Path) -> None:
    for result, code in (("FAILURE", INVALID), ("UNKNOWN", UNKNOWN)):
        some = [put(), done(), put(value=1, at=T + 3), done(value=1, at=T + 3), asks(), came(1)]
        last = [asks(at=T + 6), came("null", at=T + 7, result=result)]
        got, _ = judged(command, written(tmp_path / "taken.tsv", some + last), "--drained")
        assert got == code


def test_times_of_clients_that_record_at_once_need_no_order(command: Command, tmp_path: Path) -> None:
    some = [put(at=T + 5), put(client=1, value=1, at=T), done(at=T + 6), done(client=1, value=1, at=T + 2)]
    code, _ = judged(command, written(tmp_path / "jitter.tsv", [*some, came(1, at=T + 9), came(0, at=T + 8)]))
    assert code == VALID


def test_faults_are_in_the_report_and_called_unproven(command: Command) -> None:
    run = imported(command, DATA / "queue_good.tsv")
    command("check", run)
    page = (run / "report.html").read_text("utf-8")
    assert "random-kill" in page and "0 of 1 fault took effect, 1 unproven" in page


@pytest.mark.parametrize("name", ["queue_good", "queue_lost", "queue_unexpected"])
def test_a_report_says_where_the_run_is_from_and_not_to_run_it_again(name: str, command: Command) -> None:
    run = imported(command, DATA / f"{name}.tsv")
    command("check", run)
    page = (run / "report.html").read_text("utf-8")
    assert f"Imported: openchaos, {name}.tsv, SHA-256 " in page
    assert not any(f"stormproof {word}" in page for word in ("replay", "shrink", "run ", "doctor"))
    for word in ("replay", "shrink"):
        code, _, err = command(word, run)
        assert code == ERROR and len(err.strip().splitlines()) == 1


def test_what_a_system_answers_is_no_markup_and_no_name_of_a_file(command: Command, tmp_path: Path) -> None:
    file = written(tmp_path / "<b>$(id) ..;.tsv", [put(), done(), came("<script>alert(1)</script>"), came()])
    run = imported(command, file)
    assert run.name.startswith("openchaos-b_id-0-")
    code, out, _ = command("check", run)
    page = (run / "report.html").read_text("utf-8")
    assert code == INVALID and "<script>alert(1)" not in page and "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" in out  # a terminal takes it for text


def test_an_imported_run_that_was_changed_is_not_judged_by_what_stands_there(command: Command) -> None:
    run = imported(command, DATA / "queue_good.tsv")
    data = bytearray((run / "history.arrows").read_bytes())
    data[len(data) // 2] ^= 1
    (run / "history.arrows").write_bytes(data)
    code, _, _ = command("check", run)
    assert code == UNKNOWN


def test_help_names_the_formats(command: Command) -> None:
    code, out, _ = command("import", "--help")
    assert code == 0 and "openchaos: Histories of OpenChaos" in out and "--drained" in out
