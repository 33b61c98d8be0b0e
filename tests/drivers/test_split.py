"""The driver of the split system against scripted nodes: who leads what, how queues are called, what is collected."""

from __future__ import annotations

import copy
import re
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

import reference
from chaos import events
from chaos.driver import ClusterView, Profile
from chaos.errors import BadInput
from chaos.ops import Failed, Unknown
from drivers.split import EVENTS, Options, create
from drivers.split.driver import Split
from drivers.split.final_state import collect_store
from reference.broker import records
from reference.objectstore.faults import TierFault
from reference.split.layout import group_of, rank_of, slice_name, slice_of
from reference.split.requests import physical_offset
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from tests.drivers.test_reference import ScriptedNetwork, as_json, run

TOPIC_ID = 17
GROUPS, SLICES = 4, 2
REPLICAS = ["store-0#5", "store-1#6", "store-2#7"]
SILENT = Command(code=Response.SYSTEM_ERROR, flags=1)


def system(**options: Any) -> Split:
    return create(Options(**{"groups": GROUPS, "slices": SLICES, **options}))


def cluster() -> dict[str, Any]:
    """What each node says of itself in a settled cluster: store-0 leads all groups, broker-1 owns both slices."""
    said: dict[str, Any] = {}
    for number in range(3):
        role = "leader" if number == 1 else "follower"
        said[f"meta-{number}"] = {"role": role, "term": 3, "leader": "meta-1", "commit": 40, "revision": 30}
        said[f"meta-{number}"]["voters"] = ["meta-0", "meta-1", "meta-2"]
        group = {"role": "follower", "term": 2, "commit": 9, "applied": 9, "voters": REPLICAS, "learners": []}
        group["role"] = "leader" if number == 0 else "follower"
        groups = {str(one): {**group, "missing": 0} for one in range(GROUPS)}
        said[f"store-{number}"] = {"disk": 5 + number, "revision": 30, "groups": groups}
    said["broker-0"] = {"life": 8, "revision": 30, "slices": {}}
    slices = {slice_name(one): {"epoch": 4, "state": "open"} for one in range(SLICES)}
    said["broker-1"] = {"life": 9, "revision": 30, "slices": slices}
    routes = {slice_name(one): {"master": "broker-1", "epoch": 4} for one in range(SLICES)}
    said["nameserver-0"] = {"revision": 30, "routes": routes}
    return copy.deepcopy(said)


def network_of(said: dict[str, Any]) -> ScriptedNetwork:
    def script(node: str, message: Command) -> Command:
        if message.code == Request.META_TOPIC:
            return Command(code=0, flags=1, fields={"id": str(TOPIC_ID)})
        return as_json(said[node]) if said[node] else SILENT

    return ScriptedNetwork(script)


def view_of(said: dict[str, Any], driver: Split | None = None) -> ClusterView:
    """The second view: the topic is made by the first one."""
    driver = driver or system()
    run(driver.view(network_of(said)))
    view: ClusterView = run(driver.view(network_of(said)))
    return view


def test_a_settled_cluster_has_leaders_owners_and_routes() -> None:
    view = view_of(cluster())
    assert view.settled and view.controller_leader == "meta-1" and view.tier == ("tier-0",)
    assert [group.leader for group in view.groups] == ["store-0"] * GROUPS + ["broker-1"] * SLICES
    assert view.servers == ("broker-0", "broker-1") and view.others == ("nameserver-0",)
    assert view.zones["zone-0"] == ("meta-0", "store-0", "broker-0", "nameserver-0")


def test_it_makes_the_topic_once_and_is_not_settled_before_all_know_it() -> None:
    driver, said = system(), cluster()
    said["nameserver-0"]["revision"] = TOPIC_ID - 1
    network = network_of(said)
    assert not run(driver.view(network)).settled
    said["nameserver-0"]["revision"] = TOPIC_ID
    assert run(driver.view(network)).settled
    assert network.count(Request.META_TOPIC) == 1


@pytest.mark.parametrize(
    ("node", "change"),
    [
        ("meta-0", {"commit": 39}),
        ("meta-1", {"voters": ["meta-1", "meta-2"]}),
        ("meta-1", {"moving": [3]}),
        ("store-2", {"disk": 8}),  # it has come back with another disk
        ("store-1", {"revision": TOPIC_ID - 1}),
        ("broker-1", {"slices": {"slice-0": {"epoch": 4, "state": "opening"}}}),
        ("nameserver-0", {"routes": {"slice-0": {"master": "broker-0", "epoch": 4}}}),
        ("broker-0", None),
    ],
)
def test_it_is_not_settled_while(node: str, change: dict[str, Any] | None) -> None:
    said = cluster()
    said[node] = {**said[node], **change} if change else None
    assert not view_of(said).settled


@pytest.mark.parametrize(
    "change",
    [{"applied": 8}, {"missing": 1}, {"role": "candidate", "term": 3}],
    ids=["a replica lags", "a segment is missing", "nobody leads"],
)
def test_a_group_is_not_settled_while(change: dict[str, Any]) -> None:
    said = cluster()
    said["store-0"]["groups"]["2"] |= change
    assert not view_of(said).settled


def test_whoever_had_what_was_committed_at_the_last_view_is_in_sync() -> None:
    driver, said = system(), cluster()
    view_of(said, driver)
    for store, applied in (("store-0", 20), ("store-1", 9), ("store-2", 8)):
        said[store]["groups"]["0"] |= {"commit": 20, "applied": applied}
    assert run(driver.view(network_of(said))).groups[0].in_sync == ("store-0", "store-1")
    assert run(driver.view(network_of(said))).groups[0].in_sync == ("store-0",)


def test_a_learner_is_a_replica_that_is_not_in_sync() -> None:
    said = cluster()
    said["store-2"]["disk"] = 9
    said["store-0"]["groups"]["1"] |= {"voters": REPLICAS[:2], "learners": ["store-2#9"]}
    group = view_of(said).groups[1]
    assert group.replicas == ("store-0", "store-1", "store-2") and group.in_sync == ("store-0", "store-1")


def test_nothing_is_known_of_a_cluster_that_is_silent() -> None:
    view = view_of(dict.fromkeys(cluster()))
    assert not view.settled and not view.leaders and not view.controller_leader


def test_requests_call_a_queue_by_its_slice_and_its_rank_there() -> None:
    driver = system()
    view_of(cluster(), driver)
    queue = driver.queues()[3]
    inside = slice_name(slice_of(group_of(TOPIC_ID, 3, GROUPS), SLICES))
    route = {"brokerDatas": [{"brokerName": inside, "brokerAddrs": {"0": "broker-1"}}]}
    network = ScriptedNetwork(
        lambda node, message: as_json(route, queueOffset="0", position="0", offset="0", minOffset="0")
    )
    client = driver.client(network, "c")
    run(client.send(queue, "00", b"x"))
    run(client.bounds(queue))
    rank = str(rank_of(3, TOPIC_ID, GROUPS, SLICES))
    sent, bounds = (message.fields for node, message in ((n, m) for _, n, m in network.asked) if node == "broker-1")
    assert (sent["n"], sent["e"]) == (bounds["bname"], bounds["queueId"]) == (inside, rank)


def test_a_queue_of_a_topic_that_is_not_there_has_no_place() -> None:
    with pytest.raises(Failed, match="not there yet"):
        run(system().client(network_of(cluster()), "c").send(system().queues()[0], "00", b"x"))


def test_it_collects_each_replica_with_its_records_and_all_objects() -> None:
    number, group = 1, group_of(TOPIC_ID, 1, GROUPS)
    data = records.encode(
        topic="storm",
        queue_id=number,
        offset=5,
        position=physical_offset(group, 100),
        properties=b"UNIQ_KEY\x010000000A\x02",
        body=b"hello",
    )
    state = {"epoch": 4, "start": 100, "end": 100 + len(data), "replica": "store-0#5", "segments": []}

    def script(node: str, message: Command) -> Command:
        match message.code:
            case Request.DESCRIBE:
                return as_json(cluster()[node])
            case Request.READ_STATE:
                return as_json(state if message.fields["group"] == str(group) else {**state, "end": 100})
            case Request.READ_LOG:
                return Command(code=0, flags=1, fields={"next": str(100 + len(data))}, body=data)
            case Request.STORE_GET:
                return Command(code=0, flags=1, body=b"segment")
            case _:
                return as_json([["seg/1", 7]])

    rows: list[dict[str, Any]] = []

    def record(kind: str, **columns: Any) -> int:
        rows.append({"kind": kind, **columns})
        return len(rows)

    run(system().collect(ScriptedNetwork(script), record))
    assert [row["node"] for row in rows if row["f"] == "complete"] == [
        *("store-0", "store-1", "store-2", "tier-0", "broker-0", "broker-1")
    ]
    logs = [row for row in rows if row["f"] == "log"]
    assert [(row["node"], row["queue"], row["offset"], row["message"]) for row in logs] == [
        (f"store-{store}", number, 5, 10) for store in range(3)
    ]
    (shown,) = (row for row in rows if row["f"] == "group" and row["node"] == "store-1" and row["position"] > 100)
    assert shown["epoch"] == 4 and shown["value"]["group"] == group and shown["value"]["replica"] == "store-0#5"
    assert [row["value"] for row in rows if row["f"] == "object"] == [
        {"key": "seg/1", "size": 7, "digest": blake2b(b"segment", digest_size=16).hexdigest()}
    ]


def test_a_store_that_shows_a_damaged_record_is_not_read_to_its_end() -> None:
    state = {"epoch": 4, "start": 100, "end": 200, "replica": "store-0#5", "segments": []}

    def script(node: str, message: Command) -> Command:
        if message.code == Request.READ_LOG:
            return Command(code=0, flags=1, fields={"next": "200"}, body=b"x" * 100)
        return as_json(cluster()[node] if message.code == Request.DESCRIBE else state)

    assert run(collect_store(ScriptedNetwork(script), "store-0", {}, lambda kind, **columns: 0)) is False


def test_brokers_and_name_servers_have_no_disk() -> None:
    disks = {node.role: node.disk for node in system().cluster("").nodes}
    assert disks == {"objectstore": True, "meta": True, "store": True, "broker": False, "nameserver": False}


def test_it_promises_one_profile() -> None:
    assert system().promising(Profile()).profile() == Profile()
    with pytest.raises(BadInput, match="promises"):
        system().promising(Profile(flush="async"))


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"slices": 5}, "slices must be between 1 and the number of groups"),
        ({"groups": 64, "slices": 40}, "2 brokers own 32 slices at most"),
        ({"replicas": 4}, "3 stores can't hold 4 replicas"),
        ({"topic": "%x"}, "topic: expected 1 to 127 bytes"),
        ({"topic": ""}, "topic: expected 1 to 127 bytes"),
        ({"store_options": {"segmnt_bytes": 1}}, "store_options: unknown key 'segmnt_bytes'; did you mean 'segment_b"),
        ({"store_options": {"segment_bytes": "x"}}, "store_options: segment_bytes: expected int, got 'x'"),
        ({"store_options": {"segment_bytes": 0}}, "segment_bytes must be a whole number that is 1 or more"),
        ({"meta_options": {"moves": 0}}, "moves must be a whole number that is 1 or more"),
        ({"broker_options": {"groups": 3}}, "broker_options: groups is the same on all nodes"),
        ({"nameserver_options": {"metas": ["x"]}}, "nameserver_options: metas is the same on all nodes"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        system(**options)


def test_it_tells_all_events_that_its_nodes_trace() -> None:
    root = Path(reference.__file__).parent
    files = [path for name in ("split", "raft", "objectstore") for path in (root / name).rglob("*.py")]
    sources = "".join(path.read_text() for path in (*files, root / "tier" / "store_client.py"))
    traced = {getattr(events, name).f for name in re.findall(r"\bevents\.(\w+)\(", sources)} | {TierFault.f}
    assert traced <= set(EVENTS)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Response.SUCCESS, None),
        (Response.TOPIC_NOT_EXIST, None),
        (Response.SYSTEM_BUSY, Failed),
        (Response.CONTROLLER_NOT_LEADER, Failed),
        (Response.SYSTEM_ERROR, Unknown),
    ],
)
def test_topics_are_deleted_at_metas_leader(code: Response, expected: type[Exception] | None) -> None:
    def script(node: str, message: Command) -> Command:
        if node != "meta-2":
            return Command(code=Response.CONTROLLER_NOT_LEADER, flags=1, fields={"leader": "meta-2"})
        return Command(code=code, flags=1)

    network = ScriptedNetwork(script)
    work = system().deleting_topics(network, "c").delete("made-1")
    if expected:
        with pytest.raises(expected):
            run(work)
    else:
        assert run(work).node == "meta-2"
    assert [node for _, node, _ in network.asked][:2] == ["meta-0", "meta-2"]
