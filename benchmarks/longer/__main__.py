"""Makes a long run of a short one: its load again and again, in the same queues and logs, with one final reading.

``python -m benchmarks.longer RUN TO --times N``: RUN is a run of the reference system on processes without any fault
(``benchmarks/longer/load.yaml`` makes one), TO the directory to make. Between two copies everything is at rest: what
was sent is acknowledged, replicated, read by its group (some pulls are added for that) and uploaded. So offsets, log
positions, versions and times go on where the copy before ended, and manifests name what all copies uploaded: the
verdict is that of RUN, but for its numbers.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.longer.moving import Moves, content, segment
from benchmarks.longer.rows import Stream, Template
from benchmarks.longer.traces import Lines, NodeTrace, traced_lines
from chaos.history import manifest
from chaos.history.columns import VALUE
from chaos.history.directory import EXPERIMENT, META, TRACES, read_meta, write_json
from chaos.history.manifest import Manifest
from chaos.history.seal_traces import seal_traces
from chaos.history.stream import SCHEMA, stream_blocks

SEQUENCE = (1 << 40) - 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.longer", description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("to", type=Path)
    parser.add_argument("--times", type=int, default=10)
    given = parser.parse_args()
    Longer(given.run).write(given.to, given.times)


class Longer:
    """A run, cut where its load begins and ends."""

    def __init__(self, run: Path) -> None:
        self._run = run
        table = pa.concat_tables(stream_blocks(run, manifest.read(run), [])).unify_dictionaries().combine_chunks()
        self._table = table
        self._index = {name: self._phase(name) for name in ("load", "heal", "recover", "drain", "collect")}
        sends = self._are("op", "send")
        self._first = int(np.flatnonzero(sends)[0])
        times = table["time_ns"].to_numpy()
        self._begin_ns = int(times[self._first])
        traced = traced_lines(run)
        self._end_ns = self._rest_ns(traced)
        self._traces = {node: NodeTrace(lines, self._begin_ns, self._end_ns) for node, lines in traced.items()}
        self._lines = {node: Lines(trace, trace.load) for node, trace in self._traces.items()}
        self._moves = self._found()

    def write(self, to: Path, times: int) -> None:
        to.mkdir()
        self._write_stream(to, times)
        (to / TRACES).mkdir()
        for node in self._traces:
            self._write_trace(to / TRACES / f"{node}.jsonl", node, times)
        (to / EXPERIMENT).write_bytes((self._run / EXPERIMENT).read_bytes())
        with Manifest(to) as sealing:
            sealing.seal_files([EXPERIMENT])
        seal_traces(to)
        write_json(
            to / META, {**read_meta(self._run).json} | {"run": to.name, "directory": str(to), "rows": self._rows}
        )

    # Where it is cut

    def _phase(self, name: str) -> int:
        found = np.flatnonzero(self._are("harness", "phase"))
        return next(at for at in found.tolist() if json.loads(self._table[VALUE][at].as_py())["phase"] == name)

    def _are(self, kind: str, *f: str) -> npt.NDArray[np.bool_]:
        flags = pc.and_(pc.equal(self._table["kind"], kind), pc.is_in(self._table["f"], pa.array(f, pa.string())))
        found: npt.NDArray[np.bool_] = flags.to_numpy(zero_copy_only=False)
        return found

    def _are_begun(self) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = pc.equal(self._table["type"], "invoke").to_numpy(zero_copy_only=False)
        return found

    def _rest_ns(self, traced: Mapping[str, bytes]) -> int:
        """When the last manifest was known to all."""
        last = 0
        for mine in traced.values():
            trace = NodeTrace(mine, 0, 1 << 62)
            if trace.load:
                lines = Lines(trace, trace.load)
                views = [f == "tier_view" for f in lines.f]
                last = max(last, int(lines.numbers["time_ns"][views].max(initial=0)))
        return last + 50_000_000

    def _found(self) -> Moves:
        queues = len(read_meta(self._run).queues)
        moves = Moves(time_ns=self._end_ns - self._begin_ns, requests=1_000_000)
        moves.steps = {node: trace.steps for node, trace in self._traces.items()}
        sent = self._are("op", "send")
        queue, message = (self._table[name].to_numpy()[sent] for name in ("queue", "message"))
        moves.messages = [int((message[queue == one] & SEQUENCE).max()) + 1 for one in range(queues)]
        brokers = [lines for lines in self._lines.values() if "append" in lines.f]
        first, last = [], []
        for lines in brokers:
            appends = np.flatnonzero(np.isin(lines.f, ["append"]))
            first.append(int(lines.numbers["position"][appends].min()))
            last.append(max(int(lines.numbers["position"][at]) + lines.values[at]["size"] for at in appends.tolist()))
        assert len({*first}) == len({*last}) == 1, "replicas were not alike at the ends"
        moves.position = last[0] - first[0]
        are_appends = np.isin(brokers[0].f, ["append"])
        stored = {name: brokers[0].numbers[name][are_appends] for name in ("queue", "offset")}
        moves.offsets = [int(stored["offset"][stored["queue"] == one].max()) + 1 for one in range(queues)]
        finals = np.flatnonzero(self._are("final", "manifest"))
        self._manifests = {
            int(self._table["queue"][at].as_py()): json.loads(self._table[VALUE][at].as_py())["content"]
            for at in finals.tolist()
        }
        hashes = {int(self._table["queue"][at].as_py()): int(self._table["hash"][at].as_py()) for at in finals.tolist()}
        every = [self._manifests[one] for one in range(queues)]
        assert all((one["start"], one["end"]) == (0, end) for one, end in zip(every, moves.offsets, strict=True))
        moves.versions = [one["version"] - 1 for one in every]
        moves.segments = [len(one["segments"]) for one in every]
        moves.newest = [hashes[one] for one in range(queues)]
        return moves

    # The stream

    def _template(self, keep: npt.NDArray[np.bool_]) -> Template:
        return Template(self._table.filter(pa.array(keep)))

    def _write_stream(self, to: Path, times: int) -> None:
        moves, stream, place = self._moves, Stream(to), np.arange(self._table.num_rows)
        phases, index, last = self._are("harness", "phase", "recovered"), self._index, times - 1
        self._template((place < self._first) | (place == index["load"])).written(
            stream, Moves(offsets=[0], messages=[0]), 0
        )
        loaded = (place >= self._first) & (place < index["drain"]) & self._whole(self._first, index["drain"])
        first = self._template(loaded & ~phases)
        later = self._template(loaded & ~phases & ~self._are("op", "committed"))
        rest = self._template(loaded & (place != index["load"]) & ~self._are("op", "committed"))
        rest_first = self._template(loaded & (place != index["load"]))
        missed = Template(self._missed())
        for copy in range(times):
            if copy < last:
                (later if copy else first).written(stream, moves, copy)
                missed.written(stream, moves, copy)
            else:
                (rest if copy else rest_first).written(stream, moves, copy)
        self._write_drain(stream, times)
        self._write_finals(stream, times)
        stream.close()
        self._rows = stream.rows

    def _whole(self, begin: int, end: int) -> npt.NDArray[np.bool_]:
        """Rows of operations that began and ended there, and those of none."""
        index, op = self._table["index"].to_numpy(), self._table["op"].to_numpy()
        begins = self._are_begun()
        of = np.where(begins, index, op)
        ended = np.isin(of, op[begin:end][~begins[begin:end]])
        return (of < 0) | (ended & (of >= begin))

    def _missed(self) -> pa.Table:
        """Return pulls by which groups read what they had not when the load ended."""
        rows = self._table.to_pylist()
        pulls: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        read: dict[int, int] = {}
        for row in rows[: self._index["heal"]]:
            if row["f"] == "pull" and row["type"] == "ok" and '"group"' in row[VALUE]:
                pulls[row["queue"]] = (rows[row["op"]], row)
            if row["f"] == "delivered" and row["op"] == pulls.get(row["queue"], ({"index": -1},))[0]["index"]:
                read[row["queue"]] = max(read.get(row["queue"], 0), row["offset"] + 1)
        found: list[dict[str, Any]] = []
        for queue, (invoke, ok) in sorted(pulls.items()):
            begin, end = max(read.get(queue, 0), json.loads(ok[VALUE])["following"]), self._moves.offsets[queue]
            drained = {row["offset"]: row for row in rows if self._is_drained(row, queue) and begin <= row["offset"]}
            if begin == end:
                continue
            assert sorted(drained) == [*range(begin, end)] and end - begin <= json.loads(invoke[VALUE])["limit"]
            number, at_ns = 1_000_000_000 + len(found), {"time_ns": self._end_ns - 1_000_000}
            sizes = {"minimum": 0, "maximum": end, "following": end, "asked": begin}
            found.append(invoke | at_ns | {"index": number, "offset": begin})
            value = json.dumps(json.loads(ok[VALUE]) | sizes, separators=(",", ":"))
            found.append(ok | at_ns | {"index": number + 1, "op": number, VALUE: value})
            for row in drained.values():
                same = {name: ok[name] for name in ("process", "node", "epoch", "incarnation")}
                found.append(row | same | at_ns | {"index": 1_000_000_000 + len(found), "op": number})
        return pa.Table.from_pylist(found, schema=SCHEMA)

    def _is_drained(self, row: Mapping[str, Any], queue: int) -> bool:
        return row["f"] == "delivered" and row["queue"] == queue and row["process"] == f"drain-{queue}-reader.0"

    def _write_drain(self, stream: Stream, times: int) -> None:
        """All bounds and drains begin; what each copy sent is read; the drains end."""
        moves, last, place = self._moves, times - 1, np.arange(self._table.num_rows)
        drained = (
            (place >= self._index["drain"])
            & (place < self._index["collect"])
            & ~self._are("poll", "state", "controller", "route")
        )
        drains, begins = (
            self._are("op", "drain"),
            pc.equal(self._table["type"], "invoke").to_numpy(zero_copy_only=False),
        )
        read = self._are("op", "pull", "delivered")
        each_ns = int(np.ptp(self._table["time_ns"].to_numpy()[drained]))
        ends = {queue: times * end for queue, end in enumerate(moves.offsets)}

        def with_end(f: str, queue: int, value: dict[str, Any]) -> dict[str, Any]:
            return value | {"maximum": ends[queue]} if "maximum" in value else value

        begun, self._drains = stream.rows, {}
        first = self._template(drained & ~read & ~(drains & ~begins))
        first.written(stream, self._moves_of_drain(last), 1, change=with_end)
        for at, f in enumerate(first.f):
            if f == "drain":
                self._drains[int(first.numbers["queue"][at])] = begun + at
        given = self._table["op"].to_numpy()[self._are("op", "delivered")]
        of = np.where(begins, self._table["index"].to_numpy(), self._table["op"].to_numpy())
        full, every = self._template(drained & read & np.isin(of, given)), self._template(drained & read)
        for copy in range(times):
            more_ns = (last - copy) * moves.time_ns + copy * each_ns
            (every if copy == last else full).written(stream, moves, copy, more_ns, with_end)
        ended = self._template(drained & drains & ~begins)
        rows = [self._drains[queue] for queue in ended.numbers["queue"].tolist()]
        ended.ends_of(rows)
        ended.written(stream, moves, last, last * each_ns, lambda f, queue, value: value | {"asked": 0})
        self._drained_ns = last * each_ns

    def _moves_of_drain(self, last: int) -> Moves:
        """Drains begin at 0, whatever was sent."""
        return Moves(
            time_ns=last * self._moves.time_ns,
            offsets=[0] * len(self._moves.offsets),
            messages=[0] * len(self._moves.offsets),
        )

    def _write_finals(self, stream: Stream, times: int) -> None:
        moves, last, place = self._moves, times - 1, np.arange(self._table.num_rows)
        finals, tiered = place >= self._index["collect"], self._are("final", "tiered")
        stored = np.flatnonzero(tiered)
        before = finals & ~tiered & (place < stored[0])
        after = finals & ~tiered & (place > stored[-1])
        between = finals & ~tiered & ~before & ~after

        def with_manifest(f: str, queue: int, value: dict[str, Any]) -> dict[str, Any]:
            return value | {"content": self._manifest(queue, times)} if f == "manifest" else value

        more_ns = self._drained_ns
        self._template(before).written(stream, moves, last, more_ns, with_manifest)
        self._template(between).written(stream, moves, last, more_ns, with_manifest)
        one = self._template(tiered)
        for copy in range(times):
            one.written(stream, moves, copy, more_ns + (last - copy) * moves.time_ns)
        self._template(after).written(stream, moves, last, more_ns, with_manifest)

    def _manifest(self, queue: int, times: int) -> dict[str, Any]:
        newest = self._manifests[queue]
        every = [segment(self._moves, one, queue, copy) for copy in range(times) for one in newest["segments"]]
        return content(self._moves, newest, queue, times - 1) | {"segments": every}

    # Traces

    def _write_trace(self, path: Path, node: str, times: int) -> None:
        trace, last = self._traces[node], times - 1
        with path.open("w") as file:
            file.writelines(line.decode() for line in trace.headers)
            file.writelines(Lines(trace, trace.before).written(self._moves, node, 0))
            for copy in range(times if trace.load else 0):
                file.writelines(self._lines[node].written(self._moves, node, copy))
            if trace.after:
                file.writelines(Lines(trace, trace.after).written(self._moves, node, last, self._drained_ns))


if __name__ == "__main__":
    main()
