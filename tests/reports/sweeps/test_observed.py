"""What a run went through is told by roles and orders, never by names of nodes or numbers of epochs."""

from __future__ import annotations

from pathlib import Path

from chaos.history.history import History
from reports.sweeps.observed import observe
from tests.stormproof.small_runs import BUG, EXPERIMENT, planted


def test_a_run_is_told_in_words_that_other_runs_share(tmp_path: Path) -> None:
    assert "partition" in EXPERIMENT and BUG
    run = planted(tmp_path).directory
    seen = observe(History.open(run))
    assert seen.hits == {"partition|master|steady": 1}
    assert 0.9 < seen.events["a fault: partition"] == seen.events["partition of a master"] < 2
    assert seen.events["a fault: partition"] < seen.events["change of masters number 1"] < 4
    assert "two masters at once" in seen.events
    assert any(state.startswith("2 masters") and state.endswith("partition") for state in seen.states)
    assert any(state.startswith("1 masters, 2 slaves, set 3; 1 leaders; confirmed") for state in seen.states)
    told = " ".join([*seen.events, *seen.hits, *seen.states])
    assert "broker-" not in told and "controller-" not in told
