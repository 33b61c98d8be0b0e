"""The driver for Kafka: what is started, how each call ends whatever a broker answers, and who is said to lead."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any, TypeVar

import pytest

from chaos.driver import CanRemoveBrokers, ClusterView, Evidence, Profile, evidence_of, promising
from chaos.errors import BadInput
from chaos.ops import Failed, QueueRef, Unknown
from chaos.workload import body_hash
from drivers.kafka import RECIPES, Options, create, recipe, wire
from drivers.kafka.classic_protocol import ClassicMember
from drivers.kafka.client import ALL_IN_SYNC, LEADER_ALONE, NOT_APPENDED, NOT_COMMITTED, QueueClient
from drivers.kafka.consumer_protocol import ConsumerMember
from drivers.kafka.frames import frames
from stormproof.install import recipe_for
from tests.drivers import kafka_servers as say
from tests.drivers.kafka_servers import Servers

pytest.importorskip("kio", reason="not there: pip install 'stormproof[kafka]'")

T = TypeVar("T")
QUEUE = QueueRef(index=0, topic="storm", queue_id=0)
ANY = 1 << 40


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine under load is no silent server."""
    for bound in ("connection.REQUEST_S", "topology.LOOK_S", "changes.CHANGE_S"):
        monkeypatch.setattr(f"drivers.kafka.{bound}", 60.0)


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


def client(network: Servers, *, acks: int = ALL_IN_SYNC, committed: bool = True) -> QueueClient:
    return QueueClient(network, "c", create(Options()).nodes, acks=acks, committed=committed)  # type: ignore[arg-type]


def serving(**answers: Any) -> Servers:
    """Brokers of which broker-1 leads; ``answers`` are said to requests of these names."""

    def answer(node: str, name: str, request: Any) -> Any:
        if name in answers:
            return answers[name]
        if name == "metadata":
            return say.metadata(leader=1)
        return say.limits(request) if name == "list_offsets" else say.coordinator()

    return Servers(answer)


# What is started


@pytest.mark.parametrize("version", ["3.8.1", "2.13", "4", "4.1.x", "../..", "4.1.0; id", ""])
def test_only_versions_that_it_can_drive_have_a_recipe(version: str) -> None:
    with pytest.raises(ValueError, match=r"from 3\.9\.0 on"):
        recipe(version)


def test_any_other_version_is_made_on_demand() -> None:
    assert recipe_for("kafka") == RECIPES[0] and recipe_for("kafka@4.1") == recipe("4.1.0")
    assert recipe_for("kafka@4.0.1").version == "4.0.1"
    assert "log4j-core" in recipe("4.0.1").files["pom.xml"] and "reload4j" in recipe("3.9.2").files["pom.xml"]
    with pytest.raises(BadInput, match=r"kafka: version: expected three numbers from 3\.9\.0 on"):
        recipe_for("kafka@3.1.0")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"controllers": 2}, "controllers: expected 0, 1, 3 or 5, got 2"),
        ({"replicas": 4}, "replicas: 4 need as many brokers, and there are 3"),
        ({"acks": "0"}, "acks: expected all or master, got '0'"),
        ({"isolation": "serializable"}, "isolation: expected read_committed"),
        ({"version": "3.0.0"}, "version: expected"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Options(**options)


def _properties(profile: Profile | None = None, **options: Any) -> dict[str, dict[str, str]]:
    driver = create(Options(**options))
    spec = (promising(driver, profile) if profile else driver).cluster("")
    lines = {one.name: one.program.files["server.properties"].splitlines() for one in spec.nodes}  # type: ignore
    return {name: dict(line.split("=", 1) for line in found) for name, found in lines.items()}


def test_brokers_are_controllers_unless_these_are_nodes_of_their_own() -> None:
    combined = _properties()
    assert [*combined] == ["broker-0", "broker-1", "broker-2"]
    assert combined["broker-1"]["process.roles"] == "broker,controller"
    assert combined["broker-1"]["controller.quorum.voters"].startswith("0@{ip:broker-0}:{port:broker-0.votes},")
    own = _properties(controllers=3)
    assert own["controller-2"]["process.roles"] == "controller" and own["controller-2"]["node.id"] == "1002"
    assert own["controller-2"]["listeners"] == "CONTROLLER://{ip}:{port:votes}"
    assert (
        own["broker-0"]["process.roles"] == "broker" and own["broker-0"]["listeners"] == "PLAINTEXT://{ip}:{port:kafka}"
    )


def test_members_use_the_protocol_that_kafka_takes_for_finished_or_the_one_that_is_named() -> None:
    name = "group.coordinator.rebalance.protocols"

    def uses(**options: Any) -> tuple[type, bool]:
        member = create(Options(**options)).group_member(serving(), "c", "g")  # type: ignore[arg-type]
        return type(member), name in _properties(**options)["broker-0"]

    assert uses() == uses(version="4.1.0", protocol="classic") == (ClassicMember, False)
    assert uses(protocol="consumer") == uses(version="4.1.0") == (ConsumerMember, True)
    with pytest.raises(ValueError, match="protocol: expected classic or consumer, got 'eager'"):
        Options(protocol="eager")


def test_a_profile_is_what_kafka_is_set_up_for() -> None:
    assert create(Options()).profile() == Profile(flush="async")
    assert "log.flush.interval.messages" not in _properties()["broker-0"]
    strict = _properties(Profile())["broker-0"]
    assert strict["log.flush.interval.messages"] == "1" and strict["min.insync.replicas"] == "2"
    weak = _properties(Profile(unclean=True, min_in_sync=1))["broker-0"]
    assert weak["unclean.leader.election.enable"] == "true" and weak["min.insync.replicas"] == "1"
    lying = _properties(Profile(), properties={"log.flush.interval.messages": 9, "log.preallocate": True})["broker-0"]
    assert lying["log.flush.interval.messages"] == "9" and lying["log.preallocate"] == "true"


def test_brokers_share_a_tier_if_they_are_to_have_one() -> None:
    tiered = _properties(tier=True, replicas=2)["broker-1"]
    assert (
        tiered["remote.log.storage.system.enable"] == "true" and tiered["rsm.config.dir"] == "{home}/../broker-0/tier"
    )
    assert tiered["rlmm.config.remote.log.metadata.topic.replication.factor"] == "2"
    assert not any("remote" in name for name in _properties()["broker-1"])


def test_what_a_tier_holds_is_reported_where_files_can_be_read_and_elections_are_clean() -> None:
    of_tiers = {Evidence.TIER_CONTENT, Evidence.FINAL_LOGS}
    assert evidence_of(create(Options(tier=True)), has_files=True) >= of_tiers
    assert not evidence_of(create(Options(tier=True)), has_files=False) & of_tiers
    unclean = promising(create(Options(tier=True)), Profile(unclean=True))
    assert not evidence_of(unclean, has_files=True) & of_tiers
    assert not evidence_of(create(Options()), has_files=True) & of_tiers


def test_share_groups_are_there_from_4_1_on() -> None:
    newer, older = (
        {one.name: one.program for one in create(Options(version=version, replicas=2)).cluster("").nodes}
        for version in ("4.1.0", "4.0.1")
    )
    assert "--feature share.version=1 -c" in newer["broker-0"].argv[2]  # type: ignore[union-attr]
    assert "--feature" not in older["broker-0"].argv[2]  # type: ignore[union-attr]
    shared = _properties(Profile(min_in_sync=2), version="4.1.0", replicas=2)["broker-0"]
    assert shared["share.coordinator.state.topic.replication.factor"] == "2"
    assert shared["share.coordinator.state.topic.min.isr"] == "2"
    assert not any("share." in name for name in _properties(version="4.0.1")["broker-0"])


def test_what_kafka_cannot_promise_is_refused() -> None:
    with pytest.raises(ValueError, match="say acks: all with min_in_sync: 2, or acks: master"):
        promising(create(Options()), Profile(acks=2))
    with pytest.raises(ValueError, match="needs 4 replicas in sync"):
        _properties(Profile(min_in_sync=4))
    with pytest.raises(BadInput, match=r"node\.id can't be given"):
        _properties(properties={"node.id": 5})
    with pytest.raises(BadInput, match="not one line"):
        _properties(properties={"a": "b\nnode.id=5"})
    with pytest.raises(BadInput, match="no planted bugs"):
        create(Options()).cluster("lazy")


def test_without_kio_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'stormproof\[kafka\]'"):
        create(Options()).cluster("")


def test_losses_are_in_danger_for_as_long_as_nothing_is_flushed() -> None:
    driver = create(Options())
    weak, strict = driver.exposure(), driver.promising(Profile()).exposure()
    assert weak.readers_see_confirmed and (weak.loss_window_s or 0) > (strict.loss_window_s or 0) > 3
    assert "polls" in evidence_of(driver) and "polls" not in evidence_of(create(Options(queues=99)))


# How calls end

#: A batch as it was sent: one message at offset 0 with the key 0A and the body hello.
RECORDED = bytes.fromhex(
    "00000000000000000000003fffffffff0281e96e3f0000000000000000019ad1ae2dd40000019ad1ae2dd4ffffffffffffffffffffffffffff000000011a0000000430410a68656c6c6f00"
)
#: Codes of Kafka's errors of which a send may have been appended nevertheless.
PERHAPS = [-1, 3, 5, 6, 7, 13, 20, 56]


def test_a_send_waits_for_whom_it_is_told_and_reports_its_offset() -> None:
    network = serving(produce=say.produced(offset=41))
    answer = run(client(network).send(QUEUE, "0A", b"hello"))
    assert (answer.node, answer.offset, answer.epoch) == ("broker-1", 41, -1)
    assert network.asked == [("broker-0", "metadata"), ("broker-1", "produce")]
    assert network.requests[-1].acks == ALL_IN_SYNC
    network = serving(produce=say.produced())
    run(client(network, acks=LEADER_ALONE).send(QUEUE, "0A", b"hello"))
    assert network.requests[-1].acks == 1


@pytest.mark.parametrize("acks", [ALL_IN_SYNC, LEADER_ALONE])
@pytest.mark.parametrize("code", [*sorted(NOT_APPENDED), *PERHAPS])
def test_a_refused_send_failed_only_if_nothing_was_appended(code: int, acks: int) -> None:
    sure = code in NOT_APPENDED or (code == 6 and acks == LEADER_ALONE)
    with pytest.raises(Failed if sure else Unknown, match=f"produce: {code} ") as raised:
        run(client(serving(produce=say.produced(code)), acks=acks).send(QUEUE, "0A", b"hello"))
    assert raised.value.answer.node == "broker-1"  # type: ignore[attr-defined]
    assert raised.value.answer.value == {"error": code}  # type: ignore[attr-defined]


TROUBLE: dict[str, Any] = {
    "closed": b"",
    "half a frame": b"\0\0\0\x40\0\0",
    "too large": b"\x7f\xff\xff\xff",
    "no answer of Kafka's": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "garbage": b"\0\0\0\x08" + b"\xff" * 8,
    "another request's": wire.encode_answer("produce", 77, say.produced()),
    "nothing in it": {"responses": []},
    "too much in it": {"responses": [*say.produced()["responses"], *say.produced()["responses"]]},
}


@pytest.mark.parametrize("trouble", [*TROUBLE])
def test_an_answer_that_makes_no_sense_leaves_a_send_unknown_and_fails_a_read(trouble: str) -> None:
    with pytest.raises(Unknown) as raised:
        run(client(serving(produce=TROUBLE[trouble])).send(QUEUE, "0A", b"hello"))
    assert raised.value.answer.node == "broker-1"
    if isinstance(TROUBLE[trouble], bytes):
        with pytest.raises(Failed):
            run(client(serving(fetch=TROUBLE[trouble])).pull(QUEUE, 2, limit=9))


def test_silence_is_unknown_and_a_refused_connection_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    network = serving(produce=say.produced())
    network.down = ("broker-1",)
    with pytest.raises(Failed, match="refused"):
        run(client(network).send(QUEUE, "0A", b"hello"))
    monkeypatch.setattr("drivers.kafka.connection.REQUEST_S", 0.5)
    with pytest.raises(Unknown, match="no answer in time"):
        run(client(serving(produce=None)).send(QUEUE, "0A", b"hello"))


def test_a_failed_send_asks_the_next_broker_who_leads_and_a_connection_is_used_again() -> None:
    codes = iter([6, 0, 0])
    network = serving()
    usual = network.say
    network.say = lambda node, name, asked: say.produced(next(codes)) if name == "produce" else usual(node, name, asked)

    async def use() -> None:
        one = client(network)
        with pytest.raises(Unknown):
            await one.send(QUEUE, "0A", b"a")
        await one.send(QUEUE, "0A", b"b")
        await one.send(QUEUE, "0A", b"c")

    run(use())
    lookups = [node for node, name in network.asked if name == "metadata"]
    assert lookups == ["broker-0", "broker-1"] and network.dials == 2


def _batches(*parts: tuple[int, int, int, bytes]) -> bytes:
    """Return batches: offset, producer, attributes, and the key of a marker or the body of a message each."""
    from datetime import UTC, datetime

    from kio.records.schema import NewRecordBatch, Record
    from kio.records.writers import write_new_batch

    buffer = BytesIO()
    for offset, producer, attributes, text in parts:
        key, value = (text, b"") if attributes & 0x20 else (b"%X" % offset, text)
        record: Any = Record(
            attributes=0, timestamp=datetime(2026, 1, 1, tzinfo=UTC), offset=offset, key=key, value=value, headers=()
        )
        one: Any = NewRecordBatch(
            producer_id=producer, producer_epoch=0, base_sequence=0, records=(record,), attributes=attributes
        )
        write_new_batch(buffer, one)
    return buffer.getvalue()


def test_what_kafka_sent_is_read() -> None:
    assert wire.messages(RECORDED) == ([wire.Message(0, b"0A", b"hello")], 1)
    for end in range(len(RECORDED)):
        assert wire.messages(RECORDED[:end]) == ([], -1)
    with pytest.raises(wire.BadAnswer, match="damaged"):
        wire.messages(RECORDED[:-3] + b"xyz")
    with pytest.raises(wire.BadAnswer, match="compressed"):
        wire.messages(RECORDED[:22] + b"\1" + RECORDED[23:])


ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


def test_markers_and_aborted_messages_are_not_given_and_reading_goes_on_behind_them() -> None:
    data = _batches(
        (3, 8, 0x10, b"aborted"),
        (4, 9, 0x10, b"kept"),
        (5, 8, 0x30, ABORT),
        (6, 8, 0x10, b"later"),
        (7, 8, 0x30, COMMIT),
    )
    network = serving(fetch=say.fetched(data, aborted=[(3, 8)]))
    answer = run(client(network).pull(QUEUE, 3, limit=9))
    assert [one.offset for one in answer.messages] == [4, 6] and answer.following == 8
    network = serving(fetch=say.fetched(_batches((3, 8, 0x10, b"aborted"), (4, 8, 0x30, ABORT)), aborted=[(3, 8)]))
    answer = run(client(network).pull(QUEUE, 3, limit=9))
    assert not answer.messages and (answer.following, answer.maximum) == (5, 90)


def test_a_read_gives_what_was_asked_for_and_names_the_epoch_that_it_asked() -> None:
    network = serving(fetch=say.fetched(_batches(*((at, -1, 0, b"m%d" % at) for at in range(4, 9)))))
    answer = run(client(network).pull(QUEUE, 5, limit=2))
    assert [(one.offset, one.message, one.hash) for one in answer.messages] == [
        (5, 5, body_hash(b"m5")),
        (6, 6, body_hash(b"m6")),
    ]
    assert (answer.epoch, answer.following, answer.minimum, answer.maximum) == (7, 7, 2, 90)
    asked = network.requests[-2]
    assert asked.topics[0].partitions[0].current_leader_epoch == 7 and asked.isolation_level == 1
    assert asked.topics[0].partitions[0].fetch_offset == 5


def test_what_came_up_between_an_empty_answer_and_the_end_is_read() -> None:
    """A new leader gives nothing above its high watermark, which is behind at first."""
    answers = [say.fetched(), say.fetched(_batches((5, -1, 0, b"m")))]
    network = serving()
    usual = network.say
    network.say = lambda node, name, asked: answers.pop(0) if name == "fetch" else usual(node, name, asked)
    answer = run(client(network).pull(QUEUE, 5, limit=2))
    assert [one.offset for one in answer.messages] == [5] and (answer.following, answer.maximum) == (6, 90)


def test_only_the_end_that_was_asked_for_by_itself_is_reported() -> None:
    network = serving(fetch=say.fetched())
    answer = run(client(network).pull(QUEUE, 90, limit=2))
    assert (answer.maximum, answer.following) == (90, 90) and network.asked[-1] == ("broker-1", "list_offsets")
    some = _batches((5, -1, 0, b"m"))
    network = serving(fetch=say.fetched(some))
    usual = network.say
    network.say = lambda node, name, asked: (
        say.limits(asked, 78) if name == "list_offsets" else usual(node, name, asked)
    )
    assert run(client(network).pull(QUEUE, 5, limit=2)).maximum == -1
    with pytest.raises(Failed, match="list_offsets: 78"):
        run(client(network).pull(QUEUE, 6, limit=2))
    bounds = run(client(serving()).bounds(QUEUE))
    assert (bounds.minimum, bounds.maximum, bounds.epoch) == (2, 90, 7)


def test_a_read_below_the_beginning_fails_and_says_where_the_queue_begins() -> None:
    with pytest.raises(Failed, match="fetch: 1 ") as raised:
        run(client(serving(fetch=say.fetched(code=1))).pull(QUEUE, 0, limit=2))
    assert (raised.value.answer.minimum, raised.value.answer.maximum) == (2, 90)
    for code in (6, 74, 75, 78):
        with pytest.raises(Failed, match=f"fetch: {code} "):
            run(client(serving(fetch=say.fetched(code=code))).pull(QUEUE, 0, limit=2))


@pytest.mark.parametrize(("committed", "end"), [(True, 90), (False, 100)])
def test_a_replica_answers_with_its_own_end_and_nobody_in_its_place(committed: bool, end: int) -> None:
    network = serving(fetch=say.fetched(_batches((4, -1, 0, b"x"))))
    answer = run(client(network, committed=committed).pull(QUEUE, 4, limit=2, node="broker-2"))
    assert (answer.node, answer.maximum, network.asked) == ("broker-2", end, [("broker-2", "fetch")])
    bounds = run(client(network, committed=committed).bounds(QUEUE, node="broker-2"))
    assert (bounds.node, bounds.minimum, bounds.maximum, bounds.messages) == ("broker-2", 2, end, ())
    with pytest.raises(Failed, match="does not say where"):
        run(client(network).pull(QUEUE, 4, limit=2, source="tier"))


def test_keys_of_others_have_no_id() -> None:
    from drivers.kafka.client import _delivered

    for key in (b"", b"order-7", b"-1", b"F" * 40, b"\xff"):
        assert _delivered(wire.Message(0, key, b"")).message == -1


def test_a_groups_offset_is_kept_by_its_coordinator() -> None:
    network = serving(offset_commit=say.stored(), offset_fetch=say.offsets(-1))
    assert run(client(network).commit(QUEUE, "g", 4)).offset == 4
    assert network.asked == [("broker-0", "find_coordinator"), ("broker-1", "offset_commit")]
    assert run(client(network).committed(QUEUE, "g")).offset == -1
    with pytest.raises(Failed, match="find_coordinator: 15"):
        run(client(serving(find_coordinator=say.coordinator(code=15))).commit(QUEUE, "g", 4))
    with pytest.raises(Failed, match="a node 99, which is none of ours"):
        run(client(serving(find_coordinator=say.coordinator(99))).commit(QUEUE, "g", 4))


@pytest.mark.parametrize("code", [*sorted(NOT_COMMITTED), -1, 7, 15, 16])
def test_a_refused_commit_failed_only_if_nothing_was_stored(code: int) -> None:
    with pytest.raises(Failed if code in NOT_COMMITTED else Unknown, match=f"offset_commit: {code} "):
        run(client(serving(offset_commit=say.stored(code))).commit(QUEUE, "g", 4))
    with pytest.raises(Failed):
        run(client(serving(offset_fetch=say.offsets(5, code))).committed(QUEUE, "g"))


# Who leads


def viewing(network: Servers, times: int = 1, **options: Any) -> tuple[ClusterView, list[dict[str, Any]]]:
    """Return the last of some views, and the rows that it recorded."""
    rows: list[dict[str, Any]] = []

    def record(kind: str, **columns: Any) -> int:
        rows.append({"kind": kind, **columns})
        return len(rows) - 1

    async def look() -> ClusterView:
        driver = create(Options(queues=1, **options))
        for _ in range(times):
            rows.clear()
            view = await driver.view(network, record)  # type: ignore[arg-type]
        return view

    return run(look()), rows


def cluster(**of_node: Any) -> Servers:
    """A cluster whose brokers know the topics as these say, by ``broker_0``."""
    both = "storm __consumer_offsets"

    def answer(node: str, name: str, request: Any) -> Any:
        if name == "metadata":
            return of_node.get(node.replace("-", "_"), say.metadata(leader=1, topics=both))
        return {
            "create_topics": say.created(36),
            "describe_quorum": say.quorum(2),
            "find_coordinator": say.coordinator(),
            "offset_fetch": say.offsets(-1),
            "list_offsets": say.limits(request) if name == "list_offsets" else None,
        }[name]

    return Servers(answer)


def set_up(network: Servers) -> bool:
    return run(create(Options(queues=1)).set_up(network))  # type: ignore[arg-type]


def test_the_set_up_ends_once_the_topic_is_made_and_all_is_settled() -> None:
    network = cluster()
    assert set_up(network) and [name for _, name in network.asked].count("create_topics") == 1
    assert not set_up(cluster(broker_2=say.metadata(leader=1, topics="__consumer_offsets"))), "one lacks the topic"
    assert not set_up(cluster(broker_0=None, broker_1=None, broker_2=None)), "nobody answers"


def test_it_is_settled_once_all_agree_and_the_leader_has_shown_that_it_is_followed() -> None:
    network = cluster()
    view, rows = viewing(network, 2)
    (group,) = view.groups
    assert view.settled and (group.name, group.leader, group.epoch) == ("storm-0", "broker-1", 7)
    assert group.in_sync == group.replicas == ("broker-0", "broker-1", "broker-2") and not view.controllers
    said = [(row["node"], row["value"], row["epoch"]) for row in rows if row["type"] == "ok"]
    master = {"group": "storm-0", "role": "master", "set": ["broker-0", "broker-1", "broker-2"]}
    assert ("broker-1", master, 7) in said and ("broker-0", {"group": "storm-0", "role": "slave"}, 7) in said


@pytest.mark.parametrize(
    "other",
    [
        {"broker_2": say.metadata(leader=1, in_sync=(0, 1), topics="storm __consumer_offsets")},
        {"broker_2": say.metadata(leader=1, epoch=6, topics="storm __consumer_offsets")},
        {"broker_2": say.metadata(leader=2, topics="storm __consumer_offsets")},
        {"broker_2": say.metadata(leader=1, topics="storm")},
        {"broker_2": b""},
    ],
)
def test_it_is_not_settled_while_one_broker_sees_it_otherwise(other: dict[str, Any]) -> None:
    assert not viewing(cluster(**other), 3)[0].settled


def test_the_newest_epoch_counts_and_the_leader_knows_its_set_best() -> None:
    old = say.metadata(leader=0, epoch=6)
    network = cluster(broker_0=old, broker_1=say.metadata(leader=1, epoch=8, in_sync=(1,)), broker_2=old)
    (group,) = viewing(network)[0].groups
    assert (group.leader, group.epoch, group.in_sync) == ("broker-1", 8, ("broker-1",))
    (group,) = viewing(cluster(**dict.fromkeys(("broker_0", "broker_1", "broker_2"), say.metadata(leader=-1))))[
        0
    ].groups
    assert (group.leader, group.epoch) == ("", 7)


def test_of_a_system_that_is_down_nothing_is_known() -> None:
    network = Servers(lambda node, name, request: b"", down=("broker-0", "broker-1"))
    view, rows = viewing(network, 2, controllers=3)
    assert (
        not view.settled and not view.leaders and view.controllers == ("controller-0", "controller-1", "controller-2")
    )
    assert all(row["type"] == "invoke" for row in rows)


def test_a_switch_names_the_target_first_and_waits_until_it_leads() -> None:
    elected: list[str] = []

    def answer(node: str, name: str, request: Any) -> Any:
        if name == "metadata":
            return say.metadata(leader=2, epoch=9) if elected else say.metadata(leader=1)
        if name == "elect_leaders":
            elected.append(node)
            part = {"partition_id": 0, "error_code": 0, "error_message": None}
            return {
                "error_code": 0,
                "replica_election_results": [{"topic": "storm", "partition_result": [part]}],
            }
        assert list(request.topics[0].partitions[0].replicas) == [2, 0, 1]
        part = {"partition_index": 0, "error_code": 0, "error_message": None}
        return {
            "error_code": 0,
            "error_message": None,
            "responses": [{"name": "storm", "partitions": [part]}],
        }

    found = run(create(Options(queues=1)).switch(Servers(answer), "broker-2", "storm-0"))  # type: ignore[arg-type]
    assert found == {"from": "broker-1", "to": "broker-2", "epoch": 9}


def reassigning(node: str, down: Sequence[str] = (), **known: Any) -> tuple[Any, list[list[int]]]:
    """Have four brokers take this one out; return the answer, and which replicas they were asked for."""
    asked: list[list[int]] = []

    def answer(broker: str, name: str, request: Any) -> Any:
        if name == "metadata":
            return say.metadata(**{"leader": 1, **known})
        assert broker == "broker-1", "the leader is asked"
        asked.append(list(request.topics[0].partitions[0].replicas))
        part = {"partition_index": 0, "error_code": 0, "error_message": None}
        return {"error_code": 0, "error_message": None, "responses": [{"name": "storm", "partitions": [part]}]}

    driver = create(Options(queues=1, brokers=4))
    assert isinstance(driver, CanRemoveBrokers)
    return run(driver.remove_broker(Servers(answer, down=[node, *down]), node)), asked  # type: ignore[arg-type]


def test_another_broker_takes_the_place_of_one_that_is_taken_out() -> None:
    found, asked = reassigning("broker-2")
    assert asked == [[0, 1, 3]]
    assert found == {
        "moved": {"storm-0": {"from": ["broker-0", "broker-1", "broker-2"], "to": ["broker-0", "broker-1", "broker-3"]}}
    }
    for node, known in (("broker-1", {}), ("broker-3", {}), ("broker-2", {"leader": -1})):
        with pytest.raises(Failed, match="holds nothing, or leads, or no broker leads"):
            reassigning(node, **known)
    with pytest.raises(Failed, match="no other broker runs that could hold storm-0 in the place of broker-2"):
        reassigning("broker-2", down=["broker-3"])
    assert not isinstance(create(Options()), CanRemoveBrokers)


def test_replicas_are_those_that_brokers_name() -> None:
    known = say.metadata(leader=1, replicas=(0, 1, 3), in_sync=(0, 1, 3), topics="storm __consumer_offsets")
    network = serving(metadata=known, offset_fetch=say.offsets(5), describe_quorum=say.quorum(1))
    driver = create(Options(queues=1, brokers=4))
    (queue,) = driver.queues()
    assert driver.holders(queue) == ("broker-0", "broker-1", "broker-2")
    view = run(driver.view(network))  # type: ignore[arg-type]
    assert view.settled and view.groups[0].in_sync == view.groups[0].replicas == ("broker-0", "broker-1", "broker-3")
    assert driver.holders(queue) == ("broker-0", "broker-1", "broker-3")


def test_a_partition_that_no_broker_knows_any_more_is_gone() -> None:
    known = dict(say.metadata(leader=1, topics="storm __consumer_offsets"))
    network = serving(metadata=known, offset_fetch=say.offsets(5), describe_quorum=say.quorum(1))
    driver = create(Options(queues=1))
    assert run(driver.view(network)).settled  # type: ignore[arg-type]
    known["topics"] = say.metadata(leader=1, topics="__consumer_offsets")["topics"]
    assert "storm-0 is not there any more" in run(driver.view(network)).lacks()  # type: ignore[arg-type]
    assert "storm-0 has no leader" in run(create(Options(queues=1)).view(network)).lacks()  # type: ignore[arg-type]


# What faults on requests see


def test_requests_are_told_apart_and_refused_by_errors_after_which_nothing_has_happened() -> None:
    reader = frames("kafka")
    assert reader is not None and frames("votes") is None
    send: Any = {"acks": -1, "timeout": wire.milliseconds(1), "topic_data": []}
    part = {"index": 0, "records": RECORDED}
    send = {**send, "topic_data": [{"name": "storm", "partition_data": [part]}]}
    end: Any = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 1, "committed": True}
    look: Any = {"key_type": 0, "coordinator_keys": ["g"]}
    data = [wire.encode("produce", 1, "c", send), wire.encode("produce", 2, "c", {**send, "acks": 0})]
    data += [wire.encode("end_txn", 3, "c", end), wire.encode("find_coordinator", 4, "c", look)]
    buffer = bytearray(b"".join(data) + data[0][:9])
    found = reader.requests(buffer)
    assert [(one.kind, one.paired) for one in found] == [
        *(("send", True), ("send", False), ("end", True), ("coordinator", True))
    ]
    assert [one.data for one in found] == data and bytes(buffer) == data[0][:9]
    refused = reader.refusal(found[0])
    with pytest.raises(Failed, match="produce: 19 "):
        run(client(serving(produce=_renumbered(refused, 2))).send(QUEUE, "0A", b"hello"))
    assert wire.decode("end_txn", 3, reader.refusal(found[2])[4:]).error_code == 14
    assert reader.refusal(found[3]) == b""
    assert reader.refusal(replace(found[0], data=found[0].data[:6] + b"\0\3" + found[0].data[8:])) == b""
    assert [one.data for one in reader.answers(bytearray(refused * 2), ended=False)] == [refused] * 2
    with pytest.raises(ValueError, match="not Kafka's"):
        reader.requests(bytearray(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"))


def _renumbered(frame: bytes, number: int) -> bytes:
    return frame[:4] + number.to_bytes(4, "big") + frame[8:]
