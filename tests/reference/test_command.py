"""RocketMQ's command, as the message that shells and the simulator know."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.node import Forbidden, Malformed
from reference.wire.codes import Response
from reference.wire.command import ONEWAY, RESPONSE, Command


def test_a_field_that_is_no_text_is_an_error_where_the_command_is_made() -> None:
    bad: Any = {"n": 1}
    with pytest.raises(TypeError, match="command 8: field n is 1, but fields are strings"):
        Command(code=8, fields=bad)


def test_shells_see_what_it_asks_its_number_and_its_size() -> None:
    command = Command(code=8, flags=ONEWAY, opaque=3, body=b"abc")
    assert (command.kind, command.number, command.size) == (8, 3, 3)
    assert (command.is_oneway, command.is_response) == (True, False)
    assert command.reply().is_response and not command.reply().is_oneway


def test_a_request_keeps_its_flags_under_another_number() -> None:
    request = Command(code=8, fields={"a": "b"}, body=b"abc", remark="r")
    assert request.numbered(5) == Command(code=8, opaque=5, fields={"a": "b"}, body=b"abc", remark="r")
    assert request.numbered(5, oneway=True).flags == ONEWAY


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Malformed("x"), Response.INVALID_PARAMETER),
        (Malformed("x", Response.MESSAGE_ILLEGAL), Response.MESSAGE_ILLEGAL),
        (Forbidden("x"), Response.NO_PERMISSION),
        (ValueError("x"), Response.SYSTEM_ERROR),
    ],
)
def test_a_refusal_has_the_code_of_its_error(error: Exception, code: Response) -> None:
    answer = Command(code=8, opaque=3).refused(error)
    assert answer == Command(code=code, flags=RESPONSE, opaque=3, remark="x")
