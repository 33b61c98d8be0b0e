"""The same questions in Polars: one materialised scan of the segments, then lazy queries that share what they can."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from benchmarks.laws.histories import Made


def create(made: Made, threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    os.environ["POLARS_MAX_THREADS"] = str(threads)  # is read when it is imported, here for the first time
    import polars as pl

    words = [pl.col(name).cast(pl.String) for name in ("kind", "f", "type", "value")]

    def count() -> Counter[str]:
        scanned = pl.concat(pl.from_arrow(table).with_columns(words) for table in made.tables(threads))
        rows = scanned.filter(pl.col("kind").is_in(["op", "harness"]))
        frames = pl.collect_all(_queries(pl, rows.lazy()), engine="streaming")
        counted: Counter[str] = Counter()
        for frame in frames:
            counted[frame.columns[0]] += int(frame.item() or 0)
        return counted

    return count


def _queries(pl: Any, rows: Any) -> list[Any]:
    """Return a frame of one number for each question, under the name of its anomaly."""
    col = pl.col
    drain = rows.filter((col("f") == "phase") & col("value").str.contains('"drain"')).select(begin=col("index").min())
    sends, pulls = _calls(pl, rows, "send"), _calls(pl, rows, "pull")
    pulls = pulls.with_columns(
        group=col("value").str.extract('"group":"([^"]*)"'),
        most=_number(pl, "value", "limit"),
        minimum=_number(pl, "answer", "minimum"),
        maximum=_number(pl, "answer", "maximum"),
    )
    given = rows.filter(col("f") == "delivered").join(drain, how="cross")
    given = given.select("index", "op", "queue", "offset", "message", "hash", final=col("op") >= col("begin"))
    ok, final = sends.filter(col("end") == "ok"), given.filter("final")
    tried = sends.filter(col("end") != "fail")
    of_pull = given.join(pulls, left_on="op", right_on="began", how="inner", suffix="_pull")
    grouped = of_pull.filter(col("group").is_not_null())
    return [
        _size(pl, "lost", ok.join(final, left_on=_place("place"), right_on=_place("offset"), how="anti")),
        *_messages(pl, sends, tried, ok, given, final),
        *_contents(pl, ok, given, final),
        *_ends(pl, rows, ok, pulls),
        *_pulled(pl, given, pulls),
        *_groups(pl, rows, ok, pulls, grouped),
    ]


def _place(offset: str) -> list[str]:
    return ["queue", offset, "hash"]


def _size(pl: Any, name: str, frame: Any) -> Any:
    return frame.select(pl.len().alias(name))


def _number(pl: Any, column: str, key: str) -> Any:
    return pl.col(column).str.extract(rf'"{key}":(\d+)').cast(pl.Int64)


def _calls(pl: Any, rows: Any, f: str) -> Any:
    """Return invocations with their ends: ``end`` (what is unclear is ``info``), ``ended``, ``place``, ``answer``."""
    col = pl.col
    every = rows.filter(col("f") == f)
    asked = every.filter(col("type") == "invoke").select("queue", "message", "hash", "value", "offset", began="index")
    done = every.filter(col("type") != "invoke").select(
        "op", end="type", ended="index", place=col("offset"), answer=col("value")
    )
    joined = asked.join(done, left_on="began", right_on="op", how="left")
    return joined.with_columns(col("end").fill_null("info"))


def _messages(pl: Any, sends: Any, tried: Any, ok: Any, given: Any, final: Any) -> list[Any]:
    col = pl.col
    unclear = (
        sends.filter(col("end") == "info").join(final, on="message", how="semi").join(ok, on="message", how="anti")
    )
    of_queue = ["queue", "message"]
    stray = given.join(tried, on=of_queue, how="anti")
    damaged = given.join(tried, on=of_queue, how="inner", suffix="_sent").filter(col("hash") != col("hash_sent"))
    copies = final.group_by("message").agg(copies=col("offset").n_unique()).filter(col("copies") > 1)
    attempts = tried.group_by("message").agg(attempts=pl.len())
    twice = copies.join(attempts, on="message", how="left").filter(col("copies") > col("attempts").fill_null(1))
    return [
        _size(pl, "recovered", unclear.select("message").unique()),
        _size(pl, "unexpected", stray.select("queue", "offset", "message").unique()),
        _size(pl, "corrupt", damaged.select("queue", "offset", "message").unique()),
        _size(pl, "duplicate-append", twice),
    ]


def _contents(pl: Any, ok: Any, given: Any, final: Any) -> list[Any]:
    col = pl.col
    read = given.select("queue", "offset", "hash")
    answers = pl.concat([ok.select("queue", offset="place", hash="hash"), read])

    def conflicts(name: str, claims: Any) -> Any:
        places = claims.group_by("queue", "offset").agg(low=col("hash").min(), high=col("hash").max())
        odd = claims.join(places.filter(col("low") != col("high")), on=["queue", "offset"], how="semi")
        differing = odd.group_by("queue", "offset").agg(contents=col("hash").n_unique())
        return differing.select((col("contents").cast(pl.Int64) - 1).sum().alias(name))

    before = given.filter(~col("final")).select("queue", "offset").unique()
    gone = before.join(final, on=["queue", "offset"], how="anti")
    return [conflicts("offset-conflict", answers), conflicts("rollback", read), _size(pl, "rollback", gone)]


def _high(pl: Any, frame: Any, at: str, value: str) -> Any:
    """Return the highest value so far, by queue, at each time."""
    sorted_ = frame.select("queue", pl.col(at).alias("time"), high=value).sort("time")
    return sorted_.with_columns(pl.col("high").cum_max().over("queue"))


def _asof(frame: Any, high: Any, at: str) -> Any:
    return frame.sort(at).join_asof(
        high,
        left_on=at,
        right_on="time",
        by="queue",
        strategy="backward",
        allow_exact_matches=False,
        check_sortedness=False,
    )


def _ends(pl: Any, rows: Any, ok: Any, pulls: Any) -> list[Any]:
    col = pl.col
    bounds = _calls(pl, rows, "bounds").with_columns(maximum=_number(pl, "answer", "maximum"))
    ends = pl.concat(
        [
            ok.select("queue", "began", "ended", least=col("place") + 1, most="place"),
            *(
                one.filter(col("maximum") >= 0).select("queue", "began", "ended", least="maximum", most="maximum")
                for one in (pulls, bounds)
            ),
        ]
    )
    reordered = _asof(ok, _high(pl, ok, "ended", "place"), "began").filter(col("place") <= col("high"))
    fallen = _asof(ends, _high(pl, ends, "ended", "least"), "began").filter(col("most") < col("high"))
    return [_size(pl, "reorder", reordered), _size(pl, "max-offset-regression", fallen)]


def _pulled(pl: Any, given: Any, pulls: Any) -> list[Any]:
    col = pl.col
    asked = pulls.select("began", "most", asked=pl.max_horizontal("offset", col("minimum").fill_null(-1)))
    steps = given.sort("index").with_columns(before=col("offset").shift(1).over("op"))
    steps = steps.join(asked, left_on="op", right_on="began", how="inner")
    wrong = steps.filter(col("offset") != pl.coalesce(col("before") + 1, "asked"))
    many = given.group_by("op").agg(many=pl.len()).join(asked, left_on="op", right_on="began", how="inner")
    return [_size(pl, "consumer-reorder", wrong), _size(pl, "over-full", many.filter(col("many") > col("most")))]


def _groups(pl: Any, rows: Any, ok: Any, pulls: Any, grouped: Any) -> list[Any]:
    col = pl.col
    commits, queries = _calls(pl, rows, "commit"), _calls(pl, rows, "committed").filter(col("end") == "ok")
    acked = commits.filter(col("end") == "ok")
    back = _asof(queries, _high(pl, acked, "ended", "offset"), "began").filter(col("place") < col("high"))
    tried = commits.filter(col("end") != "fail")
    never = _asof(queries, _high(pl, tried, "began", "offset"), "ended")
    never = never.filter(col("place") > col("high").fill_null(0))
    again = grouped.group_by("group", "queue", "offset").agg(times=pl.len()).filter(col("times") > 1)
    first = pulls.filter(col("group").is_not_null()).group_by("queue").agg(first=col("offset").min())
    due = acked.group_by("queue").agg(high=col("offset").max()).join(first, on="queue", how="inner")
    got = grouped.join(due, on="queue", how="inner").filter(col("offset").is_between("first", "high", closed="left"))
    got = got.select("queue", "offset").unique()
    places = grouped.select("queue", "offset").unique()
    missing = ok.join(places, left_on=["queue", "place"], right_on=["queue", "offset"], how="semi")
    missing = missing.join(grouped.select("queue", "hash").unique(), on=["queue", "hash"], how="anti")
    return [
        again.select((col("times").cast(pl.Int64) - 1).sum().alias("redelivery")),
        _size(pl, "commit-regression", back),
        _size(pl, "never-committed", never),
        due.select((col("high") - col("first")).sum().alias("skipped")),
        got.select((-pl.len().cast(pl.Int64)).alias("skipped")),
        _size(pl, "skipped", missing),
    ]
