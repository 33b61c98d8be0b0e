"""Tries what this machine can do, in a process of its own: what it enters, such as namespaces, ends with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from chaos.errors import MachineError

#: In what a module prints: why it can't be done here.
PROBLEM = "problem"
TRIAL_S = 60.0


@cache
def tried(module: str) -> Mapping[str, Any]:
    """Return what a module finds out, which prints it as JSON when it is run; an answer holds for as long as we live.
    Raises :class:`MachineError` with the problem that it names, or when it can't be run."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
    command = [sys.executable, "-P", "-m", module]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRIAL_S, check=False, env=environment)
        found: Mapping[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise MachineError(f"it can't be tried what this machine can do ({module}): {error}") from error
    if PROBLEM in found:
        raise MachineError(str(found[PROBLEM]))
    return found
