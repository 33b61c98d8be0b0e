"""How the classes of the grammar are read: a mapping becomes a dataclass, and every mistake in it is reported at once.

pydantic does the reading; here stand what it lacks (the nearest known key, plain words) and what several forms share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import CoreSchema, ErrorDetails, InitErrorDetails, PydanticCustomError, core_schema

from chaos.errors import BadInput, ChaosError, meant
from chaos.experiment.source import Place, Source
from chaos.plugins import nearest

T = TypeVar("T")

#: A mistake: where, counted from the value at hand, and what.
Mistake = tuple[Place, str]
#: No number is larger than what a double holds exactly.
LARGEST = 2**53
#: Nobody reads more mistakes of one file, nor longer ones.
MOST_PROBLEMS = 100
LONGEST_PROBLEM = 2000
#: The type of our own errors among pydantic's.
MISTAKE = "mistake"
#: pydantic's errors in plain words; what came is added.
WORDS = {
    "dataclass_type": "expected keys and values",
    "dict_type": "expected keys and values",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "string_type": "expected a text",
    "int_type": "expected an integer",
    "float_type": "expected a number",
    "bool_type": "expected true or false",
}


class Form:
    """The base of a dataclass that is written as a mapping: its keys are its fields (or their aliases), no others."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    @classmethod
    def arranged(cls, given: Any) -> Any:
        """Return the mapping as the fields expect it, for a form that is written in a way of its own."""
        return given

    @classmethod
    def problems(cls, given: dict[str, Any]) -> list[Mistake]:
        """Return what is wrong with the arranged mapping as a whole."""
        return []

    @classmethod
    def described(cls, schema: dict[str, Any]) -> None:
        """Complete the JSON Schema that pydantic has made of the fields."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        inner: Any = {**handler(source)}
        ref = inner.pop("ref", None)  # what other places of the class refer to is the whole, not the inner part
        keys = [field.get("validation_alias", field["name"]) for field in inner["schema"]["fields"]]
        return core_schema.no_info_wrap_validator_function(partial(cls._read, keys), inner, ref=ref)

    @classmethod
    def _read(cls, keys: list[str], given: Any, inner: core_schema.ValidatorFunctionWrapHandler) -> Any:
        given = cls.arranged({} if given is None else given)
        found = cls.problems(given) if isinstance(given, dict) else []
        try:
            made = inner(given)
        except ValidationError as error:
            found += in_words(error, keys)
        if found:
            raise mistakes(found)
        return made

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        made = handler(schema)
        described = handler.resolve_ref_schema(made)
        for field in described["properties"].values():
            if not field.get("default"):  # nothing; and no duration is written as 0.0
                field.pop("default", None)
        cls.described(described)
        return made


def _filled(given: Any) -> Any:
    if not given and isinstance(given, list | None):
        raise ValueError(f"expected a list with at least one entry, got {given or 'nothing'}")
    return given


#: Lists; where nothing is written, an empty one. And those that can't be empty.
Listed = Annotated[tuple[T, ...], BeforeValidator(lambda given: [] if given is None else given)]
Filled = Annotated[tuple[T, ...], BeforeValidator(_filled), Field(json_schema_extra={"minItems": 1})]


@dataclass(frozen=True)
class Written:
    """A value is written in the file as ``form``, and ``kept`` makes of that what the program uses."""

    form: Any
    kept: Callable[[Any], Any] = lambda value: value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.kept, handler.generate_schema(self.form))


@dataclass(frozen=True)
class OneOf:
    """A word out of a set that is known only when it is asked for."""

    what: str
    known: Callable[[], Iterable[str]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": sorted(self.known())}

    def _check(self, word: str) -> str:
        if word not in (known := tuple(self.known())):
            raise ValueError(f"unknown {self.what} {word!r}; {nearest(word, known)}")
        return word


@dataclass(frozen=True)
class Within:
    """A number out of a range."""

    allowed: range

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        if self.allowed.step != 1:
            return {"enum": list(self.allowed)}
        return {**handler(schema), "minimum": self.allowed[0], "maximum": self.allowed[-1]}

    def _check(self, value: Any) -> Any:
        if value not in self.allowed:
            raise ValueError(f"expected {self.words}, got {value!r}")
        return value

    @property
    def words(self) -> str:
        """``1 to 9``, or ``one of 1, 3, 5``."""
        if self.allowed.step == 1:
            return f"{self.allowed[0]} to {self.allowed[-1]}"
        return f"one of {', '.join(map(str, self.allowed))}"


def mistakes(found: Iterable[Mistake]) -> ValidationError:
    """Return what a validator raises that has found several things, at several places."""
    lines = [
        InitErrorDetails(type=PydanticCustomError(MISTAKE, "{text}", {"text": text}), loc=place, input=None)
        for place, text in found
    ]
    return ValidationError.from_exception_data(MISTAKE, lines)


def in_words(error: ValidationError, known: Iterable[str] = ()) -> list[Mistake]:
    """Return Pydantic's errors in plain words. ``known``: the keys of the mapping at hand, for hints."""
    names = tuple(known)
    found = error.errors(include_url=False)
    reworded = [_in_words(one, names) for one in found[:MOST_PROBLEMS]]
    return reworded + [_without_hint(one) for one in found[MOST_PROBLEMS:]]


def _without_hint(error: ErrorDetails) -> Mistake:
    """One of very many mistakes: to look for the key that each of them was to be would take minutes."""
    unknown = error["type"] == "unexpected_keyword_argument"
    return error["loc"], f"unknown key {error['loc'][-1]!r}" if unknown else error["msg"]


def _in_words(error: ErrorDetails, known: Iterable[str]) -> Mistake:
    place = error["loc"]
    match error["type"]:
        case "mistake":
            return place, error["msg"]
        case "value_error":
            return place, str(error["ctx"]["error"])
        case "missing":
            return place[:-1], f"{place[-1]!r} is missing"
        case "unexpected_keyword_argument":
            return place, f"unknown key {place[-1]!r}; {nearest(str(place[-1]), known) or 'it takes none'}"
        case kind:
            words = WORDS.get(kind) or error["msg"].replace("Input should be", "expected").replace("a valid ", "a ")
            choices = re.findall(r"'([^']+)'", words) if kind in ("enum", "literal_error") else []
            hint = meant(str(error["input"]), choices)
            return place, f"{words}, got {error['input']!r}" + (f"; {hint}" if hint else "")


@contextmanager
def at(*place: str | int, known: Iterable[str] = ()) -> Iterator[None]:
    """Errors that come up in here are mistakes at this place; ``known`` as in :func:`in_words`."""
    try:
        yield
    except ValidationError as error:
        raise mistakes(((*place, *inner), text) for inner, text in in_words(error, known)) from error
    except (ValueError, ChaosError) as error:
        raise mistakes([(place, str(error))]) from error


def validated(
    form: type[T],
    source: Source,
    context: Any = None,
    beside: Sequence[str] = (),
    elsewhere: Sequence[Mistake] = (),
) -> T:
    """Read a document as this form. Raises :class:`BadInput` with all its problems, in the order of its lines, after
    those that are ``beside`` the file. Both lists may grow meanwhile; ``elsewhere`` are mistakes of the document that
    show only when another part of it is read."""
    try:
        made: T = _adapter(form).validate_python(source.root, context=context)  # type: ignore[arg-type]
    except ValidationError as error:
        source.problems += [_problem(source, *mistake) for mistake in in_words(error)]
    source.problems += [_problem(source, *mistake) for mistake in elsewhere]
    ordered = sorted(dict.fromkeys(source.problems), key=lambda problem: problem[0])
    if problems := [*beside, *(f"{source.path}:{line}: {_short(text)}" for line, text in ordered[:MOST_PROBLEMS])]:
        more = len(ordered) - MOST_PROBLEMS
        raise BadInput(*problems, *([f"{source.path}: and {more} more mistakes"] if more > 0 else []))
    return made


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_PROBLEM else f"{text[:LONGEST_PROBLEM]} …"


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def _problem(source: Source, place: Place, text: str) -> tuple[int, str]:
    """Return a mistake with its line, after the keys that lead to it; a key that the text names isn't said twice."""
    line, words = source.locate(place)
    if words and repr(words[-1]) in text:
        words.pop()
    return line, ": ".join([*words, text])
