"""How a master refuses a session: a slow one is not told as one that expects another secret."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.errors import MachineError
from chaos.judging import greeting, masters
from chaos.judging.masters import SECRET_FILE
from chaos.judging.spark import Session
from chaos.judging.standalone import Cluster

FAILED = "An error occurred while calling o23.setupEndpointRef.\n: org.apache.spark."


@pytest.mark.parametrize(
    ("text", "has_secret", "said"),
    [
        ("rpc.RpcTimeoutException: Future timed out after [30 seconds].", True, "did not answer"),
        (
            "SparkException: Exception thrown in awaitResult: \nCaused by: java.lang.RuntimeException: "
            "java.util.concurrent.TimeoutException: Timeout waiting for task.",
            True,
            "did not answer",
        ),
        ("SparkException: \nCaused by: java.io.IOException: Failed to connect to /127.0.0.1:1", True, "be reached"),
        ("rpc.RpcEndpointNotFoundException: Cannot find endpoint: spark://Master@h:1", True, "but no master"),
        ("SparkException: Message is dropped because Outbox is stopped", True, "does not take our secret"),
        ("SparkException: Expected SaslMessage, received something else", False, "expects a secret"),
        ("SparkException: odd", False, "can't be spoken with: org.apache.spark.SparkException: odd"),
    ],
)
def test_what_a_refusal_means(text: str, has_secret: bool, said: str) -> None:
    assert said in greeting._refusal(FAILED + text, has_secret=has_secret)


@pytest.fixture
def master() -> Iterator[Cluster]:
    with Cluster(workers=0) as started:
        yield started


def refusal(master: Cluster, secret: Path) -> str:
    with Session(masters.parse(master.url), conf={SECRET_FILE: str(secret)}) as session:
        with pytest.raises(MachineError) as caught:
            session.wait()
    return str(caught.value)


@pytest.mark.spark
@pytest.mark.full
def test_a_master_that_is_paused_is_not_said_to_refuse_our_secret(
    master: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong").write_text("wrong")
    assert "does not take our secret" in refusal(master, tmp_path / "wrong")
    monkeypatch.setattr(greeting, "TIMEOUT_S", 3)
    os.kill(master.pids[0], signal.SIGSTOP)
    try:
        assert "did not answer as a Spark master does within 3 s" in refusal(master, master.secret_file)
    finally:
        os.kill(master.pids[0], signal.SIGCONT)
