"""Traces of manifests with their whole content, as the first format of histories had them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def whole(rows: Iterable[dict[str, Any]], value: str = "") -> None:
    """Give these rows, of which some tell a manifest by its changes, its content instead. ``value``: the key of a row's
    value, which stands in the row itself otherwise."""
    known: dict[tuple[int, int], list[Any]] = {}
    for row in rows:
        if row["f"] != "store_cas":
            continue
        told = row[value] if value else row
        if "changes" in told:
            changes = told.pop("changes")
            first, many = changes["kept"]
            before = known[row["queue"], changes["since"]][first : first + many]
            assert len(before) == many > 0
            content = changes["content"]
            told["content"] = {**content, "segments": [*before, *content["segments"]]}
        if told.get("outcome") == "applied":
            known[row["queue"], row["hash"]] = list(told["content"].get("segments") or ())
