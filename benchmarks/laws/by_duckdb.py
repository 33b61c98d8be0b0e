"""The same questions in SQL, asked of DuckDB: one materialised scan of the segments, then a query for each anomaly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

import pyarrow as pa

from benchmarks.laws.histories import Made

SCAN = """
CREATE OR REPLACE TEMP TABLE scanned AS
SELECT "index" AS idx, op, queue, "offset" AS place, message, hash, f, type, value
FROM segments WHERE kind IN ('op', 'harness');
CREATE OR REPLACE TEMP TABLE begun AS
SELECT min(idx) AS idx FROM scanned WHERE f = 'phase' AND value LIKE '%"drain"%';
CREATE OR REPLACE TEMP TABLE sends AS
SELECT i.queue, i.message, i.hash, i.idx AS began, d.type, d.idx AS ended, d.place
FROM (FROM scanned WHERE f = 'send' AND type = 'invoke') i
LEFT JOIN (FROM scanned WHERE f = 'send' AND type <> 'invoke') d ON d.op = i.idx;
CREATE OR REPLACE TEMP TABLE pulls AS
SELECT i.queue, i.idx AS began, i.place AS asked, regexp_extract(i.value, '"group":"([^"]*)"', 1) AS grp,
       try_cast(regexp_extract(i.value, '"limit":(\\d+)', 1) AS BIGINT) AS most, d.idx AS ended,
       try_cast(regexp_extract(d.value, '"minimum":(\\d+)', 1) AS BIGINT) AS minimum,
       try_cast(regexp_extract(d.value, '"maximum":(\\d+)', 1) AS BIGINT) AS maximum
FROM (FROM scanned WHERE f = 'pull' AND type = 'invoke') i
LEFT JOIN (FROM scanned WHERE f = 'pull' AND type <> 'invoke') d ON d.op = i.idx;
CREATE OR REPLACE TEMP TABLE given AS
SELECT s.idx, s.queue, s.place, s.message, s.hash, s.op, s.op >= b.idx AS final
FROM scanned s, begun b WHERE s.f = 'delivered';
CREATE OR REPLACE TEMP TABLE grouped AS
SELECT p.grp, p.began, g.queue, g.place, g.hash FROM given g JOIN pulls p ON p.began = g.op WHERE p.grp <> '';
CREATE OR REPLACE TEMP TABLE ends AS
SELECT queue, began, ended, place + 1 AS least, place AS most FROM sends WHERE type = 'ok'
UNION ALL SELECT queue, began, ended, maximum, maximum FROM pulls WHERE maximum >= 0
UNION ALL SELECT i.queue, i.idx, d.idx, d.maximum, d.maximum
FROM (FROM scanned WHERE f = 'bounds' AND type = 'invoke') i
JOIN (SELECT op, idx, try_cast(regexp_extract(value, '"maximum":(\\d+)', 1) AS BIGINT) AS maximum
      FROM scanned WHERE f = 'bounds' AND type = 'ok') d ON d.op = i.idx;
CREATE OR REPLACE TEMP TABLE asks AS
SELECT i.queue, i.idx AS began, i.place, d.idx AS ended, d.type
FROM (FROM scanned WHERE f = 'commit' AND type = 'invoke') i
LEFT JOIN (FROM scanned WHERE f = 'commit' AND type <> 'invoke') d ON d.op = i.idx;
CREATE OR REPLACE TEMP TABLE answers AS
SELECT i.queue, i.idx AS began, d.idx AS ended, d.place
FROM (FROM scanned WHERE f = 'committed' AND type = 'invoke') i
JOIN (FROM scanned WHERE f = 'committed' AND type = 'ok') d ON d.op = i.idx;
"""

QUERIES = (
    (
        "lost",
        """SELECT count(*) FROM (FROM sends WHERE type = 'ok') s
        ANTI JOIN (FROM given WHERE final) g USING (queue, place, hash)""",
    ),
    (
        "recovered",
        """SELECT count(DISTINCT message) FROM sends s WHERE coalesce(type, 'info') = 'info'
        AND message IN (SELECT message FROM given WHERE final)
        AND message NOT IN (SELECT message FROM sends WHERE type = 'ok')""",
    ),
    (
        "unexpected",
        """SELECT count(*) FROM (SELECT DISTINCT queue, place, message FROM given g
        ANTI JOIN (FROM sends WHERE coalesce(type, 'info') <> 'fail') s USING (queue, message))""",
    ),
    (
        "corrupt",
        """SELECT count(*) FROM (SELECT DISTINCT g.queue, g.place, g.message FROM given g
        JOIN (FROM sends WHERE coalesce(type, 'info') <> 'fail') s USING (queue, message) WHERE g.hash <> s.hash)""",
    ),
    (
        "duplicate-append",
        """SELECT count(*) FROM (SELECT message, count(DISTINCT place) AS copies FROM given WHERE final GROUP BY message
        HAVING copies > 1) g LEFT JOIN (SELECT message, count(*) AS attempts FROM sends
        WHERE coalesce(type, 'info') <> 'fail' GROUP BY message) s USING (message)
        WHERE copies > coalesce(attempts, 1)""",
    ),
    (
        "offset-conflict",
        """SELECT coalesce(sum(contents - 1), 0) FROM (SELECT count(DISTINCT hash) AS contents FROM (
        SELECT queue, place, hash FROM sends WHERE type = 'ok' UNION ALL SELECT queue, place, hash FROM given)
        GROUP BY queue, place HAVING min(hash) <> max(hash))""",
    ),
    (
        "rollback",
        """SELECT coalesce(sum(contents - 1), 0) FROM (SELECT count(DISTINCT hash) AS contents FROM given
        GROUP BY queue, place HAVING min(hash) <> max(hash))""",
    ),
    (
        "rollback",
        """SELECT count(*) FROM (SELECT DISTINCT queue, place FROM given WHERE NOT final) b
        ANTI JOIN (FROM given WHERE final) g USING (queue, place)""",
    ),
    (
        "reorder",
        """SELECT count(*) FROM (FROM sends WHERE type = 'ok') a ASOF JOIN (SELECT queue, ended,
        max(place) OVER (PARTITION BY queue ORDER BY ended) AS high FROM sends WHERE type = 'ok') b
        ON a.queue = b.queue AND a.began > b.ended WHERE a.place <= b.high""",
    ),
    (
        "max-offset-regression",
        """SELECT count(*) FROM ends a ASOF JOIN (SELECT queue, ended,
        max(least) OVER (PARTITION BY queue ORDER BY ended) AS high FROM ends) b
        ON a.queue = b.queue AND a.began > b.ended WHERE a.most < b.high""",
    ),
    (
        "consumer-reorder",
        """SELECT count(*) FROM (SELECT g.op, g.place, lag(g.place) OVER (PARTITION BY g.op ORDER BY g.idx) AS before
        FROM given g) g JOIN pulls p ON p.began = g.op
        WHERE g.place <> coalesce(g.before + 1, greatest(p.asked, coalesce(p.minimum, -1)))""",
    ),
    (
        "over-full",
        """SELECT count(*) FROM (SELECT op, count(*) AS many FROM given GROUP BY op) g
        JOIN pulls p ON p.began = g.op WHERE many > most""",
    ),
    (
        "redelivery",
        """SELECT coalesce(sum(times - 1), 0) FROM (SELECT count(*) AS times FROM grouped
        GROUP BY grp, queue, place HAVING times > 1)""",
    ),
    (
        "commit-regression",
        """SELECT count(*) FROM answers a ASOF JOIN (SELECT queue, ended,
        max(place) OVER (PARTITION BY queue ORDER BY ended) AS high FROM asks WHERE type = 'ok') b
        ON a.queue = b.queue AND a.began > b.ended WHERE a.place < b.high""",
    ),
    (
        "never-committed",
        """SELECT count(*) FROM answers a ASOF LEFT JOIN (SELECT queue, began,
        max(place) OVER (PARTITION BY queue ORDER BY began) AS high FROM asks WHERE coalesce(type, 'info') <> 'fail') b
        ON a.queue = b.queue AND a.ended > b.began WHERE a.place > coalesce(b.high, 0)""",
    ),
    (
        "skipped",
        """SELECT coalesce(sum(due - got), 0) FROM (SELECT l.queue, l.due, count(DISTINCT g.place) AS got FROM (
        SELECT c.queue, p.first, c.high, c.high - p.first AS due
        FROM (SELECT queue, max(place) AS high FROM asks WHERE type = 'ok' GROUP BY queue) c
        JOIN (SELECT queue, min(asked) AS first FROM pulls WHERE grp <> '' GROUP BY queue) p USING (queue)) l
        LEFT JOIN grouped g ON g.queue = l.queue AND g.place >= l.first AND g.place < l.high
        GROUP BY l.queue, l.due)""",
    ),
    (
        "skipped",
        """SELECT count(*) FROM (FROM sends WHERE type = 'ok') s SEMI JOIN grouped g USING (queue, place)
        ANTI JOIN (SELECT queue, hash FROM grouped) h USING (queue, hash)""",
    ),
)


def create(made: Made, threads: int, stack: ExitStack) -> Callable[[], Counter[str]]:
    import duckdb

    connection = stack.enter_context(duckdb.connect())
    connection.execute(
        f"SET threads = {threads}; SET preserve_insertion_order = false; SET enable_progress_bar = false"
    )

    def count() -> Counter[str]:
        connection.register("segments", pa.concat_tables(made.tables(threads)).unify_dictionaries())
        connection.execute(SCAN)
        connection.unregister("segments")
        counted: Counter[str] = Counter()
        for name, query in QUERIES:
            counted[name] += int(connection.execute(query).fetchall()[0][0])
        return counted

    return count
