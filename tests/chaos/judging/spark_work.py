"""What tests have the workers of a Spark session do: a worker imports it by its name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from chaos.judging import divided, engine, run, settling

#: The real ones, whatever a test has put in their place.
_IF_SMALL = run._if_small
_SETTLE = settling.settle


def dies_once(marker: str) -> str:
    """Kill this worker, unless it was done before."""
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return "lived"
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def if_small_and_no_poison(one: Any) -> Any:
    """Look at a small run; one that is called ``poison`` kills its worker, as want of memory would."""
    if one.run.name == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    return _IF_SMALL(one)


def examine_all_but_one(given: Any, bucket: int, blocks: Any) -> engine.Examined:
    """Examine a shard of a divided run; one of them kills its worker."""
    if given.shared.layout.name(bucket) == "run3-0":
        os.kill(os.getpid(), signal.SIGKILL)
    return divided.examine_bucket(given, bucket, blocks)


def _kill_the_executor_once(stage: str) -> None:
    """Kill the executor of this worker, unless that was done before in this stage of the run."""
    try:
        Path(os.environ["KILLED"], stage).touch(exist_ok=False)
    except FileExistsError:
        return
    fork_server = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(fork_server.rpartition(")")[2].split()[1]), signal.SIGKILL)
    time.sleep(60)


def survey(task: Any) -> Any:
    _kill_the_executor_once("survey")
    return divided.survey(task)


def divide(given: Any, piece: Any) -> Any:
    _kill_the_executor_once("divide")
    return divided.divide(given, piece)


def chosen(layout: Any, bucket: int, blocks: Any) -> Any:
    _kill_the_executor_once("chosen")
    return divided.chosen(layout, bucket, blocks)


def examine_bucket(given: Any, bucket: int, blocks: Any) -> Any:
    _kill_the_executor_once("examine_bucket")
    return divided.examine_bucket(given, bucket, blocks)


def settle_all_but_one(one: Any) -> Any:
    """Settle what a law has deferred; about one object it kills its worker."""
    if one.deferred.about == "poison (register)":
        os.kill(os.getpid(), signal.SIGKILL)
    return _SETTLE(one)
