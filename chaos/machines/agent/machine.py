"""A machine whose nodes are processes under an agent: this one, or a host behind SSH."""

from __future__ import annotations

import json
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chaos.effects.corruption import AtDisk
from chaos.errors import DeploymentError
from chaos.fault import NotNow
from chaos.machines.local_resources import Kind
from chaos.machines.machine import Dial, Life, Places, Signal
from chaos.program import Installation
from chaos.shell.launch import Launch
from chaos.shell.node_files import NodeFile

#: How long it may take until a processor is crowded.
EFFECT_S = 10.0
POLL_S = 0.01


class AgentMachine:
    """Implements :class:`chaos.machines.machine.Machine` by an agent's commands, but for what only some agents can do:
    to run commands as root, and to dial for a node. ``ask`` gives a command and returns its result."""

    def __init__(self, name: str, ask: Callable[..., Any], proof: Mapping[str, object]) -> None:
        self.name = name
        self.proof = proof
        self._ask = ask

    @property
    def losses(self) -> Sequence[str]:
        return ()

    def lives(self, nodes: Sequence[str]) -> Mapping[str, Life]:
        return {node: Life(**fields) for node, fields in self._ask("status", nodes=list(nodes)).items()}

    def start(self, launch: Launch) -> None:
        port = launch.listens[1] if launch.addresses else 0
        self._ask("start", launch=json.loads(launch.to_json()), port=port)

    def signal(self, node: str, number: Signal) -> None:
        self._ask("signal", node=node, name=str(number))

    def log(self, node: str) -> str:
        return str(self._ask("log", node=node))

    def places(self, node: str) -> Places:
        return Places(**self._ask("places", node=node))

    def install(self, recipe: Installation) -> str:
        """Return the folder on this machine, which is the nodes' too, unless a subclass says otherwise."""
        return str(recipe.folder)

    def runs_program(self, node: str) -> bool:
        return bool(self._ask("runs_program", node=node))

    def says(self, node: str, pattern: str) -> bool:
        return bool(self._ask("says", node=node, pattern=pattern))

    def listening(self, node: str) -> Sequence[str]:
        return [str(where) for where in self._ask("listening", node=node)]

    def files(self, node: str, globs: Sequence[str]) -> Mapping[str, int]:
        return {str(path): int(size) for path, size in self._ask("files", node=node, globs=list(globs)).items()}

    def read(self, node: str, path: str, begin: int, length: int) -> bytes:
        return b64decode(self._ask("read_file", node=node, path=path, begin=begin, length=length))

    def put(self, node: str, file: NodeFile, content: bytes) -> None:
        self._ask("put", node=node, file=file, content=b64encode(content).decode())

    def get(self, node: str, file: NodeFile, begin: int) -> bytes:
        return b64decode(self._ask("get", node=node, file=file, begin=begin))

    def wipe(self, node: str) -> int:
        return int(self._ask("wipe", node=node))

    def at_disk(self, node: str, do: AtDisk, arguments: Mapping[str, Any]) -> Any:
        return self._ask("at_disk", node=node, what=do, told=arguments)

    def press(self, node: str, kind: Kind, amount: int) -> Mapping[str, object]:
        shown: Mapping[str, object] = self._ask("press", node=node, kind=kind, amount=amount)
        if "spinner" in shown:
            self._crowded(str(shown["spinner"]), int(str(shown["spinners"])))
        return shown

    def _crowded(self, first: str, count: int) -> None:
        """Wait until so many processes take the processor's time. Raises :class:`NotNow`."""
        deadline_s = time.monotonic() + EFFECT_S
        while (found := int(self._ask("spinning", first=first))) != count:
            if time.monotonic() > deadline_s:
                raise NotNow(f"{found} of {count} processes take its processor after {EFFECT_S:g} s")
            time.sleep(POLL_S)

    def release(self, node: str, kind: Kind) -> None:
        self._ask("release", node=node, kind=kind)

    def born(self, node: str) -> None:
        self._ask("born", node=node)

    def run_as_root(self, command: Sequence[str], given: str) -> tuple[int, str]:
        raise DeploymentError(f"no agent on {self.name} can run commands as root")

    def reach(self, dials: Sequence[Dial], within_s: float) -> list[bool]:
        raise DeploymentError(f"no agent on {self.name} can open connections for nodes")


def result_of(answer: Mapping[str, Any], who: str) -> Any:
    """Return what an agent has answered. Raises :class:`NotNow` when it refuses, :class:`DeploymentError` when it
    failed."""
    if "refused" in answer:
        raise NotNow(str(answer["refused"]))
    if "error" in answer:
        raise DeploymentError(f"{who}: {answer['error']}")
    if "ok" not in answer:
        raise DeploymentError(f"{who}: the answer makes no sense")
    return answer["ok"]
