"""Clients that are programs: their lines become rows, and a line that is no operation ends the run with a sentence."""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any, cast

import pytest

from chaos.driver import ClientCommand
from chaos.errors import DeploymentError
from chaos.ops import QueueRef, message_id
from chaos.workload import Load, body_hash
from workloads import _client_program
from workloads._client_program import ClientProgram

pytestmark = pytest.mark.process


#: A program that did not say all by then never will.
MOST_S = 60.0


class FakeLoad:
    """``rows``: the load is over once so many are recorded, however long the program takes for that."""

    queues = (QueueRef(index=0, topic="t", queue_id=0),)
    brokers = ()

    def __init__(self, rows: int = 1_000) -> None:
        self.shared: dict[str, dict[int, int]] = {"acked": {}, "seen": {}, "sequence": {}}
        self.rows: list[dict[str, Any]] = []
        self._enough = rows
        self._end_s = time.monotonic() + MOST_S

    @property
    def stopping(self) -> bool:
        return len(self.rows) >= self._enough or time.monotonic() > self._end_s

    def record(self, kind: str, **columns: Any) -> int:
        self.rows.append({"kind": kind, **columns})
        return len(self.rows) - 1

    async def look_for_bypass(self, client: str, pid: int) -> None: ...

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def rng(self, name: str) -> Random:
        return Random(name)


def run(script: str, load: FakeLoad | None = None) -> FakeLoad:
    load = load or FakeLoad()
    program = ClientProgram(cast(Load, load), "c", ClientCommand(argv=["sh", "-c", script]))
    asyncio.run(program.run())
    return load


SEND = '{"id": 1, "type": "invoke", "f": "send"}'
PULL = '{"id": 2, "type": "invoke", "f": "pull", "offset": 7, "process": "p"}'


def test_lines_become_rows_in_the_order_in_which_things_happened() -> None:
    read = '{"id": 2, "type": "ok", "maximum": 9, "messages": [{"offset": 7, "key": "%032X", "body": "0:c"}]}'
    script = f"""
        echo '{SEND}'; read go; echo "$go" >&2; echo '{{"id": 1, "type": "ok", "offset": 7}}'
        echo '{PULL}'; read go; echo '{read % message_id(0, 0)}'
        echo '{{"id": 3, "type": "invoke", "f": "send"}}'; read go
        echo '{{"id": 3, "type": "fail", "reason": "refused"}}'
        echo '{{"id": 4, "type": "invoke", "f": "commit", "group": "g", "offset": 8}}'; read go; cat
    """
    load = run(script, FakeLoad(8))
    shown = [(row["f"], str(row["type"]), row["process"], row["offset"]) for row in load.rows]
    assert shown == [
        ("send", "invoke", "c-0.0", -1),
        ("send", "ok", "c-0.0", 7),
        ("pull", "invoke", "c-p.0", 7),
        ("pull", "ok", "c-p.0", -1),
        ("delivered", "ok", "c-p.0", 7),
        ("send", "invoke", "c-0.0", -1),
        ("send", "fail", "c-0.0", -1),
        ("commit", "invoke", "c-0.0", 8),
        ("commit", "info", "c-0.0", -1),  # nobody knows what became of it
    ]
    assert load.rows[0]["hash"] == load.rows[4]["hash"] == body_hash(b"0:c") and load.rows[4]["message"] == 0
    assert load.shared["acked"] == {0: 7} and load.shared["seen"] == {0: 7}


@pytest.mark.parametrize(("f", "more"), [("ack", {}), ("receive_again", {"hash": body_hash(b"0:c")})])
def test_an_acknowledgement_is_of_a_message_and_so_is_what_comes_again(f: str, more: dict[str, int]) -> None:
    begin = f'{{"id": 1, "type": "invoke", "f": "{f}", "group": "g", "base64": "MDpj", "key": "%032X"}}'
    load = run(f'echo \'{begin % message_id(0, 5)}\'; read go; echo \'{{"id": 1, "type": "ok"}}\'; cat', FakeLoad(2))
    assert [(row["f"], str(row["type"]), row["message"]) for row in load.rows] == [
        (f, "invoke", message_id(0, 5)),
        (f, "ok", message_id(0, 5)),
    ]
    assert load.rows[1]["value"] == {"group": "g"} and load.rows[1]["hash"] == more.get("hash", -1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("hello", "line 1 is not JSON: 'hello'"),
        ("[1]", "line 1 is not a JSON object"),
        ('{"id": 1, "type": "done"}', "has a type that is none of invoke, ok, fail and info"),
        ('{"id": 1, "type": "ok", "offset": 3}', "completes operation 1, which is not under way"),
        ('{"id": 1, "type": "invoke", "f": "delete"}', "asks for 'delete', which is none of send, delay"),
        ('{"id": 1, "type": "invoke", "f": "pull"}', "needs 'offset', a whole number"),
        ('{"id": 1, "type": "invoke", "f": "delay"}', "needs 'delay_ms', a whole number"),
        ('{"id": 1, "type": "invoke", "f": "receive", "group": "g"}', "needs 'in_order', a whole number"),
        ('{"id": 1, "type": "invoke", "f": "ack", "group": "g"}', "needs 'key', a text"),
        ('{"id": 1, "type": "invoke", "f": "receive_again", "group": "g", "key": "0"}', "needs 'body', a text"),
        ('{"id": 1, "type": "invoke", "f": "transact", "decision": "wait"}', "decides 'wait', which is none of commit"),
        (
            f'{PULL}\n{{"id": 2, "type": "ok", "messages": [{{"offset": 7, "base64": "%"}}]}}',
            "needs 'base64', bytes in",
        ),
        (f'{SEND}\n{{"id": 1, "type": "ok", "offset": 1, "message_id": 5}}', "line 2 needs 'message_id', a text"),
        ('{"id": true, "type": "invoke", "f": "send"}', "needs 'id', a whole number"),
        ('{"id": 1, "type": "invoke", "f": "send", "queue": 1}', "names queue 1, of 1"),
        (
            '{"id": 1, "type": "invoke", "f": "send", "time_ns": 9000000000000000000}',
            "says that it is 9000000000000000000",
        ),
        (f"{SEND}\n{SEND.replace('1', '2', 1)}", "line 2 begins an operation of process '0', which has one under way"),
        (f'{SEND}\n{{"id": 1, "type": "ok"}}', "line 2 needs 'offset', a whole number"),
        (
            f'{SEND[:-1]}, "time_ns": 1000}}\n{{"id": 1, "type": "ok", "offset": 1, "time_ns": 999}}',
            "line 2 says that it is 999 ns, not from 1000 (the line before)",
        ),
    ],
)
def test_a_line_that_is_no_operation(line: str, said: str) -> None:
    with pytest.raises(DeploymentError) as caught:
        run(f"cat <<'END'\n{line}\nEND\nsleep 60")
    assert str(caught.value).startswith("client c (sh -c ") and said in str(caught.value)


def test_what_a_program_had_begun_when_it_went_wrong_is_of_unknown_outcome() -> None:
    load = FakeLoad()
    with pytest.raises(DeploymentError, match=r"line 2 is not JSON: .*half a l"):
        run(f"echo '{SEND}'; read go; printf 'half a l'", load)
    assert [str(row["type"]) for row in load.rows] == ["invoke", "info"]


@pytest.mark.parametrize(
    ("does", "type", "reason"),
    [
        ('echo \'{"id": 1, "type": "ok", "offset": 7}\'', "info", "the load is over"),
        ('echo \'{"id": 1, "type": "fail", "reason": "no word"}\'', "fail", "no word"),
        ("exit 0", "fail", "the load is over"),
        ("exec sleep 60", "fail", "the load is over"),
    ],
)
def test_what_got_no_word_to_begin_is_believed_to_be_undone_but_not_to_be_done(
    does: str, type: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_client_program, "END_S", 1.0)
    load = run(f"read go; echo '{SEND}'; {does}", FakeLoad(0))
    assert [(row["f"], str(row["type"])) for row in load.rows] == [("send", "invoke"), ("send", type)]
    assert load.rows[1]["value"]["reason"] == reason and load.shared["acked"] == {}


def test_what_comes_later_and_what_groups_are_given() -> None:
    later = '{"id": 1, "type": "invoke", "f": "delay", "delay_ms": 5, "via": "level"}'
    held = '{"id": 2, "type": "invoke", "f": "transact", "decision": "rollback", "process": "t"}'
    given = '{"id": 3, "type": "invoke", "f": "receive", "group": "g", "in_order": 1, "process": "r"}'
    messages = '{"id": 3, "type": "ok", "messages": [{"offset": 4, "key": "%032X", "base64": "MDpj"}]}'
    load = run(
        f"""
        echo '{later}'; read go; echo '{{"id": 1, "type": "ok", "message_id": "AC11"}}'
        echo '{held}'; read go; echo '{{"id": 2, "type": "fail", "reason": "busy"}}'
        echo '{given}'; read go; echo '{messages % message_id(0, 0)}'; cat
        """,
        FakeLoad(7),
    )
    shown = [(row["f"], str(row["type"]), row["process"], row["message"]) for row in load.rows]
    assert shown == [
        ("delay", "invoke", "c-0.0", 0),
        ("delay", "ok", "c-0.0", 0),
        ("transact", "invoke", "c-t.0", 1),
        ("transact", "fail", "c-t.0", 1),
        ("receive", "invoke", "c-r.0", -1),
        ("receive", "ok", "c-r.0", -1),
        ("delivered", "ok", "c-r.0", 0),
    ]
    assert load.rows[1]["value"] == {"delay_ms": 5, "via": "level", "message_id": "AC11"}
    assert load.rows[2]["value"] == {"decision": "rollback"}
    assert load.rows[5]["value"] == {"group": "g", "in_order": 1}
    assert load.rows[6]["hash"] == load.rows[0]["hash"] == body_hash(b"0:c")
    assert load.shared["acked"] == {} and load.shared["seen"] == {0: 4}


def test_one_that_ends_by_itself_or_is_not_there() -> None:
    with pytest.raises(DeploymentError, match=r"(?s)it ended by itself \(exit code 3\) .*no server"):
        run("echo no server >&2; exit 3")
    program = ClientProgram(cast(Load, FakeLoad()), "c", ClientCommand(argv=["no-such-client"]))
    with pytest.raises(DeploymentError, match=r"client c .*it can't be started: .*No such file"):
        asyncio.run(program.run())
