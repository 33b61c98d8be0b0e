"""All laws that there are: ours, and those that other packages offer; one that is broken stops none of the others."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from chaos import plugins
from chaos.driver import CREATE, Evidence
from chaos.errors import BadInput
from chaos.history.columns import COLUMNS, Kind
from chaos.kernel import Kernel, Key, Needs, Reads
from chaos.law import AnomalyKind, Law, Promise
from chaos.law_declaration import kernel_of
from chaos.plugins import GROUP, PACKAGES, PluginKind
from chaos.workload import Use

#: Which kernel: the name of its plug-in, and its number in it. It means the same in every process.
KernelId = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Registry:
    """``kernels`` of all laws that can be used, and ``broken``: plug-in → why it can't. A broken plug-in's own law is
    reported under the plug-in's name, and is UNKNOWN."""

    kernels: Mapping[KernelId, Kernel]
    broken: Mapping[str, str]

    @property
    def promises(self) -> tuple[Promise, ...]:
        """One of each law, in the order in which verdicts list them."""
        found = {law.promise.name: law.promise for law in self.kernels.values()}
        return tuple(sorted(found.values(), key=lambda promise: (promise.place, promise.name)))

    def of(self, law: str) -> tuple[KernelId, ...]:
        """Return the kernels of one law."""
        return tuple(number for number, kernel in self.kernels.items() if kernel.promise.name == law)

    def evidence(self, law: str) -> list[tuple[str, ...]]:
        """Return the sets of evidence of which each lets a part of one law be judged. Operations are always there, and
        stand for themselves only."""
        sets = {tuple(sorted(map(str, self.kernels[number].needs.evidence))) for number in self.of(law)}
        return sorted({tuple(word for word in some if word != Evidence.OPERATIONS) or some for some in sets})


@cache
def registry() -> Registry:
    """Load all laws, once. Raises :class:`BadInput` when a folder of the user's stands in the place of ours."""
    kernels: dict[KernelId, Kernel] = {}
    broken: dict[str, str] = {}
    owners: dict[str, str] = {}
    for name, own in _in_order():
        try:
            made = _made(name, own)
            _check(made, owners)
        except (Exception, SystemExit) as error:  # a foreign file may raise anything at all
            place = name if own or not _is_ours(name) else f"{name} (of another package)"
            broken[place] = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
            continue
        owners.update({law.promise.name: name for law in made})
        kernels.update({(name, number): law for number, law in enumerate(made)})
    return Registry(kernels, broken)


def _in_order() -> Iterator[tuple[str, bool]]:
    """(plug-in, is it ours?): first all of ours, so that no other package can take one's name."""
    known = plugins.names(PluginKind.LAW)
    offered = importlib.metadata.entry_points(group=f"{GROUP}{PluginKind.LAW}s").names
    yield from ((name, True) for name in known if _is_ours(name))
    for name in known:
        if name in offered or not _is_ours(name):
            yield name, False


def _is_ours(name: str) -> bool:
    return importlib.util.find_spec(f"{PACKAGES[PluginKind.LAW]}.{name}") is not None


def _made(name: str, own: bool) -> Sequence[Kernel]:
    if own:
        module = importlib.import_module(f"{PACKAGES[PluginKind.LAW]}.{name}")
        found = getattr(module, CREATE)(plugins.options_class(module)())
    elif _is_ours(name):
        raise BadInput(f"law {name!r} of another package has the name of one of ours")
    else:
        found = plugins.build(PluginKind.LAW, name)
    made = tuple(found) if isinstance(found, Sequence) else (found,)
    return tuple(kernel_of(one) if isinstance(one, Law) else one if own else _refused(one) for one in made)


def _refused(law: object) -> Kernel:
    """Raise :class:`BadInput` for what another package offers and is no :class:`Law`; what it needed to be before has
    a sentence of its own."""
    what = f"{type(law).__name__} is not a chaos.law.Law"
    if hasattr(law, "needs"):
        what = f"{type(law).__name__} declares `needs`, as laws did before"
    raise BadInput(f"{what}: derive it from chaos.law.Law, and declare `key` and `reads` (docs/plugins/law.md)")


def _check(made: Sequence[Kernel], owners: Mapping[str, str]) -> None:
    """Check what a plug-in made. Raises :class:`BadInput` for what is no law, or takes the name of another one's."""
    if not made:
        raise BadInput("its create() made no law")
    promises: dict[str, Promise] = {}
    for law in made:
        promise = _typed(law, "promise", Promise)
        _check_needs(_typed(law, "needs", Needs))
        if not callable(getattr(law, "examine", None)) or not callable(getattr(law, "judge", None)):
            raise BadInput(f"{law!r} has no examine() and judge()")
        if not isinstance(promise.name, str) or not promise.name:
            raise BadInput(f"{law!r} has a promise without a name")
        if promise.name in owners:
            raise BadInput(f"the law {promise.name!r} is already that of {owners[promise.name]!r}")
        if promises.setdefault(promise.name, promise) != promise:
            raise BadInput(f"its kernels promise two things under the name {promise.name!r}")
        for joins in law.needs.joins:
            if joins not in {one.needs.part for one in made if one is not law}:
                raise BadInput(f"none of its other kernels judges {joins!r}, which one of them joins")
        names = [kind.name for kind in promise.anomalies if isinstance(kind, AnomalyKind)]
        if len(names) < len(promise.anomalies) or len(set(names)) < len(names) or not all(names):
            raise BadInput(f"the law {promise.name!r} must declare each of its anomalies once, as an AnomalyKind")


def _typed(law: object, name: str, kind: type) -> Any:
    found = getattr(law, name, None)
    if not isinstance(found, kind):
        raise BadInput(f"{law!r} has no {name} of the type {kind.__name__}")
    return found


def _check_needs(needs: Needs) -> None:
    """Check what a kernel needs. Raises ``ValueError`` or :class:`BadInput` for words that mean nothing: such rows
    would never be found."""
    Key(needs.key)
    for reads in needs.rows:
        if not isinstance(reads, Reads):
            raise BadInput(f"{reads!r} is no Reads")
        Kind(reads.kind)
    for evidence in needs.evidence:
        Evidence(evidence)
    for uses in needs.uses:
        Use(uses)
    if unknown := sorted(set(needs.columns) - set(COLUMNS)):
        raise BadInput(f"a history has no column {', '.join(unknown)}")
