"""The promise about logs as its page says it, row after row: what a history shows, by name, queue and offset."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tests.checkers.log.logs import Logs

Sight = tuple[str, int, int]


@dataclass
class Call:
    """An operation, with the number of the row that began it, that of the one that ended it (-1), and how."""

    asked: dict[str, Any]
    end: dict[str, Any] | None
    value: dict[str, Any]

    @property
    def type(self) -> str:
        return self.end["type"] if self.end else "info"

    @property
    def ended(self) -> int:
        """The number of the row that ended it; -1 for none."""
        return int(self.end["index"]) if self.end else -1

    @property
    def txn(self) -> int:
        return int(self.value.get("txn", -1))

    @property
    def place(self) -> tuple[int, int]:
        return self.asked["queue"], self.end["offset"] if self.end else -1


class Slow:
    def __init__(self, history: Logs) -> None:
        self.rows = [{**row, "v": json.loads(row["value"]) if row["value"] else {}} for row in history.rows]
        self.ends = {row["op"]: row for row in reversed(self.rows) if row["op"] >= 0 and row["f"] != "delivered"}
        self.calls: dict[str, list[Call]] = defaultdict(list)
        for row in self.rows:
            if row["kind"] == "op" and row["op"] < 0:
                end = self.ends.get(row["index"])
                self.calls[row["f"]].append(Call(row, end, {**row["v"], **(end["v"] if end else {})}))
        self.sends: dict[tuple[int, int], list[Call]] = defaultdict(list)
        for one in self.calls["send"]:
            self.sends[one.asked["queue"], one.asked["message"]].append(one)
        self.given = [row for row in self.rows if row["f"] == "delivered"]
        self.read: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
        for row in self.given:
            self.read[row["queue"], row["message"]].append(row)
        self.outcome = {one.txn: one.type for one in self.calls["txn"]}
        self.polls = {one.asked["index"]: one for one in self.calls["poll"]}
        self.asked = {
            one.txn: one.asked["index"] for one in reversed(self.calls["end_txn"]) if one.value["decision"] == "commit"
        }
        self.visible = {one.place for one in self.calls["send"] if one.type == "ok" and one.place[1] >= 0}
        self.visible |= {(row["queue"], row["offset"]) for row in self.given if not self.refused(row)}
        self.found: Counter[Sight] = Counter()

    def refused(self, row: dict[str, Any]) -> bool:
        sends = self.sends.get((row["queue"], row["message"]), [])
        return bool(sends) and all(one.type == "fail" for one in sends)

    def see(self, name: str, queue: int, offset: int) -> None:
        self.found[name, queue, offset] += 1

    def judged(self) -> Counter[Sight]:
        self.contents()
        self.aborted()
        self.missing()
        self.readers()
        self.producers()
        self.unknown()
        self.offsets()
        return self.found

    def contents(self) -> None:
        held: dict[tuple[int, int], set[int]] = defaultdict(set)
        stands: dict[tuple[int, int], set[int]] = defaultdict(set)
        for one in self.calls["send"]:
            if one.type == "ok" and one.place[1] >= 0:
                held[one.place].add(one.asked["hash"])
                stands[one.asked["queue"], one.asked["message"]].add(one.place[1])
        for row in self.given:
            held[row["queue"], row["offset"]].add(row["hash"])
            stands[row["queue"], row["message"]].add(row["offset"])
        for (queue, offset), contents in held.items():
            for _ in range(len(contents) - 1):
                self.see("inconsistent-offsets", queue, offset)
        for (queue, message), offsets in stands.items():
            tried = [one for one in self.sends[queue, message] if one.type != "fail"]
            if len(offsets) > max(1, len(tried)) and self.sends[queue, message]:
                self.see("duplicate", queue, max(offsets))

    def aborted(self) -> None:
        for (queue, message), rows in self.read.items():
            sends = self.sends[queue, message]
            if not sends:
                continue
            txn = sends[0].txn
            if self.refused(rows[0]):
                self.see("G1a", queue, rows[0]["offset"])
                over = max(one.end["index"] for one in sends if one.end)
                later = [row for row in rows if row["op"] > over and txn >= 0]
                if later:
                    self.see("resurrected", queue, later[0]["offset"])
            if len(sends) == 1 and txn >= 0:
                own = [row for row in rows if row["op"] in self.polls and self.polls[row["op"]].txn == txn]
                early = own or [row for row in rows if self.is_early(row, txn)]  # its own says more than others
                if early:
                    self.see("precommitted-read", queue, early[0]["offset"])

    def is_early(self, row: dict[str, Any], txn: int) -> bool:
        return not self.refused(row) and txn in self.asked and row["index"] < self.asked[txn]

    def bounds(self, queue: int) -> tuple[int, int]:
        """How far readers came, and where the final read ended."""
        lowest = [min(row["offset"] for row in rows) for (of, _), rows in self.read.items() if of == queue and rows]
        ends = [one.place[1] for one in self.calls["drain"] if one.type == "ok" and one.asked["queue"] == queue]
        return max(lowest, default=-1) + 1, max(ends, default=-1)

    def missing(self) -> None:
        for (queue, message), sends in self.sends.items():
            passed, ended = self.bounds(queue)
            for one in sends:
                offset = one.place[1]
                if one.type == "ok" and offset >= 0 and not self.read[queue, message]:
                    if offset < passed:
                        self.see("lost-write", queue, offset)
                    if offset < ended:
                        self.see("unseen", queue, offset)
                    if offset < ended and one.txn >= 0:
                        self.see("torn", queue, offset)

    def readers(self) -> None:
        reading = Reading(self)
        for row in self.rows:
            if row["f"] == "delivered":
                reading.give(row)
            elif row["f"] in ("assign", "seek", "join", "leave") and (row["op"] >= 0 or row["index"] not in self.ends):
                reading.move(row)

    def step(self, row: dict[str, Any], expected: int | None, prefix: str) -> None:
        queue, offset = row["queue"], row["offset"]
        if expected is None:
            return
        if offset < expected:
            self.see(f"{prefix}nonmonotonic-poll", queue, offset)
        elif any((queue, between) in self.visible for between in range(expected, offset)):
            self.see(f"{prefix}poll-skip", queue, offset)

    def at(self, one: Call) -> int:
        """Where a message stands; -1 where that is unknown."""
        queue, message = one.asked["queue"], one.asked["message"]
        if one.type == "fail":
            return -1
        if one.type == "ok" and one.place[1] >= 0:
            return one.place[1]
        rows = self.read[queue, message]
        return rows[0]["offset"] if rows and len(self.sends[queue, message]) == 1 else -1

    def producers(self) -> None:
        known = [one for one in self.calls["send"] if self.at(one) >= 0]
        within: dict[Any, list[Call]] = defaultdict(list)
        across: dict[Any, list[Call]] = defaultdict(list)
        for one in known:
            process = one.asked["process"]
            if one.txn >= 0:
                within[one.txn, one.asked["queue"]].append(one)
                process = process.rpartition("-")[0]
            across[process, one.asked["queue"]].append(one)
        for (_, queue), sends in within.items():
            sends.sort(key=lambda one: one.value["micro"])
            for one, two in pairwise(sends):
                if self.at(two) <= self.at(one):
                    self.see("int-nonmonotonic-send", queue, self.at(two))
                elif any((queue, between) in self.visible for between in range(self.at(one) + 1, self.at(two))):
                    self.see("int-send-skip", queue, -1)
        for (_, queue), sends in across.items():
            for one, two in pairwise(sends):
                apart = one.txn < 0 or one.txn != two.txn
                after = one.type == "ok" and one.ended < two.asked["index"]
                if apart and after and self.at(two) <= self.at(one):
                    self.see("nonmonotonic-send", queue, self.at(two))

    def proven(self) -> Iterator[tuple[Call, int]]:
        """Messages, sent once, that lack of transactions of unknown outcome; with the row that proves these."""
        proofs: dict[int, int] = {}
        once = [self.sends[key][0] for key in self.sends if len(self.sends[key]) == 1]
        unclear = [one for one in once if one.txn >= 0 and one.type == "info"]
        for one in unclear:
            for row in self.read[one.asked["queue"], one.asked["message"]][:1]:
                proofs[one.txn] = min(row["index"], proofs.get(one.txn, row["index"]))
        self.proofs = proofs
        for one in unclear:
            if not self.read[one.asked["queue"], one.asked["message"]] and one.value.get("stored", -1) >= 0:
                yield one, proofs.get(one.txn, -1)

    def unknown(self) -> None:
        self.lacking: set[int] = set()
        for one, proof in self.proven():
            queue, offset = one.asked["queue"], one.value["stored"]
            passed, ended = self.bounds(queue)
            if offset < ended:
                self.lacking.add(one.txn)
            if proof < 0:
                continue
            if (queue, offset) in self.visible:
                self.see("inconsistent-offsets", queue, offset)
            if offset < passed:
                self.see("lost-write", queue, offset)
            if offset < ended:
                self.see("torn", queue, offset)

    def offsets(self) -> None:
        commits, answers = self.calls["commit"], [one for one in self.calls["committed"] if one.type == "ok"]
        for one in answers:
            queue, given = one.place
            alike = [it for it in commits if it.asked["queue"] == queue and it.asked["offset"] == given]
            counts = [it for it in alike if it.type != "fail" and self.since(it) < one.ended]
            tried = [it for it in alike if it.txn >= 0 and it.asked["index"] < one.ended]
            if given >= 0 and not counts and tried:
                self.see("offset-without-output", queue, given)
            self.older(one, [it for it in commits if it.asked["queue"] == queue])
        for queue in {one.asked["queue"] for one in answers}:
            self.of_unknown(
                [it for it in commits if it.asked["queue"] == queue], [it for it in answers if it.place[0] == queue]
            )

    def since(self, commit: Call) -> int:
        return int(max(commit.asked["index"], self.asked.get(commit.txn, -1)))

    def replaced(self, commit: Call, given: int, commits: list[Call]) -> bool:
        """Whether another commit of what was given may have come later."""
        alike = [it for it in commits if it.asked["offset"] == given and it.type != "fail"]
        return any(it.type == "info" or it.ended >= commit.asked["index"] for it in alike)

    def older(self, answer: Call, commits: list[Call]) -> None:
        queue, given = answer.place
        before = [it for it in commits if it.txn >= 0 and it.type == "ok" and it.ended < answer.asked["index"]]
        if before:
            last = max(before, key=lambda it: it.ended)
            if last.asked["offset"] > given and not self.replaced(last, given, commits):
                self.see("output-without-offset", queue, given)

    def of_unknown(self, commits: list[Call], answers: list[Call]) -> None:
        for one in commits:
            if one.txn < 0 or one.type != "info":
                continue
            queue, offset = one.asked["queue"], one.asked["offset"]
            alike = [it for it in commits if it.asked["offset"] == offset and it.type != "fail"]
            shown = [it for it in answers if it.place[1] == offset and self.since(one) < it.ended]
            if len(alike) == 1 and shown and one.txn in self.lacking:
                self.see("offset-without-output", queue, offset)
            last = answers[-1]
            given, proof = last.place[1], self.proofs.get(one.txn, -1)
            if offset > given and not self.replaced(one, given, commits) and 0 <= proof < last.asked["index"]:
                self.see("output-without-offset", queue, given)


class Reading:
    """Where each reader stands."""

    def __init__(self, slow: Slow) -> None:
        self.slow = slow
        self.stands: dict[tuple[str, int], int | None] = {}
        self.last: dict[tuple[str, int], dict[str, Any] | None] = {}
        self.queues: dict[str, set[int]] = {}
        self.process: dict[str, str] = {}
        self.members = {self.name(one.asked["process"]) for one in slow.calls["join"]}
        self.steps = {one.asked["process"].rpartition(".")[0] for one in slow.calls["txn"]}

    def name(self, process: str) -> str:
        return process.rpartition(".")[0]

    def reader(self, row: dict[str, Any]) -> str:
        if row["op"] not in self.slow.polls:
            return f"the read {row['op']}"
        name = self.name(row["process"])
        stem, _, number = name.rpartition("-")
        return stem if number.isdigit() and stem in self.steps else name

    def unit(self, row: dict[str, Any]) -> tuple[str, int]:
        poll = self.slow.polls.get(row["op"])
        return ("txn", poll.txn) if poll is not None and poll.txn >= 0 else ("read", row["op"])

    def give(self, row: dict[str, Any]) -> None:
        key = self.reader(row), row["queue"]
        before = self.last.get(key)
        if before is not None and self.unit(before) == self.unit(row):
            self.slow.step(row, before["offset"] + 1, "int-")
        else:
            self.slow.step(row, self.stands.get(key), "member-" if key[0] in self.members else "")
        self.last[key] = row
        what, txn = self.unit(row)
        if what == "read" or self.slow.outcome.get(txn) == "ok":
            self.stands[key] = row["offset"] + 1

    def place(self, reader: str, queue: int, offset: int | None) -> None:
        self.stands[reader, queue] = offset
        self.last[reader, queue] = None

    def move(self, row: dict[str, Any]) -> None:
        if row["type"] == "fail":
            return
        reader, value, is_ok = self.name(row["process"]), row["v"], row["type"] == "ok"
        following = {int(queue): at for queue, at in value.get("following", {}).items()} if is_ok else {}
        queues = {*value.get("queues", ())}
        if row["f"] == "seek":
            self.place(reader, row["queue"], row["offset"] if is_ok else None)
        elif row["f"] == "assign":
            same = self.process.get(reader) == row["process"]
            for queue in (0, 1):
                if queue not in queues:
                    self.place(reader, queue, None)
                elif not same:
                    if queue in following:
                        self.place(reader, queue, following[queue])
                elif queue not in self.queues[reader]:
                    self.place(reader, queue, following.get(queue))
            self.queues[reader], self.process[reader] = queues, row["process"]
        else:
            for queue in (0, 1):
                mine = row["f"] == "join" and is_ok and queue in queues
                self.place(reader, queue, following.get(queue) if mine else None)
