"""The golden pages: protocols as a reader can follow them, each message and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from reference import mutants
from tests.reference import golden
from tests.reference.broker_scenario import BrokerScenario
from tests.reference.heartbeat_scenario import HeartbeatScenario
from tests.reference.raft_scenario import RaftScenario

#: What plays the pages whose nodes are controllers.
CONTROLLERS = {"raft": RaftScenario, "heartbeats": HeartbeatScenario}


def _name(page: Path) -> str:
    return page.stem


@pytest.fixture
def no_rewrite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(golden.REWRITE, raising=False)


@pytest.mark.parametrize("page", golden.pages("raft"), ids=_name)
def test_raft(page: Path) -> None:
    golden.check(page, RaftScenario)


@pytest.mark.parametrize("page", golden.pages("heartbeats"), ids=_name)
def test_heartbeats(page: Path) -> None:
    golden.check(page, HeartbeatScenario)


@pytest.mark.parametrize("page", golden.pages("replication"), ids=_name)
def test_replication(page: Path) -> None:
    golden.check(page, BrokerScenario)


@pytest.mark.parametrize("page", golden.pages("tier_takeover"), ids=_name)
def test_tier_takeover(page: Path) -> None:
    golden.check(page, BrokerScenario)


@pytest.mark.parametrize(
    ("folder", "name", "bug", "shown"),
    [
        ("raft", "read_index", "read-without-quorum", r"\+  read at a: answered after 2"),
        ("raft", "vote_once", "votes-twice", r"\+  c leads in term 1"),
        ("raft", "snapshot_to_lagging_follower", "promises-before-fsync", r"\+c → a  match 6"),
        ("raft", "follower_read", "follower-reads-unapplied", r"\+  read at c: answered after 1"),
        ("raft", "pipelined_appends", "append-skips-a-gap", r"\+b → a  match 3"),
        ("raft", "snapshot_keeps_the_tail", "snapshot-drops-the-tail", "prev_term is -1"),
        ("raft", "slow_proposal", "proposes-again", r"\+  proposal x at a: committed at 4"),
        ("raft", "earlier_terms_entry", "commits-earlier-term", r"\+  a applies 1:1=x"),
        ("heartbeats", "bundles", "stale-heartbeats", r"\+b → a  heartbeats: b0 0 ms ago, b1 0 ms ago"),
        ("replication", "slave_joins", "ack-before-replication", r"\+  b0 stored c at offset 2"),
        ("replication", "sync_state_set", "waits-for-dead-peer", "nothing was proposed"),
        ("replication", "sync_state_set", "confirm-ignores-disconnected", r"\+  b0 confirms up to 200"),
        ("replication", "truncation_on_rejoin", "no-truncation-on-rejoin", r"\+b0 .* 400:x end 600"),
        ("tier_takeover", "epoch_before_first_upload", "cut-back-on-takeover", r"\+b1 → store  .* T 0"),
        ("tier_takeover", "late_put_of_deposed_master", "no-fencing", "there is no such message"),
    ],
)
def test_a_page_shows_a_planted_bug(no_rewrite: None, folder: str, name: str, bug: str, shown: str) -> None:
    """It plays otherwise, or can't be played to its end."""

    def broken() -> golden.Scenario:
        if folder in CONTROLLERS:
            return CONTROLLERS[folder](**mutants.parts(bug, "controller"))
        return BrokerScenario(**mutants.parts(bug, "broker"))

    with pytest.raises((AssertionError, ValueError), match=shown):
        golden.check(golden.TESTDATA / folder / f"{name}.txt", broken)


# The harness


class Echo(golden.Scenario):
    def do_say(self, *words: str, times: str = "1") -> None:
        self.lines += [" ".join(words)] * int(times)

    def do_nothing(self) -> None: ...


TEXT = """# Two greetings.
say hello world
say "a b" times=2
----
hello world
a b
a b

# Nothing is said here.
nothing
----
"""


def test_a_page_plays_as_it_is_written(tmp_path: Path, no_rewrite: None) -> None:
    page = tmp_path / "page.txt"
    page.write_text(TEXT)
    golden.check(page, Echo)
    page.write_text(TEXT.replace("hello world\na b", "hello\na b"))
    with pytest.raises(AssertionError, match=r"-hello\n\+hello world"):
        golden.check(page, Echo)


def test_a_page_is_written_anew_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(golden.REWRITE, "1")
    page = tmp_path / "page.txt"
    page.write_text("\n".join(line for line in TEXT.splitlines() if line not in ("hello world", "a b")) + "\n")
    golden.check(page, Echo)
    assert page.read_text() == TEXT


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sing\n----\n", "expected one of nothing, say"),
        ("nothing loudly\n----\n", "too many positional arguments"),
        ("nothing why=not\n----\n", "unexpected keyword argument 'why'"),
        ("say x\n\nsay y\n----\n", "line 2: expected ---- below 'say x'"),
    ],
)
def test_a_wrong_page_says_what_is_wrong(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        golden.play(text, Echo())


def test_a_protocol_without_pages_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="holds no page"):
        golden.pages("nothing")
