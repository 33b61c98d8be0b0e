"""Kafka's client libraries as a load: how their programs are started, and what is judged of what they say."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Coroutine, Mapping
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from chaos.driver import ClientCommand, Dials, HasClientLibrary
from chaos.errors import BadInput, MachineError
from chaos.experiment.reader import load
from chaos.history.run_meta import GAPS
from chaos.judging.engine import judge_rows
from chaos.ops import Answer, Delivered, QueueRef
from chaos.recipe import Recipe
from chaos.verdict import Validity
from chaos.workload import Load, Use, body_hash
from drivers._java.client_library import CLASSES
from drivers._java.maven import LIB
from drivers.kafka import RECIPES, library
from drivers.kafka.driver import Options, create
from tests.checkers.histories import History
from tests.checkers.names import A, L
from workloads import library as workload

pytest.importorskip("kio", reason="not there: pip install 'stormproof[kafka]'")

FAKE = Path(__file__).parent / "fake_librdkafka"
QUEUES = tuple(QueueRef(index=one, topic="storm", queue_id=one) for one in range(2))


class Dialled:
    """Gives each broker an address of its own."""

    async def endpoint(self, client: str, node: str, port: str = "") -> tuple[str, int]:
        assert client == "library"
        return "127.0.0.1", 5000 + int(node.removeprefix("broker-"))


def command(orders: Mapping[str, int], **options: Any) -> ClientCommand:
    driver = create(Options(queues=2, **options))
    assert isinstance(driver, HasClientLibrary)
    return asyncio.run(driver.library_command(cast(Dials, Dialled()), "library", orders))


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(Recipe, "folder", tmp_path)
    monkeypatch.setattr(Recipe, "problem", "")
    for made in (LIB, CLASSES):
        (tmp_path / made).mkdir(parents=True)
    return tmp_path


def test_the_program_is_told_where_brokers_are_and_what_it_shall_be(installed: Path) -> None:
    made = command({"sync": 1, "pop": 0, "seed": 3, "gap_ns": 5})
    told = json.loads(made.env["STORMPROOF_ORDERS"])
    assert told["bootstrap"] == "127.0.0.1:5000,127.0.0.1:5001,127.0.0.1:5002"
    assert told["queues"] == [{"topic": "storm", "queue": 0}, {"topic": "storm", "queue": 1}]
    assert (told["acks"], told["isolation"], told["sync"], told["name"]) == ("all", "read_committed", 1, "library")
    assert f"{installed}/clients/classes:{installed}/lib/*" in made.argv and made.argv[-1] == "stormproof.kafka.Main"
    assert json.loads(command({"sync": 1}, acks="master").env["STORMPROOF_ORDERS"])["acks"] == "1"


@pytest.mark.parametrize(("version", "has_members"), [("3.9.1", False), ("4.1.0", True)])
def test_groups_have_members_by_the_newer_protocol_where_it_is_no_preview(
    installed: Path, version: str, has_members: bool
) -> None:
    made = command({"push": 1}, version=version)
    assert json.loads(made.env["STORMPROOF_ORDERS"])["members"] is has_members


EXPERIMENT = """\
name: library
system: kafka
duration: 9s
workloads:
  - library: {delay: 1, pop: 1}
"""


def test_what_kafka_has_no_counterpart_for_is_refused_at_its_line(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "library.yaml").write_text(EXPERIMENT)
    with pytest.raises(BadInput) as refused:
        load(tmp_path / "library.yaml", deployment="process")
    line = f"{tmp_path}/library.yaml:5: workloads: library"
    assert str(refused.value).splitlines()[-2:] == [
        f"{line}: delay: Kafka delays no message",
        f"{line}: pop: Kafka 3.9.1 has no share groups; they are in 4.1 and later",
    ]


def test_only_kafkas_own_client_has_consumers_of_share_groups_from_4_1_on() -> None:
    for client in library.LIBRARIES:
        assert "4.0.1 has no share groups" in create(Options(version="4.0.1", client=client)).library_lacks()["pop"]
    assert set(create(Options(version="4.1.0")).library_lacks()) == {"delay"}
    assert "`client: java`" in create(Options(version="4.1.0", client="librdkafka")).library_lacks()["pop"]


def test_a_program_that_was_not_compiled_and_a_library_that_is_not_there(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installed / CLASSES).rmdir()
    with pytest.raises(MachineError, match=r"is not compiled for kafka 3\.9\.1, .* install a JDK"):
        command({"sync": 1})
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"confluent-kafka, which is not installed: pip install 'stormproof\[librdkafka"):
        create(Options(client="librdkafka")).cluster("")
    with pytest.raises(ValueError, match="client: expected java or librdkafka, got 'go'"):
        Options(client="go")


def test_a_library_leaves_gaps_and_nothing_else_does_by_itself() -> None:
    driver = create(Options())
    assert driver.offsets_have_gaps([Use.QUEUES, Use.DELIVERIES]) and not driver.offsets_have_gaps([Use.QUEUES])


def test_the_recipe_carries_the_sources() -> None:
    files = RECIPES[0].files
    assert "public static void main" in files["clients/stormproof/kafka/Main.java"]
    assert "class Harness" in files["clients/stormproof/client/Harness.java"]
    assert not any("rocketmq" in path for path in files)


# The program with librdkafka, over a Kafka that is a file


class FileReader:
    """A client that reads the file in which the messages are."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def bounds(self, queue: QueueRef) -> Answer:
        return Answer(minimum=0, maximum=max([one["end"] for one in self._lines(queue)], default=0))

    async def pull(self, queue: QueueRef, offset: int, *, limit: int) -> Answer:
        lines = self._lines(queue)
        found = [one for one in lines if one["offset"] >= offset][:limit]
        maximum = max([one["end"] for one in lines], default=0)
        messages = tuple(
            Delivered(offset=one["offset"], message=int(one["key"], 16), hash=body_hash(b64decode(one["body"])))
            for one in found
        )
        return Answer(maximum=maximum, following=found[-1]["end"] if found else maximum, messages=messages)

    def _lines(self, queue: QueueRef) -> list[dict[str, Any]]:
        lines = map(json.loads, self._file.read_text().splitlines())
        return [one for one in lines if one.get("partition") == queue.queue_id]

    def close(self) -> None: ...


class FileLoad:
    """A load whose rows become a history that can be judged; over when ``rows`` have been recorded."""

    queues = QUEUES
    brokers = ()

    def __init__(self, file: Path, wrong: str, rows: int) -> None:
        self.shared: dict[str, dict[int, int]] = {"acked": {}, "seen": {}, "sequence": {}}
        self.history = History(meta={"uses": ["queues", "deliveries"], "offsets": GAPS, "tells": ["operations"]})
        self._file, self._wrong, self._rows = file, wrong, rows
        self._began_ns = time.monotonic_ns()

    @property
    def stopping(self) -> bool:
        return len(self.history.rows) >= self._rows

    def record(self, kind: str, *, value: dict[str, Any] | None = None, **columns: Any) -> int:
        self.history.now_ns = max(self.history.now_ns, self.now_ns() - self.history.step_ms * 1_000_000)
        words = {"type": str(columns["type"])} if "type" in columns else {}
        return self.history.row(kind, value=value, **{**columns, **words})

    async def look_for_bypass(self, client: str, pid: int) -> None: ...

    def now_ns(self) -> int:
        return time.monotonic_ns() - self._began_ns

    def rng(self, name: str) -> Random:
        return Random(name)

    async def sleep(self, seconds: float) -> bool:
        await asyncio.sleep(seconds)
        return False

    async def gather(self, *coroutines: Coroutine[Any, Any, None]) -> None:
        await asyncio.gather(*coroutines)

    def client(self, name: str) -> FileReader:
        return FileReader(self._file)

    async def library_command(self, name: str, orders: Mapping[str, int]) -> ClientCommand:
        driver = create(Options(queues=2, client="librdkafka"))
        made = await driver.library_command(cast(Dials, Dialled()), name, orders)
        fake = {"PYTHONPATH": str(FAKE), "FAKE_FILE": str(self._file), "FAKE": self._wrong}
        return ClientCommand(argv=made.argv, env={**made.env, **fake})


def judged(tmp_path: Path, wrong: str = "", **options: int) -> History:
    """Load, drain, and return what was recorded."""
    load = FileLoad(tmp_path / "messages", wrong, rows=250)
    (tmp_path / "messages").touch()
    history = load.history

    async def both() -> None:
        made = workload.create(workload.Options(rate_per_s=400, drain_s=8, **options))
        history.phase("load")
        await made.run(cast(Load, load))
        history.phase("recover")
        history.recovered()
        history.phase("drain")
        await made.drain(cast(Load, load))
        history.phase("stop")

    asyncio.run(both())
    return history


@pytest.mark.process
def test_an_honest_library_is_valid_in_all_its_ways(tmp_path: Path) -> None:
    history = judged(tmp_path, transaction=2)
    verdicts = {verdict.law: verdict for verdict in judge_rows([("all-0", history.table())], history.context())}
    assert not [one for verdict in verdicts.values() for one in verdict.anomalies if not one.lawful]
    assert {verdicts[one].validity for one in (L.DURABILITY, L.ORDER, L.DELIVERIES)} == {Validity.VALID}
    counts = verdicts[L.DELIVERIES].counts
    assert counts["groups_awaited"] == 6 and counts["rolled_back"] > 0 and counts["in_order"] > 100
    ways = {json.loads(row["value"]).get("via") for row in history.rows if row["f"] in ("send", "transact")}
    assert ways >= {"sync", "async", "ordered", "batch", "end"}


@pytest.mark.process
def test_a_library_that_says_acknowledged_although_it_is_not_is_found(tmp_path: Path) -> None:
    history = judged(tmp_path, "unstored")
    assert A.LOST in {one.name for one in history.verdict(L.DURABILITY).anomalies}


@pytest.mark.process
def test_a_message_of_an_aborted_transaction_that_readers_are_given_is_found(tmp_path: Path) -> None:
    history = judged(tmp_path, "aborted", transaction=2)
    assert A.ROLLED_BACK_DELIVERED in {one.name for one in history.verdict(L.DELIVERIES).anomalies}


@pytest.mark.process
def test_a_refusal_is_sure_where_there_was_one_attempt(tmp_path: Path) -> None:
    rows = judged(tmp_path, "refused").rows
    refused = [row for row in rows if row["f"] == "send" and "error 19" in row["value"]]
    ends = {(json.loads(row["value"])["via"], row["type"]) for row in refused}
    assert {end for via, end in ends if via == "sync"} == {"fail"}
    assert {end for via, end in ends if via != "sync"} == {"info"}


# The program with Kafka's own client

ENDS = """
package stormproof.kafka;

import java.util.Set;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.NotEnoughReplicasAfterAppendException;
import org.apache.kafka.common.errors.NotEnoughReplicasException;
import org.apache.kafka.common.errors.TimeoutException;
import stormproof.client.Harness;

final class Ends {
    public static void main(String[] arguments) throws Exception {
        Harness harness = new Harness(Json::write, Json::read);
        TopicPartition queue = new TopicPartition("storm", 0);
        Exception[] errors = {
            new NotEnoughReplicasException("19"), new NotEnoughReplicasAfterAppendException("20"),
            new TimeoutException("no answer"), null,
        };
        for (Set<Integer> sure : Set.of(Set.of(19), Set.<Integer>of())) {
            for (Exception error : errors) {
                Sent sent = new Sent(harness.begin("send", "p", 0, "sure", sure.size()), queue, sure, () -> { });
                RecordMetadata none = new RecordMetadata(queue, -1, 0, -1, -1, -1);
                Thread sender = new Thread(() -> sent.onCompletion(none, error));
                sender.start();
                sender.join();
            }
        }
        Sent early = new Sent(harness.begin("send", "p", 0, "sure", 2), queue, Set.of(), () -> { });
        early.onCompletion(null, new TimeoutException("no metadata"));
        early.onCompletion(new RecordMetadata(queue, 5, 0, -1, -1, -1), null);
        Runtime.getRuntime().halt(0);
    }
}
"""


#: Takes one batch of three partitions. Of their acknowledgements one ends well, one in an error, and of one it is not
#: said; then a batch whose acknowledgement ends in an error of the library. Says on standard error how each message was
#: acknowledged.
SHARED = """
package stormproof.kafka;

import java.lang.reflect.Proxy;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import stormproof.client.Harness;

final class Shared {
    private static final TopicPartition[] QUEUES = {part(0), part(1), part(2)};

    private static TopicPartition part(int number) {
        return new TopicPartition("storm", number);
    }

    private static ConsumerRecords<byte[], byte[]> batch(int messages, int partitions) {
        Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> found = new LinkedHashMap<>();
        for (int number = 0; number < messages; number++) {
            found.computeIfAbsent(QUEUES[number % partitions], one -> new ArrayList<>()).add(
                new ConsumerRecord<>("storm", number % partitions, number, new byte[] {'a'}, new byte[] {'b'}));
        }
        return new ConsumerRecords<>(found);
    }

    private static Object commit(boolean fails) {
        if (fails) {
            throw new DisconnectException("gone");
        }
        Map<TopicIdPartition, Optional<KafkaException>> ends = new HashMap<>();
        ends.put(new TopicIdPartition(Uuid.ZERO_UUID, QUEUES[0]), Optional.empty());
        ends.put(new TopicIdPartition(Uuid.ZERO_UUID, QUEUES[1]), Optional.of(new InvalidRecordStateException("late")));
        return ends;
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) {
        ShareConsumers all = new ShareConsumers(
            new Orders(System.getenv("STORMPROOF_ORDERS")), new Harness(Json::write, Json::read));
        for (boolean fails : new boolean[] {false, true}) {
            ShareConsumer<byte[], byte[]> consumer = (ShareConsumer<byte[], byte[]>) Proxy.newProxyInstance(
                Shared.class.getClassLoader(), new Class<?>[] {ShareConsumer.class}, (self, method, given) -> {
                    if (method.getName().equals("acknowledge")) {
                        System.err.println(given[1]);
                        return null;
                    }
                    return commit(fails);
                });
            try {
                all.take("pop-0", consumer, batch(fails ? 2 : 300, fails ? 1 : 3), new Random(1));
            } catch (DisconnectException error) {
                System.err.println(error.getMessage());
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
"""


def spoken(tmp_path: Path, name: str, source: str, orders: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """Compile a class beside the program's, run it, let each operation begin, and return its lines of both outputs."""
    (tmp_path / f"{name}.java").write_text(source)
    jars = f"{RECIPES[0].folder / CLASSES}:{RECIPES[0].folder / LIB}/*"
    subprocess.run(["javac", "-nowarn", "-d", str(tmp_path), "-cp", jars, str(tmp_path / f"{name}.java")], check=True)
    argv = ["java", "-cp", f"{tmp_path}:{jars}", f"stormproof.kafka.{name}"]
    environment = {**os.environ, "STORMPROOF_ORDERS": json.dumps(orders)}
    errors, lines = tmp_path / "errors", []
    with (
        errors.open("wb") as written,
        subprocess.Popen(argv, stdin=-1, stdout=-1, stderr=written, env=environment) as program,
    ):
        assert program.stdin is not None and program.stdout is not None
        for line in program.stdout:
            lines.append(json.loads(line))
            if lines[-1]["type"] == "invoke":
                begun = {"id": lines[-1]["id"], "key": "0", "body": "x"}
                program.stdin.write(json.dumps(begun).encode() + b"\n")
                program.stdin.flush()
    return lines, errors.read_text().splitlines()


needs_classes = pytest.mark.skipif(
    shutil.which("javac") is None or not (RECIPES[0].installed and (RECIPES[0].folder / CLASSES).is_dir()),
    reason="not there: stormproof install kafka, with a JDK",
)


@pytest.mark.process
@needs_classes
def test_what_the_end_of_a_send_says_of_the_message(tmp_path: Path) -> None:
    """An error is sure only of a single attempt, or before the library took the message; the first end counts."""
    lines, _ = spoken(tmp_path, "Ends", ENDS, {})
    sure = {line["id"]: line["sure"] for line in lines if line["type"] == "invoke"}
    ends: dict[int, list[str]] = {}
    for line in lines:
        if line["type"] != "invoke":
            ends.setdefault(sure[line["id"]], []).append(line["type"])
    assert ends == {1: ["fail", "info", "info", "info"], 0: ["info", "info", "info", "info"], 2: ["fail"]}


@pytest.mark.process
@needs_classes
def test_what_a_share_group_is_given_is_recorded_before_it_is_acknowledged(tmp_path: Path) -> None:
    """Each message is acknowledged, released or rejected once; how that ended is known only as far as it is said."""
    queues = [{"topic": "storm", "queue": number} for number in range(3)]
    lines, said = spoken(tmp_path, "Shared", SHARED, {"queues": queues, "not_appended": []})
    begun = {line["id"]: line for line in lines if line["type"] == "invoke"}
    assert [one["f"] for one in begun.values()][:4] == ["receive", "receive", "receive", "ack"]
    given = [len(line["messages"]) for line in lines if "messages" in line]
    assert given == [100, 100, 100, 2] and {one["group"] for one in begun.values()} == {"library-pop"}
    accepted, released, rejected = (said.count(kind) for kind in ("accept", "release", "reject"))
    assert accepted + released + rejected == 302 and released > rejected > 0 and said[-1] == "gone"
    ends = [(begun[line["id"]], line) for line in lines if begun[line["id"]]["f"] == "ack" and line["type"] != "invoke"]
    assert len(ends) == accepted
    first = [(one["queue"], end["type"], end.get("reason", "")) for one, end in ends][:-2]
    assert {tuple(end) for queue, *end in first if queue == 0} == {("ok", "")}
    assert {tuple(end) for queue, *end in first if queue == 1} == {("info", "InvalidRecordStateException: late")}
    assert {tuple(end) for queue, *end in first if queue == 2} == {("info", "the library does not say how it ended")}
    assert [end["type"] for _, end in ends[-2:]] == ["info", "info"]
