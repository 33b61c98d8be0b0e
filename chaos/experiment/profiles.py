"""The profile as an experiment writes it: what the system is set up to promise.

Each seed may draw any key of it, or all of it at once: ``profile: {one_of: [{}, {acks: master}]}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from chaos.driver import Profile
from chaos.errors import BadInput
from chaos.experiment.options import Path, dotted, draw, draws, either, fill, form, or_drawn, picked

KEY = "profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """``first`` is the profile with the first choice of each draw. ``given`` is what was written, under the key
    ``profile``, where some of it is drawn."""

    first: Profile = field(default_factory=Profile)
    given: Mapping[str, Any] = field(default_factory=dict)

    def variations(self) -> Iterator[Profile]:
        """The profile with its first choices, and with each other choice alone."""
        yield self.first
        for path, choices in draws(self.given):
            for other in choices[1:]:
                yield _filled(self.given, {path: other})

    def drawn(self, seed: int) -> tuple[Profile, Mapping[str, Any]]:
        """The profile of this seed, and the values that it drew, by dotted path. Raises :class:`BadInput` when what
        was drawn doesn't go together."""
        found = draw(self.given, seed, KEY)
        try:
            return _filled(self.given, found) if found else self.first, dotted(found)
        except ValueError as error:
            raise BadInput(f"seed {seed} draws {dotted(found)}, which do not go together: {error}") from error


@dataclass(frozen=True)
class Promised:
    """Reads :class:`Promises`, in the annotation of a field."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return either(or_drawn(handler.resolve_ref_schema(handler(form(Profile).core_schema))))

    def read(self, written: object) -> Promises:
        if not isinstance(written, dict):
            return Promises(first=fill(Profile, written))
        given = {KEY: written}
        drawn = any(draws(given))
        made = Promises(first=_filled(given, {}), given=given if drawn else {})
        for _ in made.variations():  # a choice that is none is a mistake here
            pass
        return made


def _filled(given: Mapping[str, Any], picks: Mapping[Path, Any]) -> Profile:
    made: Profile = fill(Profile, picked(given, picks)[KEY])
    return made
