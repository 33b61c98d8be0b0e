"""The controllers' benchmark: what it makes of its measurements, and one short run of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.controller import MODES, PHASES, _json, figures
from benchmarks.controllers.bench import Bench, Phase
from benchmarks.controllers.cluster import ReferenceCluster
from benchmarks.controllers.load import Connection, frame
from reference.controller.dispatch import CLASSIC
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request
from reference.wire.command import Command

ROOT = Path(__file__).parent.parent.parent
RATIOS = ("ratio_writes", "ratio_reads", "ratio_p99")


def benches(folder: Path, *, answers: dict[str, int]) -> dict[str, Bench]:
    """Both modes after a second of load; ``answers``: how many each gave in each phase, all as late as they are few."""
    made = {mode: Bench(ReferenceCluster(mode, folder), 1) for mode in MODES}
    for mode, bench in made.items():
        for name in PHASES.values():
            phase = bench.phases[name] = Phase()
            phase.load_s = 1.0
            phase.tally.latencies_s += [1 / answers[mode]] * answers[mode]
    return made


def test_ratios_are_of_the_new_mode_over_the_old(tmp_path: Path) -> None:
    found = figures(benches(tmp_path, answers={CLASSIC: 20, "parallel": 500}))
    told = json.loads(_json(found))
    assert [told[name] for name in RATIOS] == [25.0, 25.0, 0.04]
    assert {name: figure["value"] for figure in told["figures"] if (name := figure["name"]) in RATIOS} == {
        name: told[name] for name in RATIOS
    }
    assert [figure.reached for figure in found if figure.name in RATIOS] == [True, True, True]


def test_a_phase_without_an_answer_is_no_figure(tmp_path: Path) -> None:
    made = benches(tmp_path, answers={CLASSIC: 20, "parallel": 500})
    made[CLASSIC].phases[PHASES["reads"]].tally.latencies_s.clear()
    with pytest.raises(RuntimeError, match="classic_reads: no request was answered"):
        figures(made)


class _Wire(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data


def test_requests_are_frames_and_answers_find_their_requests_in_any_order_and_pieces() -> None:
    async def main() -> Sequence[int]:
        wire, connection = _Wire(), Connection()
        connection.connection_made(wire)
        asked = [asyncio.ensure_future(connection.ask(Request.BROKER_HEARTBEAT, {"n": str(n)})) for n in range(3)]
        await asyncio.sleep(0)
        requests = RemotingCodec().decode(wire.written)
        assert [request.fields for request in requests] == [{"n": "0"}, {"n": "1"}, {"n": "2"}]
        replies = b"".join(RemotingCodec().encode(one.reply(100 + int(one.fields["n"]))) for one in reversed(requests))
        for at in range(0, len(replies), 7):
            connection.data_received(replies[at : at + 7])
        return [code for code, _ in await asyncio.gather(*asked)]

    assert asyncio.run(main()) == [100, 101, 102]


def test_a_frame_says_what_it_was_given() -> None:
    (message,) = RemotingCodec().decode(bytearray(frame(1003, 7, {"a": "b"}, b"body", flags=2)))
    assert message == Command(code=1003, opaque=7, flags=2, fields={"a": "b"}, body=b"body")


@pytest.mark.full
def test_a_short_run_measures_both_modes() -> None:
    words = ["--groups", "5", "--seconds", "6", "--rounds", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.controller", *words], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert all(told[name] > 0 for name in RATIOS)
    names = {figure["name"] for figure in told["figures"]}
    assert {f"{mode}_{phase}_per_s" for mode in MODES for phase in PHASES} <= names
