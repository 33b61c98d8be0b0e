"""What a shard keeps of its rows while kernels look at them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from chaos.history.columns import COLUMNS, VALUE
from chaos.history.stream import SCHEMA
from chaos.judging import shard
from chaos.judging.shard import Shard


def test_values_that_were_parsed_one_by_one_are_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "MOST_PARSED", 10)
    columns = {
        name: range(95) if name == "index" else [-1 if name not in ("kind", "f") else "x"] * 95 for name in COLUMNS
    }
    columns[VALUE] = [f'{{"n":{number}}}' for number in range(95)]
    words = {field.name: pa.string() if pa.types.is_dictionary(field.type) else field.type for field in SCHEMA}
    arrays = [
        pa.array(map(str, columns[name]) if words[name] == pa.string() else columns[name], words[name])
        for name in words
    ]
    rows = Shard(pa.Table.from_arrays(arrays, list(words)).cast(SCHEMA))
    for row in [*range(95), 3, 94, *range(95)]:
        assert rows.value(row) == {"n": row}
        assert len(rows._parsed) <= 10
