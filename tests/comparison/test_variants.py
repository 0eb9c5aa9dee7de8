"""What the variants of a comparison share and what they have of their own: controls, and how they act."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_comparison import small

from decision_rnn.agent import GMMConfig
from decision_rnn.comparison.comparing import plan
from decision_rnn.comparison.record import Comparison
from decision_rnn.comparison.variants import make_variants
from decision_rnn.config import EvaluationConfig
from decision_rnn.evaluation.evaluate import evaluate
from decision_rnn.evaluation.results import read_result
from decision_rnn.training.checkpoint import last_checkpoint, load_agent

Compare = Callable[..., Comparison]


def test_controls_have_the_settings_of_the_first_variant() -> None:
    first = {"backbone": {"name": "mingru", "width": 24}, "training.context": 7, "observation.mask": "velocity"}
    found = plan(small(Path("x"), variants={"own": first, "other": {}}, controls="bc,bc-10%,mlp,conv"), "test").variants
    config = {variant.label: variant.config for variant in found}
    assert [(variant.label, variant.control) for variant in found] == [
        *[("own", False), ("other", False)],
        *[(name, True) for name in ("bc", "bc-10%", "mlp", "conv")],
    ]
    own, bc = config["own"], config["bc"]
    assert (bc.condition.name, bc.top_fraction, config["bc-10%"].top_fraction) == ("none", 1, 0.1)
    assert replace(bc, condition=own.condition) == own
    assert replace(config["bc-10%"], top_fraction=1.0) == bc
    for name in ("mlp", "conv"):
        assert (config[name].backbone.name, config[name].backbone.width) == (name, 24)
        assert replace(config[name], backbone=own.backbone, training=own.training) == own
        assert config[name].tbptt_segments == 1  # without a state that fades, none is carried between segments


def test_cloning_control_has_the_objective_and_the_optimizer_of_the_first_variant() -> None:
    """Although the default of cloning is another one."""
    shared = {"dataset": "local/reach", "training.goal_relabeling": "hindsight"}
    first, control = make_variants(shared, {}, ["mingru"], ["bc"], "test")
    assert control.config.condition.name == "none"
    assert control.config.objective_options == first.config.objective_options == GMMConfig()
    assert control.config.training_options.optimizer == first.config.training_options.optimizer == "muon"


def test_variant_with_its_own_window_uses_it_in_every_evaluation(
    mine: Path, comparing: Compare, tmp_path: Path
) -> None:
    """Two agents with the same weights, one of which acts with a window of three steps."""
    comparison = comparing(
        variants={"carries": {}, "windowed": {"evaluation": {"inference": "window", "window": 3}}},
        checkpoint_episodes=1,
        **{"training.checkpoint_every": 4},
    )
    for label, protocol in (("carries", ("recurrent", None)), ("windowed", ("window", 3))):
        paths = list((tmp_path / "runs" / "local-mine" / f"{label}-seed0" / "results").iterdir())
        assert len(paths) == 2  # one with all targets, one with those of every checkpoint
        for path in paths:
            played = read_result(path).protocol
            assert (played.state, played.window) == protocol
    carried, by_window = comparison.trials
    last, target = load_agent(last_checkpoint(tmp_path / "runs" / by_window.run)), by_window.targets[0]
    settings = EvaluationConfig(episodes=1, target_returns=(target.target_return,), inference="window", window=3)
    assert evaluate(last, settings).targets[0].returns == pytest.approx(target.returns)
    assert [target.returns for target in carried.targets] != [target.returns for target in by_window.targets]
    assert [variant.window for variant in comparison.variants] == [None, 3]
    assert "windowed (window of 3)" in (tmp_path / "runs" / "comparison.md").read_text()


def test_variant_samples_its_actions_and_its_name_says_so(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    variants: dict[str, Any] = {"greedy": {}, "drawn": {"evaluation": {"actions": "sampled"}}}
    comparison = comparing(variants=variants, objective="gmm")
    for label, actions in (("greedy", "greedy"), ("drawn", "sampled")):
        (path,) = (tmp_path / "runs" / "local-mine" / f"{label}-seed0" / "results").iterdir()
        assert read_result(path).protocol.actions == actions
    assert [variant.actions for variant in comparison.variants] == ["greedy", "sampled"]
    text = (tmp_path / "runs" / "comparison.md").read_text()
    assert "drawn (carried state, sampled actions)" in text
    assert "with carried state (greedy); carried state, sampled actions (drawn)" in text
