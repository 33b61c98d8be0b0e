"""Stores in a small world: appends through crashes, segments in files and objects, members that come and go."""

from __future__ import annotations

import pytest

from reference.broker.records import decode_all
from reference.split.joining import MetaRequest
from reference.split.requests import place_of
from reference.wire.codes import Request, Response
from tests.reference.split.store_world import STORES, StoreWorld


def log_of(world: StoreWorld, node: str, group: int) -> list[tuple[int, int, bytes]]:
    """Return (offset, position, body) of each record that a store has, wherever its bytes lie."""
    state = world.store(node).groups
    assert state is not None
    position, end = state.machines[group].group.start, state.machines[group].group.end
    found = []
    while position < end:
        fields = {"group": str(group), "position": str(position)}
        answer = world.ask(node, MetaRequest(Request.READ_LOG, fields))
        assert answer.code == Response.SUCCESS, answer.remark
        for one in decode_all(answer.body):
            assert place_of(one.position)[0] == group
            found.append((one.offset, place_of(one.position)[1], one.body))
        position = int(answer.fields["next"])
    return found


def check_all_equal(world: StoreWorld) -> None:
    """Every replica has every acknowledged record, dense offsets, and the same bytes."""
    for group in range(2):
        logs = [log_of(world, node, group) for node in world.members(group)]
        assert len(logs) == 3
        assert all(log == logs[0] for log in logs)
        bodies = {offset: body for offset, _, body in logs[0]}
        assert list(bodies) == list(range(len(bodies)))
        for offset, body in enumerate(world.owner.acked[group]):
            assert body in (b"?", bodies[offset]), f"record {offset} of group {group} was acknowledged, and is gone"


@pytest.mark.parametrize("seed", range(2))
def test_appends_through_crashes_of_stores_leave_all_bytes_equal(seed: int) -> None:
    world = StoreWorld(seed, target=60)
    world.make_topic()
    for crashed in [*STORES, STORES[seed]]:
        world.run(world.rng.randint(200, 600))
        world.crash(crashed)
        world.run(world.rng.randint(200, 900))
        world.start(crashed)
    world.run(30_000, until=world.all_is_appended)
    assert world.all_is_appended(), (world.owner.acked.keys(), world.owner.refusals[-5:])
    world.run(2500)
    check_all_equal(world)
    names = [name for _, _, name, _ in world.traces]
    assert "crash" not in names
    assert names.count("sealed") >= 12 and names.count("uploaded") >= 6
