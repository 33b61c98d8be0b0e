"""Addresses and ports of programs that share this machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from chaos.errors import MachineError
from chaos.machines.local.loopback import LoopbackAddresses
from chaos.program import Program


def test_a_port_that_another_program_has_is_refused_before_the_start(tmp_path: Path) -> None:
    addresses = LoopbackAddresses(tmp_path)
    with socket.create_server(("", 0)) as taken:
        number = taken.getsockname()[1]
        program = Program(argv=["true"], ports={"main": number})
        with pytest.raises(MachineError, match=rf"port {number} of node shop-0 is taken by another program"):
            addresses.of("shop-0", program)
    assert addresses.of("shop-0", program)["ports"] == {"main": number}
    one, other = (addresses.of(name, Program(argv=["true"], ports={"main": 0})) for name in ("a", "b"))
    assert one["ip"] != other["ip"] and one["ports"] != other["ports"]


def test_a_port_at_one_address_alone_is_in_nobodys_way(tmp_path: Path) -> None:
    addresses = LoopbackAddresses(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        assert addresses.of("shop-0", Program(argv=["true"], ports={"main": number}))["ports"] == {"main": number}
