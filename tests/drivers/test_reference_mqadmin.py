"""RocketMQ's own admin tool, where it is installed, looks at a cluster of the reference system."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivers._java.client_library import CLASSES
from drivers._java.client_program import java
from drivers._java.recipes import RECIPES
from drivers.rocketmq.java_clients import ADMIN_TOOL
from reference.wire.codes import Request, Response
from tests.stormproof.test_up import SMALL, Stranger, send_and_read_back, stormproof

#: The tool starts a virtual machine each time; on a busy machine that takes its time.
TOOL_S = 120
KEY, OWN = "k1", f"{7:032X}"
needs_tool = pytest.mark.skipif(
    shutil.which("java") is None or not (RECIPES[0].installed and (RECIPES[0].folder / CLASSES).is_dir()),
    reason="RocketMQ's admin tool is not there: stormproof install rocketmq, with a JDK",
)
pytestmark = [pytest.mark.full, pytest.mark.process, needs_tool]


@pytest.fixture
def known(tmp_path: Path, machine: None) -> Iterator[dict[str, str]]:
    """The addresses of a cluster that holds a message, by its nodes."""
    (tmp_path / "small.yaml").write_text(SMALL)
    up = stormproof(tmp_path, "up", "small.yaml", "--on", "process")
    try:
        assert up.returncode == 0, up.stderr
        yield dict(line.split() for line in up.stdout.splitlines())
    finally:
        stormproof(tmp_path, "down")


def mqadmin(home: Path, *words: str) -> str:
    """Return what the tool prints, with one blank for each gap."""
    program = java(RECIPES[0], ADMIN_TOOL)
    argv = [program[0], f"-Duser.home={home}", *program[1:], *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=TOOL_S, check=False, env={**os.environ})
    assert "Exception" not in done.stdout + done.stderr, done.stdout + done.stderr
    return re.sub(r"[ \t]+", " ", done.stdout)


def with_a_message(known: dict[str, str]) -> str:
    """Send a message with keys behind another one, and commit for group g; return the master's address."""
    send_and_read_back(known)
    with Stranger(known["nameserver-0"]) as names:
        route = json.loads(names.ask(Request.GET_ROUTEINFO_BY_TOPIC, topic="storm").body)
    master: str = route["brokerDatas"][0]["brokerAddrs"]["0"]
    where = {"topic": "storm", "queueId": "1"}
    properties = f"UNIQ_KEY\x01{OWN}\x02KEYS\x01{KEY}\x02TAGS\x01TagA\x02"
    with Stranger(master) as client:
        sent = client.ask(
            Request.SEND_MESSAGE, b"hello", **where, flag="0", sysFlag="0", bornTimestamp="0", properties=properties
        )
        assert sent.code == 0, sent.remark
        assert client.ask(Request.UPDATE_CONSUMER_OFFSET, consumerGroup="g", commitOffset="1", **where).code == 0
    return master


def test_it_shows_topics_groups_messages_and_options(known: dict[str, str], tmp_path: Path) -> None:
    master = with_a_message(known)
    names = ("-n", known["nameserver-0"])
    assert re.search(r"^broker-a 1 0 2 20\d\d-", mqadmin(tmp_path, "topicStatus", *names, "-t", "storm"), re.MULTILINE)
    progress = mqadmin(tmp_path, "consumerProgress", *names, "-g", "g", "-t", "storm")
    assert re.search(r"^storm broker-a 1 2 1 1 ", progress, re.MULTILINE)
    assert OWN in mqadmin(tmp_path, "queryMsgByKey", *names, "-t", "storm", "-k", KEY)
    with_the_tag = re.findall(
        r"MSGID: (\S+)", mqadmin(tmp_path, "printMsg", *names, "-t", "storm", "-s", "TagA || TagB")
    )
    assert with_the_tag == [OWN]
    assert "objectstore = " in mqadmin(tmp_path, "getBrokerConfig", *names, "-b", master)
    in_sync = mqadmin(tmp_path, "getSyncStateSet", *names, "-a", known["controller-0"], "-b", "broker-a")
    assert f"brokerAddress='{master}'" in in_sync


def test_it_deletes_a_topic_and_all_forget_it(known: dict[str, str], tmp_path: Path) -> None:
    master = with_a_message(known)
    names = ("-n", known["nameserver-0"])
    said = mqadmin(tmp_path, "deleteTopic", *names, "-c", "stormproof", "-t", "storm")
    assert "delete topic [storm] from cluster [stormproof] success" in said
    assert "delete topic [storm] from NameServer success" in said
    with Stranger(master) as client:
        assert client.ask(Request.GET_MAX_OFFSET, topic="storm", queueId="0").code == Response.TOPIC_NOT_EXIST
    assert "storm" not in mqadmin(tmp_path, "topicList", *names).split()
