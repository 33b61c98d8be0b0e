"""The driver's profile holds unless the file names another, and what a system can't promise is told where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from chaos import plugins
from chaos.driver import Profile, promising
from chaos.errors import BadInput
from chaos.experiment.model import Experiment
from chaos.experiment.reader import load
from chaos.history.directory import read_meta
from chaos.history.run_meta import RunMeta
from chaos.plugins import PluginKind
from drivers.reference import driver as reference
from stormproof.launch import Launch, build, profile_from, start
from stormproof.shrinking.document import pinned, text

WEAK = Profile(flush="async", acks="master", min_in_sync=1)
FILE = """\
name: weak
system: {weak: {brokers: 2}}
duration: 1s
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 20}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A system whose operator has set it up like this."""

    brokers: int = 2
    flush: str = "async"


class Fixed:
    """A driver that can't set its system up for other promises."""

    def __init__(self, inner: reference.Reference) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "promising":
            raise AttributeError(name)
        return getattr(self._inner, name)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a driver ``weak``, with ``promising()`` or without."""
    names, load_plugin = plugins.names, plugins.load

    def offered(*, able: bool) -> None:
        def create(options: Options) -> Any:
            own = Profile(flush=options.flush, acks="master", min_in_sync=1)
            made = reference.Reference(reference.Options(brokers=options.brokers, queues=1), promised=own)
            return made if able else Fixed(made)

        module = ModuleType("weak")
        vars(module).update(Options=Options, create=create)
        monkeypatch.setattr(
            plugins, "names", lambda kind: (*names(kind), "weak") if kind is PluginKind.DRIVER else names(kind)
        )
        monkeypatch.setattr(plugins, "load", lambda kind, name: module if name == "weak" else load_plugin(kind, name))

    return offered


def read(folder: Path, text: str) -> Experiment:
    (folder / "weak.yaml").write_text(text)
    return load(folder / "weak.yaml", deployment="sim")


def launch(folder: Path, experiment: Experiment, seed: int = 0) -> Launch:
    return Launch(
        experiment=experiment.drawn(seed),
        file=folder / "weak.yaml",
        deployment="sim",
        seed=seed,
        mutant="",
        out=folder / "runs",
    )


@pytest.mark.parametrize("able", [True, False])
@pytest.mark.parametrize("words", ["", "profile:\n"])
def test_without_a_word_the_drivers_own_holds(tmp_path: Path, driver: Callable[..., None], able: bool, words: str):
    driver(able=able)
    experiment = read(tmp_path, FILE + words)
    assert (experiment.profile, experiment.profile_line, profile_from(experiment)) == (WEAK, 0, {"by": "driver"})
    assert build(launch(tmp_path, experiment)).profile() == WEAK


def test_run_json_says_which_holds_and_who_says_so(tmp_path: Path, driver: Callable[..., None]) -> None:
    driver(able=True)
    for words, profile, said in (
        ("", WEAK, {"by": "driver"}),
        ("profile: {flush: async, acks: 2}\n", Profile(flush="async", acks=2), {"by": "experiment", "line": 6}),
        ("profile: {}\n", Profile(), {"by": "experiment", "line": 6}),
    ):
        meta = read_meta(start(launch(tmp_path, read(tmp_path, FILE + words)))).json
        assert meta["profile_from"] == said and meta["no_loss_by_policy"] is False
        assert {**meta["profile"], "strict": None} == {
            "flush": profile.flush,
            "acks": profile.acks,
            "unclean": False,
            "min_in_sync": profile.min_in_sync,
            "strict": None,
        }


def test_options_that_a_seed_draws_decide_what_the_driver_says(tmp_path: Path, driver: Callable[..., None]) -> None:
    for able in (True, False):
        driver(able=able)
        experiment = read(tmp_path, FILE.replace("brokers: 2", "brokers: 2, flush: {one_of: [async, sync]}"))
        seen = set()
        for seed in range(12):
            one = launch(tmp_path, experiment, seed)
            seen.add(one.experiment.system.options.flush)
            assert build(one).profile().flush == one.experiment.profile.flush == one.experiment.system.options.flush
        assert seen == {"async", "sync"}


def test_a_refused_profile_names_its_line_and_what_to_do(tmp_path: Path, driver: Callable[..., None]) -> None:
    driver(able=False)
    with pytest.raises(BadInput) as refused:
        read(tmp_path, FILE + "profile:\n  acks: all\n")
    assert [*refused.value.problems] == [
        f"{tmp_path / 'weak.yaml'}:6: profile: the driver can't set its system up for {{flush: sync, acks: all}}: it"
        " promises {flush: async, acks: master, min_in_sync: 1}, and nothing else; leave `profile` out, or have the"
        " driver implement promising(profile)"
    ]
    assert read(tmp_path, FILE + "profile: {flush: async, acks: master, min_in_sync: 1}\n").profile == WEAK


def test_so_does_one_that_the_system_is_too_small_for(tmp_path: Path, driver: Callable[..., None]) -> None:
    driver(able=True)
    with pytest.raises(BadInput) as refused:
        read(tmp_path, FILE + "profile: {acks: {one_of: [3, all]}}\n")
    assert [*refused.value.problems] == [
        f"{tmp_path / 'weak.yaml'}:6: profile: the profile needs 3 replicas for a write (min_in_sync, acks), but there"
        " are only 2 brokers; lower the one or raise the other"
    ]


def test_a_small_experiment_says_only_what_its_file_said(tmp_path: Path, driver: Callable[..., None]) -> None:
    driver(able=True)
    for words, told in (
        ("", WEAK),
        ("profile: {}\n", Profile()),
        ("profile: {unclean: true}\n", Profile(unclean=True)),
    ):
        small = text(pinned(read(tmp_path, FILE + words), 0))
        assert ("profile" in small) == bool(words)
        assert read(tmp_path, small).profile == told


@pytest.mark.parametrize(
    ("profile", "words", "weak"),
    [
        (Profile(), "flush: sync, acks: all", ()),
        (Profile(flush="async", acks=2), "flush: async, acks: 2", ("flush: async", "acks: 2")),
        (Profile(acks=3, unclean=True), "flush: sync, acks: 3, unclean: true", ("acks: 3", "unclean: true")),
        (Profile(min_in_sync=3), "flush: sync, acks: all, min_in_sync: 3", ()),
        (Profile(min_in_sync=1), "flush: sync, acks: all, min_in_sync: 1", ("min_in_sync: 1",)),
    ],
)  # fmt: skip
def test_a_profile_is_told_as_an_experiment_writes_it(
    tmp_path: Path, profile: Profile, words: str, weak: tuple[str, ...]
) -> None:
    assert (profile.words, profile.weaknesses, profile.strict) == (words, weak, not weak)
    file = FILE.replace("weak: {brokers: 2}", "reference: {brokers: 3}")
    assert read(tmp_path, f"{file}profile: {{{words}}}\n").profile == profile


def test_what_another_names_as_the_one_who_said_it_is_damage() -> None:
    for told, problem in (
        ({"by": "nobody"}, "unknown 'nobody'"),
        ({"by": "experiment", "line": 0}, "line is 0"),
        ({"by": "driver", "why": 1}, "expected who said it, and a line"),
    ):
        with pytest.raises(Exception, match=problem):
            RunMeta.of({"profile_from": told})


def test_a_driver_is_asked_for_nothing_that_it_promises_already() -> None:
    made: Any = Fixed(reference.Reference(reference.Options(), promised=WEAK))
    assert promising(made, WEAK) is made
