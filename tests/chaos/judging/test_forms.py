"""Values that are parsed together are what they are one by one, however they were written."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from chaos.judging.forms import forms, parse

TEXTS = (
    '{"acks": {"a": 5, "b": -3}, "set": ["a", "b"], "epoch": 2}',
    '{"a":"NaN","b":5}',
    '{"a":NaN,"b":5}',
    '{"a":-Infinity,"b":5}',
    '{"a":"x\\":5,","b":6}',
    '{"a":":5,","b":6}',
    '{"a\\\\":7}',
    '[":5,",":6}"]',
    '{"a":[1,2],"b":-0}',
    "",
    '{"a":1.5,"b":2}',
    '{"a":123456789012345678901,"b":1}',
    '{"a":999999999999999999}',
    '{"a":1,"a":2}',
    '{"k":true,"z":null,"n":3}',
    "[1,2]",
    "3",
    '{"a":{"b":{"c":1},"d":[{"e":4}]}}',
    '{ "a" :\n 5 }',
    '{"é (.*)[$\\u0000":5}',
    '{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7}',
)


def of_row(value: Any, place: int) -> Any:
    if isinstance(value, np.ndarray):
        return int(value[place])
    if isinstance(value, dict):
        return {name: of_row(one, place) for name, one in value.items()}
    return [of_row(one, place) for one in value] if isinstance(value, list) else value


def varied(text: str, rng: Random) -> str:
    """With other whole numbers in some places, within texts too."""
    choose = lambda found: str(rng.choice((found[0], 0, rng.randrange(1, 10 ** rng.randrange(1, 19)))))  # noqa: E731
    return re.sub(r"(?<![\d.u])\d+(?![\d.])", choose, text)


def check(texts: list[str | None]) -> None:
    places = []
    for form in forms(pa.array(texts, pa.string())):
        places += form.at.tolist()
        assert form.at.tolist() == sorted(form.at.tolist())
        for number, at in enumerate(form.at.tolist()):
            assert repr(of_row(form.value, number)) == repr(parse(texts[at])), texts[at]
    assert sorted(places) == list(range(len(texts)))


@pytest.mark.parametrize("most", [7, 1 << 15])
@pytest.mark.parametrize("copies", [0, 1, 30])
def test_values_of_all_kinds_are_parsed_alike(copies: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.judging.forms.MOST_TEXTS", most)
    rng = Random(copies)
    texts: list[str | None] = [varied(text, rng) for text in TEXTS for _ in range(copies)]
    rng.shuffle(texts)
    check([*texts, None])


def test_values_that_differ_in_numbers_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [json.dumps({"position": n, "acks": {"a": -n, "b": 7}}) for n in range(1000)]
    whole, coded = pa.array(texts), pa.array(texts).dictionary_encode()
    monkeypatch.setattr("chaos.judging.forms.MOST_TEXTS", 300)
    for (form,) in forms(whole), forms(coded), forms(coded.take(pa.array(range(1000)))):
        assert form.value["position"].tolist() == list(range(1000))
        assert form.value["acks"]["a"].tolist() == [-n for n in range(1000)]


@pytest.mark.parametrize("bad", ['{"a":5', '{"a":007}', '{"a":5,}', "nonsense", '{"a":-}'])
def test_what_is_no_json_raises(bad: str) -> None:
    for texts in ([bad], [bad] * 30, ['{"a":5}'] * 30 + [bad]):
        with pytest.raises(ValueError, match=r"Expecting|delimiter|quote|Extra"):
            forms(pa.array(texts))
