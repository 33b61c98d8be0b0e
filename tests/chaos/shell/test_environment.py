"""Starting a node by hand: what the environment may say, and what is said of an environment that is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.shell.environment import COMMON, Options, launch_in, text_of, usage, variable

OPTIONS: Options = {
    "server": {
        "label": (str, "a text"),
        "size": (int, "a number"),
        "strict": (bool, "a flag"),
        "peers": (list, "names"),
        "amounts": (dict, "amounts by name"),
    },
    "idle": {},
}
NEEDED = {"NODE_ADDRESSES": "a=10.0.0.1:1 b=[::1]:2", "NODE_DISK": "/disk"}


def launch(environ: Mapping[str, str], role: str = "server", name: str = "a"):
    return launch_in("toys", OPTIONS, [role, name], {"PATH": "/bin", **NEEDED, **environ})


def test_all_that_can_be_said() -> None:
    options = {
        "NODE_LABEL": " as it stands: 'x'=1 ",
        "NODE_SIZE": "-3",
        "NODE_STRICT": "false",
        "NODE_PEERS": "a 'b c'\n  d",
        "NODE_AMOUNTS": "x=1 'y z=w=2'",
    }
    common = {
        "NODE_EXPOSED": "a=h:7",
        "NODE_FOREIGN": "h:1 h:2",
        "NODE_TRACE": "t",
        "NODE_SEED": "5",
        "NODE_MUTANT": "m",
    }
    full = launch({**options, **common})
    assert (full.spec.name, full.spec.role, full.spec.package, full.spec.mutant) == ("a", "server", "toys", "m")
    assert full.spec.options == {
        "label": " as it stands: 'x'=1 ",
        "size": -3,
        "strict": False,
        "peers": ["a", "b c", "d"],
        "amounts": {"x": 1, "y z=w": 2},
    }
    assert (full.disk, full.trace, full.seed, dict(full.exposed)) == ("/disk", "t", 5, {"a": "h:7"})
    assert full.foreign == ("h:1", "h:2")
    assert full.nodes == ("a", "b") and full.address_of("b") == ("[::1]", 2) and full.listens == ("0.0.0.0", 1)
    assert full.spec.disk and not launch({"NODE_DISK": "none"}).spec.disk
    assert replace(full, addresses={"a": "127.0.0.3:5"}).listens == ("127.0.0.3", 5), "only this machine reaches it"


def test_what_is_not_said_has_its_usual_value() -> None:
    least = launch({}, role="idle", name="b")
    assert (least.spec.options, least.spec.mutant, least.seed, least.trace, least.incarnation) == (
        {},
        "",
        0,
        "/dev/null",
        0,
    )


@pytest.mark.parametrize("value", ["", "a b", 0, -7, True, False, [], ["a", "b c", "'"], {}, {"x y": 1, "=": 2}])
def test_what_is_written_is_read_again(value: object) -> None:
    option = {str: "label", bool: "strict", int: "size", list: "peers", dict: "amounts"}[type(value)]
    assert launch({variable(option): text_of(value)}).spec.options == {option: value}


@pytest.mark.parametrize("value", [None, 1.5, [1], {"a": "b"}, {"a": {}}])
def test_what_no_variable_can_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="is not a text, number"):
        text_of(value)


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"NODE_ADDRESSES": ""}, "NODE_ADDRESSES is missing: NAME=HOST:PORT of every node"),
        ({"NODE_ADDRESSES": "a"}, "NODE_ADDRESSES: 'a' is no NAME=VALUE"),
        ({"NODE_ADDRESSES": "a=10.0.0.1"}, "NODE_ADDRESSES: '10.0.0.1', the address of a, is no HOST:PORT"),
        ({"NODE_ADDRESSES": "b=h:1 c=h:2"}, "NODE_ADDRESSES has no address of a, only of b, c"),
        ({"NODE_DISK": ""}, "NODE_DISK is missing: the folder"),
        ({"NODE_SIZE": "many"}, "NODE_SIZE: 'many' is not a whole number"),
        ({"NODE_SEED": "x"}, "NODE_SEED: 'x' is not a whole number"),
        ({"NODE_STRICT": "yes"}, "NODE_STRICT: 'yes' is neither true nor false"),
        ({"NODE_PEERS": "a 'b"}, "NODE_PEERS: \"a 'b\" can't be split into words"),
        ({"NODE_AMOUNTS": "a"}, "NODE_AMOUNTS: 'a' is no NAME=VALUE"),
        ({"NODE_AMOUNTS": "a=b"}, "NODE_AMOUNTS: 'b' is not a whole number"),
        ({"NODE_SISE": "3"}, "NODE_SISE is no option of the role server; did you mean NODE_SIZE?"),
    ],
)
def test_each_mistake_has_a_sentence(environ: Mapping[str, str], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        launch(environ)
    assert str(error.value).startswith(sentence)


def test_an_option_of_another_role_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="NODE_SIZE is no option of the role idle"):
        launch({"NODE_SIZE": "3"}, role="idle")
    with pytest.raises(ValueError, match="there is no role 'boss'; the roles are server, idle"):
        launch({}, role="boss")
    with pytest.raises(ValueError, match="expected a role and a name"):
        launch_in("toys", OPTIONS, [], NEEDED)


def test_the_help_names_all_variables() -> None:
    text = usage("toys", OPTIONS)
    assert all(name in text for name in (*COMMON, *map(variable, OPTIONS["server"]), "python -m toys ROLE NAME"))


def test_a_real_node_says_what_is_wrong(tmp_path: Path) -> None:
    def started(*words: str, **environ: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "reference", *words],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **environ},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, done.stdout + done.stderr

    assert started("--help")[0] == 0 and "NODE_MIN_IN_SYNC" in started("--help")[1]
    assert started() == (1, "reference: expected a role and a name; `python -m reference --help` says more\n")
    addresses = {"NODE_ADDRESSES": "b=127.0.0.1:1", "NODE_DISK": str(tmp_path)}
    wrong = started("broker", "b", **addresses, NODE_ACK="all")
    assert wrong == (1, "reference: NODE_ACK is no option of the role broker; did you mean NODE_ACKS?\n")
