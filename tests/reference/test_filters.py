"""Which messages a subscription selects."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.broker.filters import MAX_CHARACTERS, MAX_DEPTH, SQL92, TAG, BadSubscription, read_filter
from reference.broker.pulls import Selection
from reference.broker.records import encode

MESSAGE = {"TAGS": "TagA", "n": "5", "f": "-2.5", "t": "it's", "yes": "TRUE", "empty": ""}


def raw(properties: Mapping[str, str]) -> bytes:
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()


def selects(kind: str, subscription: str, properties: Mapping[str, str] = MESSAGE) -> bool:
    found = read_filter(kind, subscription)
    return found is None or found(raw(properties))


@pytest.mark.parametrize(
    ("tags", "selected"),
    [
        ("", True),
        ("*", True),
        ("TagA", True),
        (" TagB || TagA ", True),
        ("TagA||", True),
        ("TagB", False),
        ("Tag", False),
        ("TagA || TagAA", True),
        ("taga", False),
        ("TagB||*", False),
    ],
)
def test_tags_select_a_message_that_has_one_of_them(tags: str, selected: bool) -> None:
    assert selects(TAG, tags) is selected
    assert selects("", tags) is selected


def test_a_message_without_a_tag_has_none_of_them() -> None:
    assert not selects(TAG, "TagA", {"KEYS": "TagA"})
    assert not selects(TAG, "TagA", {})


@pytest.mark.parametrize(
    "condition",
    [
        "n = 5",
        "n = 5.0",
        "5 = n",
        "n <> 6",
        "n > 4.9",
        "n >= 5",
        "n < 5e1",
        "n <= 5",
        "f = -2.5",
        "f < -2",
        "n > f",
        "t = 'it''s'",
        "t <> 'its'",
        "TAGS IN ('TagB', 'TagA')",
        "TAGS NOT IN ('TagB')",
        "n BETWEEN 5 AND 5",
        "n NOT BETWEEN 6 AND 7",
        "none IS NULL",
        "n is not null",
        "TRUE",
        "not FALSE",
        "yes = TRUE",
        "yes <> FALSE",
        "NOT (none IS NOT NULL)",
        "n = 6 OR TRUE AND n = 5",
        "NOT n = 6 AND n = 5",
        "(n = 6 OR TRUE) AND n = 5",
        "none = 1 OR n = 5",
        "empty = ''",
        "NOT NOT n = 5",
        "n between f and 6",
        "t=t",
    ],
)
def test_a_condition_that_is_true_selects(condition: str) -> None:
    assert selects(SQL92, condition)


@pytest.mark.parametrize(
    "condition",
    [
        "n = 6",
        "n <> 5",
        "n > 5",
        "n = '6'",
        "t > 1",
        "t = 1",
        "t <> 1",
        "none = 1",
        "none <> 1",
        "NOT none = 1",
        "none = 1 AND TRUE",
        "none IN ('a')",
        "none NOT IN ('a')",
        "none BETWEEN 1 AND 2",
        "none NOT BETWEEN 1 AND 2",
        "FALSE",
        "empty IS NULL",
        "n IS NULL",
        "n = 6 AND TRUE OR FALSE",
        "yes = FALSE",
        "t = TRUE",
        "1 = TRUE",
        "NOT (none = 1 OR FALSE)",
        "N = 5",
        "none = none",
    ],
)
def test_what_is_false_or_unknown_does_not_select(condition: str) -> None:
    assert not selects(SQL92, condition)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("", "end: expected is a property"),
        ("n", "end: expected is =, <>"),
        ("n > 'x'", "character 5 of the condition, \"'x'\": "),
        ("n BETWEEN 'a' AND 'b'", "character 11 of the condition"),
        ("'x' < 3", "character 1 of the condition, \"'x' < 3\": texts are compared by = and <> alone"),
        ("n LIKE 'a%'", "character 3 of the condition, \"LIKE 'a%'\": "),
        ("n = 5 n", "character 7 of the condition, 'n': expected is AND, OR or the end"),
        ("(n = 5", "end: expected is )"),
        ("n IN (5)", "character 7 of the condition, '5)': expected is a text"),
        ("n = 'open", "character 5 of the condition, \"'open\": this can't be understood"),
        ("n = 5x", "character 5 of the condition, '5x'"),
        ("n = " + "1" * 65, "a number has at most 64 characters"),
        ("n NOT = 5", "expected is BETWEEN or IN"),
        ("n IS 5", "character 6 of the condition, '5': expected is NULL"),
        ("; DROP TABLE t", "character 1 of the condition"),
        ("(" * (MAX_DEPTH + 1) + "TRUE" + ")" * (MAX_DEPTH + 1), f"it is nested deeper than {MAX_DEPTH} levels"),
        ("n = 5" + " " * MAX_CHARACTERS, f"at most {MAX_CHARACTERS} characters"),
    ],
)
def test_what_can_not_be_parsed_is_refused_with_its_place(condition: str, words: str) -> None:
    with pytest.raises(BadSubscription) as refusal:
        read_filter(SQL92, condition)
    assert words in str(refusal.value)


@pytest.mark.parametrize(("kind", "subscription"), [(TAG, "||"), (TAG, "  "), ("XPATH", "*"), (TAG, "t" * 2049)])
def test_other_subscriptions_are_refused(kind: str, subscription: str) -> None:
    with pytest.raises(BadSubscription):
        read_filter(kind, subscription)


def test_the_deepest_condition_is_read() -> None:
    assert selects(SQL92, "(" * MAX_DEPTH + "TRUE" + ")" * MAX_DEPTH)
    assert selects(SQL92, "NOT " * 200 + "TRUE")


NUMBERS, TEXTS = ("n", "m", "f"), ("t", "u")
_number = st.sampled_from([*NUMBERS, "-1", "0", "2.5", "7"])
_text = st.sampled_from([*TEXTS, "''", "'a'", "'it''s'"])
_leaves = st.one_of(
    st.tuples(_number, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), _number).map(" ".join),
    st.tuples(_text, st.sampled_from(["=", "<>"]), _text).map(" ".join),
    st.tuples(_number, st.sampled_from(["", "NOT "]), _number, _number).map(
        "{0[0]} {0[1]}BETWEEN {0[2]} AND {0[3]}".format
    ),
    st.tuples(_text, st.sampled_from(["", "NOT "])).map("{0[0]} {0[1]}IN ('a', '')".format),
    st.tuples(st.sampled_from(NUMBERS + TEXTS), st.sampled_from(["", "NOT "])).map("{0[0]} IS {0[1]}NULL".format),
    st.sampled_from(["TRUE", "FALSE"]),
)
_conditions = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        inner.map("NOT ({})".format),
        inner.map("({})".format),
        st.lists(inner, min_size=2, max_size=3).map(" AND ".join),
        st.lists(inner, min_size=2, max_size=3).map(" OR ".join),
    ),
    max_leaves=6,
)
_values = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(NUMBERS, st.sampled_from(["-1", "0", "2.5", "7"]))
    | dict.fromkeys(TEXTS, st.sampled_from(["", "a", "it's"])),
)


@given(condition=_conditions, values=_values)
def test_conditions_mean_what_they_mean_in_sql(condition: str, values: dict[str, str]) -> None:
    with sqlite3.connect(":memory:") as database:
        row = [None if name not in values else float(values[name]) for name in NUMBERS]
        row += [values.get(name) for name in TEXTS]
        names = ", ".join(f"? AS {name}" for name in NUMBERS + TEXTS)
        (truth,) = database.execute(f"SELECT ({condition}) IS TRUE FROM (SELECT {names})", row).fetchone()
    assert selects(SQL92, condition, values) is bool(truth)


def test_a_selection_ends_where_its_limits_do() -> None:
    records = [
        encode(topic="t", queue_id=0, offset=at, position=at, body=b"b", properties=raw({"TAGS": "ab"[at % 2]}))
        for at in range(6)
    ]
    size, wanted = len(records[0]), read_filter(TAG, "b")
    assert wanted is not None
    assert Selection(wanted, 32, 1 << 20).of(records) == ([records[1], records[3], records[5]], 6)
    assert Selection(wanted, 2, 1 << 20).of(records) == ([records[1], records[3]], 5)
    assert Selection(wanted, 32, 2 * size).of(records) == ([records[1], records[3]], 5)
    assert Selection(wanted, 32, 1).of(records) == ([records[1]], 3)
    assert Selection(wanted, 32, 1).of(records[::2]) == ([], 3)
