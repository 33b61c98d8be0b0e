"""What Docker's engine refuses is told as what it is: a fault that must be tried again, or an error."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from docker.errors import APIError

from chaos.errors import DeploymentError
from chaos.fault import NotNow
from chaos.machines.docker.engine import CONFLICT, engine_errors, not_now


def refused(status: int, words: str) -> None:
    with engine_errors(), not_now("it is paused already"):
        raise APIError("refused", response=SimpleNamespace(status_code=status, url=""), explanation=words)


def test_another_state_is_a_reason_to_try_again() -> None:
    with pytest.raises(NotNow, match="it is paused already"):
        refused(CONFLICT, "Container c1 is already paused")


def test_processes_that_could_not_be_frozen_run_on_so_the_fault_is_tried_again() -> None:
    with pytest.raises(NotNow, match="could not be frozen"):
        refused(500, "Cannot pause container c1: OCI runtime pause failed: unable to freeze: unknown")


def test_everything_else_is_an_error_in_the_words_of_the_engine() -> None:
    with pytest.raises(DeploymentError, match="Docker's engine refused: no space left"):
        refused(500, "no space left on device")
