"""Files become histories by the conventions of those who wrote them; what makes no sense is refused with its line."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest

from chaos.errors import BadInput
from checkers.linearizable.formats import edn as _edn
from checkers.linearizable.formats.files import guess, read
from checkers.linearizable.history import Function, History

READ, WRITE, CAS = Function.READ, Function.WRITE, Function.CAS


@pytest.fixture
def parse(tmp_path):
    def parsed(content: str | bytes, format: str = "", model: str = "", init=None, name: str = "file") -> History:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        (found,) = read(path, format, model, init)
        return found

    return parsed


def events(*rows: tuple, key: object = None) -> str:
    """JSON lines of one history from (process, type, f, value) rows."""
    ops = [dict(zip(("process", "type", "f", "value", "key"), row, strict=False)) for row in rows]
    return json.dumps({"id": "h", "ops": ops})


def brief(history: History) -> list[tuple]:
    return [(one.f, one.arguments, one.call, one.ret) for one in history.operations]


def calls(history: History) -> list[tuple]:
    return [(one.f, one.arguments, one.ret is not None) for one in history.operations]


# The conventions.


def test_positions_of_events_are_times(parse):
    found = parse(
        events((0, "invoke", "write", 1), (1, "invoke", "read", None), (1, "ok", "read", 1), (0, "ok", "write", 1)),
        model="register",
    )
    assert brief(found) == [(WRITE, ("1",), 0, 3), (READ, ("1",), 1, 2)]
    assert [one.process for one in found.operations] == ["0", "1"]


def test_a_failed_call_did_not_happen_and_a_crashed_one_may_have(parse):
    rows = [
        (0, "invoke", "write", 1), (0, "fail", "write", 1),
        (0, "invoke", "cas", [1, 2]), (0, "fail", "cas", [1, 2]),
        (0, "invoke", "write", 3), (0, "info", "write", "timed out"),
        (1, "invoke", "write", 4),
    ]  # fmt: skip
    assert brief(parse(events(*rows), model="cas-register")) == [(WRITE, ("3",), 4, None), (WRITE, ("4",), 6, None)]


def test_a_read_of_nobody_knows_what_is_left_out_and_counted(parse):
    rows = [
        (0, "invoke", "read", None), (0, "ok", "read", None),
        (0, "invoke", "read", 5), (0, "ok", "read"),
        (0, "invoke", "read", None), (0, "info", "read", None),
        (0, "invoke", "read", None),
    ]  # fmt: skip
    found = parse(events(*rows), model="register")
    assert found.operations == [] and found.left_out == 4


def test_a_process_that_crashed_may_go_on_but_never_do_two_calls_at_once(parse):
    rows = [(0, "invoke", "write", 1), (0, "info", "write", 1), (0, "invoke", "write", 2), (0, "ok", "write", 2)]
    assert brief(parse(events(*rows), model="register")) == [(WRITE, ("1",), 0, None), (WRITE, ("2",), 2, 3)]
    with pytest.raises(BadInput, match="op 1: process 0 invokes write before its write"):
        parse(events((0, "invoke", "write", 1), (0, "invoke", "write", 2)), model="register")


def test_the_nemesis_is_no_client(parse):
    rows = [
        ("nemesis", "info", "kill", "n1"),
        (0, "invoke", "write", 1),
        ("nemesis", "info", "kill", None),
        (0, "ok", "write", None),
    ]
    assert brief(parse(events(*rows), model="register")) == [(WRITE, ("1",), 1, 3)]


def test_equal_values_have_equal_texts_and_others_have_not(parse):
    values = [1, 1.0, True, "1", "true", None, {"b": 1, "a": [2]}, {"a": [2.0], "b": 1}, "ä", 1.5, [1], ["1"]]
    rows = [row for value in values for row in ((0, "invoke", "write", value), (0, "ok", "write", value))]
    texts = [one.arguments[0] for one in parse(events(*rows), model="register").operations]
    assert texts == [
        "1",
        "1",
        "true",
        '"1"',
        '"true"',
        "null",
        '{"a":[2],"b":1}',
        '{"a":[2],"b":1}',
        '"\\u00e4"',
        "1.5",
        "[1]",
        '["1"]',
    ]


MEANINGS = {
    "kv": [
        (("get", None), ("ok", "x"), (READ, ('"x"',), True)),
        (("put", "x"), ("ok", None), (WRITE, ('"x"',), True)),
        (("append", "y"), ("info", None), (Function.APPEND, ('"y"',), False)),
        (("delete", None), ("ok", None), (Function.DELETE, (), True)),
    ],
    "multi-register": [
        (
            ("txn", [["read", "x", None], ["w", "y", 2]]),
            ("ok", [["read", "x", 1], ["w", "y", 2]]),
            (Function.TXN, (0, '"x"', "1", 1, '"y"', "2"), True),
        ),
        (
            ("txn", [["r", "x", 5], ["write", 0, None]]),
            ("info", None),
            (Function.TXN, (0, '"x"', None, 1, "0", "null"), False),
        ),
        (("txn", [["read", "x", None]]), ("ok", [["read", "x", None]]), None),
        (("txn", [["read", "x", 1]]), ("info", None), None),
    ],
    "mutex": [
        (("acquire", None), ("ok", None), (Function.ACQUIRE, (), True)),
        (("unlock", 7), ("info", None), (Function.RELEASE, (), False)),
    ],
    "fenced-lock": [
        (("acquire", None), ("ok", 33), (Function.ACQUIRE, (0, 33), True)),
        (("acquire", None), ("ok", None), (Function.ACQUIRE, (0, None), True)),
        (("acquire", 5), ("info", None), (Function.ACQUIRE, (0, None), False)),
        (("release", 33), ("ok", None), (Function.RELEASE, (0, 33), True)),
        (("release", None), ("info", None), (Function.RELEASE, (0, None), False)),
    ],
    "set": [
        (("add", "a"), ("ok", "a"), (Function.ADD, ('"a"', None), True)),
        (("add", "a"), ("ok", True), (Function.ADD, ('"a"', 1), True)),
        (("remove", "a"), ("ok", ["a", False]), (Function.REMOVE, ('"a"', 0), True)),
        (("remove", "a"), ("info", True), (Function.REMOVE, ('"a"', None), False)),
        (("contains", "a"), ("ok", False), (Function.CONTAINS, ('"a"', 0), True)),
        (("contains", "a"), ("ok", ["a", True]), (Function.CONTAINS, ('"a"', 1), True)),
        (("contains", "a"), ("ok", None), None),
        (("read", None), ("ok", [3, "b", 10]), (READ, ('"b"', "10", "3"), True)),
        (("read", None), ("ok", None), None),
    ],
    "fifo-queue": [
        (("enqueue", 1), ("ok", 1), (Function.ENQUEUE, ("1",), True)),
        (("dequeue", None), ("ok", 1), (Function.DEQUEUE, ("1",), True)),
        (("dequeue", None), ("ok", None), (Function.DEQUEUE, ("null",), True)),
        (("dequeue", None), ("info", None), (Function.DEQUEUE, (None,), False)),
        (("dequeue", None), ("fail", None), None),
    ],
    "counter": [
        (("add", -3), ("ok", None), (Function.ADD, (-3,), True)),
        (("increment", None), ("ok", None), (Function.ADD, (1,), True)),
        (("decrement", 2), ("info", None), (Function.ADD, (-2,), False)),
        (("read", None), ("ok", -5), (READ, (-5,), True)),
    ],
    "replica-info": [
        (("read", None), ("ok", [3, ["b", "a"]]), (READ, (3, '"a"', '"b"'), True)),
        (("read", None), ("ok", {"epoch": 3, "members": []}), (READ, (3,), True)),
        (("cas", [3, 4, ["a"]]), ("ok", None), (CAS, (3, 4, '"a"'), True)),
        (("cas", {"expected": 3, "members": ["a"]}), ("info", None), (CAS, (3, None, '"a"'), False)),
        (("cas-failed", [3, 4, ["a"]]), ("ok", None), (Function.CAS_FAILED, (3, 4, '"a"'), True)),
        (("write", [9, []]), ("ok", None), (WRITE, (9,), True)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("model", MEANINGS)
def test_each_function_means_what_the_model_calls_it(parse, model):
    for (f, given), (type_, told), expected in MEANINGS[model]:
        found = calls(parse(events((4, "invoke", f, given), (4, type_, f, told)), model=model))
        assert found == ([] if expected is None else [expected]), (f, given, told)


INITS = [
    ("register", 3, ("3",)), ("cas-register", "x", ('"x"',)), ("kv", "", ('""',)), ("mutex", True, (1,)),
    ("mutex", False, ()), ("fenced-lock", [0, 7], (0, 7)), ("fenced-lock", [None, 7], (-1, 7)),
    ("set", ["b", "a"], ('"a"', '"b"')), ("fifo-queue", ["b", "a"], ('"b"', '"a"')), ("counter", -4, (-4,)),
    ("replica-info", [2, ["m"]], (2, '"m"')), ("multi-register", {"x": 0}, ('"x"', "0")),
    ("multi-register", [[5, 0]], ("5", "0")), ("register", None, ()),
]  # fmt: skip


@pytest.mark.parametrize(("model", "init", "expected"), INITS)
def test_the_first_state_is_the_files_or_else_the_callers(parse, model, init, expected):
    f, value = {"mutex": ("acquire", None), "fenced-lock": ("acquire", None), "fifo-queue": ("enqueue", 1)}.get(
        model, ("txn", [["write", "x", 1]]) if model == "multi-register" else ("read", None)
    )
    rows = [(0, "invoke", f, value)]
    assert parse(events(*rows), model=model, init=init).init == expected
    inside = json.dumps(
        {"id": 1, "model": model, "init": init, "ops": [{"process": 0, "type": "invoke", "f": f, "value": value}]}
    )
    assert parse(inside).init == expected


def test_keys_of_an_object_are_numbers_again_where_transactions_use_numbers(parse):
    found = parse(events((0, "invoke", "txn", [["w", 5, 1]])), model="multi-register", init={"5": 0})
    assert found.init == ("5", "0")


# JSON lines.


def test_each_line_is_a_history_with_its_own_model_and_id(tmp_path):
    path = tmp_path / "many.jsonl"
    lines = [
        {"id": "a", "model": "mutex", "ops": []},
        {"id": 7, "model": "kv", "ops": [{"process": "c", "type": "invoke", "f": "put", "value": "v", "key": "k"}]},
        {"ops": []},
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    first, second, third = read(path, model="register")
    assert (first.id, first.model, second.id, second.model) == ("a", "mutex", 7, "kv")
    assert (third.id, third.model) == (3, "register")
    (put,) = second.operations
    assert (put.key, put.process) == ('"k"', "c")


# Jepsen, Knossos.

KNOSSOS = """\
; two clients and a nemesis
[{:type :invoke, :f :write, :value 4, :process 0, :time 1, :index 0}
 {:type :info, :f :start, :process :nemesis, :value "cut off [n1]"}
 {:type :invoke, :f :cas, :value [4 2], :process 1}
 #_{:type :ok, :f :cas, :value [4 2], :process 9}
 {:type :ok, :f :write, :value 4, :process 0}
 {:type :fail, :f :cas, :value [4 2], :process 1, :error #error {:cause "no", :via [{:type java.io.IOException}]}}
 {:type :invoke, :f :read, :value nil, :process 1}
 {:type :ok, :f :read, :value 4, :process 1}]
"""


@pytest.mark.parametrize("shape", [("[", "]"), ("(", ")"), ("", "")])
def test_knossos_histories_in_a_vector_a_list_or_one_map_a_line(parse, shape):
    content = KNOSSOS.replace("[{", f"{shape[0]}{{", 1).replace(":process 1}]", f":process 1}}{shape[1]}")
    found = parse(content, model="cas-register")
    assert calls(found) == [(WRITE, ("4",), True), (READ, ("4",), True)]
    assert [one.rows for one in found.operations] == [(2, 6), (8, 9)]


def test_jepsens_records_and_its_own_text_form(parse):
    edn = "#jepsen.history.Op{:index 0, :time 1, :type :invoke, :process 0, :f :write, :value 1}\n" \
          "#jepsen.history.Op{:index 1, :time 2, :type :ok, :process 0, :f :write, :value 1}\n"  # fmt: skip
    lines = "0\t:invoke\t:write\t1\n:nemesis\t:info\t:start\tnil\n0\t:ok\t:write\t1\n"
    for content, format in ((edn, "jepsen"), (edn, ""), (lines, "jepsen"), (lines, "")):
        assert calls(parse(content, format, "register")) == [(WRITE, ("1",), True)]


def test_jepsens_log_knows_no_observation_of_a_failed_cas(parse):
    assert calls(parse(ETCD, "jepsen", "cas-register")) == [
        (WRITE, ("1",), False),
        (WRITE, ("3",), True),
        (READ, ("3",), True),
    ]


def test_independent_histories_have_keys_in_their_values(parse):
    content = """
    {:type :invoke, :f :write, :value ["a" 1], :process 0}
    {:type :invoke, :f :read, :value ["b" nil], :process 1}
    {:type :ok, :f :read, :value ["b" 2], :process 1}
    {:type :ok, :f :write, :value ["a" 1], :process 0}
    {:type :invoke, :f :cas, :value ["a" [1 2]], :process 0}
    {:type :info, :f :cas, :value ["a" [1 2]], :process 0, :error :timeout}
    """
    found = parse(content, "knossos", "cas-register")
    assert [one.key for one in found.operations] == ['"a"', '"b"', '"a"']
    assert calls(found) == [(WRITE, ("1",), True), (READ, ("2",), True), (CAS, ("1", "2"), False)]


def test_pairs_as_values_stay_values(parse):
    content = """[{:type :invoke, :f :write, :value [1 2], :process 0} {:type :ok, :f :write, :value [1 2], :process 0}
    {:type :invoke, :f :read, :value nil, :process 0} {:type :ok, :f :read, :value [1 2], :process 0}]"""
    found = parse(content, "knossos", "register")
    assert calls(found) == [(WRITE, ("[1,2]",), True), (READ, ("[1,2]",), True)]
    assert {one.key for one in found.operations} == {None}


def test_a_keyword_and_a_string_of_the_same_letters_are_not_taken_for_one(parse):
    content = """[{:type :invoke, :f :write, :value :x, :process 0} {:type :ok, :f :write, :value :x, :process 0}
    {:type :invoke, :f :write, :value "x", :process 0}]"""
    with pytest.raises(BadInput, match="file:2: x stands here as a str and before as a keyword"):
        parse(content, "knossos", "register")


# Porcupine.

ETCD = """\
INFO  jepsen.core - Worker 1 starting
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 0\t:ok\t:read\tnil
INFO  jepsen.util - :nemesis\t:info\t:start\tnil
INFO  jepsen.util - 1   :invoke :write  1
INFO  jepsen.util - 1   :info   :write  :timed-out
INFO  jepsen.util - 0\t:invoke\t:cas\t[2 3]
INFO  jepsen.util - 0\t:fail\t:cas\t[2 3]
INFO  jepsen.util - 0\t:invoke\t:cas\t[2 4]
INFO  jepsen.util - 0\t:fail\t:cas\t:timed-out
INFO  jepsen.util - 0\t:invoke\t:write\t3
INFO  jepsen.util - 0\t:ok\t:write\t3
INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 0\t:ok\t:read\t3
INFO  jepsen.util - 2\t:invoke\t:read\tnil
INFO  jepsen.util - 2\t:fail\t:read\t:timed-out
"""


def test_in_etcds_logs_nil_and_a_failed_cas_are_observations(parse):
    found = parse(ETCD)
    assert found.model == "cas-register"
    assert calls(found) == [
        (READ, ("null",), True), (WRITE, ("1",), False), (Function.CAS_FAILED, ("2", "3"), True), (WRITE, ("3",), True),
        (READ, ("3",), True),
    ]  # fmt: skip


def test_in_porcupines_maps_absent_keys_read_as_the_empty_string(parse):
    content = """{:process 0, :type :invoke, :f :get, :key "7", :value nil}
{:process 0, :type :ok, :f :get, :key "7", :value ""}
{:process 1, :type :invoke, :f :append, :key "7", :value "x 1 0 y"}
"""
    found = parse(content)
    assert (found.model, found.init) == ("kv", ('""',))
    assert calls(found) == [(READ, ('""',), True), (Function.APPEND, ('"x 1 0 y"',), False)]
    assert {one.key for one in found.operations} == {'"7"'}


# Containers.


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_compressed_files_are_read_whatever_their_name(parse, ending):
    plain = events(*[row for n in range(3000) for row in ((0, "invoke", "write", n), (0, "ok", "write", n))]).encode()
    packed = {"": plain, ".gz": gzip.compress(plain), ".zst": pa.Codec("zstd").compress(plain, asbytes=True)}[ending]
    assert len(parse(packed, model="register", name="h.jsonl" + ending).operations) == 3000
    assert len(parse(packed, model="register", name="h.data").operations) == 3000
    if ending:
        with pytest.raises(BadInput, match="damaged"):
            parse(packed[: len(packed) // 2], model="register")
        with pytest.raises(BadInput, match="h2"):
            parse(packed[:200] + b"garbage" + packed[207:], model="register", name="h2")


@pytest.mark.parametrize("content", ["", "\n \n", "; nothing\n", "[]"])
def test_a_file_without_any_event_is_one_history_without_operations(parse, content):
    assert len(parse(content).operations) == 0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"id": 1}', "jsonl"),
        ("{}", "jsonl"),
        (ETCD, "porcupine-etcd"),
        (KNOSSOS, "knossos"),
        ("0 :invoke :read nil", "jepsen"),
        ('{:process 0, :type :invoke, :f :get, :key "7"}', "porcupine-kv"),
        ("<html>", ""),
        ("a,b,c", ""),
    ],
)
def test_the_format_is_told_from_the_content(content, expected):
    assert guess(content.encode()) == expected


# What makes no sense.

WRONG = [
    ("nonsense", "", "register", "looks like none of the known formats"),
    ("nonsense", "jsonl", "register", r"file:1: expected one history a line, as JSON, got 'nonsense'"),
    ('{"id": 1}', "", "register", r'file:1: expected an object with "id", "model" and "ops"'),
    ('{"ops": []}', "", "", "file:1: expected a model"),
    ('{"ops": [], "model": "tree"}', "", "", r'file:1: expected a model \(register, .*got "tree"'),
    ('{"ops": [], "model": "mutex"}\n{"ops": [', "", "", "file:2: expected one history"),
    ('{"ops": [NaN]}', "", "register", "file:1: .*NaN is no JSON"),
    ('{"ops": [1]}', "", "register", 'file:1, op 0: expected an object with "process"'),
    (events((0, "begin", "read", None)), "", "register", 'op 0: expected "type" to be one of invoke, ok, fail, info'),
    (
        events((None, "invoke", "read", None)),
        "",
        "register",
        'op 0: expected a number or a name as "process", got null',
    ),
    (events((0, "invoke", 5, None)), "", "register", 'op 0: expected the name of a function as "f", got 5'),
    (
        events((0, "invoke", "frob", None)),
        "",
        "register",
        'op 0: the model register has no "frob"; expected one of read',
    ),
    (events((0, "ok", "read", 1)), "", "register", "op 0: process 0 ends read .ok., which it has not invoked"),
    (
        events((0, "invoke", "read", 1), (0, "ok", "write", 1)),
        "",
        "register",
        "op 1: process 0 ends write, but read is",
    ),
    (events((0, "invoke", "read", 1, "a"), (0, "ok", "read", 1, "b")), "", "kv", 'ends read of "b", but read of "a"'),
    (events((0, "invoke", "cas", 5)), "", "cas-register", r"op 0: cas: expected \[expected, new\] got 5"),
    (
        events((0, "invoke", "write", 5), (0, "ok", "write", 6)),
        "",
        "register",
        "op 1: write: expected the value of its",
    ),
    (events((0, "invoke", "add", "x")), "", "counter", "op 0: add: expected a whole number to add got"),
    (events((0, "invoke", "add", True)), "", "counter", "expected a whole number to add got true"),
    (events((0, "invoke", "txn", [["x"]])), "", "multi-register", "op 0: txn: expected"),
    (
        events((0, "invoke", "read", None), (0, "ok", "read", [1, 1])),
        "",
        "set",
        "expected each element of the set once",
    ),
    (events((0, "invoke", "enqueue", None)), "", "fifo-queue", "expected a value to enqueue"),
    (events((0, "invoke", "append", 5)), "", "kv", "expected a string to append"),
    (
        events((0, "invoke", "put", 5), (1, "invoke", "append", "x")),
        "",
        "kv",
        "op 0: where there are appends, expected s",
    ),
    (KNOSSOS[:-40], "", "cas-register", "file:9: what begins here with .*never ends: the text is cut off"),
    (KNOSSOS, "", "", "file: say with --model what this is a history of"),
    ("[1 2]", "knossos", "register", r"expected maps such as .* got 1"),
    ("[{:process 0, :type :invoke :f}]", "knossos", "register", "file:1: a map needs a value for each key"),
    (
        "[{:process 0, :type :begin, :f :read}]",
        "knossos",
        "register",
        "file:1: expected :type with one of .*got :begin",
    ),
    ("INFO  jepsen.util - 0\t:invoke\t", "porcupine-etcd", "", "file:1: expected process, type, function and value"),
    ("INFO  jepsen.util - 0\t:invoke\t:write\t[1", "porcupine-etcd", "", "file:1: expected a value, got"),
    (b"\xff\xfe{", "jsonl", "register", "expected text in UTF-8"),
]


@pytest.mark.parametrize(("content", "format", "model", "message"), WRONG)
def test_nonsense_is_refused_with_file_line_and_what_was_expected(parse, content, format, model, message):
    with pytest.raises(BadInput, match=message):
        parse(content, format, model)


def test_a_file_that_is_not_there_and_names_that_are_none(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        list(read(tmp_path / "gone"))
    with pytest.raises(BadInput, match="expected a format"):
        list(read(tmp_path / "gone", "xml"))
    with pytest.raises(BadInput, match="expected a model"):
        list(read(tmp_path / "gone", "", "tree"))


# EDN itself.


def test_edn_is_read_as_it_is_defined():
    content = """1 -2 +3 4N 1.5 1e3 nil true "a\\n\\u00e9\\\\" :k/w sym (1, [2 {:a 1}]) #{1 2} #inst "2020"
    #_ 9 #_#_ 1 2
    \\a \\newline 1/2 2.5M 0x1F ##Inf ; end"""
    values = [value for _, value in _edn.read(content)]
    assert values == [
        1, -2, 3, 4, 1.5, 1000.0, None, True, "a\né\\", "k/w", "sym", [1, [2, {"a": 1}]], [1, 2], "2020",
        "\\a", "\\newline", "1/2", "2.5M", 31, "##Inf",
    ]  # fmt: skip
    assert [type(value) for value in values[9:11]] == [_edn.Keyword, _edn.Symbol] and type(values[12]) is _edn.Set


@pytest.mark.parametrize(
    "content", ["[1", "]", "(1]", '"open', "{1}", "{:a 1 :a 2}", ":", "12x", "[#_]", '"\\q"', "[" * 500, "#"]
)
def test_what_is_no_edn_is_refused(content):
    with pytest.raises(_edn.EdnError):
        list(_edn.read("\n\n" + content))
