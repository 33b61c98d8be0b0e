"""The texts of a program are templates: what they stand for, and what is wrong with one before anything starts."""

from __future__ import annotations

from base64 import b64decode

import pytest

from chaos.node import NodeSpec
from chaos.program import LogSays, PortAccepts, Program, Surroundings, chosen, problems, render

THERE = Surroundings(
    name="a",
    ips={"a": "10.0.0.1", "b-1": "10.0.0.2"},
    ports={"a": {"main": 7000, "ha": 7001}, "b-1": {"main": 8000}},
    disk="/disk",
    home="/home",
    addresses={"a": "10.0.0.1:7000", "b-1": "10.0.0.2:8000", "hidden": ""},
)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{ip}:{port}", "10.0.0.1:7000"),
        ("{port:ha} {ip:b-1} {port:b-1.main}", "7001 10.0.0.2 8000"),
        ("{name} {disk} {home}", "a /disk /home"),
        ("{address:b-1}", "10.0.0.2:8000"),
        ('{"listen": "{ip}", "more": {"x": 1}}', '{"listen": "10.0.0.1", "more": {"x": 1}}'),
        ("${ip} ${HOME} {IP} {} { ip }", "${ip} ${HOME} {IP} {} { ip }"),
        ("{{ip}} {{port:b-1.main}}", "{ip} {port:b-1.main}"),
    ],
)
def test_templates(text: str, filled: str) -> None:
    found = render(Program(argv=["run", text], files={"a/b": text, "c": text.encode()}, env={"X": text}), THERE)
    assert found.argv == ("run", filled) and found.env == {"X": filled}
    assert b64decode(found.files["a/b"]).decode() == filled and b64decode(found.files["c"]).decode() == text


def test_who_has_no_address_cant_be_dialled() -> None:
    with pytest.raises(ValueError, match="hidden is no program, and such nodes have no addresses on this deployment"):
        render(Program(argv=["run", "{address:hidden}"]), THERE)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (Program(argv=[]), "node a: its program has no command: give the words of it as argv"),
        (Program(argv=["run", "{ip:b-2}"]), "argv: {ip:b-2}: there is no node 'b-2' (did you mean 'b-1'?)"),
        (Program(argv=["run"], env={"P": "{port:b-1.ham}"}), "env, P: {port:b-1.ham}: there is no port of b-1 'ham'"),
        (Program(argv=["run"], files={"c": "{port:c.main}"}), "files, c: {port:c.main}: there is no node 'c'"),
        (Program(argv=["run", "{address:c}"]), "argv: {address:c}: there is no node 'c'"),
        (Program(argv=["run", "{port}"]), "argv: {port}: there is no port of a ''; known: there is none"),
        (
            Program(argv=["run", "{dsk}"]),
            "{dsk} means nothing (did you mean 'disk'?); write {{dsk}} for",
        ),
        (Program(argv=["run"], files={"../x": ""}), "files: '../x' is no relative path below the node's home"),
        (Program(argv=["run"], files={"/etc/x": ""}), "files: '/etc/x' is no relative path below the node's home"),
        (Program(argv=["run"], ports={"main": 70_000}), "ports: main is 70000; expected 0"),
        (Program(argv=["run"], ports={"a.b": 0}), "ports: 'a.b' is not a name of a port"),
        (Program(argv=["run"], ready=PortAccepts(port="ha")), "ready: there is no port 'ha'; it has none"),
        (Program(argv=["run"], ready=LogSays(pattern="(")), "ready: '(' is no regular expression"),
    ],
)
def test_what_is_wrong_with_one_is_one_sentence(program: Program, said: str) -> None:
    other = Program(argv=["run"], ports={"main": 0})
    (found,) = problems({"a": program, "b-1": other}, ["a", "b-1"])
    assert found.startswith("node a: ") and said in found


def test_ports_that_the_deployment_chooses_are_none_that_the_driver_gave() -> None:
    program = Program(argv=["run"], ports={"main": 0, "ha": 2, "admin": 0})
    assert chosen(program, range(1, 9)) == {"main": 1, "ha": 2, "admin": 3}
    with pytest.raises(ValueError, match="not enough ports"):
        chosen(program, range(1, 3))


def test_a_node_is_either_a_package_or_a_program() -> None:
    with pytest.raises(ValueError, match="either a package or a program"):
        NodeSpec(name="a", role="broker")
    with pytest.raises(ValueError, match="either a package or a program"):
        NodeSpec(name="a", role="broker", package="x", program=Program(argv=["run"]))
