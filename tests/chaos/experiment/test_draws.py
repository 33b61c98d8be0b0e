"""Each seed draws its own configuration, always the same one, and the run says which."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.driver import Profile
from chaos.errors import BadInput
from chaos.experiment.model import Experiment
from chaos.experiment.reader import load
from chaos.history import directory
from chaos.history.digests import digest
from chaos.history.history import History
from stormproof.launch import Launch, start

STORM = """\
name: drawn
system:
  reference:
    controllers: 1
    queues: {one_of: [1, 2, 3, 4]}
    tier: false
    controller_options: {snapshot_entries: {one_of: [4, 64, 1000]}}
duration: 1s
workloads:
  - queue: {producers: 1, rate_per_s: 20, groups: {one_of: [1, 2, 3]}, commit_s: {one_of: [0, 500ms]}}
"""


def read(tmp_path: Path, text: str = STORM) -> Experiment:
    (tmp_path / "storm.yaml").write_text(text)
    return load(tmp_path / "storm.yaml", deployment="sim")


def drawn(experiment: Experiment, seed: int) -> tuple[object, ...]:
    it = experiment.drawn(seed)
    options, load = it.system.options, it.workloads[0].options
    return options.queues, options.controller_options["snapshot_entries"], load.groups, load.commit_s


def test_seeds_draw_all_values_and_each_seed_always_the_same(tmp_path: Path) -> None:
    experiment = read(tmp_path)
    assert drawn(experiment, 7) == drawn(read(tmp_path), 7) == drawn(experiment.drawn(7), 7)
    columns = list(zip(*(drawn(experiment, seed) for seed in range(60)), strict=True))
    assert [sorted(set(column)) for column in columns] == [[1, 2, 3, 4], [4, 64, 1000], [1, 2, 3], [0.0, 0.5]]


def test_one_more_draw_changes_no_other(tmp_path: Path) -> None:
    more = STORM.replace("controllers: 1", "controllers: 1\n    segment_bytes: {one_of: [8192, 16384]}")
    assert [drawn(read(tmp_path, more), seed) for seed in range(20)] == [
        drawn(read(tmp_path), seed) for seed in range(20)
    ]


def test_a_file_without_draws_is_the_same_for_every_seed(tmp_path: Path) -> None:
    experiment = read(
        tmp_path,
        STORM.replace("{one_of: [1, 2, 3, 4]}", "2").partition("    controller_o")[0]
        + "duration: 1s\nworkloads: [queue]\n",
    )
    assert experiment.drawn(3) is experiment


def test_a_seed_draws_its_profile_as_a_whole_or_by_its_keys(tmp_path: Path) -> None:
    """`up` and `compose`, which have no seed, take the first choices."""
    whole = read(tmp_path, STORM + "profile: {one_of: [{}, {acks: master, min_in_sync: 1}, {unclean: true}]}\n")
    found = {seed: whole.drawn(seed) for seed in range(40)}
    assert {it.profile for it in found.values()} == {
        Profile(),
        Profile(acks="master", min_in_sync=1),
        Profile(unclean=True),
    }
    assert all(Profile(**it.values["profile"]) == it.profile for it in found.values())
    keys = read(tmp_path, STORM + "profile: {acks: {one_of: [all, master]}, min_in_sync: {one_of: [2, 1]}}\n")
    assert keys.profile == keys.promises.first == Profile()
    pairs = {(it.profile.acks, it.profile.min_in_sync) for it in map(keys.drawn, range(40))}
    assert pairs == {("all", 2), ("all", 1), ("master", 2), ("master", 1)}
    assert drawn(whole, 5) == drawn(keys, 5) == drawn(read(tmp_path), 5)


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ("{one_of: []}", "profile: one_of expects a list with at least one value, and nothing beside it"),
        ("{one_of: [{}, {acks: nobody}]}", "acks: expected all, master or a number of replicas, got 'nobody'"),
        ("{acks: {one_of: [all, 4]}}", "the profile needs 4 replicas for a write (min_in_sync, acks)"),
        ("{sack: master}", "profile: unknown key 'sack'; did you mean 'acks'?"),
    ],
)
def test_every_profile_is_checked_before_the_start(tmp_path: Path, profile: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(tmp_path, f"profile: {profile}\n{STORM}")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ("{one_of: []}", "queues: one_of expects a list with at least one value, and nothing beside it"),
        ("{one_of: [1, 2], two: 3}", "queues: one_of expects a list with at least one value, and nothing beside it"),
        ("{one_of: [1, 0]}", "queues: expected 1 to 1024, got 0"),
        ("{one_of: [1, many]}", "queues: expected an integer, got 'many'"),
    ],
)
def test_every_choice_is_checked_before_the_start(tmp_path: Path, choices: str, words: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(tmp_path, STORM.replace("{one_of: [1, 2, 3, 4]}", choices))
    assert words in str(caught.value)


def test_faults_name_only_nodes_that_there_are_whatever_is_drawn(tmp_path: Path) -> None:
    fault = "faults:\n  - kill: {target: broker-2}\n    at: 500ms\n"
    assert read(tmp_path, STORM + fault).faults
    with pytest.raises(BadInput, match="no node 'broker-2'"):
        read(tmp_path, STORM.replace("controllers: 1", "controllers: 1\n    brokers: {one_of: [3, 2]}") + fault)


def test_choices_that_do_not_go_together_are_told_with_the_seed(tmp_path: Path) -> None:
    text = STORM.replace("groups: {one_of: [1, 2, 3]}, commit_s: {one_of: [0, 500ms]}", "groups: 1")
    it = read(tmp_path, text)
    use = it.system
    broken = type(use)(kind=use.kind, name=use.name, options=use.options, given={"queues": {"one_of": [0]}})
    with pytest.raises(BadInput, match=r"seed 5 draws \{'queues': 0\} for reference, which do not go together"):
        broken.drawn(5, "system")


def test_the_run_says_what_was_drawn_and_replays_the_same(tmp_path: Path) -> None:
    experiment = read(tmp_path)
    runs = [start(Launch(experiment=experiment, file=tmp_path / "storm.yaml", deployment="sim", seed=3, mutant="",
                         out=tmp_path / "runs")) for _ in range(2)]  # fmt: skip
    queues, entries, groups, _ = drawn(experiment, 3)
    meta = directory.read_meta(runs[0]).json
    assert meta["drawn"]["system.queues"] == queues == len(meta["queues"])
    assert meta["drawn"]["system.controller_options.snapshot_entries"] == entries
    assert meta["drawn"]["workloads.0.groups"] == groups and "workloads.0.commit_s" in meta["drawn"]
    assert digest(History.open(runs[0]).table) == digest(History.open(runs[1]).table)


EVENTS = """\
system: reference
duration: 20s
workloads: [queue]
faults:
  - kill: {target: event_node}
    when: {event: drawn, skip: 40, times: 2, gap: 1s, delay: 10ms}
    for: 1s
  - swarm:
      - sequence: [{pause: {target: event_node}}, switch]
        when: {event: drawn}
        for: 1s
"""


def test_each_seed_draws_the_event_that_a_fault_waits_for(tmp_path: Path) -> None:
    (tmp_path / "events.yaml").write_text(EVENTS)
    experiment = load(tmp_path / "events.yaml", deployment="sim")
    whole = [experiment.drawn(seed) for seed in range(300)]
    triggers = [one.faults[0].schedule.when for one in whole]
    assert {trigger.event for trigger in triggers if trigger} == set(experiment.events) and len(experiment.events) > 20
    skips = sorted(trigger.skip for trigger in triggers if trigger)
    assert skips[0] == 0 and skips[-1] > 30 and skips[len(skips) // 2] < 10, "all sizes are as likely"
    assert all(trigger and 0 <= trigger.delay_s <= 0.01 and trigger.times == 2 for trigger in triggers)
    assert {len({step.schedule.when for step in one.faults[1].steps()}) for one in whole} == {1}
    assert any(one.faults[0].schedule.when.event != one.faults[1].schedule.when.event for one in whole)
    assert whole[7] == experiment.drawn(7) == whole[7].drawn(8), "what is drawn stays"
    assert whole[7].values["faults.0.event"].startswith(f"{whole[7].faults[0].schedule.when.event}, after ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("event: drawn}", "event: dravn}"), "no node traces an event 'dravn'; did you mean 'drawn'?"),
        (("when: {event: drawn}", "at: 3s"), "the target event_node is for faults with `when`"),
    ],
)
def test_what_no_event_can_say_is_refused(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    (tmp_path / "events.yaml").write_text(EVENTS.replace(*change))
    with pytest.raises(BadInput) as caught:
        load(tmp_path / "events.yaml", deployment="sim")
    assert words in str(caught.value)
