"""How an experiment writes what it waives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import Strict

from chaos import plugins
from chaos.experiment.forms import LARGEST, Form, OneOf, Within, Written
from chaos.plugins import PluginKind
from chaos.waiver import NEVER, PHASES, Waiver


def violation_names() -> tuple[str, ...]:
    """Return the names of all violations that laws find; a plug-in that is broken has none."""
    found: set[str] = set()
    for plugin in plugins.names(PluginKind.LAW):
        try:
            made = plugins.build(PluginKind.LAW, plugin)
            for law in made if isinstance(made, Sequence) else [made]:
                found |= {str(kind.name) for kind in law.promise.anomalies if not kind.lawful}
        except Exception:  # a foreign file may raise anything at all
            continue
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverForm(Form):
    """Violations of one kind that do not make a run INVALID, for a ``reason``: at ``most`` so many, or those in one
    ``phase``."""

    anomaly: Annotated[str, OneOf("violation", violation_names)]
    reason: str
    most: Annotated[int, Strict(), Within(range(1, LARGEST))] | None = None
    phase: Annotated[str, OneOf("phase", lambda: PHASES)] | None = None

    @classmethod
    def described(cls, schema: dict[str, Any]) -> None:
        super(WaiverForm, cls).described(schema)
        names = schema["properties"]["anomaly"]["enum"]
        schema["properties"]["anomaly"]["enum"] = [name for name in names if name not in NEVER]
        schema["oneOf"] = [{"required": ["most"]}, {"required": ["phase"]}]


def waiver(form: WaiverForm) -> Waiver:
    """Return what is waived. Raises ``ValueError`` for what can't be."""
    return Waiver(**{name: value for name, value in asdict(form).items() if value is not None})


def each_once(waivers: Sequence[Waiver]) -> Sequence[Waiver]:
    """Raise ``ValueError`` for a kind that is waived twice."""
    names = [one.anomaly for one in waivers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"`{twice[0]}` is waived twice; one bound holds for all of a kind")
    return waivers


#: A waiver, as a field of the grammar.
Waive = Annotated[Waiver, Written(WaiverForm, waiver)]
