"""The names of all laws and anomalies that are registered: ``A.LOST``, ``L.DURABILITY``."""

from __future__ import annotations

from types import SimpleNamespace

from chaos.judging.registry import registry


def _spelt(names: list[str]) -> SimpleNamespace:
    return SimpleNamespace(**{name.upper().replace("-", "_"): name for name in names})


LAWS = tuple(promise.name for promise in registry().promises)
ANOMALIES = tuple(sorted({kind.name for promise in registry().promises for kind in promise.anomalies}))
L = _spelt([*LAWS])
A = _spelt([*ANOMALIES])
