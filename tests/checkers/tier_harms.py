"""What bugs of the tier, and of who writes to it, would leave behind."""

from __future__ import annotations

from random import Random

from tests.checkers.harming import applied, found_as, in_lives, other
from tests.checkers.names import A
from tests.checkers.recorded import Recording


@found_as(A.TIER_MISSING_OBJECT)
def an_object_has_a_hole(run: Recording, rng: Random) -> None:
    gone = rng.choice(run.find("final", "tiered"))
    run.drop(lambda row: row is gone)


@found_as(A.TIER_OVERLAP)
def an_offset_is_in_the_tier_twice(run: Recording, rng: Random) -> None:
    run.insert(rng.choice(run.find("final", "tiered")))


@found_as(A.TIER_LOG_MISMATCH)
def the_tier_holds_another_record_than_the_log(run: Recording, rng: Random) -> None:
    local = {(row["queue"], row["offset"]) for row in run.find("final", "log")}
    rng.choice([row for row in run.find("final", "tiered") if (row["queue"], row["offset"]) in local])["hash"] ^= 1


@found_as(A.TIER_OVERLAP)
def an_object_is_written_again(run: Recording, rng: Random) -> None:
    row = rng.choice([row for row in run.find("trace", "store_put") if row["v"]["outcome"] == "created"])
    run.insert(row, hash=5)["v"]["request"] = "broker-0/9/9"


@found_as(A.TIER_MISSING_OBJECT)
def an_object_has_other_bytes_than_its_manifest_tells(run: Recording, rng: Random) -> None:
    keys = {part["key"] for queue in (0, 1) for row in applied(run, queue) for part in row["v"]["content"]["segments"]}
    rng.choice([row for row in run.find("trace", "store_put") if row["v"]["key"] in keys])["hash"] ^= 1


@found_as(A.TIER_MISSING_OBJECT)
def an_object_is_deleted_that_a_manifest_names(run: Recording, rng: Random) -> None:
    row = rng.choice([row for row in applied(run, 0) if row["v"]["content"]["segments"]])
    told = {"caller": row["v"]["caller"], "key": row["v"]["content"]["segments"][0]["key"], "outcome": "deleted"}
    run.insert(row, f="store_delete", hash=-1, offset=-1, position=-1, epoch=-1, v=told)


@found_as(A.OBJECT_RETURNED)
def an_object_that_was_deleted_is_there_after_the_run(run: Recording, rng: Random) -> None:
    """An object that no manifest names was put, and deleted at once."""
    before = [row for row in run.find("trace", "store_put") if row["index"] < run.phase("drain")]
    row = rng.choice([row for row in before if row["v"]["outcome"] == "created"])
    key, told = f"{row['v']['key']}9", {"caller": row["v"]["caller"], "outcome": "deleted", "request": "broker-0/9/10"}
    made = run.insert(row, hash=5)
    made["v"].update(key=key, request="broker-0/9/9")
    run.insert(made, f="store_delete", hash=-1, offset=-1, v=told | {"key": key})
    final = run.find("final", "manifest", queue=row["queue"])[0]
    columns = dict.fromkeys(("offset", "position", "epoch", "hash"), -1)
    run.insert(final, f="orphan", **columns, v={"key": key})


@found_as(A.TIER_GAP)
def segments_do_not_join(run: Recording, rng: Random) -> None:
    row = rng.choice([row for row in applied(run, 0) if len(row["v"]["content"]["segments"]) > 1])
    row["v"]["content"]["segments"][0]["count"] -= 1


@found_as(A.TIER_OFFSET_REGRESSION)
def a_manifest_comes_back(run: Recording, rng: Random) -> None:
    versions = applied(run, 0)
    number = rng.randrange(2, len(versions))
    run.insert(versions[number], **{name: versions[number - 1][name] for name in ("hash", "offset", "position", "v")})


@found_as(A.TIER_OFFSET_REGRESSION)
def a_version_is_written_twice(run: Recording, rng: Random) -> None:
    row = rng.choice(applied(run, 1))
    run.insert(row)["v"]["request"] = "broker-0/9/9"


@found_as(A.METADATA_DIVERGENCE)
def a_replica_holds_another_manifest(run: Recording, rng: Random) -> None:
    rng.choice(run.find("trace", "tier_view"))["hash"] ^= 1


@found_as(A.METADATA_DIVERGENCE)
def the_store_itself_has_an_old_manifest(run: Recording, rng: Random) -> None:
    final, old = run.find("final", "manifest")[0], applied(run, 0)[1]
    final.update({name: old[name] for name in ("hash", "offset", "position", "epoch")})
    final["v"].update(version=old["v"]["version"], content=old["v"]["content"])
    run.drop(lambda row: row["f"] == "tiered" and row["queue"] == 0 and row["offset"] >= old["offset"])


@found_as(A.METADATA_DIVERGENCE)
def a_manifest_names_a_queue_that_has_another_number(run: Recording, rng: Random) -> None:
    told = rng.choice(run.find("final", "manifest"))["v"]["content"]
    told.update(rng.choice([{"topic": f"{told['topic']}-lost"}, {"queue_id": told["queue_id"] + 1}]))


@found_as(A.POSITION_MISSTATED)
def a_manifest_gives_a_lower_position_than_it_reaches(run: Recording, rng: Random) -> None:
    row = rng.choice([row for row in run.find("trace", "store_cas") if row["v"]["content"].get("segments")])
    lowered = row["position"] - 1
    told = [row, *run.find("trace", "tier_commit", queue=row["queue"]), *run.find("trace", "tier_view")]
    for same in told:
        if (same["queue"], same["v"]["version"]) == (row["queue"], row["v"]["version"]):
            same["position"] = lowered
    row["v"]["content"]["position"] = lowered


@found_as(A.UPLOAD_BEYOND_CONFIRM)
def more_is_uploaded_than_is_confirmed(run: Recording, rng: Random) -> None:
    rng.choice(run.find("trace", "tier_commit"))["position"] += 100_000


@found_as(A.STALE_UPLOADER)
def a_slave_uploads(run: Recording, rng: Random) -> None:
    row = rng.choice([row for row in run.find("trace", "tier_request") if row["v"]["verb"] == "put"])
    row.update(in_lives(run, row, other(row["node"], rng)))


@found_as(A.MANIFEST_EPOCH_REGRESSION)
def a_manifest_has_an_older_epoch(run: Recording, rng: Random) -> None:
    rng.choice([row for row in applied(run, 0) if row["epoch"] > 1][1:])["epoch"] = 1


@found_as(A.EARLY_RETENTION)
def a_replica_deletes_what_the_tier_has_not(run: Recording, rng: Random) -> None:
    minimums = rng.choice(run.find("trace", "retention"))["v"]["minimums"]
    minimums[rng.choice(sorted(minimums))] += 100_000
