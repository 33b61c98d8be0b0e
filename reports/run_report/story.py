"""A cause in words: what led to what, in the order in which it happened.

"→" stands between two things that rows link. What was only there meanwhile is introduced by "during"; of a change of
masters, the violations that belong to it follow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chaos.history.run_meta import RunMeta
from chaos.ops import SEQUENCE_BITS
from reports.faults import FaultLine
from reports.run_report.causes import Cause
from reports.run_report.lost_tails import Copy
from reports.run_report.master_terms import EpochChange, MasterTerm
from reports.summary import OBJECT_LABELS, Story

#: So many of a kind are named: queues, nodes, faults, violations.
NAMED = 3


def sentence(cause: Cause) -> str:
    """Return the whole cause in one sentence, without a full stop."""
    if cause.power is not None:
        return _of_power(cause, cause.power)
    chain = " → ".join(_links(cause))
    if not cause.tails and cause.violations:
        chain = f"{chain}; violations that belong to it: {_found(cause)}" if chain else _found(cause)
    if cause.faults and not cause.proven:
        during = [_during(fault) for fault in cause.faults[:NAMED]]
        return f"During {joined([*during, *_more(len(cause.faults) - NAMED, 'fault')])}: {chain}"
    return chain if cause.change else f"Not tied to a fault: {chain}"


def _of_power(cause: Cause, power: FaultLine) -> str:
    """Say what a power cut took, and what is lost since."""
    return f"{took(power)} → acknowledged before, and given to nobody since: {_found(cause)}"


def took(power: FaultLine) -> str:
    """Say what a power cut took."""
    files, blocks = (sum(lost[part] for lost in power.unsynced.values()) for part in (0, 1))
    lost = joined([numbered(number, noun) for number, noun in ((files, "file"), (blocks, "block")) if number])
    return (
        f"{named_fault(power)} at {power.asked_s:.1f} s took {lost} that {joined(list(power.unsynced))} had not synced"
    )


def _found(cause: Cause) -> str:
    """Return the first violation in words; of many, after how many there are of each kind."""
    explanation = cause.violations[0].anomaly.explanation.rstrip(".")
    alone = sum(kind.whole if kind.partly else kind.here for kind in cause.kinds) == 1
    return explanation if alone else f"{kinds(cause)}, for example: {explanation}"


def title(cause: Cause) -> str:
    """Return a cause in a few words."""
    change = cause.change
    if change is None:
        return joined(dict.fromkeys(kind.name for kind in cause.kinds))
    return title_of(change)


def _with_epoch(term: MasterTerm) -> str:
    """Return a master with its epoch, where the system has epochs."""
    return f"{term.node} (epoch {term.epoch})" if term.epoch >= 0 else term.node


def _in_epoch(term: MasterTerm) -> str:
    return f"{term.node} in epoch {term.epoch}" if term.epoch >= 0 else term.node


def title_of(change: EpochChange) -> str:
    """Say who followed whom as master."""
    names = [_with_epoch(m) for m in (change.before, change.after) if m is not None]
    return f"Master changed from {' to '.join(names)}" if len(names) == 2 else f"Master: {''.join(names) or 'unknown'}"


def _links(cause: Cause) -> Iterable[str]:
    """Yield what rows link, one after the other: the fault, the change of masters and the lost ends of logs by time,
    the outcome."""
    if cause.faults and cause.proven:
        yield f"{named_fault(cause.faults[0])} at {cause.faults[0].asked_s:.1f} s"
    steps = [] if cause.change is None else [(cause.change.at_s, _change(cause.change))]
    for cut, words in ((False, "came back without {} of its log"), (True, "cut {} off its log")):
        tails = [tail for tail in cause.tails if tail.cut == cut]
        if tails:
            nodes = [f"{t.node} {words.format(numbered(t.records, 'record'))} at {t.at_s:.1f} s" for t in tails[:NAMED]]
            steps.append((tails[0].at_s, joined([*nodes, *_more(len(tails) - NAMED, "node")])))
    yield from (text for _, text in sorted(steps, key=lambda step: step[0]))
    if cause.tails:
        yield gone(cause)


def gone(cause: Cause) -> str:
    """Say what nobody holds any more, with its messages."""
    if cause.acknowledged:
        return _nowhere("acknowledged message{}", cause.acknowledged)
    if cause.read:
        return _nowhere("message{} that had been read", cause.read)
    return kinds(cause)


def _nowhere(noun: str, copies: Sequence[Copy]) -> str:
    what = noun.format("" if len(copies) == 1 else "s")
    return f"{len(copies):,} {what} {'is' if len(copies) == 1 else 'are'} on no replica any more: {ranges(copies)}"


def kinds(cause: Cause) -> str:
    """Return the violations of a cause, counted by name."""
    counted = [
        f"at least {kind.here:,} of {kind.whole:,} × {kind.name}" if kind.partly else f"{kind.here:,} × {kind.name}"
        for kind in cause.kinds[:NAMED]
    ]
    return joined([*counted, *_more(len(cause.kinds) - NAMED, "kind")])


def ranges(copies: Iterable[Copy]) -> str:
    """Name the first and the last message of each queue."""
    by_queue: dict[int, list[int]] = {}
    for message, _ in copies:
        by_queue.setdefault(message >> SEQUENCE_BITS, []).append(message & (1 << SEQUENCE_BITS) - 1)
    of_queues = [
        f"{queue}/{min(found)}" + (f" to {queue}/{max(found)}" if len(found) > 1 else "")
        for queue, found in sorted(by_queue.items())
    ]
    return joined([*of_queues[:NAMED], *_more(len(of_queues) - NAMED, "queue")])


def message_name(message: int) -> str:
    """Return queue and number of a message, as everywhere in the report."""
    return f"{message >> SEQUENCE_BITS}/{message & (1 << SEQUENCE_BITS) - 1}"


def calm(story: Story) -> str:
    """Say what a run without violations went through."""
    effective = [fault for fault in story.faults if fault.effective == "yes"]
    names = list(dict.fromkeys(fault.name for fault in effective))
    parts = [f"{numbered(len(effective), 'fault')} took effect" + (f" ({joined(names)})" if names else "")]
    counts = story.counts
    if "master terms" in counts:
        parts.append(numbered(counts["master terms"], "master term"))
    if "acknowledged writes" in counts:
        parts.append(numbered(counts["acknowledged writes"], "acknowledged write"))
    elif objects := [counts[name] for name in OBJECT_LABELS.values() if name in counts]:
        parts.append(f"{numbered(sum(objects), 'answered call')} on objects")
    return ", ".join(parts)


def facts(meta: RunMeta, seed: int) -> list[tuple[str, str]]:
    """Return what was tested, as pairs of a word and its value; what ``run.json`` doesn't hold is left out."""
    versions, system = meta.versions, meta.system
    version = versions.get(system, "")
    started = meta.started
    known = [
        ("experiment", meta.name),
        ("system", f"{system} ({version})" if version else system),
        ("profile", profile_words(meta)),
        ("deployment", meta.deployment),
        ("date", started[:16].replace("T", " ") + (" UTC" if started.endswith("+00:00") else "")),
        ("seed", seed),
        ("planted bug", meta.mutant),
    ]
    return [(name, str(value)) for name, value in known if value != ""]


def profile_words(meta: RunMeta) -> str:
    """Say what the system was set up to promise, in the experiment's words, and who says so; "" where nobody does."""
    if meta.profile is None:
        return ""
    said = {"driver": "the driver's own", "experiment": f"line {meta.profile_line} of the experiment"}
    who = said.get(meta.profile_by, "")
    return f"{meta.profile.words} ({who})" if who else meta.profile.words


def environment(meta: RunMeta) -> str:
    """Say on what the run took place, as one line: versions, machine, and the commit of Stormproof where they are
    known."""
    machine = meta.machine
    cores = machine.get("cores")
    parts = [f"{name} {version}" for name, version in meta.versions.items()]
    parts += [str(machine[name]) for name in ("os", "cpu") if machine.get(name)]
    parts += [numbered(cores, "core")] if isinstance(cores, int) else []
    parts += [f"Java {machine['java']}"] if machine.get("java") else []
    parts += [f"commit {machine['commit']}"] if machine.get("commit") else []
    return ", ".join(parts)


def named_fault(fault: FaultLine) -> str:
    """Return a fault with its targets, as a sentence begins."""
    return f"{fault.name[:1].upper()}{fault.name[1:]}{_targets(fault)}"


def _targets(fault: FaultLine) -> str:
    return f" of {joined(fault.targets.split(', '))}" if fault.targets else ""


def _during(fault: FaultLine) -> str:
    return f"{fault.name}{_targets(fault)} ({fault.asked_s:.1f} s to {fault.end_s:.1f} s)"


def _change(change: EpochChange) -> str:
    before, after = change.before, change.after
    if before is None or after is None:
        return f"{title_of(change)} at {change.at_s:.1f} s"
    if change.two_masters_s > 0:
        return f"two masters for {seconds(change.two_masters_s)} ({_in_epoch(before)}, {_in_epoch(after)})"
    return f"{_with_epoch(after)} followed {_with_epoch(before)} as master at {change.at_s:.1f} s"


def seconds(lasted: float) -> str:
    """Return how long something lasted."""
    return f"{lasted:.1f} s" if lasted >= 0.1 else f"{lasted * 1000:.1f} ms"


def numbered(number: int, noun: str) -> str:
    """Return so many of a thing, with the right plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _more(number: int, noun: str) -> list[str]:
    return [f"{numbered(number, f'more {noun}')}"] if number > 0 else []


def joined(words: Iterable[str]) -> str:
    """Return "a, b and c"."""
    parts: Sequence[str] = list(words)
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""
