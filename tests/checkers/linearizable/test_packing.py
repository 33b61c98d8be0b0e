"""The packed form: what is written is what ``Packed.java`` says, read back here by another hand."""

from __future__ import annotations

import struct

import pytest

from chaos.errors import BadInput
from checkers.linearizable.history import Argument, Function, History, Operation
from checkers.linearizable.packing import FORMAT, UNKNOWN, batches, pack


class Reader:
    """The format as ``Packed.java`` describes it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, layout: str) -> tuple:
        found = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return found

    def number(self) -> int:
        return self.take("i")[0]

    def text(self) -> str:
        (found,) = self.take(f"{self.number()}s")
        return found.decode()

    def history(self) -> dict:
        size = self.number()
        end = self.at + size
        found: dict = {"id": self.text(), "model": self.text()}
        found["init"] = self.take(f"{self.number()}q")
        found["values"] = [self.text() for _ in range(self.number())]
        found["keys"] = [self.text() for _ in range(self.number())]
        count = self.number()
        for column, code in (("process", "i"), ("key", "i"), ("function", "B"), ("call", "i"), ("ret", "i")):
            found[column] = self.take(f"{count}{code}")
        start = self.take(f"{count + 1}i")
        arguments = self.take(f"{self.number()}q")
        found["arguments"] = [arguments[start[i] : start[i + 1]] for i in range(count)]
        assert self.at == end
        return found


def unpack(data: bytes) -> list[dict]:
    reader = Reader(data)
    assert reader.take("4sii")[:2] == (b"SPLH", FORMAT)
    reader.at -= 4
    found = [reader.history() for _ in range(reader.number())]
    assert reader.at == len(data)
    return found


def op(f: Function, *arguments: Argument, call: int, ret: int | None, process: str = "0", key: str | None = None):
    return Operation(process=process, f=f, arguments=arguments, call=call, ret=ret, key=key)


def test_every_column_is_where_java_looks_for_it():
    operations = [
        op(Function.WRITE, '"ä"', call=0, ret=3, process="a", key='"k"'),
        op(Function.CAS, '"ä"', "null", call=1, ret=None, process="b"),
        op(Function.READ, None, call=2, ret=4, process="a", key='"l"'),
        op(Function.DELETE, call=5, ret=6, key='"k"'),
    ]
    histories = [
        History(id="first", model="cas-register", operations=operations, init=("7",)),
        History(id=8, model="counter", operations=[op(Function.ADD, -5, call=0, ret=1)], init=(2**63 - 1,)),
        History(id="nothing", model="mutex", operations=()),
    ]
    first, second, third = unpack(pack(histories))
    assert (first["id"], first["model"], first["init"]) == ("first", "cas-register", (1,))
    assert first["values"] == ["null", "7", '"ä"']
    assert first["keys"] == ['"k"', '"l"']
    assert first["process"] == (0, 1, 0, 2) and first["key"] == (0, -1, 1, 0)
    assert first["function"] == (1, 2, 0, 5)
    assert first["call"] == (0, 1, 2, 5) and first["ret"] == (3, -1, 4, 6)
    assert first["arguments"] == [(2,), (2, 0), (UNKNOWN,), ()]
    assert second["id"] == "8" and second["init"] == (2**63 - 1,) and second["arguments"] == [(-5,)]
    assert third["arguments"] == [] and third["values"] == ["null"]


def test_collections_stand_in_the_order_of_their_numbers():
    elements = [op(Function.ADD, '"z"', None, call=0, ret=1), op(Function.READ, '"a"', '"z"', call=2, ret=3)]
    (packed,) = unpack(pack([History(id="s", model="set", operations=elements, init=('"z"', '"b"'))]))
    assert packed["values"] == ["null", '"z"', '"b"', '"a"']
    assert packed["init"] == (1, 2) and packed["arguments"] == [(1, UNKNOWN), (1, 3)]
    changes = [op(Function.CAS, 9, 5, '"n"', '"m"', call=0, ret=1), op(Function.READ, 5, '"m"', '"n"', call=2, ret=3)]
    (packed,) = unpack(pack([History(id="r", model="replica-info", operations=changes)]))
    assert packed["arguments"] == [(9, 5, 1, 2), (5, 1, 2)]


@pytest.mark.parametrize("number", [2**63, -(2**63), 10**30])
def test_a_number_beyond_64_bits_is_refused(number):
    with pytest.raises(BadInput, match="beyond 64 bits"):
        pack([History(id="big", model="counter", operations=[op(Function.ADD, number, call=0, ret=1)])])


def test_batches_keep_the_order_and_both_bounds():
    sizes = [1, 1, 5, 1, 9, 1]
    histories = [
        History(id=str(n), model="mutex", operations=[op(Function.ACQUIRE, call=i, ret=None) for i in range(size)])
        for n, size in enumerate(sizes)
    ]
    groups = list(batches(histories, 2, 6))
    assert [[history.id for history in group] for group in groups] == [["0", "1"], ["2", "3"], ["4"], ["5"]]
