"""The questions at the limits (the workload ``limits``), asked of the reference system in the simulator and of Apache
RocketMQ on processes: where do the two differ, and who is right by which document?

Both have one broker, one controller and one name server, and no faults strike. ``stormproof install rocketmq@5.5.0``
has to be run before. ``python -m benchmarks.conformance [--write]``
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

from benchmarks._conformance import OUR_OWN, SIDES, right_by
from chaos.deployment import Deployment
from chaos.deployments import process, sim
from chaos.driver import Connection, Dials, Disconnected, Driver, MakeFrame, Network, Profile, TakesFrames
from chaos.ops import Failed, QueueRef, Unknown
from chaos.run.runner import bring_up
from drivers._remoting import records
from drivers._remoting.requests import ask, number
from drivers._remoting.wire import Command, RemotingCodec, Request, Response
from drivers.reference import driver as reference
from drivers.reference.conformance import cases
from drivers.reference.conformance.case import ASKER, Case, Session, code
from drivers.reference.conformance.malformed import wrong_requests
from drivers.reference.conformance.messages import MESSAGES, MessageCase
from drivers.rocketmq import driver as rocketmq
from reference.wire.codes import END_OF_OUR_OWN, FIRST_OF_OUR_OWN
from reference.wire.requests import BROKER, FORMS, MASTER, NAMESERVER

PAGE = Path(__file__).parent / "results" / "conformance.md"
TOPIC = "storm"
#: One broker is enough.
ALONE = Profile(min_in_sync=1)
#: Codes that no node knows are asked on purpose.
_UNKNOWN = frozenset({9999})
#: So many messages of so many bytes are in the queue that is asked about: more than one answer holds.
MESSAGES_BEFORE, BODY = 400, b"x" * 1000
#: A case that was not answered as documented is asked again, so often in all: what had not been settled may be by then.
TRIES, RETRY_S = 2, 0.3
#: A message that was taken is looked for so often: readers see it a moment later.
READS = 10
#: A program's first answers are slow on a busy machine.
LEAST_S, REQUEST_S = 5.0, 10.0
#: After so long the second half of a case comes that waits for a registration to end.
SILENT_S, SILENT = 14.0, "the routes of who falls silent"
#: A read in this case relies on what its heartbeat has said, so it gets no subscription of its own.
REGISTERED = "a read of what a heartbeat has registered"
#: Asked last: a broker may take them for orders.
#: Who is silent to so many of a case's requests is asked no more of them.
NO_ANSWER, MOST_SILENT = "no answer", 2
_SUFFIX = "; this was number "
LAST = ("a change of the options of a broker", "a role from somebody who is no controller")
_CARRIED = 4
_OPAQUE = 7
_PIECE_BYTES = 1 << 16


# Which cases there are


def applicable() -> dict[str, Case | MessageCase]:
    """Return those that both systems can be asked: for a master, any broker or a name server, in RocketMQ's requests
    alone."""
    known = cases(TOPIC, frames=True, metadata=False)
    asked = {name: one for name, one in known.items() if one.role in (MASTER, BROKER, NAMESERVER)}
    order = sorted(asked, key=lambda name: name in LAST)
    return {name: asked[name] for name in order if name not in OUR_OWN} | dict(MESSAGES)


def documented(case: Case | MessageCase) -> str:
    return case.expected if isinstance(case, Case) else f"code {int(case.expected)}"


# How they are asked


def completed(message: Command, *, subscribed: bool = True) -> Command:
    """Return the request with the fields that RocketMQ's header classes need and the reference system does not, as
    RocketMQ's own client fills them. What it has stays."""
    fields = message.fields
    more = dict(NEEDED.get(message.code, {}))
    if message.code == Request.UPDATE_AND_CREATE_TOPIC:
        more["readQueueNums"] = fields.get("writeQueueNums", "1")
    if message.code == Request.POP_MESSAGE:
        more["bornTime"] = str(time.time_ns() // 1_000_000)
    if message.code == Request.REGISTER_BROKER:
        more["haServerAddr"] = fields.get("brokerAddr", ASKER)
    done = {**more, **fields}
    pulls = message.code in (Request.PULL_MESSAGE, Request.LITE_PULL_MESSAGE)
    if pulls and subscribed and "subscription" not in fields and fields.get("sysFlag", "").isdigit():
        done |= {"subscription": "*", "sysFlag": str(int(fields["sysFlag"]) | _CARRIED)}
    return replace(message, fields=done)


_SEND = {"producerGroup": ASKER, "defaultTopic": "TBW102", "defaultTopicQueueNums": "4"}
_SEND_SHORT = {"a": ASKER, "c": "TBW102", "d": "4"}
_PULL = {"consumerGroup": ASKER, "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
_TOPIC = {"defaultTopic": "TBW102", "perm": "6", "topicFilterType": "SINGLE_TAG", "order": "false"}
_HANDED = {"topic": TOPIC, "queueId": "0"}
NEEDED: Mapping[int, Mapping[str, str]] = {
    Request.SEND_MESSAGE: _SEND,
    Request.SEND_MESSAGE_V2: _SEND_SHORT,
    Request.SEND_BATCH_MESSAGE: _SEND_SHORT,
    Request.PULL_MESSAGE: _PULL,
    Request.LITE_PULL_MESSAGE: _PULL,
    Request.CONSUMER_SEND_MSG_BACK: {"delayLevel": "0"},
    Request.UPDATE_AND_CREATE_TOPIC: _TOPIC,
    Request.POP_MESSAGE: {"queueId": "0", "pollTime": "0", "initMode": "0"},
    Request.ACK_MESSAGE: _HANDED,
    Request.CHANGE_MESSAGE_INVISIBLETIME: _HANDED,
    Request.UNREGISTER_CLIENT: {"clientID": ASKER},
    Request.REGISTER_BROKER: {"clusterName": ASKER},
    Request.UNREGISTER_BROKER: {"clusterName": ASKER},
}


@dataclass(slots=True)
class Watched:
    """A network that knows which requests were sent, and changes them first. Implements :class:`chaos.driver.Network`
    as far as cases need it."""

    network: Network
    change: Callable[[Command], Command]
    sent: list[int] = field(default_factory=list)

    def connect(self, client: str, node: str) -> Connection:
        return Line(self, client, node)

    def now_ns(self) -> int:
        return self.network.now_ns()


@dataclass(slots=True)
class Line:
    """Implements :class:`chaos.driver.TakesFrames`, also where the deployment has no such connections."""

    watched: Watched
    client: str
    node: str

    @property
    def _inner(self) -> Connection:
        return self.watched.network.connect(self.client, self.node)

    async def request(self, message: Any, timeout_s: float) -> Any:
        self.watched.sent.append(message.code)
        waits_s = timeout_s if message.flags or not isinstance(self.watched.network, Dials) else LEAST_S
        return await self._inner.request(self.watched.change(message), max(timeout_s, waits_s))

    def oneway(self, message: Any) -> None:
        self.watched.sent.append(message.code)
        self._inner.oneway(self.watched.change(message))

    def close(self) -> None:
        self._inner.close()

    async def exchange(self, request: Any, frame: MakeFrame[Any], timeout_s: float) -> Any:
        self.watched.sent.append(request.code)
        inner, network = self._inner, self.watched.network
        if isinstance(inner, TakesFrames):
            return await inner.exchange(request, frame, timeout_s)
        pieces = frame(self.watched.change(request).numbered(_OPAQUE))
        async with asyncio.timeout(max(timeout_s, LEAST_S)):
            return await _in_bytes(cast(Dials, network), self.client, self.node, pieces)


async def _in_bytes(network: Dials, client: str, node: str, pieces: Sequence[bytes]) -> Command:
    """Send these bytes over a connection of their own, and return the answer. Raises :class:`Disconnected`."""
    reader, writer = await network.dial(client, node)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
        buffer = bytearray()
        while piece := await reader.read(_PIECE_BYTES):
            buffer += piece
            if found := [one for one in RemotingCodec().decode(buffer) if one.is_response]:
                return found[0]
    except OSError as error:
        raise Disconnected(f"{error}", sent=True) from error
    finally:
        writer.transport.abort()
    raise Disconnected("closed", sent=True)


# A system that is asked


@dataclass(slots=True)
class Asker:
    """Asks all cases of one system. ``told``: what each was answered."""

    deployment: Deployment
    driver: Driver
    master: str
    nameserver: str
    completes: bool
    told: dict[str, str] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    async def main(self) -> int:
        try:
            await bring_up(self.deployment, self.driver)
            await self._fill()
            for name, case in applicable().items():
                self.told[name] = await self._until_expected(name, case)
                print(f"{name}: {self.told[name]}", file=sys.stderr)
            for name in applicable():
                if _SUFFIX in self.told[name]:
                    self.told[name] += await _rest(Watched(self.deployment, self._change(name)), self._node(name), name)
            await asyncio.sleep(SILENT_S)
            self.told[SILENT] = await self._until_expected(SILENT, applicable()[SILENT])
        finally:
            await self.deployment.stop()
        return 0

    async def _fill(self) -> None:
        """Send the messages that cases read."""
        client, queue = self.driver.client(self.deployment, "fills"), self.driver.queues()[0]
        for message in range(MESSAGES_BEFORE):
            for last in (False,) * 50 + (True,):
                try:
                    await client.send(queue, f"{message:032X}", BODY)
                    break
                except (Failed, Unknown):
                    if last:
                        raise
                    await asyncio.sleep(0.2)

    async def _until_expected(self, name: str, case: Case | MessageCase) -> str:
        """Return the first answer, unless another one is as documented."""
        told: list[str] = []
        for turn in range(TRIES):
            if turn:
                await asyncio.sleep(RETRY_S)
            network = Watched(self.deployment, self._change(name))
            told.append(await self._once(network, name, case))
            own = {one for one in network.sent if FIRST_OF_OUR_OWN <= one < END_OF_OUR_OWN} - _UNKNOWN
            if own:
                raise ValueError(f"{name} asks in requests of the reference system's own: {sorted(own)}")
            if told[-1] == documented(case):
                return told[-1]
        return told[0]

    def _node(self, name: str) -> str:
        case = applicable()[name]
        return self.nameserver if isinstance(case, Case) and case.role == NAMESERVER else self.master

    def _change(self, name: str) -> Callable[[Command], Command]:
        if not self.completes:
            return lambda message: message
        return lambda message: completed(message, subscribed=name != REGISTERED)

    async def _once(self, network: Watched, name: str, case: Case | MessageCase) -> str:
        """Return what was said, or why that says nothing."""
        turn = next(self._numbers)
        node = self._node(name)
        try:
            if isinstance(case, MessageCase):
                return await _sends(network, node, self.driver.queues()[0], case, turn)
            said = await case.converse(Session(network, "limits", node, turn))
        except (Failed, Unknown) as error:
            said = error.reason
        except (LookupError, TypeError, ValueError, AssertionError) as error:
            said = f"an answer that can't be read: {type(error).__name__}: {error}"
        return said if said == documented(case) else said + _which(name, len(network.sent))


def _wrong(name: str) -> list[tuple[str, Command]]:
    """Return the requests of a case of those that can't be understood, each with what is wrong; none in other cases."""
    for request, form in FORMS.items():
        if name == f"requests {request.name} that can't be understood":
            return list(wrong_requests(request, form, TOPIC))
    return []


def _which(name: str, sent: int) -> str:
    """Return which of the requests that can't be understood was the last of so many; "" in other cases."""
    wrong = _wrong(name)
    return f"{_SUFFIX}{sent} of {len(wrong)}, one {wrong[sent - 1][0]}" if wrong else ""


async def _rest(network: Watched, node: str, name: str) -> str:
    """Ask all of a case's requests, and return how many were answered with each code, and the first of these."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for what, request in _wrong(name):
        try:
            said = code(await ask(network.connect("limits-rest", node), request, REQUEST_S))
        except (Failed, Unknown):
            said = NO_ANSWER
        first.setdefault(said, what)
        counts[said] += 1
        if counts[NO_ANSWER] == MOST_SILENT:
            break
    told = (f"{said} to {number} ({first[said]})" for said, number in sorted(counts.items()))
    return f"; in all {', '.join(told)}"


async def _sends(network: Watched, node: str, queue: QueueRef, case: MessageCase, turn: int) -> str:
    """Send a message, and read it if it was taken."""
    key, body = f"{turn:032X}", f"{turn:014}:limits".encode()
    answer = await ask(network.connect("limits", node), case.request(queue, key, body), REQUEST_S)
    if answer.code != Response.SUCCESS or case.expected != Response.SUCCESS:
        return code(answer) if f"{code(answer)}" == documented(case) else f"{code(answer)}: {answer.remark}"
    offset = number(answer.fields, "queueOffset")
    fields: Mapping[str, object] = {
        "topic": queue.topic,
        "queueId": queue.queue_id,
        "queueOffset": offset,
        "maxMsgNums": 1,
        "sysFlag": 0,
        "consumerGroup": ASKER,
    }
    read = Command(code=Request.PULL_MESSAGE, fields={name: str(value) for name, value in fields.items()})
    for _ in range(READS):
        found = await ask(network.connect("limits", node), read, REQUEST_S)
        given = [one for one in records.decode_all(found.body) if one.offset == offset]
        if given:
            break
        await asyncio.sleep(RETRY_S)
    if not given:
        raise Failed(f"it was taken, and not there to be read: code {found.code}: {found.remark}")
    differs = case.differs(queue, key, body, given[0], answer.fields.get("msgId", ""), b"")
    return f"{code(answer)}, and readers are given it with {differs}" if differs else code(answer)


def of_reference(folder: Path) -> dict[str, str]:
    driver = reference.Reference(
        reference.Options(controllers=1, nameservers=1, brokers=1, topic=TOPIC, queues=1, tier=False)
    ).promising(ALONE)
    world = sim.create(run_id="conformance", directory=folder, seed=1)
    asker = Asker(world, driver, driver.brokers[0], driver.nameservers[0], completes=False)
    world.execute(asker.main())
    return asker.told


def of_rocketmq(folder: Path) -> dict[str, str]:
    options = rocketmq.Options(
        controllers=1, brokers=1, topic=TOPIC, queues=1, broker_options={"enablePropertyFilter": True}
    )
    driver = rocketmq.RocketMQ(options).promising(ALONE)
    deployment = process.create(run_id=folder.name, directory=folder, seed=1)
    asker = Asker(deployment, driver, driver.nodes.brokers[0], driver.nodes.nameservers[0], completes=True)
    deployment.execute(asker.main())
    return asker.told


# The page


def page(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """Return the page. ``ours`` and ``theirs``: what each system said, by case."""
    asked = applicable()
    right = {name: documented(case) for name, case in asked.items()}
    alike = [name for name in asked if ours[name] == theirs[name] == right[name]]
    rows = [
        f"| {name} | {right[name]} | {_as(ours[name], right[name])} | {_as(theirs[name], right[name])} |"
        f" {right_by(name)} |"
        for name in asked
        if name not in alike
    ]
    return "\n".join(
        [
            *("# The same questions to the reference system and to RocketMQ", ""),
            *(INTRO, ""),
            f"Of {len(asked)} cases, both answer {len(alike)} as documented. {len(rows)} differ:",
            f"{_sides(asked, alike)}.",
            *("", "## Where they differ", "", COLUMNS, "", *HEAD, *rows),
            *("", "## Where both answer as documented", "", f"{BOTH}{'; '.join(alike)}."),
            *("", "## What RocketMQ can't be asked", "", NOT_ASKED, ""),
            *(f"* {name}: {why}" for name, why in OUR_OWN.items()),
            "",
        ]
    )


def _sides(asked: Iterable[str], alike: Sequence[str]) -> str:
    """Return how often who is right, in a few words."""
    found = Counter(side for name in asked if name not in alike for side in SIDES if right_by(name).startswith(side))
    ours, theirs, both, undecided = (found[side] for side in SIDES)
    return (
        f"the reference system is right in {ours}, RocketMQ in {theirs}, in {both} no document decides or each has its"
        f" own, and {undecided} are undecided"
    )


INTRO = """\
`python -m benchmarks.conformance --write` made this page, from one run of each system. It asks the cases of the
workload `limits` (`drivers/reference/conformance`) that are for a broker or a name server, and its messages: of the
reference system in the simulator, and of Apache RocketMQ 5.5.0 on processes. Each has one broker, one controller and
one name server, no faults strike, and 400 messages are there. A case that is not answered as documented is asked a
second time; where that is not as documented either, the first answer stands here.

On the way to RocketMQ, a request gets those fields that RocketMQ's header classes need and the reference system does
not, as RocketMQ's own clients fill them (`completed` in the script): `defaultTopic` for a send, for instance, and the
subscription `*` for a read without one. Nothing else changes. RocketMQ has `enablePropertyFilter=true`, without which
it refuses conditions."""
COLUMNS = """\
"Documented" is what [the wire](../../docs/wire.md) has the reference system answer. A conversation ends at the first
answer that is another one; what would come after it was not asked. So does a case of requests that can't be understood:
the table names the request, and then how many of all its requests were answered with which code, each with the first of
them. In the last column, "both" means that no document decides, or that each does as its own says; classes are those of
RocketMQ 5.5.0's sources."""
HEAD = ("| case | documented | reference | RocketMQ 5.5.0 | who is right, by which document |", "|---|---|---|---|---|")
BOTH = "These are: "
NOT_ASKED = """\
Cases for controllers and object stores are left out: the reference system's have requests and rules of their own. So
are these:"""
_PLACE = re.compile(r", [\w.$/]+\([\w.]+:\d+\)")
_MOST = 120


def _as(said: str, expected: str) -> str:
    """Return what a cell says of an answer."""
    if said == expected:
        return "as documented"
    head, suffix, which = said.partition(_SUFFIX)
    head = _PLACE.sub("", head.splitlines()[0] if head else "").strip().removesuffix(":")
    if suffix:
        head = head.partition(" to one ")[0]
    short = head if len(head) <= _MOST else f"{head[:_MOST]}…"
    return f"`{short.replace('`', chr(39)).replace('|', '/')}`{suffix}{which}"


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.conformance", description=__doc__)
    arguments.add_argument("--write", action="store_true", help=f"replace {PAGE.name}; otherwise print the page")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        text = page(of_reference(Path(ours)), of_rocketmq(Path(theirs)))
    if given.write:
        PAGE.write_text(text, "utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
