"""The profile as an experiment writes it: what the system is set up to promise.

Each seed may draw any key of it, or all of it at once: ``profile: {one_of: [{}, {acks: master}]}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from chaos.driver import Driver, Profile, promising
from chaos.errors import BadInput
from chaos.experiment.options import Path, dotted, draw, draws, either, fill, form, or_drawn, picked

KEY = "profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """``said``: the file names a profile; else the driver's own holds. ``first`` is the profile with the first choice
    of each draw. ``given`` is what was written, under the key ``profile``, where some of it is drawn."""

    said: bool = False
    first: Profile = field(default_factory=Profile)
    given: Mapping[str, Any] = field(default_factory=dict)

    def of(self, driver: Driver) -> Profile:
        """Return what a system is to promise: the first choices of what the file says, or what its driver says of
        itself."""
        return self.first if self.said else driver.profile()

    def kept_by(self, driver: Driver) -> Iterator[Driver]:
        """Yield this driver, set up for the first choices, and for each other choice alone. Raises :class:`BadInput`
        when its system can't promise one of them."""
        if not self.said:
            yield driver
            return
        for profile in self.variations():
            yield promising(driver, profile)

    def variations(self) -> Iterator[Profile]:
        """Yield the profile with its first choices, and with each other choice alone."""
        yield self.first
        for path, choices in draws(self.given):
            for other in choices[1:]:
                yield _filled(self.given, {path: other})

    def drawn(self, seed: int) -> tuple[Profile, Mapping[str, Any]]:
        """Return the profile of this seed, and the values that it drew, by dotted path. Raises :class:`BadInput` when
        what was drawn doesn't go together."""
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
            return Promises(said=written is not None, first=fill(Profile, written))
        given = {KEY: written}
        drawn = any(draws(given))
        made = Promises(said=True, first=_filled(given, {}), given=given if drawn else {})
        for _ in made.variations():  # a choice that is none is a mistake here
            pass
        return made


def _filled(given: Mapping[str, Any], picks: Mapping[Path, Any]) -> Profile:
    made: Profile = fill(Profile, picked(given, picks)[KEY])
    return made
