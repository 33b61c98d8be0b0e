"""What bugs of a broker would leave behind: each harm changes a recorded run in one such way; who must see it is named.

Where several laws see a harm, one of them is named.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.checkers import tier_harms  # noqa: F401  (notes its harms)
from tests.checkers.harming import EMPTIED as EMPTIED
from tests.checkers.harming import HARMS as HARMS
from tests.checkers.harming import Harm as Harm
from tests.checkers.harming import found_as, in_lives, other, proves_nothing, read_early, slave, two_of_a_queue
from tests.checkers.names import A
from tests.checkers.recorded import BROKERS, Recording, Row

# Messages


@found_as(A.LOST)
def an_acknowledged_message_is_gone_everywhere(run: Recording, rng: Random) -> None:
    message = rng.choice(run.acked())["message"]
    drained = run.drained(message)
    run.drop(lambda row: drained(row) or (row["message"] == message and row["kind"] == "final"))


@found_as(A.LOST)
def an_acknowledged_message_can_be_read_no_more(run: Recording, rng: Random) -> None:
    run.drop(run.drained(rng.choice(run.acked())["message"]))


@found_as(A.ROLLBACK)
def a_message_that_was_read_but_never_acknowledged_is_gone(run: Recording, rng: Random) -> None:
    ack = read_early(run, rng)
    ack.update(type="info", offset=-1, position=-1)
    run.drop(run.drained(ack["message"]))


@found_as(A.CORRUPT)
def a_delivery_has_another_content(run: Recording, rng: Random) -> None:
    rng.choice(run.find("op", "delivered"))["hash"] ^= 1


@found_as(A.OFFSET_CONFLICT)
def one_offset_was_given_to_two_messages(run: Recording, rng: Random) -> None:
    one, two = two_of_a_queue(run, rng)
    one["offset"] = two["offset"]


@found_as(A.PRODUCER_REORDER)
def two_messages_of_a_producer_changed_places(run: Recording, rng: Random) -> None:
    producer = rng.choice(run.acked())["process"].rpartition(".")[0]
    mine = [row for row in run.acked() if row["process"].startswith(f"{producer}.") and row["queue"] == 0]
    one, two = mine[0], mine[-1]
    one["offset"], two["offset"] = two["offset"], one["offset"]


@found_as(A.REORDER)
def a_later_message_stands_before_an_earlier_one(run: Recording, rng: Random) -> None:
    one, two = two_of_a_queue(run, rng)
    one["offset"], two["offset"] = two["offset"], one["offset"]
    two["process"] = "producer-9.0"


@found_as(A.DUPLICATE_APPEND)
def a_message_stands_there_twice(run: Recording, rng: Random) -> None:
    begin = run.phase("drain")
    read = [row for row in run.find("op", "delivered", queue=0) if row["op"] >= begin]
    known = {row["message"] for row in run.acked()}
    one = rng.choice([row for row in read[:-1] if row["message"] in known])
    read[-1].update(message=one["message"], hash=one["hash"])


@found_as(A.UNEXPECTED)
def a_message_appears_that_nobody_sent(run: Recording, rng: Random) -> None:
    rng.choice(run.find("op", "delivered"))["message"] = 77 << 40


@found_as(A.CONSUMER_REORDER)
def a_pull_delivers_two_messages_in_the_wrong_order(run: Recording, rng: Random) -> None:
    pulls: dict[int, list[Row]] = {}
    for row in run.find("op", "delivered"):
        pulls.setdefault(row["op"], []).append(row)
    one, two, *_ = rng.choice([rows for rows in pulls.values() if len(rows) > 1])
    for name in ("offset", "message", "hash"):
        one[name], two[name] = two[name], one[name]


@found_as(A.OVER_FULL)
def a_pull_delivers_more_messages_than_were_asked_for(run: Recording, rng: Random) -> None:
    given = Counter(row["op"] for row in run.find("op", "delivered"))
    asked = rng.choice([row for row in run.find("op", "pull", "invoke") if given[row["index"]] > 1])
    asked["v"]["limit"] = given[asked["index"]] - 1


@found_as(A.OVER_FULL)
def a_pull_delivers_more_bytes_than_were_asked_for(run: Recording, rng: Random) -> None:
    given = Counter(row["op"] for row in run.find("op", "delivered"))
    asked = {row["index"]: row for row in run.find("op", "pull", "invoke") if "max_bytes" in row["v"]}
    answer = rng.choice([row for row in run.find("op", "pull", "ok") if row["op"] in asked and given[row["op"]] > 1])
    asked[answer["op"]]["v"]["max_bytes"] = answer["v"]["size"] - 1


@found_as(A.SKIPPED)
def a_group_is_never_given_a_message(run: Recording, rng: Random) -> None:
    given = [row for row in run.find("op", "delivered") if row["process"].startswith("group-0-")]
    one = rng.choice(given[: len(given) // 2])
    run.drop(lambda row: row in given and (row["queue"], row["offset"]) == (one["queue"], one["offset"]))


@found_as(A.SKIPPED)
def a_minimum_that_is_too_high_makes_a_group_jump(run: Recording, rng: Random) -> None:
    given = [row for row in run.find("op", "delivered") if row["process"].startswith("group-0-")]
    pull = rng.choice(given[: len(given) // 2])["op"]
    last = max(row["offset"] for row in given if row["op"] == pull)
    gone = {(row["queue"], row["offset"]) for row in given if row["op"] == pull and row["offset"] < last}
    answer = next(row for row in run.find("op", "pull", "ok") if row["op"] == pull)
    gone.add((answer["queue"], last))
    answer["v"]["minimum"] = last + 1
    run.drop(lambda row: row in given and (row["queue"], row["offset"]) in gone)


@found_as(A.EARLY_RETENTION)
def a_master_tells_that_a_queue_begins_later_than_it_does(run: Recording, rng: Random) -> None:
    f = rng.choice(["pull", "bounds"])
    answers = [row for row in run.find("op", f, "ok") if "from" not in row["v"] and row["v"].get("maximum", 0) > 3]
    rng.choice(answers)["v"]["minimum"] = 3


@found_as(A.MAX_OFFSET_REGRESSION)
def a_master_tells_a_lower_end(run: Recording, rng: Random) -> None:
    answers = [row for row in run.find("op", "pull", "ok") if row["process"].startswith("group-0-")]
    rng.choice([row for row in answers if row["v"]["maximum"] > 20])["v"]["maximum"] -= 15


@found_as(A.COMMIT_REGRESSION)
def groups_have_gone_back(run: Recording, rng: Random) -> None:
    for row in run.find("final", "offsets"):
        for offsets in row["v"]["groups"].values():
            offsets.update({queue: offset - 1 for queue, offset in offsets.items()})


@found_as(A.COMMIT_BEYOND_END)
def a_commit_lies_beyond_the_queue(run: Recording, rng: Random) -> None:
    row = rng.choice(run.find("op", "commit", "ok"))
    row["offset"] = 100_000
    next(asked for asked in run.rows if asked["index"] == row["op"])["offset"] = 100_000


@found_as(A.NEVER_COMMITTED)
def a_group_is_told_more_than_it_committed(run: Recording, rng: Random) -> None:
    answer = rng.choice(run.find("op", "committed", "ok"))
    mine = [row for row in run.find("op", "commit") if row["queue"] == answer["queue"]]
    before = [row["offset"] for row in mine if row["index"] < answer["index"]]
    answer["offset"] = 1 + max(before, default=0)


# Topics


@found_as(A.TOPIC_LOST)
def a_topic_is_not_known_to_clients_any_more(run: Recording, rng: Random) -> None:
    last = {row["v"]["topic"]: row for row in run.find("op", "find_topic", "invoke")}
    ends = {row["op"]: row for row in run.find("op", "find_topic", "ok")}
    asked = rng.choice([row for row in last.values() if row["index"] in ends])
    found = ends[asked["index"]]  # the last answer about a topic: an earlier one need not tell
    found["v"]["queues"] = 0
    found["time_ns"] += 10**10
    next(row for row in run.rows if row["index"] == found["op"])["time_ns"] += 10**10


@found_as(A.TOPIC_LOST)
def the_last_master_has_forgotten_a_topic(run: Recording, rng: Random) -> None:
    name = rng.choice(run.find("op", "create_topic", "ok"))["v"]["topic"]
    for row in run.find("final", "topics"):
        del row["v"]["topics"][name]


# Readers


def answers(run: Recording) -> list[Row]:
    """What the final reading was answered, where messages came."""
    readers = [row for row in run.find("op", "pull", "ok") if row["process"].startswith("drain-")]
    return [row for row in readers if row["v"]["following"] > row["v"]["asked"]]


@found_as(A.UNREADABLE)
def a_retained_offset_is_answered_as_empty(run: Recording, rng: Random) -> None:
    answer = rng.choice(answers(run))
    answer["v"]["following"] = answer["v"]["asked"]
    run.drop(lambda row: row["f"] == "delivered" and row["op"] == answer["op"])


@found_as(A.WRONG_NEXT_OFFSET)
def a_reader_is_sent_back(run: Recording, rng: Random) -> None:
    rng.choice(answers(run))["v"]["following"] -= 1


@found_as(A.WRONG_NEXT_OFFSET)
def a_reader_is_sent_past_a_message(run: Recording, rng: Random) -> None:
    rng.choice([row for row in answers(run) if row["v"]["following"] < row["v"]["maximum"]])["v"]["following"] += 1


# Replicas


@found_as(A.REPLICA_DIVERGENCE)
def a_log_holds_another_message(run: Recording, rng: Random) -> None:
    rng.choice([row for row in run.find("final", "log") if row["queue"] >= 0])["hash"] ^= 1


@found_as(A.REPLICA_DIVERGENCE)
def a_log_has_a_hole(run: Recording, rng: Random) -> None:
    gone = rng.choice(run.find("final", "log"))
    run.drop(lambda row: row is gone)


@found_as(A.REPLICA_DIVERGENCE)
def a_log_is_empty_though_it_says_otherwise(run: Recording, rng: Random) -> None:
    node = slave(run, rng)["node"]
    run.drop(lambda row: (row["kind"], row["f"], row["node"]) == ("final", "log", node))


@found_as(A.REPLICA_DIVERGENCE)
def a_log_has_the_same_records_elsewhere(run: Recording, rng: Random) -> None:
    rows = run.find("final", "log", node=slave(run, rng)["node"])
    begin = rng.choice(rows)["position"]
    for row in rows:
        row["position"] += 7 if row["position"] >= begin else 0


@found_as(A.REPLICA_DIVERGENCE)
def a_log_has_a_record_of_another_epoch(run: Recording, rng: Random) -> None:
    rng.choice([row for row in run.find("final", "log") if row["epoch"] > 1])["epoch"] -= 1


@found_as(A.CONFIRM_ROLLBACK)
def a_log_has_lost_its_confirmed_end(run: Recording, rng: Random) -> None:
    node = slave(run, rng)
    end = run.find("final", "log", node=node["node"])[-3]["position"]
    run.drop(lambda row: row["f"] == "log" and row["node"] == node["node"] and row["position"] >= end)
    node["v"].update(end=end, confirm=end)


@found_as(A.CONFIRM_ROLLBACK)
def a_log_was_cut_below_what_it_had_confirmed(run: Recording, rng: Random) -> None:
    confirm = rng.choice([row for row in run.find("trace", "confirm") if row["position"] > 2000])
    run.insert(confirm, f="truncate", position=confirm["position"] - 100, v={"old_end": confirm["position"]})


@found_as(A.CONFIRM_ROLLBACK)
def a_master_takes_back_what_it_confirmed(run: Recording, rng: Random) -> None:
    confirm = rng.choice([row for row in run.find("trace", "confirm") if row["position"] > 2000 and "set" in row["v"]])
    run.insert(confirm, position=confirm["position"] - 300)


def of_a_whole_set(run: Recording, rng: Random) -> Row:
    return rng.choice([row for row in run.find("trace", "confirm") if len(row["v"].get("set", ())) == 3])


@found_as(A.CONFIRM_BEYOND_SET)
def a_master_confirms_what_its_slaves_have_not_told(run: Recording, rng: Random) -> None:
    row = of_a_whole_set(run, rng)
    row["v"]["acks"][other(row["node"], rng)] = row["position"] - 1


@found_as(A.CONFIRM_BEYOND_SET)
def a_slave_tells_more_than_its_disk_has(run: Recording, rng: Random) -> None:
    row = of_a_whole_set(run, rng)
    node, end = other(row["node"], rng), row["position"]
    for synced in run.find("trace", "synced", node=node):
        if synced["position"] >= end and synced["index"] < row["index"]:
            synced["position"] = end - 1


@found_as(A.CONFIRM_BEYOND_SET)
def an_ok_is_given_above_the_confirm_offset(run: Recording, rng: Random) -> None:
    row = rng.choice(run.find("trace", "acked"))
    row["v"]["confirm"] = row["position"] - 1


@found_as(A.METADATA_CONFLICT)
def a_replica_has_forgotten_its_topics(run: Recording, rng: Random) -> None:
    rng.choice(run.find("final", "topics"))["v"]["topics"] = {}


@found_as(A.OFFSETS_LOST)
def all_replicas_have_forgotten_a_group(run: Recording, rng: Random) -> None:
    for row in run.find("final", "offsets"):
        row["v"]["groups"] = {}


# Who counts as in sync


@found_as(A.CONFIRM_BEYOND_LOG)
def a_slave_confirms_more_than_it_has(run: Recording, rng: Random) -> None:
    row = rng.choice([row for row in run.find("trace", "confirm") if "set" not in row["v"]])
    row["position"] += 100_000


@found_as(A.FALSE_SYNC)
def a_replica_calls_durable_what_its_disk_does_not_hold(run: Recording, rng: Random) -> None:
    row = rng.choice([row for row in run.find("trace", "synced") if row["v"].get("disk", 0) > 0])
    row["v"]["disk"] = row["v"]["size"] - 1


@found_as(A.MEMBER_BEHIND)
def a_member_has_lost_its_end_and_stays_a_member(run: Recording, rng: Random) -> None:
    row = of_a_whole_set(run, rng)
    node = other(row["node"], rng)
    run.insert(row, **in_lives(run, row, node), f="truncate", position=row["position"] - 1, v={"old_end": 1})


@found_as(A.SET_NOT_COUNTED)
def a_master_forgets_whom_it_has_proposed(run: Recording, rng: Random) -> None:
    for row in run.rows:
        if row["kind"] == "trace" and "proposed" in row["v"]:
            row["v"]["proposed"] = []


# Roles


@found_as(A.METADATA_CONFLICT)
def a_master_no_longer_counts_on_a_member(run: Recording, rng: Random) -> None:
    first = of_a_whole_set(run, rng)
    gone = other(first["node"], rng)
    for row in run.rows:
        if row["node"] == first["node"] and row["v"].get("set_epoch") == first["v"]["set_epoch"]:
            row["v"]["set"] = [name for name in row["v"]["set"] if name != gone]


@found_as(A.METADATA_CONFLICT)
def two_controllers_disagree(run: Recording, rng: Random) -> None:
    rng.choice(run.find("trace", "applied"))["v"]["entry"]["type"] = "noop2"


@found_as(A.DUPLICATE_ID)
def two_brokers_are_given_one_id(run: Recording, rng: Random) -> None:
    entries = [row["v"]["entry"] for row in run.find("trace", "applied") if "id" in row["v"].get("entry", {})]
    ids = {entry["broker"]: entry["id"] for entry in entries}
    one, two = rng.sample(sorted(ids), 2)
    for entry in entries:
        entry["id"] = ids[one] if entry["broker"] == two else entry["id"]


@found_as(A.TWO_MASTERS)
def two_brokers_lead_one_epoch(run: Recording, rng: Random) -> None:
    row = rng.choice([row for row in run.find("trace", "role") if row["v"]["role"] == "master"])
    run.insert(row, **in_lives(run, row, other(row["node"], rng)))


@found_as(A.TWO_MASTERS)
def a_broker_leads_an_epoch_of_nobody(run: Recording, rng: Random) -> None:
    row = [row for row in run.find("trace", "role") if row["v"]["role"] == "master"][-1]
    run.insert(row, epoch=row["epoch"] + 1)


@found_as(A.TWO_MASTERS)
def a_slave_takes_a_write(run: Recording, rng: Random) -> None:
    row = rng.choice(run.acked())
    row["node"] = other(row["node"], rng)


@found_as(A.ELECTION_OUTSIDE_SET)
def somebody_else_is_elected(run: Recording, rng: Random) -> None:
    entries = [row["v"]["entry"] for row in run.find("trace", "applied")]
    number = max(entry["master_epoch"] for entry in entries if entry["type"] == "elect")
    for entry in entries:
        if entry["type"] == "elect" and entry["master_epoch"] == number:
            entry["previous_set"] = [name for name in entry["previous_set"] if name != entry["master"]]


@found_as(A.ROUTE_REGRESSION)
def a_name_server_goes_back_to_an_older_epoch(run: Recording, rng: Random) -> None:
    row = [row for row in run.find("trace", "route") if row["epoch"] > 1][-1]
    run.insert(row, epoch=row["epoch"] - 1)


@found_as(A.EPOCH_REGRESSION)
def a_broker_follows_an_older_epoch(run: Recording, rng: Random) -> None:
    row = [row for row in run.find("trace", "role") if row["v"]["role"] == "slave"][-1]
    run.insert(row, epoch=row["epoch"] - 1)


# What proves nothing


@proves_nothing
def the_end_is_missing(run: Recording, rng: Random) -> None:
    del run.rows[len(run.rows) * rng.randrange(30, 99) // 100 :]


@proves_nothing
def the_last_row_is_missing(run: Recording, rng: Random) -> None:
    del run.rows[-1]


@proves_nothing
def nothing_was_read_after_the_run(run: Recording, rng: Random) -> None:
    run.drop(lambda row: row["kind"] == "final")


@proves_nothing
def one_replica_was_not_read_after_the_run(run: Recording, rng: Random) -> None:
    node = rng.choice(BROKERS)
    run.drop(lambda row: row["kind"] == "final" and row["node"] == node)


@proves_nothing
def one_replica_did_not_tell_its_bounds(run: Recording, rng: Random) -> None:
    node = slave(run, rng)["node"]
    run.drop(lambda row: (row["kind"], row["f"], row["node"]) == ("final", "node", node))


@proves_nothing
def one_replica_told_no_topics(run: Recording, rng: Random) -> None:
    node = rng.choice(BROKERS)
    run.drop(lambda row: row["f"] == "topics" and row["node"] == node)


@proves_nothing
def one_queue_was_not_drained(run: Recording, rng: Random) -> None:
    run.drop(lambda row: row["f"] == "drain" and row["queue"] == 0)


@proves_nothing
def a_drain_ended_too_early(run: Recording, rng: Random) -> None:
    run.find("op", "drain", "ok")[0]["offset"] -= 1


@proves_nothing
def nobody_told_anything(run: Recording, rng: Random) -> None:
    run.drop(lambda row: row["kind"] == "trace")


@proves_nothing
def one_replica_told_nothing(run: Recording, rng: Random) -> None:
    node = rng.choice(BROKERS)
    run.drop(lambda row: row["kind"] == "trace" and row["node"] == node)


@proves_nothing
def an_election_is_missing(run: Recording, rng: Random) -> None:
    elections = [row for row in run.find("trace", "applied") if row["v"]["entry"]["type"] == "elect"]
    place = rng.choice(elections)["position"]
    run.drop(lambda row: row["f"] == "applied" and row["position"] == place)


@proves_nothing
def an_upload_is_missing(run: Recording, rng: Random) -> None:
    requests = [row["v"]["request"] for row in run.find("trace", "store_put") if row["v"]["outcome"] == "created"]
    request = rng.choice(requests)
    run.drop(lambda row: row["f"] == "tier_request" and row["v"]["request"] == request)


@proves_nothing
def no_send_ended(run: Recording, rng: Random) -> None:
    for row in run.find("op", "send", "ok"):
        row.update(type="info", offset=-1, position=-1)


@proves_nothing
def no_fault_had_an_effect(run: Recording, rng: Random) -> None:
    for row in run.rows:
        if row["kind"] == "fault" and "effective" in row["v"]:
            row["v"]["effective"] = False


@proves_nothing
def no_fault_was_injected(run: Recording, rng: Random) -> None:
    run.drop(lambda row: row["kind"] == "fault")


@proves_nothing
def the_harness_stood_still(run: Recording, rng: Random) -> None:
    load = next(row for row in run.find("harness", "phase") if row["v"]["phase"] == "load")
    run.insert(load, f="stall", v={"ms": 4000})
