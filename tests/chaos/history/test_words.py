"""Whose object a row is about does not depend on how its value is written."""

from __future__ import annotations

import json
from random import Random

import pyarrow as pa

from chaos.history.parted.choosing import Chooser
from chaos.history.parted.words import named

TEXTS = (
    '{"object":"a"}',
    '{ "object" : "a" , "n": 1}',
    '{"n":{"object":"b"},"object":"a"}',
    '{"object":"b","object":"a"}',
    r'{"\u006fbject":"a"}',
    r'{"object":"\u0061"}',
    r'{"to":"\"object\":\"b\"","object":"a"}',
    '{"to":"object","object":"a"}',
)
OTHERS = (
    ("", None),
    (None, None),
    ("{}", None),
    ('{"n":1}', None),
    ("[1]", None),
    ("no JSON", None),
    ('{"object"', None),
    ('{"to":"object"}', None),
    ('{"object":null}', None),
    ('{"object":5}', "5"),
    ('{"object":["a"]}', '["a"]'),
    (r'{"object":"a\"b"}', 'a"b'),
    (r'{"object":"\ud800"}', "\ud800"),
    ('{"object":""}', ""),
)


def test_what_is_named_is_what_a_parser_finds() -> None:
    rows = [*((text, "a") for text in TEXTS), *OTHERS]
    for seed in range(5):
        some = Random(seed).sample(rows, len(rows))
        table = pa.table({"value": pa.array([text for text, _ in some], pa.string())})
        codes, words = named(table, "object")
        assert [None if code < 0 else words[code] for code in codes.tolist()] == [word for _, word in some]


def test_rows_of_one_object_have_one_key() -> None:
    keys = Chooser(pa.table({"value": [*TEXTS, *(text for text, _ in OTHERS)]})).keys("object")
    assert len({*keys[: len(TEXTS)].tolist()}) == 1
    assert [json.loads(text)["object"] for text in TEXTS] == ["a"] * len(TEXTS)


def test_of_no_rows_none_is_named() -> None:
    codes, words = named(pa.table({"value": pa.array([], pa.string())}), "object")
    assert not len(codes) and not words
