"""An experiment is refused before anything starts, with every mistake at once, each with its line and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.driver import Profile
from chaos.errors import BadInput
from chaos.experiment.durations import parse_duration
from chaos.experiment.model import Schedule, Trigger
from chaos.experiment.reader import load
from stormproof.shipped import of_reference

EXAMPLES = [*of_reference().values()]

GOOD = """\
name: small
system: {reference: {controllers: 1, brokers: 2, queues: 2}}
profile: {flush: async, acks: master}
duration: 45s
bounds: {available_s: 5, recover_s: 1m30s}
workloads:
  - queue: {producers: 1, rate_per_s: 10}
  - tier_read
faults:
  - kill: {target: master}
    at: [5s, 1500ms]
    for: 4s
  - partition: {shape: halves, target: broker-1}
    every: 15s
    for: 3s
  - pause:
    random: {mean: 8s}
  - kill: {target: slave}
    when: {event: tier_commit, node: master, skip: 3, times: 2}
    for: 2s
  - clock: {target: one}
    at: 12s
    on: [sim]
"""


def read(tmp_path, text: str, **more):
    path = tmp_path / "storm.yaml"
    path.write_text(text)
    return load(path, deployment=more.pop("deployment", "sim"), **more)


def problems(tmp_path, text: str, **more) -> list[str]:
    with pytest.raises(BadInput) as caught:
        read(tmp_path, text, **more)
    return [problem.replace(str(tmp_path / "storm.yaml"), "storm.yaml") for problem in caught.value.problems]


def test_a_good_file_becomes_a_value(tmp_path):
    made = read(tmp_path, GOOD)
    assert (made.name, made.duration_s, made.source) == ("small", 45.0, GOOD)
    assert made.system.name == "reference" and made.system.options.brokers == 2
    assert made.profile == Profile(flush="async", acks="master")
    assert (made.bounds.available_s, made.bounds.recover_s, made.bounds.drain_s) == (5.0, 90.0, 60.0)
    assert [use.name for use in made.workloads] == ["queue", "tier_read"]
    assert [fault.schedule for fault in made.faults] == [
        Schedule(at_s=(5.0, 1.5)),
        Schedule(every_s=15.0),
        Schedule(mean_s=8.0),
        Schedule(when=Trigger(event="tier_commit", node="master", skip=3, times=2)),
        Schedule(at_s=(12.0,)),
    ]
    assert [fault.for_s for fault in made.faults] == [4.0, 3.0, 0.0, 2.0, 0.0]
    assert made.skipped_on("process") == ["clock"] and made.skipped_on("sim") == []


def test_the_name_of_a_file_is_the_name_of_its_experiment(tmp_path):
    assert read(tmp_path, GOOD.replace("name: small\n", "")).name == "storm"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_proves_and_runs_on_every_deployment(path):
    comment = path.read_text().partition("name:")[0]
    assert re.search(r"\bProves\b", comment) and all(line.startswith("#") for line in comment.splitlines())
    programs = "library:" in path.read_text()  # the simulator has no addresses at which they could reach nodes
    for deployment in ("process", "docker", "ssh", *(() if programs else ("sim",))):
        found = load(path, deployment=deployment)
        assert found.workloads
        assert found.faults_on(deployment, seed=1) or not found.faults, "what has faults has some everywhere"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("bounds: {", "bonds: {", 5, "unknown key 'bonds'; did you mean 'bounds'?"),
        ("duration: 45s", "duration: 45", 4, "expected a duration such as 30s"),
        ("duration: 45s", "duration: 45 parsecs", 4, "expected a duration"),
        ("duration: 45s", "duration: -5s", 4, "can't be negative"),
        ("duration: 45s", "duration: 0s", 4, "more than 0"),
        ("duration: 45s", "duration: 45s\nduration: 46s", 5, "'duration' stands here for the second time"),
        ("available_s: 5", "available_s: -5", 5, "can't be negative"),
        ("available_s: 5", "availabel_s: 5", 5, "did you mean 'available_s'?"),
        ("reference:", "refrence:", 2, "unknown driver 'refrence'; did you mean 'reference'?"),
        ("brokers: 2", "brokers: two", 2, "reference: brokers: expected an integer"),
        ("brokers: 2", "brokers: 2.5", 2, "brokers"),
        ("brokers: 2", "brokers: '2'", 2, "brokers"),
        ("brokers: 2", "broker: 2", 2, "unknown key 'broker'; did you mean 'brokers'?"),
        ("flush: async", "flsh: async", 3, "did you mean 'flush'?"),
        ("- queue:", "- queu:", 7, "unknown workload 'queu'; did you mean 'queue'?"),
        ("producers: 1", "producers: -1", 7, "can't be negative"),
        ("  - kill: {target: master}\n    at", "  - kil: {target: master}\n    at", 10, "did you mean 'kill'?"),
        ("for: 4s", "fr: 4s", 12, "unknown key 'fr'; did you mean 'for'?"),
        ("for: 4s", "for: 4", 12, "expected a duration"),
        ("for: 4s", "for: 0s", 12, "for: must be more than 0"),
        ("for: 4s", "every: 4s", 10, "exactly one of at, every, random, when"),
        ("    every: 15s\n", "", 13, "exactly one of at, every, random, when"),
        ("every: 15s", "every: 0s", 14, "more than 0"),
        ("[5s, 1500ms]", "[5s, 100s]", 11, "not before the end of the load"),
        ("on: [sim]", "on: [sim]\nquiet: 30s", 14, "every: 15s is in the quiet time"),
        ("every: 15s", "every: 45s", 14, "not before the end of the load"),
        ("shape: halves", "shape: thirds", 13, "partition: shape"),
        ("target: broker-1", "target: broker-7", 13, "no node 'broker-7'; did you mean 'broker-"),
        ("node: master", "node: mastre", 19, "no node 'mastre'; did you mean 'master'?"),
        ("event: tier_commit, ", "", 19, "'event' is missing"),
        ("tier_commit", "tier_comit", 19, "no node traces an event 'tier_comit'; did you mean 'tier_commit'?"),
        ("times: 2", "times: 0", 19, "times: expected 1 to"),
        ("{target: slave}", "{target: random(0)}", 18, "no node 'random(0)'"),
        ("shape: halves, target: broker-1", "shape: apart, away_from: []", 13, "away_from must name at least one"),
        ("- pause:", "- clock: {jump_s: 0, drift_ppm: 0}", 16, "jump_s or drift_ppm must be more than 0"),
        ("- pause:", "- slow_link: {delay_ms: 0, jitter_ms: 0}", 16, "delay_ms or jitter_ms must be more than 0"),
        ("- pause:", "- loss: {stall_ms: 0}", 16, "stall_ms: expected 1 to"),
        ("- pause:", "- duplication: {stall_ms: 0}", 16, "stall_ms: expected 1 to"),
        ("- pause:", "- reordering: {stall_ms: 0}", 16, "stall_ms: expected 1 to"),
        ("- pause:", "- slow_close: {delay_ms: 0}", 16, "delay_ms: expected 1 to"),
        ("- pause:", "- tier_put_failure: {requests: []}", 16, "requests must name at least one of"),
        ("- pause:", "- switch: {target: master}", 16, "target must be slave or a broker's name, not master"),
        ("- pause:", "- wipe: {target: all}", 16, "target must be slave or a broker's name, not all"),
        ("- pause:", "- membership: {target: majority}", 16, "target must be slave or a broker's name"),
        ("- pause:", "- sequence: [{each: [kill, pause]}, kill]", 16, "each step is one fault"),
        ("{mean: 8s}", "{mean: 8s, median: 3s}", 17, "unknown key 'median'"),
        ("on: [sim]", "on: [smi]", 23, "unknown deployment 'smi'"),
        ("duration:", "simulation: {drawn_links: [broker-0>brokr-1]}\nduration:", 4, "no node 'brokr-1'"),
        ("duration:", "simulation: {drawn_links: [broker-0>client>a]}\nduration:", 4, "expected `a` or `a>b`"),
        ("duration:", "simulation: {drawn_links: [client>client]}\nduration:", 4, "expected two ends, got"),
        ("duration:", "simulation: {drawn_links: broker-0}\nduration:", 4, "drawn_links: expected a list"),
    ],
)  # fmt: skip
def test_each_mistake_is_named_with_its_line(tmp_path, old, new, line, words):
    assert old in GOOD
    found = problems(tmp_path, GOOD.replace(old, new, 1))
    assert len(found) == 1
    assert found[0].startswith(f"storm.yaml:{line}: ") and words in found[0]


def test_all_mistakes_come_at_once_in_the_order_of_their_lines(tmp_path):
    text = GOOD.replace("duration: 45s", "duration: soon").replace("brokers: 2", "brokrs: 2").replace("halves", "h")
    found = problems(tmp_path, text.replace("- tier_read", "- tier_raed"))
    lines = [int(re.match(r"storm\.yaml:(\d+):", problem)[1]) for problem in found]
    assert lines == sorted(lines) and len(set(lines)) == 4


@pytest.mark.parametrize("missing", ["system", "duration", "workloads"])
def test_what_is_needed_must_be_there(tmp_path, missing):
    text = re.sub(rf"^{missing}:.*\n( .*\n)*", "", GOOD, flags=re.M)
    assert any(f"'{missing}' is missing" in problem for problem in problems(tmp_path, text))


@pytest.mark.parametrize("text", ["", "[]", "a: [", "x", "\t", "name: 2020-01-01\n"])
def test_what_is_no_experiment_is_a_clear_error(tmp_path, text):
    assert all("storm.yaml:" in problem for problem in problems(tmp_path, text))


def test_a_file_that_is_not_there_is_a_clear_error(tmp_path):
    with pytest.raises(BadInput, match="cannot read"):
        load(tmp_path / "none.yaml", deployment="sim")


def test_a_fault_that_the_deployment_cannot_do_is_refused_unless_the_file_leaves_it_out(tmp_path):
    read(tmp_path, GOOD, deployment="process")
    found = problems(tmp_path, GOOD.replace("    on: [sim]\n", ""), deployment="process")
    assert len(found) == 1 and "clock" in found[0] and "CanSkewClocks" in found[0] and "on:" in found[0]


def test_an_unknown_deployment_or_mutant_is_refused(tmp_path):
    assert "did you mean 'sim'?" in problems(tmp_path, GOOD, deployment="sim2")[0]
    assert "planted bug 'no-such-bug'" in problems(tmp_path, GOOD, mutant="no-such-bug")[0]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("200ms", 0.2), ("1m30s", 90), ("1.5h", 5400), ("-2s", -2), ("3", None), ("s", None), ("5 s", None)],
)
def test_durations(text, seconds):
    assert parse_duration(text) == (None if seconds is None else pytest.approx(seconds))


def test_a_profile_takes_a_number_of_replicas_and_no_word_that_nobody_knows(tmp_path):
    path = tmp_path / "profile.yaml"
    path.write_text(GOOD.replace("acks: master", "acks: 2"))
    assert load(path, deployment="sim").profile == Profile(flush="async", acks=2)
    path.write_text(GOOD.replace("acks: master", "acks: most"))
    with pytest.raises(BadInput, match="acks: expected all, master or a number of replicas, got 'most'"):
        load(path, deployment="sim")


def test_a_fault_may_be_called_by_another_name_and_its_options_overridden(tmp_path: Path) -> None:
    text = GOOD.replace("- kill: {target: master}", "- minor-kill:").replace(
        "- pause:\n", "- major-suspend: {target: one}\n"
    )
    path = tmp_path / "other.yaml"
    path.write_text(text)
    faults = load(path, deployment="sim").faults
    assert (faults[0].name, faults[0].use.options.target) == ("kill", "minority")
    assert (faults[2].name, faults[2].use.options.target) == ("pause", "one")


MANY = """\
system: reference
duration: 60s
quiet: 8s
workloads: [queue]
faults:
  - sequence:
      - minor-kill
      - pause: {target: slave}
        for: 1s
      - clock:
        on: [sim]
      - partition: {shape: ring}
    every: 20s
    for: 3s
    rest: 2s
  - swarm:
      - kill: {target: one}
        random: {mean: 8s}
        for: 2s
      - sequence: [pause, kill]
        at: 30s
        for: 1s
      - clock
"""


def _many(tmp_path: Path, text: str, deployment: str = "sim") -> Path:
    path = tmp_path / "many.yaml"
    path.write_text(text)
    return path


def test_a_sequence_is_a_chain_whose_steps_take_its_times_unless_they_have_their_own(tmp_path: Path) -> None:
    text = MANY.replace("shape: ring", "shape: halves").replace("      - clock\n", "")
    head = load(_many(tmp_path, text), deployment="process").faults_on("process", 1)[0]
    assert [(step.name, step.for_s, step.rest_s) for step in head.steps()] == [
        ("kill", 3.0, 2.0),
        ("pause", 1.0, 2.0),
        ("partition", 3.0, 2.0),
    ]
    assert head.schedule.every_s == 20.0
    assert load(_many(tmp_path, text), deployment="process").skipped_on("process") == ["clock"]
    assert len(list(load(_many(tmp_path, text), deployment="sim").faults_on("sim", 1)[0].steps())) == 4


def test_for_each_of_several_faults_the_schedule_strikes_in_turn(tmp_path: Path) -> None:
    text = (
        MANY.replace("  - sequence:", "  - each:").replace("    rest: 2s\n", "").replace("shape: ring", "shape: halves")
    )
    head = load(_many(tmp_path, text.replace("      - clock\n", "")), deployment="sim").faults_on("sim", 1)[0]
    assert head.in_turn and [step.name for step in head.steps()] == ["kill", "pause", "clock", "partition"]
    assert not head.then.in_turn
    other = load(_many(tmp_path, text.replace("      - clock\n", "")), deployment="process").faults_on("process", 1)[0]
    assert other.in_turn and [step.name for step in other.steps()] == ["kill", "pause", "partition"]
    with pytest.raises(BadInput) as told:
        load(_many(tmp_path, text.replace("    for: 3s", "    for: 3s\n    rest: 1s", 1)), deployment="sim")
    assert "faults: unknown key 'rest'" in str(told.value)


def test_each_seed_draws_its_own_part_of_a_swarm_and_never_nothing(tmp_path: Path) -> None:
    text = MANY.replace("shape: ring", "shape: halves").replace("      - clock\n", "")
    made = load(_many(tmp_path, text), deployment="sim")
    drawn = [made.faults_on("sim", seed)[1:] for seed in range(60)]
    assert {tuple(fault.name for fault in faults) for faults in drawn} == {("kill",), ("pause",), ("kill", "pause")}
    means = [fault.schedule.mean_s for faults in drawn for fault in faults if fault.name == "kill"]
    assert all(4.0 <= mean <= 16.0 for mean in means) and len(set(means)) == len(means)
    assert made.faults_on("sim", 7) == made.faults_on("sim", 7)
    assert made.quiet_s == 8.0


def test_mistakes_in_sequences_and_swarms_are_all_told_with_their_lines(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as told:
        load(_many(tmp_path, MANY.replace("quiet: 8s", "quiet: 60s")), deployment="sim")
    text = str(told.value)
    assert "many.yaml:3: quiet: 60s leave no time for faults" in text
    assert "many.yaml:12" in text and "ring" in text
    assert "many.yaml:23" in text and "clock" in text
    faults = "faults:\n  - sequence: [{kill: , at: 1s}]\n  - swarm: []\n"
    wrong = f"duration: 9s\nsystem: reference\nworkloads: [queue]\n{faults}"
    with pytest.raises(BadInput) as told:
        load(_many(tmp_path, wrong), deployment="sim")
    text = str(told.value)
    assert (
        "a step can't say 'at'" in text and "say when with exactly one of" in text and "swarm: expected a list" in text
    )


def test_what_a_deployments_links_cannot_do_is_refused_with_what_they_can(tmp_path):
    text = GOOD.replace("  - pause:\n", "  - reset: {per_mille: 5}\n    at: 3s\n  - slow_close:\n").replace(
        "  - clock: {target: one}\n    at: 12s\n    on: [sim]\n", ""
    )
    assert read(tmp_path, text).faults
    (problem,) = problems(tmp_path, text, deployment="docker")
    assert "faults: slow_close: the links of docker can't do it (they lack SlowClose); they can: " in problem
    assert "partition" in problem and "loss" in problem and "on: [" in problem
    for other in ("slow_close: {}\n    on: [sim]", "slow_close: {target: client}"):
        assert read(tmp_path, text.replace("slow_close:", other), deployment="docker").faults


def test_only_links_have_clients_as_their_target(tmp_path):
    text = GOOD.replace("  - pause:\n", "  - slow_link: {target: client}\n")
    assert read(tmp_path, text).faults[2].use.options.target == "client"
    (problem,) = problems(tmp_path, GOOD.replace("kill: {target: slave}", "kill: {target: client}"))
    assert "no node 'client'" in problem


@pytest.mark.parametrize("fault", ["kill: {target: broker-3}", "switch: {target: broker-3}"])
def test_a_broker_that_joins_in_the_run_can_be_named(fault: str, tmp_path: Path) -> None:
    text = f"system: reference\nduration: 9s\nworkloads: [queue]\nfaults:\n  - {fault}\n    at: 5s\n"
    trigger = "  - pause: {}\n    when: {event: role, node: broker-3}\n"
    joins = "  - add-broker: {}\n    at: 1s\n"
    (tmp_path / "it.yaml").write_text(text + trigger + joins)
    assert len(load(tmp_path / "it.yaml", deployment="sim").faults) == 3
    (tmp_path / "it.yaml").write_text(text + trigger)
    with pytest.raises(BadInput) as caught:
        load(tmp_path / "it.yaml", deployment="sim")
    problems = str(caught.value).splitlines()
    assert len(problems) == 2 and all("no node 'broker-3'; did you mean 'broker-" in line for line in problems)
    assert "it.yaml:5" in problems[0] and problems[0].endswith("Or add it first: `membership: {change: add}`")
    (tmp_path / "it.yaml").write_text(text.replace("broker-3", "broker-9") + joins)
    with pytest.raises(BadInput, match="no node 'broker-9'"):
        load(tmp_path / "it.yaml", deployment="sim")


def test_laws_that_must_be_judged_are_named_as_verdicts_name_them(tmp_path):
    assert read(tmp_path, GOOD).laws == ()
    assert read(tmp_path, GOOD + "laws: [no-rollback, durability]\n").laws == ("no-rollback", "durability")
    found = problems(tmp_path, GOOD + "laws:\n  - durabilty\n  - order\n  - {}\n")
    assert found[0] == "storm.yaml:25: laws: unknown law 'durabilty'; did you mean 'durability'?"
    assert len(found) == 2 and found[1].startswith("storm.yaml:27: laws: expected a text")


def test_all_mistakes_of_one_entry_come_at_once(tmp_path):
    text = GOOD.replace("    at: [5s, 1500ms]\n    for: 4s\n", "    for: 4\n").replace(
        "kill: {target: master}", "kill: {to: x}"
    )
    found = problems(tmp_path, text)
    assert [line.partition(" ")[0] for line in found] == ["storm.yaml:10:", "storm.yaml:10:", "storm.yaml:11:"]
    assert any("unknown key 'to'; known: target" in line for line in found)
    assert any("exactly one of at, every, random, when" in line for line in found)


def test_what_a_sequence_says_for_all_its_steps_is_wrong_once_and_where_it_stands(tmp_path):
    steps = "  - sequence: [kill, pause]\n    at: 5s\n    for: soon\n    on: [smi]\n"
    found = problems(tmp_path, GOOD + steps)
    assert [line.partition(": ")[0] for line in found] == ["storm.yaml:26", "storm.yaml:27"]
    assert "for: expected a duration" in found[0] and "did you mean 'sim'?" in found[1]


def test_a_word_out_of_a_few_has_its_nearest_one_told(tmp_path):
    (problem,) = problems(tmp_path, GOOD.replace("shape: halves", "shape: halfs"))
    assert "partition: shape: expected 'isolate'" in problem and problem.endswith("did you mean 'halves'?")


@pytest.mark.parametrize("text", ["faults:\n  - {kill: , at: []}\n", "faults:\n  - {kill: , when: }\n"])
def test_a_fault_that_would_never_strike_is_a_mistake(tmp_path, text):
    assert problems(tmp_path, f"system: reference\nduration: 9s\nworkloads: [queue]\n{text}")


@pytest.mark.parametrize("text", ["source: x\n", "driver: x\n", "use: x\n", "faults:\n  - {use: {kill: }, at: 1s}\n"])
def test_only_what_the_grammar_names_is_a_key(tmp_path, text):
    (problem,) = problems(tmp_path, f"system: reference\nduration: 9s\nworkloads: [queue]\n{text}")
    assert "unknown" in problem


def test_a_power_that_the_driver_lacks_is_asked_of_no_deployment(tmp_path: Path) -> None:
    faults = "faults:\n  - tier_put_failure: {}\n    at: 1s\n  - clock: {}\n    at: 1s\n"
    (tmp_path / "x.yaml").write_text(f"system: {{etcd: {{}}}}\nduration: 9s\nworkloads: [register]\n{faults}")
    with pytest.raises(BadInput) as error:
        load(tmp_path / "x.yaml", deployment="process")
    problems = str(error.value)
    assert (
        "tier_put_failure: the system's driver can't do it (it lacks CanBreakTier), wherever it runs; take it out"
        in problems
    )
    assert (
        "clock: process can't do it (it lacks CanSkewClocks); say `on: [docker, netns, sim, ssh]`, or take it out"
        in problems
    )


def test_who_injects_nothing_may_ask_for_any_fault(tmp_path: Path) -> None:
    text = "system: {reference: {}}\nduration: 9s\nworkloads: [queue]\nfaults:\n  - clock: {}\n    at: 1s\n"
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(BadInput, match="CanSkewClocks"):
        load(tmp_path / "x.yaml", deployment="process")
    assert load(tmp_path / "x.yaml", deployment="process", injects=False).faults
    (tmp_path / "x.yaml").write_text(text.replace("clock", "clokc"))
    with pytest.raises(BadInput, match="clokc"):
        load(tmp_path / "x.yaml", deployment="process", injects=False)
