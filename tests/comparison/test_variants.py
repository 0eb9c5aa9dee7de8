"""What the variants of a comparison share and what they have of their own: controls, and how they act."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_comparison import small

from decision_rnn.agent import GMMConfig
from decision_rnn.comparison.compare import make_plan
from decision_rnn.comparison.results import Comparison
from decision_rnn.comparison.variants import CONTROLS, make_variants
from decision_rnn.config import EvaluationConfig
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.results import read_result
from decision_rnn.training.checkpoint import last_checkpoint, load_agent

Compare = Callable[..., Comparison]


def test_controls_have_the_settings_of_the_first_variant() -> None:
    first = {"backbone": {"name": "mingru", "width": 24}, "training.context": 7, "observation.mask": "velocity"}
    keys = small(Path("x"), variants={"own": first, "other": {}}, controls=[*CONTROLS, "conv"])
    variants = make_plan(keys, "test").variants
    config = {variant.label: variant.config for variant in variants}
    names = {"own": "own", "other": "other"}
    controls = {"bc": "BC", "bc-10%": "10% BC", "bc-mlp": "BC, MLP", "mlp": "MLP", "conv": "Convolution"}
    assert {variant.label: variant.name for variant in variants} == names | controls
    assert [variant.control for variant in variants] == [False] * 2 + [True] * 5
    own, bc = config["own"], config["bc"]
    assert (bc.condition.name, bc.top_fraction, config["bc-10%"].top_fraction) == ("none", 1, 0.1)
    assert replace(bc, condition=own.condition) == own
    assert replace(config["bc-10%"], top_fraction=1.0) == bc
    for name in ("mlp", "conv"):
        assert (config[name].backbone.name, config[name].backbone.width) == (name, 24)
        assert replace(config[name], backbone=own.backbone) == own
    assert config["bc-mlp"] == replace(config["mlp"], condition=bc.condition)


def test_variant_may_have_a_name_for_tables() -> None:
    variants = {"mlp-history": {}, "deep": {"name": "minGRU, 6 layers", "backbone.layers": 6}}
    plan = make_plan(small(Path("x"), variants=variants, backbones="lru"), "test")
    assert [variant.name for variant in plan.variants] == ["MLP, 4-step history", "minGRU, 6 layers", "LRU"]


def test_bc_has_objective_and_optimizer_of_the_first_variant() -> None:
    """Although the default of cloning is another one."""
    shared = {"dataset": "local/reach", "training.goal_relabeling": "hindsight"}
    first, control = make_variants(shared, {}, ["mingru"], ["bc"], "test")
    assert control.config.condition.name == "none"
    assert control.config.objective_options == first.config.objective_options == GMMConfig()
    assert control.config.training_options.optimizer == first.config.training_options.optimizer == "muon"


def test_variant_with_a_window_uses_it_in_every_evaluation(mine: Path, comparing: Compare, tmp_path: Path) -> None:
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
            assert (played.inference, played.window) == protocol
    carried, by_window = comparison.trials
    last, target = load_agent(last_checkpoint(tmp_path / "runs" / by_window.run)), by_window.targets[0]
    settings = EvaluationConfig(episodes=1, target_returns=(target.target_return,), inference="window", window=3)
    assert score(last, settings).targets[0].returns == pytest.approx(target.returns)
    assert [target.returns for target in carried.targets] != [target.returns for target in by_window.targets]
    assert "windowed (window of 3)" in (tmp_path / "runs" / "comparison.md").read_text()


def test_variant_samples_actions_and_its_name_tells(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    variants: dict[str, Any] = {"greedy": {}, "drawn": {"evaluation": {"actions": "sampled"}}}
    comparison = comparing(variants=variants, objective="gmm")
    for label, actions in (("greedy", "greedy"), ("drawn", "sampled")):
        (path,) = (tmp_path / "runs" / "local-mine" / f"{label}-seed0" / "results").iterdir()
        assert read_result(path).protocol.actions == actions
    assert comparison.summary.names["drawn"] != "drawn"
    text = (tmp_path / "runs" / "comparison.md").read_text()
    assert "drawn (carried state, sampled actions)" in text
