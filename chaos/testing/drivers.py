"""Does a driver keep to what :mod:`chaos.driver` asks of it? To be called from a test.

from chaos.testing.drivers import check_driver

def test_the_driver() -> None:
    check_driver(create(Options()))
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from chaos.deployment import CanRuleRequests, Deployment
from chaos.deployments import sim
from chaos.driver import CanFrame, CanReadThroughNodes, CanSetUp, Driver, Evidence, evidence_of
from chaos.errors import BadInput
from chaos.ops import QueueRef
from chaos.testing._drivers.bench import Bench, Broken, Ended
from chaos.testing._drivers.powers import check_events, check_powers
from chaos.testing._drivers.queues import Queues

#: Which rows show that a driver reports what it declares (see ``docs/history.md``): kind and ``f``, any of them. What
#: may well not happen in a short run (retention) is not here.
SHOWN_BY: Mapping[Evidence, Sequence[tuple[str, str]]] = {
    Evidence.POLLS: (("poll", "state"), ("poll", "controller"), ("poll", "route")),
    Evidence.FINAL_LOGS: (("final", "log"),),
    Evidence.FINAL_METADATA: (("final", "topics"), ("final", "offsets")),
    Evidence.CONFIRM: (("trace", "append"), ("trace", "synced"), ("trace", "confirm")),
    Evidence.ROLES: (("trace", "role"),),
    Evidence.ELECTIONS: (("trace", "applied"),),
    Evidence.ROUTES: (("trace", "route"), ("poll", "route")),
    Evidence.GROUPS: (("trace", "group_append"), ("trace", "fence"), ("final", "group")),
    Evidence.TIER: (("trace", "tier_request"), ("final", "manifest"), ("trace", "store_cas")),
}


def check_driver(
    driver: Driver,
    *,
    deployment: Deployment | None = None,
    mutant: str = "",
    seed: int = 1,
    load_s: float = 5.0,
    ready_s: float = 60.0,
) -> tuple[str, ...]:
    """Start the driver's system, use every part of the driver, and compare what it says with what happened.

    Without a ``deployment`` that is the simulator with this ``seed``, for systems whose nodes are step functions. The
    load lasts ``load_s``; the system may take ``ready_s`` to settle. What is looked at:

    * what the driver makes once before clients come;
    * ``view``: leaders are replicas, who is settled is in sync, epochs never go back, nothing is known of a system
      that doesn't answer;
    * the client: each call ends in an Answer, Failed or Unknown; acknowledged messages can be read where they were
      stored; what ended as Failed did not happen, although answers get lost;
    * nodes that can be read one by one hold what was acknowledged, and answer themselves;
    * ``collect``: replicas are read to their end, one ``complete`` row each, and none for what can't be read;
    * ``queues`` stays the same;
    * each optional power does what it declares, and so does ``evidence``.

    Raises ``AssertionError`` with everything that is wrong. Returns what this system gave no opportunity to check, and
    why.
    """
    host = deployment or sim.create(run_id="check", directory=Path(), seed=seed)
    bench = Bench(driver, host, mutant, ready_s)

    async def main() -> int:
        try:
            await _check(bench, load_s)
        except Ended:
            bench.unchecked.append("all that comes after the first problems")
        finally:
            bench.network.end()
            await host.stop()
        return 0

    host.execute(main())
    for crash in getattr(host, "crashes", ()):
        bench.require(False, f"a node died of its own error: {crash}")
    _raise_all(driver, bench.problems)
    return tuple(bench.unchecked)


def _raise_all(driver: Driver, problems: Collection[str]) -> None:
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        raise AssertionError(f"the driver {type(driver).__name__} has {len(problems)} problems:\n{listed}")


async def _check(bench: Bench, load_s: float) -> None:
    driver = bench.driver
    cluster = driver.cluster(bench.mutant)
    bench.nodes.update(cluster.names())
    text = f"cluster describes two nodes of the same name: {', '.join(cluster.names())}"
    if not bench.require(len(bench.nodes) == len(cluster.nodes) > 0, text if cluster.nodes else "cluster has no nodes"):
        raise Ended
    queues = _queues(bench)
    if isinstance(driver, CanFrame) and isinstance(bench.deployment, CanRuleRequests):
        bench.deployment.read_requests(driver.framing(), ruled=True)
    bench.network.codec = cluster.codec
    await bench.deployment.start(cluster, bench.on_trace)
    await bench.set_up()
    await bench.settled("after its start")
    load = Queues(bench, queues)
    if queues:
        await load.while_all_is_well(load_s)
        await load.while_answers_get_lost()
        if isinstance(driver, CanReadThroughNodes):
            await load.through_nodes(driver)
    else:
        bench.unchecked.append("clients of queues: queues() is empty")
    await check_powers(bench, load)
    await _collect(bench)
    await _while_nobody_answers(bench)
    bench.require(tuple(driver.queues()) == queues, "queues() has changed; queues must stay the same for a whole run")
    check_events(bench)
    _check_evidence(bench)


def _queues(bench: Bench) -> tuple[QueueRef, ...]:
    queues = tuple(bench.driver.queues())
    numbers = [queue.index for queue in queues]
    bench.require(numbers == [*range(len(queues))], f"queues() has the indexes {numbers}, expected 0, 1, 2, …")
    return queues


async def _collect(bench: Bench) -> None:
    """Check ``collect`` while everything answers, so that every replica can be read to its end."""
    view = await bench.settled("before collect")
    begin = len(bench.rows)
    await bench.call("collect", bench.driver.collect(bench.network, bench.record))
    rows = [row for row in bench.rows[begin:] if row["kind"] == "final"]
    complete = [str(row.get("node", "")) for row in rows if row.get("f") == "complete"]
    if not rows and not _declared(bench) & {Evidence.FINAL_LOGS, Evidence.FINAL_METADATA, Evidence.TIER}:
        bench.unchecked.append("collect: it records nothing, and the driver declares nothing that it would record")
        return
    text = "collect ended without any complete row: what replicas hold in the end would stay UNKNOWN in every run"
    if not bench.require(bool(complete), text):
        return
    for name in sorted(set(complete)):
        bench.require(complete.count(name) == 1, f"collect has {complete.count(name)} complete rows of {name}")
        bench.require(name in bench.nodes, f"collect has a complete row of {name}, which is not a node of the cluster")
        last = max(at for at, row in enumerate(rows) if row.get("node") == name)
        text = f"collect has rows of {name} after its complete row, which must be the last one"
        bench.require(rows[last].get("f") == "complete", text)
    missing = [name for name in view.brokers if name not in complete]
    text = f"collect has no complete row of {', '.join(missing)}, though the system is settled"
    bench.require(not missing, text)


async def _while_nobody_answers(bench: Bench) -> None:
    """Check that the view shows nothing, and that nothing is collected."""
    bench.network.silent = True
    try:
        view = await bench.view()
        bench.require(not view.settled, "view is settled though no node answers")
        if isinstance(bench.driver, CanSetUp):
            made = await bench.call("set_up", bench.driver.set_up(bench.network))
            bench.require(made is False or isinstance(made, Broken), "set_up returned True though no node answers")
        begin = len(bench.rows)
        await bench.call("collect", bench.driver.collect(bench.network, bench.record))
        wrong = sorted({str(row.get("node", "")) for row in bench.rows[begin:] if row.get("f") == "complete"})
        bench.require(not wrong, f"collect has complete rows of {', '.join(wrong)}, though no node answers")
    finally:
        bench.network.silent = False


def _declared(bench: Bench) -> frozenset[Evidence]:
    """Return what the driver declares; nothing, and a problem noted, where that means nothing."""
    try:
        return evidence_of(bench.driver)
    except BadInput as error:
        bench.require(False, str(error))
        return frozenset()


def _check_evidence(bench: Bench) -> None:
    """Check that what the driver declares to report has come."""
    declared = _declared(bench)
    seen = {(str(row["kind"]), str(row.get("f", ""))) for row in bench.rows if row.get("type") != "invoke"}
    seen |= {("trace", event) for event in bench.traced}
    for evidence in sorted(declared & SHOWN_BY.keys()):
        rows = SHOWN_BY[evidence]
        names = ", ".join(f"{kind} {f}" for kind, f in rows)
        bench.require(bool(seen & set(rows)), f"evidence() declares {evidence}, but none of its rows came: {names}")
