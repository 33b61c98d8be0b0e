"""The names of all laws and anomalies that are registered: ``A.LOST``, ``L.DURABILITY``."""

from __future__ import annotations

from types import SimpleNamespace

from chaos.driver import Evidence
from chaos.judging.registry import registry


def _spelt(names: list[str]) -> SimpleNamespace:
    return SimpleNamespace(**{name.upper().replace("-", "_"): name for name in names})


LAWS = tuple(promise.name for promise in registry().promises)
ANOMALIES = tuple(sorted({kind.name for promise in registry().promises for kind in promise.anomalies}))


def _is_of_storage(law: str) -> bool:
    known = registry()
    return all(Evidence.GROUPS in known.kernels[number].needs.evidence for number in known.of(law))


#: Those of storage clusters, which are not judged of other systems.
OF_STORAGE = tuple(filter(_is_of_storage, LAWS))
L = _spelt([*LAWS])
A = _spelt([*ANOMALIES])
