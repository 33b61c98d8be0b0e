"""``stormproof demo`` when it does not come out as it should; what it shows is in ``test_first_glance.py``."""

from __future__ import annotations

import pytest

from stormproof.commands import demo
from stormproof.commands._single import Ended


@pytest.mark.parametrize(("correct", "broken", "code"), [(0, 0, 3), (1, 1, 1), (2, 1, 2), (3, 1, 3), (0, 2, 3)])
def test_what_came_out_otherwise_is_no_success(
    correct: int, broken: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo._conclude(Ended(code=correct), Ended(code=broken)) == code
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: the ")
