"""From what the laws found to the verdict of a run: why it is UNKNOWN, and what its profile permits."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from chaos.driver import Evidence
from chaos.errors import ChaosError
from chaos.history import directory as store
from chaos.history.run_meta import RunMeta
from chaos.judging.run import ExaminedRun, examine_run
from chaos.judging.waiving import waive
from chaos.verdict import Engine, Permitted, RunVerdict, UnknownReason, Validity, Verdict, worst

#: Under this name laws count the messages that were acknowledged.
ACKED = "acked"


def judge(
    runs: Sequence[ExaminedRun], *, engine: Engine, write: bool = True, no_loss_by_policy: bool = False
) -> list[RunVerdict]:
    """Judge runs at which the laws have looked, and ``write`` each one's ``verdict.json``. ``engine``: where they
    looked. ``no_loss_by_policy``: what a profile permits is a violation, as it is in runs that were started so. Raises
    :class:`chaos.errors.MachineError` when the disk is full."""
    verdicts = [_judged(run, str(engine), no_loss_by_policy) for run in runs]
    for run, verdict in zip(runs, verdicts, strict=True) if write else ():
        store.write_verdict(run.directory, verdict)
    return verdicts


def _judged(run: ExaminedRun, engine: str, no_loss_by_policy: bool) -> RunVerdict:
    from chaos.judging import engine as _engine

    began = time.perf_counter()
    laws, waived = waive(run.directory, run.meta, _engine.verdicts(run.context, run.examined))
    if run.accidents:
        found = _engine.verdicts(replace(run.context, without_accidents=True), run.as_if)
        as_if, _ = waive(run.directory, run.meta, found)
        laws = tuple(_undecided(run.accidents, laws, as_if))
    verdict = _whole(run, laws, engine, run.seconds + time.perf_counter() - began, no_loss_by_policy)
    return replace(verdict, waived=waived)


def violation(directory: Path) -> ExaminedRun | None:
    """Return a run that failed before its end; None unless what it recorded until then breaks a law: the harness could
    not go on because of the system's own fault, which is no error of the harness."""
    try:
        run = examine_run(directory)
        (verdict,) = judge([run], engine=Engine.LOCAL)
    except (ChaosError, OSError):
        return None
    return run if verdict.validity is Validity.INVALID else None


def _undecided(accidents: Sequence[str], laws: Sequence[Verdict], as_if: Sequence[Verdict]) -> Iterator[Verdict]:
    """Yield the verdicts of a run with these accidents. Laws take an accident for the fault that it is, and hold
    nothing against the system that it explains. But nobody planned it, so what is kept only with that excuse is not
    proven to be kept: a law that would find a violation ``as_if`` there had been no accident is UNKNOWN; others stay as
    they are."""
    broken = {law.law: law for law in as_if if law.validity is Validity.INVALID}
    for law in laws:
        if law.validity is not Validity.VALID or law.law not in broken:
            yield law
            continue
        names = sorted({anomaly.name for anomaly in broken[law.law].anomalies if not anomaly.lawful})
        why = f"only an accident of the machine explains what would be {', '.join(names)}: {'; '.join(accidents)}"
        yield replace(law, validity=Validity.UNKNOWN, why=why)


def _whole(
    run: ExaminedRun, laws: Sequence[Verdict], engine: str, seconds: float, no_loss_by_policy: bool
) -> RunVerdict:
    permitted = _permitted(laws, run.meta)
    forbidden = no_loss_by_policy or run.meta.no_loss_by_policy
    if forbidden:
        laws = [_forbidden(law, sound=not run.damage) for law in laws]
    validity = worst(law.validity for law in laws)
    reasons = [*run.why, *_not_enough(run.meta, laws)]
    if reasons:
        validity = worst([validity, Validity.UNKNOWN])
    why = [reason.text for reason in reasons]
    why += [f"{law.law}: {law.why}" for law in laws if law.validity is Validity.UNKNOWN]
    return RunVerdict(
        run=str(run.directory),
        seed=run.context.seed,
        validity=validity,
        laws=tuple(laws),
        digest=run.digest,
        engine=engine,
        seconds=seconds,
        skipped_faults=run.meta.skipped_faults,
        why=tuple(why),
        not_judged=tuple(_not_judged(laws)),
        reached={one.goal: one.times for one in run.goals},
        not_reached=tuple(f"{one.goal} ({one.why})" if one.why else one.goal for one in run.goals if not one.times),
        permitted=permitted,
        no_loss_by_policy=forbidden,
        reasons=tuple(reasons),
        other_results=run.meta.other_results,
    )


def _permitted(laws: Sequence[Verdict], meta: RunMeta) -> tuple[Permitted, ...]:
    """Return what the profile permits, the most frequent first. Where a law knows no more than the profile, all that is
    weaker in that is the reason."""
    weak = ", ".join(meta.promises.weaknesses)
    numbers: Counter[tuple[str, str, str]] = Counter()
    for law in laws:
        for anomaly in law.anomalies:
            if anomaly.by_policy:
                policy = anomaly.policy or (f"`{weak}` allows" if weak else "its profile allows")
                numbers[law.law, anomaly.name, policy] += anomaly.count
    found = [
        Permitted(law=law, name=name, policy=policy, count=count) for (law, name, policy), count in numbers.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.count, one.law, one.name, one.policy)))


def _forbidden(law: Verdict, *, sound: bool) -> Verdict:
    """Return what a law says where nothing may be lost by policy. What was found in a damaged run may come of the
    damage."""
    if not any(anomaly.by_policy for anomaly in law.anomalies):
        return law
    anomalies = tuple(replace(one, lawful=False) if one.by_policy else one for one in law.anomalies)
    return replace(law, anomalies=anomalies, validity=Validity.INVALID if sound else law.validity)


def _not_enough(meta: RunMeta, laws: Sequence[Verdict]) -> Iterator[UnknownReason]:
    """Yield why what was judged is not enough for a VALID run: nobody looked at what clients did, or not at what the
    experiment demands."""
    from chaos.judging.registry import registry

    judged = {law.law for law in laws if law.validity is not Validity.NOT_APPLICABLE}
    acked = [law.counts[ACKED] for law in laws if ACKED in law.counts]
    if acked and (most := max(acked)) < meta.min_acked:
        was, s = ("write of a workload was", "") if most == 1 else ("writes of workloads were", "s")
        yield UnknownReason(
            text=f"only {most} {was} acknowledged, and {meta.min_acked} are the least that show anything",
            title=f"Too little evidence: {most:,} acknowledged write{s}, of at least {meta.min_acked:,}",
            advice="Make the load longer, or faults shorter; if few are meant, say `min_acked` in the experiment.",
        )
    for law in meta.laws:
        if law not in judged:
            yield UnknownReason(
                text=f"the experiment demands the law {law}, which was not judged",
                title=f"The promise {law}, which the experiment demands, was not judged",
                advice="Its reason stands under Promises.",
            )
    of_clients = {law.promise.name for law in registry().kernels.values() if Evidence.OPERATIONS in law.needs.evidence}
    if not judged & of_clients:
        yield UnknownReason(text="no law judged what clients did")


def _not_judged(laws: Sequence[Verdict]) -> Iterator[str]:
    """Yield the laws, and parts of laws, that nobody judged: those with one reason together, so that it is given
    once."""
    for_reason: dict[str, list[str]] = {}
    for law in laws:
        if law.validity is Validity.NOT_APPLICABLE:
            for_reason.setdefault(law.why, []).append(law.law)
        for text in law.unjudged:
            part, _, reason = text.removesuffix(")").partition(" (")
            entry = (reason, f"{law.law} ({part})") if reason else (text, f"part of {law.law}")
            for_reason.setdefault(entry[0], []).append(entry[1])
    yield from (f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in for_reason.items())
