"""Whether a driver's framing reads what its clients say: whole, in kinds, and so that a refusal is one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import cycle

from chaos.deployment import CanRuleLinks, CanRuleRequests
from chaos.driver import CanFrame
from chaos.effects.links import LinkRule
from chaos.effects.requests import RefuseRequests
from chaos.fault import Undo, Verb
from chaos.frames import Frame, Frames, Framing
from chaos.ops import OpType
from chaos.testing._drivers.bench import Bench
from chaos.testing._drivers.queues import Queues
from chaos.testing._drivers.spoken import Spoken

#: Bytes arrive in pieces of these sizes, again and again.
PIECES = (1, 3, 17, 500, 4_096)
SEND, RULE, NAME = "send", "check-refusal", "check-refused"
SENDS = 5


async def check_framing(bench: Bench, driver: CanFrame, load: Queues) -> None:
    """Read again all that clients have said so far; then refuse sends, which must have no effect."""
    framing = driver.framing()
    kinds: set[str] = set()
    for spoken in bench.network.spoken:
        kinds |= _read_again(bench, framing, spoken)
    if not bench.network.spoken:
        bench.unchecked.append("framing: the client opens no connection of the network that it is given")
    elif not kinds:
        bench.require(
            False, "framing: nothing that clients have asked so far has a kind, so no fault would hit anything"
        )
    await _refuse(bench, framing, load)


def _read_again(bench: Bench, framing: Framing, spoken: Spoken) -> set[str]:
    """Check the frames of one connection; return the kinds of what was asked."""
    frames = framing.open(spoken.port)
    if frames is None:
        return set()
    asked = _frames(bench, "requests", frames.requests, spoken.asked)
    answered = _frames(bench, "answers", partial(frames.answers, ended=False), spoken.answered)
    kinds = {frame.kind for frame in asked if frame.kind}
    strange = sorted(kinds - set(framing.kinds))
    bench.require(not strange, f"framing: requests have the kinds {', '.join(strange)}, which Framing.kinds lacks")
    expected, got = ([frame.number for frame in some if frame.paired] for some in (asked, answered))
    text = "framing: there are answers that are paired with no request: say paired=False of what a node says unasked"
    if any(number is None for number in got):
        bench.require(len(got) <= len(expected), text)
    else:
        bench.require(set(got) <= set(expected), text)
    for request in {frame.kind: frame for frame in asked if frame.kind and frame.paired}.values():
        _check_refusal(bench, framing, spoken.port, request)
    return kinds


def _frames(bench: Bench, what: str, read: Callable[[bytearray], Sequence[Frame]], data: bytearray) -> list[Frame]:
    """Return the frames of these bytes, which come in pieces and must be the same when they are joined again."""
    found: list[Frame] = []
    buffer, at, sizes = bytearray(), 0, cycle(PIECES)
    try:
        while at < len(data):
            size = next(sizes)
            buffer += data[at : at + size]
            at += size
            found += read(buffer)
    except ValueError as error:
        bench.require(False, f"framing: {what} of a client can't be read: {error}")
        return found
    joined = b"".join(frame.data for frame in found) + bytes(buffer)
    bench.require(joined == data, f"framing: {what} that are split into frames and joined again are not what was sent")
    return found


def _check_refusal(bench: Bench, framing: Framing, port: str, request: Frame) -> None:
    """Check that the refusal of a request reads as one answer to it."""
    frames = framing.open(port)
    assert frames is not None, "it has read this port"
    found: list[Hashable] = []
    try:
        refusal = frames.refusal(_asked_again(frames, request))
        if not refusal:
            return
        found = [frame.number for frame in frames.answers(bytearray(refusal), ended=False) if frame.paired]
    except ValueError:
        pass  # then it is none
    text = f"framing: the refusal of a {request.kind} must be one answer to it; it reads as {len(found)}"
    bench.require(found == [request.number], text)


def _asked_again(frames: Frames, request: Frame) -> Frame:
    """Return the request as other frames read it, which may remember it; as it is, if they need what came before."""
    try:
        read = frames.requests(bytearray(request.data))
    except ValueError:
        read = ()
    return read[0] if len(read) == 1 else request


async def _refuse(bench: Bench, framing: Framing, load: Queues) -> None:
    """Have sends refused: each that was hit must end as Failed, and not stand in its queue."""
    host = bench.deployment
    able = isinstance(host, CanRuleRequests) and isinstance(host, CanRuleLinks)
    if not able or SEND not in framing.kinds or not load.queues:
        bench.unchecked.append(
            f"refusals: {'no kind of request is called send' if able else f'{host.name} makes none'}"
        )
        return
    client = bench.driver.client(bench.network, NAME)
    await load.send(client, load.queues[0], "send")  # what comes before the first one is done
    rule = LinkRule(frozenset({NAME}), frozenset({"*"}), RefuseRequests(kinds=(SEND,)))
    await host.set_rule(RULE, rule)  # type: ignore[attr-defined]
    ended = [await load.send(client, load.queues[0], "send, refused in the node's place") for _ in range(SENDS)]
    hits = await host.rule_hits(RULE)  # type: ignore[attr-defined]
    await host.undo(Undo(verb=Verb.CLEAR_RULE, subject=RULE))
    client.close()
    if not hits:
        bench.unchecked.append("refusals: no send was refused, as its frames have no refusal or were not read")
        return
    refused = sum(result.type is OpType.FAIL for result in ended)
    text = f"framing: {hits} of {SENDS} sends were refused in the node's place, and {refused} ended as Failed"
    bench.require(refused >= min(hits, SENDS), text)
    await bench.settled("after sends were refused")
    await load.read_back()
