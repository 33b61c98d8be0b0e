"""The kit for authors of drivers: right drivers pass it, and each way to be wrong has its sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chaos.deployments import process
from chaos.driver import ClusterView, Disconnected, Evidence, Network, Profile, Record, ReplicaGroup, evidence_of
from chaos.effects.links import HARNESS
from chaos.errors import BadInput
from chaos.frames import CodecFrames, Frame, Framing
from chaos.node import NodeSpec
from chaos.ops import Answer, Failed, QueueRef, Unknown
from chaos.testing.drivers import check_driver
from drivers._remoting import frames as remoting
from drivers._remoting.wire import RemotingCodec
from drivers.reference import Options, create
from drivers.reference.driver import ReferenceWithMetadata
from tests.drivers.toy import GROUP, Toy, ToyClient, ToyObjects, ask
from tests.drivers.toy_logs import ToyLogs, ToyMember, ToyProducer, ToyReader, messages_of


def test_the_reference_driver_passes_and_everything_could_be_checked() -> None:
    assert check_driver(create(Options())) == ()


def test_the_reference_driver_passes_as_its_options_make_it_small() -> None:
    left = check_driver(create(Options(brokers=1, controllers=1, tier=False)).promising(Profile(min_in_sync=1)))
    assert [one.partition(":")[0] for one in left] == [
        "switch",
        "force_switch",
        "operator",
        "remove_broker",
        "break_tier",
    ]


@pytest.mark.full
@pytest.mark.process
def test_the_reference_driver_passes_on_processes(tmp_path: Path) -> None:
    host = process.create(run_id="check", directory=tmp_path, seed=1)
    assert check_driver(create(Options()), deployment=host, load_s=3.0) == ()


def test_a_right_toy_passes_and_everything_could_be_checked() -> None:
    assert check_driver(Toy()) == ()


def test_a_right_toy_with_logs_passes_and_everything_could_be_checked() -> None:
    left = check_driver(ToyLogs())
    assert [one.partition(":")[0] for one in left] == ["collect"]


def problems(driver: object) -> str:
    with pytest.raises(AssertionError) as found:
        check_driver(driver)  # type: ignore[arg-type]
    return str(found.value)


# Views


class Viewing(Toy):
    """A driver whose views are changed by ``change``; None: as they are."""

    def change(self, view: ClusterView) -> ClusterView:
        raise NotImplementedError

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        return self.change(await super().view(network, record))


def regroup(view: ClusterView, **fields: Any) -> ClusterView:
    return replace(view, groups=(replace(view.groups[0], **fields),))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda view: regroup(view, leader="node-9"), "leader node-9 of group p-0 is not among its replicas"),
        (lambda view: regroup(view, leader=""), "settled though group p-0 has no leader"),
        (lambda view: regroup(view, in_sync=("node-0",)), "settled though node-1, node-2 of group p-0 is not in sync"),
        (lambda view: regroup(view, in_sync=(*view.groups[0].in_sync, "x")), "x is in sync in group p-0, but not amo"),
        (lambda view: regroup(view, epoch=-1), "group p-0 has a leader but no epoch"),
        (lambda view: regroup(view, replicas=()), "group p-0 has no replicas"),
        (lambda view: replace(view, groups=()), "view names no group"),
        (lambda view: replace(view, groups=view.groups * 2), "two groups of the same name"),
        (lambda view: replace(view, tier=()), "view names store-0 nowhere"),
        (lambda view: replace(view, others=("proxy",)), "view names proxy, which is not a node of the cluster"),
        (lambda view: replace(view, controller_leader="x"), "controller_leader x is not among the controllers"),
        (lambda view: replace(view, newcomers=("node-1",)), "newcomer node-1 is a node of the cluster already"),
        (lambda view: replace(view, asked_ns=5), "view sets asked_ns"),
        (lambda view: replace(view, settled=True), "view is settled though no node answers"),
        (lambda view: None, "view returned None, expected a chaos.driver.ClusterView"),
    ],
)
def test_a_view_must_agree_with_itself(change: Any, problem: str) -> None:
    class Wrong(Viewing):
        def change(self, view: ClusterView) -> ClusterView:
            made: ClusterView = change(view)
            return made

    assert problem in problems(Wrong())


def test_a_view_never_goes_back() -> None:
    class Forgetful(Viewing):
        views = 0

        def change(self, view: ClusterView) -> ClusterView:
            self.views += 1
            return regroup(view, epoch=9) if self.views == 1 else view

    assert "the epoch of group p-0 went back from 9 to 1" in problems(Forgetful())


def test_a_view_of_a_system_that_is_down_does_not_raise() -> None:
    class Raising(Toy):
        async def view(self, network: Network, record: Record | None = None) -> ClusterView:
            await ask(network, HARNESS, "node-0", "state")
            return await super().view(network, record)

    assert "view raised Unknown: timeout" in problems(Raising())


def test_a_system_that_never_settles_ends_the_check() -> None:
    class Never(Viewing):
        def change(self, view: ClusterView) -> ClusterView:
            return replace(view, settled=False)

    assert "never says that the system is settled within 60 s after its start" in problems(Never())


# Clients


class WithClient(Toy):
    """A driver whose clients are of another class."""

    made: type = ToyClient

    def client(self, network: Network, name: str) -> Any:
        return self.made(network, name, "node-0")


def with_client(made: type) -> Toy:
    driver = WithClient()
    driver.made = made
    return driver


def test_other_exceptions_may_not_escape() -> None:
    class Escaping(ToyClient):
        async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
            try:
                return await super().send(queue, key, body)
            except Unknown as error:
                raise TimeoutError("no answer") from error

    found = problems(with_client(Escaping))
    assert (
        "send, with request 1 of it lost (timeout) raised TimeoutError: no answer; only chaos.ops.Failed and" in found
    )


def test_a_timeout_is_not_a_failure() -> None:
    class Hasty(ToyClient):
        async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
            try:
                return await super().send(queue, key, body)
            except Unknown as error:
                raise Failed("timeout") from error

        async def commit(self, queue: QueueRef, group: str, offset: int) -> Answer:
            try:
                return await super().commit(queue, group, offset)
            except Unknown as error:
                raise Failed("timeout") from error

    found = problems(with_client(Hasty))
    assert "send, with request 1 of it lost (timeout) ended as Failed, but the message stands in the queue" in found
    assert "commit, with request 1 of it lost (connection lost) ended as Failed, but the offset was stored" in found


def test_one_call_is_one_attempt() -> None:
    class Stubborn(ToyClient):
        async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
            try:
                return await super().send(queue, key, body)
            except Unknown:
                return await super().send(queue, key, body)

    assert "stored the message more than once: one call must be one attempt" in problems(with_client(Stubborn))


def test_an_acknowledged_send_says_where_and_is_there() -> None:
    class Silent(ToyClient):
        async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
            return replace(await super().send(queue, key, body), offset=-1)

    class Elsewhere(ToyClient):
        async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
            answer = await super().send(queue, key, body)
            return replace(answer, offset=answer.offset + 1_000)

    class Deaf(ToyClient):
        async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
            raise Unknown("not today")

    assert "send ended well without an offset" in problems(with_client(Silent))
    assert "send was acknowledged at an offset that pull doesn't deliver" in problems(with_client(Elsewhere))
    assert "no send to queue 0 was acknowledged by a settled system; the last one ended with: not today" in problems(
        with_client(Deaf)
    )


def test_what_is_pulled_is_what_was_sent() -> None:
    class Nameless(ToyClient):
        async def pull(
            self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
        ) -> Answer:
            answer = await super().pull(queue, offset, limit=limit)
            return replace(answer, messages=tuple(replace(one, message=-1, hash=7) for one in answer.messages))

    class Endless(ToyClient):
        async def pull(
            self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
        ) -> Answer:
            return replace(await super().pull(queue, offset, limit=limit), maximum=-1)

    class Nowhere(ToyClient):
        async def pull(
            self, queue: QueueRef, offset: int, *, limit: int, max_bytes: int = 0, node: str = "", source: str = ""
        ) -> Answer:
            return replace(await super().pull(queue, offset, limit=limit), node="mars")

    found = problems(with_client(Nameless))
    assert "pull delivers message -1 where" in found and "pull delivers another hash" in found
    assert "pull ended well without Answer.maximum" in problems(with_client(Endless))
    assert "pull: Answer.node is 'mars', which is not a node of the cluster" in problems(with_client(Nowhere))


def test_offsets_of_groups_and_bounds() -> None:
    class Odd(ToyClient):
        async def committed(self, queue: QueueRef, group: str) -> Answer:
            return Answer(offset=0)

        async def bounds(self, queue: QueueRef, node: str = "") -> Answer:
            return Answer(minimum=0, maximum=0)

    found = problems(with_client(Odd))
    assert "committed of a new group must end with the offset -1" in found
    assert "committed says 0 after a commit of 1 ended well" in found
    assert "bounds says maximum 0, the next offset to be written, after offset" in found


def test_a_call_returns_an_answer() -> None:
    class Plain(ToyClient):
        async def commit(self, queue: QueueRef, group: str, offset: int) -> Any:
            return True

    assert "commit returned True, expected a chaos.ops.Answer" in problems(with_client(Plain))


def test_a_refused_connection_may_fail() -> None:
    class Careful(ToyClient):
        async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
            try:
                return await super().send(queue, key, body)
            except Failed as error:
                raise Unknown(error.reason) from error

    assert check_driver(with_client(Careful)) == (), "to know less is not wrong"


# Everything else


def test_queues_stay_the_same() -> None:
    class Growing(Toy):
        asked = 0

        def queues(self) -> tuple[QueueRef, ...]:
            self.asked += 1
            return tuple(QueueRef(index=number, topic="t", queue_id=number) for number in range(self.asked))

    assert "queues() has changed" in problems(Growing())


def test_collect_completes_what_it_has_read() -> None:
    class Nothing(Toy):
        async def collect(self, network: Network, record: Record) -> None: ...

    class Some(Toy):
        async def collect(self, network: Network, record: Record) -> None:
            record("final", f="complete", node="node-0")
            record("final", f="log", node="node-0", offset=0, colour="red", value={1, 2})

    assert "collect ended without any complete row" in problems(Nothing())
    found = problems(Some())
    assert "collect has rows of node-0 after its complete row" in found
    assert "collect has no complete row of node-1, node-2, node-3, though the system is settled" in found
    assert "collect has complete rows of node-0, though no node answers" in found
    assert "a row final log has columns that histories don't have: colour" in found
    assert "a row final log has a value that is not JSON" in found


def test_declared_evidence_must_come() -> None:
    class Boasting(Toy):
        def evidence(self) -> frozenset[Evidence]:
            return frozenset({Evidence.ELECTIONS, Evidence.TIER})

    class Babbling(Toy):
        def evidence(self) -> Any:
            return {"gossip"}

    found = problems(Boasting())
    assert "evidence() declares elections, but none of its rows came: trace applied" in found
    assert "evidence() declares tier, but none of its rows came" in found
    assert "driver Babbling: evidence: 'gossip' is not a valid Evidence" in problems(Babbling())


def test_events_names_everything_that_nodes_trace() -> None:
    class Terse(Toy):
        def events(self) -> tuple[str, ...]:
            return ("role",)

    assert "traces asked, which events() does not name" in problems(Terse())


def test_names_of_nodes_are_unique() -> None:
    class Twins(Toy):
        def __init__(self) -> None:
            super().__init__()
            self.known = ("node-0", "node-0")

    assert "cluster describes two nodes of the same name: node-0, node-0, store-0" in problems(Twins())


def test_a_node_that_dies_of_its_own_error_is_named() -> None:
    class Broken(Toy):
        async def collect(self, network: Network, record: Record) -> None:
            try:
                await ask(network, HARNESS, "node-1", "nonsense")
            except (Failed, Unknown):
                await super().collect(network, record)

    assert "a node died of its own error" in problems(Broken())


# Powers


def test_a_switch_must_switch() -> None:
    class Idle(Toy):
        async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
            return {}

    class Refusing(Toy):
        async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
            raise Failed("a toy never switches")

    class Mute(Toy):
        async def force_switch(self, network: Network, target: str, group: str) -> Any:
            await self.switch(network, target, group)

    assert "switch to node-1 returned, but 30 s later view doesn't say that it leads in a new epoch" in problems(Idle())
    found = problems(Refusing())
    assert "switch to a follower in sync of a settled system was refused 5 times: a toy never switches;" in found
    assert "force_switch returned None, expected a mapping of evidence" in problems(Mute())


def test_a_leader_is_never_removed_and_a_follower_is() -> None:
    class Careless(Toy):
        async def remove_broker(self, network: Network, node: str) -> Mapping[str, object]:
            return {}

    found = problems(Careless())
    assert "remove_broker of a leader, node-2, was not refused with Failed" in found or "of a leader" in found
    assert "30 s later view still says that it is in sync" in found


def test_a_newcomer_joins() -> None:
    class Closed(Toy):
        async def welcome(self, network: Network, node: str) -> Mapping[str, object]:
            return {"joined": True}

    class Liar(Toy):
        def broker(self, node: str, mutant: str) -> NodeSpec:
            return super().broker("node-7" if node == "node-3" else node, mutant)

    found = problems(Closed())
    assert "node-3 was welcomed, but view does not name it as a replica" in found
    assert "node-3 was welcomed, but newcomers() still names it" in found
    assert "broker('node-3') describes a node named 'node-7'" in problems(Liar())


def test_a_mended_tier_is_whole() -> None:
    class Stuck(Toy):
        async def mend_tier(self, network: Network, rule_id: str) -> None: ...

    found = problems(Stuck())
    assert "of a rule that was taken down, expected 0" in found


def test_objects_are_registers_with_versions() -> None:
    class Wrong(ToyObjects):
        async def write(self, key: str, node: str, value: str) -> Answer:
            try:
                return await super().write(key, node, value)
            except Unknown as error:
                raise Failed("timeout") from error

        async def compare_and_set(self, key: str, node: str, *, expected: int, value: Any) -> Answer:
            try:
                return await super().compare_and_set(key, node, expected=expected, value=value)
            except Failed:
                raise Failed("no") from None

    class Holding(Toy):
        def objects(self, network: Network, name: str) -> ToyObjects:
            return Wrong(network, name, self.known)

    found = problems(Holding())
    assert "objects: no node answered compare_and_set at an old version with Failed whose value has refused" in found
    assert "objects: write, with request 1 of it lost (timeout) ended as Failed, but it was written" in found


class Keeping(ReferenceWithMetadata):
    """The reference system, whose clients of metadata answer as ``change`` has it."""

    __slots__ = ("change",)

    def metadata(self, network: Network, name: str) -> Any:
        return self.change(super().metadata(network, name))


def keeping(change: Any) -> Keeping:
    made = Keeping(Options(brokers=1, controllers=1, tier=False, metadata=True), Profile(min_in_sync=1))
    object.__setattr__(made, "change", change)
    return made


def without_viewers(client: Any) -> Any:
    client.viewers = ()
    return client


def overwrites(client: Any) -> Any:
    """It compares nothing."""
    client.compare_and_set = lambda key, node, *, expected, value: client.write(key, node, value)
    return client


def shows_deleted(client: Any) -> Any:
    view = client.view

    async def shown(key: str, node: str) -> Answer:
        answer: Answer = await view(key, node)
        return replace(answer, value={**answer.value, "value": answer.value["value"] or 5})

    client.view = shown
    return client


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (without_viewers, "metadata: its nodes, viewers or kinds are empty"),
        (overwrites, "a compare_and_set at an old version must raise Failed with refused = True"),
        (shows_deleted, "nameserver-0 shows topic/check-metadata as (5, 3) after it was deleted, expected (None, 3)"),
    ],
)
def test_metadata_has_versions_and_views_follow(change: Any, problem: str) -> None:
    assert problem in problems(keeping(change))


def test_a_driver_that_keeps_metadata_passes() -> None:
    left = check_driver(keeping(lambda client: client))
    assert [one.partition(":")[0] for one in left] == [
        "switch",
        "force_switch",
        "operator",
        "remove_broker",
        "break_tier",
    ]


def test_all_problems_are_told_at_once() -> None:
    class Bad(WithClient):
        def events(self) -> tuple[str, ...]:
            return ()

        async def switch(self, network: Network, target: str, group: str) -> Mapping[str, object]:
            raise Disconnected("gone")

    found = problems(Bad())
    assert found.startswith("the driver Bad has 4 problems:\n- ")
    assert "switch raised Disconnected: gone; only chaos.ops.Failed and chaos.ops.Unknown may escape" in found


def test_a_system_of_objects_alone_needs_no_queues() -> None:
    class Keys(Toy):
        def queues(self) -> tuple[QueueRef, ...]:
            return ()

    assert check_driver(Keys())[0] == "clients of queues: queues() is empty"


def test_groups_of_other_names_are_no_longer_the_same_ones() -> None:
    class Renaming(Viewing):
        views = 0

        def change(self, view: ClusterView) -> ClusterView:
            self.views += 1
            return view if self.views == 1 else replace(view, groups=(ReplicaGroup(name="q", replicas=self.known),))

    assert f"group {GROUP} has gone; names of groups must stay the same" in problems(Renaming())


def test_a_driver_of_an_older_contract_is_told_what_is_called_otherwise_now() -> None:
    class Older(Toy):
        def tells(self) -> frozenset[Evidence]:
            return frozenset()

    with pytest.raises(
        BadInput, match=r"driver Older: evidence: the driver has tells\(\), which is called evidence\(\)"
    ):
        evidence_of(Older())


# Logs, transactions and groups


@pytest.mark.parametrize(
    ("bug", "problem"),
    [
        ("aborted-readable", "an aborted message is readable where it was stored"),
        ("open-readable", "a message is readable before its transaction has ended"),
        ("torn", "a committed message is not readable where it was stored"),
        ("offset-without-output", "a group's offset that was of an aborted transaction is what committed answers"),
        ("output-without-offset", "a group's offset that was committed in a transaction is not what committed answers"),
        ("fenced-writes", "send of a fenced producer must end as Failed with `fenced` = True, but it ended as ok"),
        ("hanging", "what was sent after a transaction's end is never readable"),
        ("stale-generation", "committed says 2 after a commit of 2 was refused"),
        ("double-owner", "there is no new generation in which the members own each queue once"),
    ],
)
def test_a_system_that_breaks_a_promise_of_logs_is_noticed(bug: str, problem: str) -> None:
    assert problem in problems(ToyLogs(bug))


class Strange(ToyLogs):
    """Clients of one power are others."""

    def log_reader(self, network: Network, name: str) -> ToyReader:
        return self.reader(network, name, "node-0")

    def transactions(self, network: Network, name: str, *, id: str) -> ToyProducer:
        return self.producer(network, name, "node-0", id=id)

    def group_member(self, network: Network, name: str, group: str) -> ToyMember:
        return self.member(network, name, "node-0", group=group)

    reader: type[ToyReader] = ToyReader
    producer: type[ToyProducer] = ToyProducer
    member: type[ToyMember] = ToyMember


def test_a_reader_goes_on_where_it_was_when_an_answer_is_lost() -> None:
    class Hasty(ToyReader):
        async def poll(self, limit: int) -> Answer:
            before = self.positions
            self.positions = {queue: at + 1 for queue, at in before.items()}
            got = await self.ask("poll", positions=before, limit=limit)
            self.positions = got["following"]
            return self.answer(messages=messages_of(got))

    class Wrong(Strange):
        reader = Hasty

    assert "log_reader: poll is never given what was sent to queue 0 at its position" in problems(Wrong())


def test_a_reader_says_where_it_goes_on() -> None:
    class Silent(ToyReader):
        def answer(self, **more: Any) -> Answer:
            return Answer(node=self.leader, **more)

    class Wrong(Strange):
        reader = Silent

    assert "log_reader: assign says None in `following`, expected {queue: offset}" in problems(Wrong())


def test_a_producer_says_in_which_epoch_it_owns_its_id() -> None:
    class Silent(ToyProducer):
        async def take_over(self) -> Answer:
            await super().take_over()
            return Answer(node=self.leader)

    class Wrong(Strange):
        producer = Silent

    assert "take_over ended well without `epoch`" in problems(Wrong())


def test_a_member_says_what_it_owns() -> None:
    class Silent(ToyMember):
        async def join(self, topics: Sequence[str]) -> Answer:
            await super().join(topics)
            return Answer(node=self.leader, value={"queues": 3})

    class Wrong(Strange):
        member = Silent

    assert "group_member: join says {'queues': 3}, expected `queues`, their indexes, and `generation`" in problems(
        Wrong()
    )


@pytest.mark.parametrize(
    "answers, sentence",
    [
        ((), "set_up does not return True within 60 s of its start"),
        ((True, False), "set_up returned False when all was made; it must leave that as it is, and return True"),
        ((True, True, True), "set_up returned True though no node answers"),
        ((True, True, None), "set_up raised ValueError: nobody answers; it must never raise"),
    ],
)
def test_a_set_up_ends_once_all_is_made_and_says_when_it_is_not(answers: Sequence[bool | None], sentence: str) -> None:
    class SetsUp(Toy):
        asked = 0

        async def set_up(self, network: Network) -> bool:
            self.asked += 1
            answer = answers[self.asked - 1] if self.asked <= len(answers) else False
            if answer is None:
                raise ValueError("nobody answers")
            return answer

    assert sentence in problems(SetsUp())


class Cut(CodecFrames):
    """Loses the last byte of each request."""

    def requests(self, buffer: bytearray) -> list[Frame]:
        return [replace(frame, data=frame.data[:-1]) for frame in super().requests(buffer)]


class Shy(CodecFrames):
    """Its refusals are no answers."""

    def refusal(self, request: Frame) -> bytes:
        return request.data


def _made(kind: type[CodecFrames]) -> CodecFrames:
    own = remoting.frames("")
    return kind(RemotingCodec(), kind_of=own.kind_of, size_of=remoting._size_of, error=own.error)


def cut(port: str) -> CodecFrames:
    return _made(Cut)


def shy(port: str) -> CodecFrames:
    return _made(Shy)


@pytest.mark.parametrize(
    "reader, kinds, sentence",
    [
        ("cut", remoting.FRAMING.kinds, "requests that are split into frames and joined again are not what was sent"),
        ("shy", remoting.FRAMING.kinds, "the refusal of a send must be one answer to it; it reads as 0"),
        ("shy", (), "which Framing.kinds lacks"),
    ],
)
def test_a_framing_reads_all_that_is_said(reader: str, kinds: Sequence[str], sentence: str) -> None:
    class Framed(ReferenceWithMetadata):
        def framing(self) -> Framing:
            return Framing(reader=f"{__name__}:{reader}", kinds=kinds)

    assert sentence in problems(Framed(Options(tier=False)))
