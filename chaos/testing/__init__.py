"""Checks that the authors of plug-ins call from pytest: one for each kind, in a file of its own.

``from chaos.testing import check_fault``. Each check raises ``AssertionError`` with all that it found wrong.
"""

from __future__ import annotations

import importlib
from typing import Any

#: Where each check lives; it is loaded when somebody asks for it, with what it needs.
_HOMES = {
    "check_deployment": "deployments",
    "check_driver": "drivers",
    "check_fault": "faults",
    "check_law": "laws",
    "check_workload": "workloads",
    "history_of": "laws",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
