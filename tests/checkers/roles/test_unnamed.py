"""Answers that a library of the system's own has heard, which does not say from whom."""

from __future__ import annotations

import pytest

from tests.checkers.histories import History, content, m
from tests.checkers.names import L


@pytest.mark.parametrize("via", ["sync", ""])
def test_who_answered_a_library_is_not_judged(via: str) -> None:
    history = History()
    history.master("broker-0", 1)
    history.phase("load")
    history.send(0)
    value = {"via": via} if via else {}
    asked = history.invoke("send", process="library.0", queue=0, message=m(1), hash=content(m(1)), value=value)
    history.complete(asked, "ok", offset=1, value=value)
    verdict = history.finish(0, 1).verdict(L.ROLES)
    assert ("reported nothing of its roles" in verdict.why) is not bool(via)
