"""The published score of a system, a page in ``benchmarks/results``."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.mutation.mutants import ROOT
from benchmarks.mutation.score import Class, Fate, Score, headline, summary, tables
from benchmarks.mutation.systems import REFERENCE, System

RESULTS = ROOT / "benchmarks" / "results"

_INTRODUCTION = """\
# How much the proof can see

A verdict is worth as much as the bugs that it would have found. Two measurements say how much that is:

* [Planted bugs](../../docs/concepts.md#planted-bugs): bugs that real brokers have had, each found by the law that it
  was planted for.
  They show that no law is idle, but whoever plants a bug knows the laws.
* The mutation score, on this page: small changes to the reference system that were not chosen, drawn by a seed from
  all the places where the change is possible. They show what the laws and storms miss. [Another
  page](split_mutation.md) has that of storage clusters.

"""

_OF_STORAGE = """\
# How much the proof of storage clusters can see

Small changes to the [system with compute and storage apart](../../docs/design/split.md) that were not chosen, drawn
by a seed from all the places where the change is possible, show what the laws and storms miss.
[Another page](power.md) has the same of the first reference system, whose code (Raft, the codec, the object store) this
one shares and which is not changed here.

"""

_METHOD = """
## How it is measured

`python -m benchmarks.mutation{option} --sample N --seeds K` (`make power`) draws N of all mutants of `{folder}/` by a
seed and runs each in the simulator until it is found, with K seeds at most. Each example has one seed; others are the
example `{swarm}`'s, which draws its storm and its configuration. Mutants run in the order in which they were drawn,
first all of them with one seed, then those not found with two, four, and so on. So whatever was run when this page was
made is a fair sample: the first of those drawn. Left out are the planted bugs, the programs that people start, and the
switches by which the harness makes the object store fail. A mutant changes one place:

| operator | change |
|---|---|
| drop-condition | one operand of `and`/`or` goes; an `if` never leaves, or always does what it guards |
| turn-condition | `==` becomes `!=`, `<` becomes `>=`, `in` becomes `not in`, `not x` becomes `x` |
| off-by-one | `<` becomes `<=`; a small number is one higher or lower |
| min-max, drop-bound | `min` and `max` change places; one of their arguments goes |
| drop-after | a message no longer waits for its sync |
| drop-clear, drop-step | what clears, trims, cancels or deletes is left out; any other call is |
| swap-steps | two neighbouring statements change places |
| keep-stale | an assignment to an attribute or an element is left out |

A mutant is found by

* **a law**: the verdict is INVALID;
* **a crash**: a node died of its own exception, so the verdict is UNKNOWN and names the node and the line;
* **no service**: the run could not be carried out (no write was acknowledged within 60 s, an answer that no client can
  read), so the command ends with an error (exit code 3);
* **no end**: the run took more than 60 s of processor time, or more memory than it may.

The correct system runs with the same seeds first and shows none of these; a seed with which it is UNKNOWN takes no
part. These runs also record which statements of `{folder}/` they execute, how often. A run in the simulator depends
on nothing but the code and the seed. So a seed with which the correct system never executes the changed statement
can't find the mutant, and is left out; of the others those come first that execute it often, that execute what others
rarely do in the same file, and that have few rows, since those are cheap. A mutant's run whose history is the correct
system's, row by row, is not judged again.

Mutants that compile to the same program as the correct system are not drawn. Calls that only write traces, messages of
errors, docstrings and annotations are never changed. A mutant whose runs are UNKNOWN for any other reason is not found;
such survivors are counted, for an UNKNOWN is not green either.
Of some survivors a person says what they are, with the reason: *equivalent* (no promise can break by it), a *limit* (no
run in the simulator can show it, or no promise of the documents covers it), or *found* by another run than those of
this score, which the reason names. The others are *not reached* (no run came to the changed statement), *without an
effect* (reached, but every row of every history, traces included, is the correct system's), or *unseen*: histories
differ, and no law looks; where a person has said what it would take to find one, that stands beside it. Limits, and
what was found elsewhere, count as not found.

"""

_SAMPLES = """\
Who makes a law from a survivor has seen the sample, so such a sample flatters. This one was drawn with a seed of its
own when laws and storms were as at the commit above, and nothing had been made for it, but for 12 of its mutants that
had survived in an earlier sample, too. Three readers went through all of it without knowing any outcome, and ruled
which mutants are equivalent (61; 11 had been in an earlier sample). Thirty of these rulings, drawn, and the others that
the readers were least sure of, 36 in all, were reasoned a second time by somebody who had not read the first reason.
Four were wrong and two doubtful; these six don't count as equivalent.

The sample is not run to its end yet, and its survivors have not been read: what they would take stands beside those
only that an earlier sample had, too.

Earlier samples were measured in the same way with the laws of their time: 63.0 % of those not shown equivalent
(`--draw 11`), 66.2 % (`--draw 13`) and 66.8 % (`--draw 17`). Laws, storms and examples were then made for their
survivors; `benchmarks/mutation/verdicts.yaml` says of each by which run it is found now, or why no run can show it. Of
the last one 89 % of those not shown equivalent are found by now, 11 % are limits, and none is open; this flatters, as
said. What is made for the survivors of one sample raises the score of the next by a few points only: bugs that no law
sees are of many kinds.

Reading mutants found seven bugs of the reference system and the laws, all mended since: a broker that was cutting its
log after an unclean election could be made master, and never served; one frame with the bytes of half a character ended
a node; after 524,288 requests in one life, an answer could be taken for one to another request; a follower that was
being probed heard of a commit by the next heartbeat only; a replica that came back after an unclean election deleted by
the manifest of another log; a disk in its 2,048th life could not follow a master over TCP; and refusals by controllers
that do not lead made `change-unserved`, where clients write seldom.

"""

_NOT_MEASURED = """\
What this does not measure: bugs of more than one place, bugs of design, what only real disks, processes and networks do
(all runs are simulated), and what no experiment that took part does.

"""


def text(score: Score, system: System) -> str:
    """Return the whole page."""
    lines = [f"**{headline(score)}.**", "", *(f"* {line}" for line in summary(score)[1:])]
    method = _METHOD.format(option=system.option, folder=system.folder, swarm=system.swarm)
    return (
        (_INTRODUCTION if system == REFERENCE else _OF_STORAGE)
        + "## The score\n\n"
        + "\n".join(lines)
        + "\n"
        + method
        + (_SAMPLES if system == REFERENCE else "")
        + _NOT_MEASURED
        + "\n".join([*tables(score), "", *_outdated(score), *_survivors(score)])
    )


def _outdated(score: Score) -> Iterator[str]:
    if score.outdated:
        yield from ("## Rulings that need another look", "")
        yield "The code that these rulings speak of has changed since, so nobody knows whether they still hold:"
        yield from ("", *(f"* {sentence}" for sentence in score.outdated), "")


def _survivors(score: Score) -> Iterator[str]:
    yield "## Survivors"
    for group in Class:
        fates = [fate for fate in score.survivors if fate.group is group]
        if not fates:
            continue
        yield from ("", f"### {group[0].upper()}{group[1:]} ({len(fates)})", "")
        for fate in fates:
            yield from _survivor(fate)


def _survivor(fate: Fate) -> Iterator[str]:
    said = ""
    if fate.ruling is not None:
        said = fate.ruling.reason if fate.ruled else f"{fate.ruling.verdict}: {fate.ruling.reason}"
    yield f"`{fate.mutant.id}`" + (f": {said}" if said else "")
    yield from ("", "```diff", fate.mutant.diff(ROOT), "```", "")
