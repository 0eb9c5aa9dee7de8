"""The plan of a comparison: variants and controls, target returns, and what is refused before any run."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from guide import example
from gymnasium.envs.registration import EnvSpec
from small_comparison import Inline, pendulum_episodes, small

from decision_rnn import Episode, train, write_store
from decision_rnn.agent import GMMConfig
from decision_rnn.cli.main import main
from decision_rnn.comparison.compare import list_commands, make_plan, run_plan
from decision_rnn.comparison.results import Comparison
from decision_rnn.comparison.summary import compared_scores
from decision_rnn.comparison.variants import CONTROLS, make_variants
from decision_rnn.config import EvaluationConfig
from decision_rnn.data.dataset import open_dataset
from decision_rnn.evaluation.evaluate import score
from decision_rnn.evaluation.results import read_result
from decision_rnn.runs.checkpoint import load_agent
from decision_rnn.runs.folder import last_checkpoint
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import locked

Compare = Callable[..., Comparison]
NARROW_AND_WIDE = {"narrow": {}, "wide": {"backbone": {"width": 32}}}


def test_controls_have_the_settings_of_the_first_variant() -> None:
    first = {"backbone": {"name": "mingru", "width": 24}, "training.context": 7, "observation.mask": "velocity"}
    keys = small(Path("x"), variants={"own": first, "other": {}}, controls=[*CONTROLS, "conv"])
    variants = make_plan(keys, "test").variants
    config = {variant.label: variant.config for variant in variants}
    names = {"own": "own", "other": "other"}
    controls = {"bc": "BC", "bc-10%": "10% BC", "bc-mlp": "BC by an MLP", "mlp": "MLP", "conv": "Convolution"}
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


def test_trained_agents_are_compared_with_new_ones(mine: Path, tmp_path: Path) -> None:
    """A variant has the architecture of the agent that it starts from; controls, of another one, start anew."""
    options: dict[str, Any] = {"training": {"context": 4}, "evaluation": {"episodes": 0}, "progress": False}
    train("local/mine", {"name": "lru", "width": 24, "layers": 1}, steps=1, output=tmp_path / "first", **options)
    keys = small(tmp_path / "runs", variants={"tuned": {"init_from": str(tmp_path / "first")}, "new": {}})
    keys = {key: value for key, value in keys.items() if not key.startswith("backbone")}
    tuned, new, *controls = make_plan({**keys, "controls": CONTROLS}, "test").variants
    assert (tuned.config.backbone.name, tuned.config.backbone.width, new.config.backbone.name) == ("lru", 24, "mingru")
    assert [control.config.init_from for control in controls] == [None] * 4
    comparison = run_plan(make_plan({**keys, "controls": ["bc", "mlp"]}, "test"), "the command", Inline())
    assert [trial.variant for trial in comparison.trials] == ["tuned", "new", "bc", "mlp"]
    with pytest.raises(InputError, match=r"backbone\.name is 'mingru', but init_from .*first has lru"):
        make_plan({**keys, "backbones": "mingru", "init_from": str(tmp_path / "first")}, "test")


def test_variant_may_have_a_name_for_tables() -> None:
    variants = {"mlp-history": {}, "deep": {"name": "minGRU, 6 layers", "backbone.layers": 6}}
    plan = make_plan(small(Path("x"), variants=variants, backbones="lru,deep"), "test")
    assert [variant.name for variant in plan.variants] == ["MLP (4-step history)", "minGRU, 6 layers", "LRU"]


def test_bc_has_objective_and_optimizer_of_the_first_variant() -> None:
    """Although the default of cloning is another one."""
    shared = {"dataset": "local/reach", "training.goal_relabeling": "hindsight"}
    first, control = make_variants(shared, {}, ["mingru"], ["bc"], "test")
    assert control.config.condition.name == "none"
    assert control.config.objective == first.config.objective == GMMConfig()
    assert control.config.training.optimizer == first.config.training.optimizer == "muon"


def test_variant_may_act_in_its_own_way_in_every_evaluation(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    """Three agents with the same weights: one acts with a window of three steps, one by samples."""
    protocols = {"carries": ("recurrent", None, "greedy"), "windowed": ("window", 3, "greedy")}
    protocols["drawn"] = ("recurrent", None, "sampled")
    variants = {"windowed": {"inference": "window", "window": 3}, "drawn": {"actions": "sampled"}}
    keys: dict[str, Any] = {"variants": {label: {"evaluation": variants.get(label, {})} for label in protocols}}
    comparison = comparing(**keys, objective="gmm", checkpoint_episodes=1, **{"training.checkpoint_every": 4})
    for label, protocol in protocols.items():
        paths = list((tmp_path / "runs" / "local-mine" / f"{label}-seed0" / "results").iterdir())
        assert len(paths) == 2  # one with all targets, one with those of every checkpoint
        for played in (read_result(path).protocol for path in paths):
            assert (played.inference, played.window, played.actions) == protocol
    by_window = comparison.trials[1]
    last, target = load_agent(last_checkpoint(tmp_path / "runs" / by_window.run)), by_window.targets[0]
    acting = {"inference": "window", "window": 3, "max_episode_steps": 20}
    settings = EvaluationConfig(episodes=1, target_returns=(target.target_return,), **acting)
    assert score(last, settings).targets[0].returns == pytest.approx(target.returns)
    assert len({trial.targets[0].returns for trial in comparison.trials}) == 3
    suffixes = {"windowed": " (window of 3)", "drawn": " (carried state, sampled actions)"}
    assert comparison.names == {label: label + suffixes.get(label, "") for label in protocols}


def test_targets_are_the_papers_the_best_and_a_spread(mine: Path, comparing: Compare) -> None:
    """A return that is both the paper's and the data's best is one target, played once."""
    returns = open_dataset("local/mine").store.episode_returns
    best = float(returns.max())
    comparison = comparing(evaluation={"episodes": 1, "target_returns": [best + 10, best]})
    targets = comparison.datasets[0].targets
    assert [(target.roles, target.in_range) for target in targets] == [
        (("paper",), False),
        (("paper", "best"), True),
        *[(("spread",), True)] * 5,
    ]
    assert targets[1].target_return == best
    assert all(returns.min() < target.target_return < returns.max() for target in targets[2:])
    (trial,) = comparison.trials
    assert [target.target_return for target in trial.targets] == [target.target_return for target in targets]


def test_target_capped_as_the_best_is_played_once(mine: Path, comparing: Compare, tmp_path: Path) -> None:
    best = float(open_dataset("local/mine").store.episode_returns.max())
    beyond: dict[str, Any] = {"evaluation.target_returns": [best + 10], "checkpoint_episodes": 1}
    comparison = comparing(**beyond, controls="bc")
    targets = comparison.datasets[0].targets
    assert (targets[0].target_return, targets[0].roles, targets[1].roles) == (best + 10, ("paper", "best"), ("spread",))
    assert len(comparison.trials[0].targets) == 6
    assert compared_scores(comparison, comparison.datasets[0])[0].title == f"target {best + 10:g}, beyond the data"
    results = map(read_result, (tmp_path / "runs" / comparison.trials[0].run / "results").iterdir())
    assert [best + 10] in [[target.target_return for target in result.targets] for result in results]
    both = {"narrow": {}, "uncapped": {"condition": {"rtg_quantile": 0}}}
    planned = make_plan(small(Path("x"), **beyond, variants=both), "test").trials()[0][0].targets
    assert [(each.target_return, each.roles) for each in planned[:2]] == [(best + 10, ("paper",)), (best, ("best",))]


def test_agents_conditioned_on_steps_play_no_return_of_the_data(mine: Path) -> None:
    keys = ("achieved_goal", "desired_goal", "observation")
    space = gymnasium.spaces.Dict(dict.fromkeys(keys, gymnasium.spaces.Box(-np.inf, np.inf, (1,))))
    write_store("local/goals", pendulum_episodes(0), "Pendulum-v1", observation_space=space)
    steps: dict[str, Any] = {"training.goal_relabeling": "hindsight", "evaluation.target_returns": [-20]}
    ((dataset,), _) = make_plan(small(Path("x"), datasets="local/goals", **steps), "test").trials()
    assert [(each.target_return, each.roles) for each in dataset.targets] == [(-20, ("paper", "best"))]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"datasets": ""}, "datasets"),
        ({"datasets": "local/a,local/b", "path": "x"}, "path"),
        ({"evaluation.episodes": 0}, r"local/mine.*evaluation\.episodes.*--validation"),
        ({"plugins": ["not_imported_yet"]}, "--plugins not_imported_yet"),
        ({"seeds": 0}, "seeds"),
        ({"margin": 0}, "margin"),
        *(({"variants": {label: {}}}, "variants") for label in ("../up", "-x", "a\n")),
        ({"variants": {"impossible": {"training": {"warmup_steps": 9}}}}, "impossible: training.warmup_steps 9"),
        ({"variants": {"impossible": {"observation": {"mask": "velocity"}}}}, "impossible .*local/mine.*velocit"),
        ({"variants": {"impossible": {"training": {"context": 41}}}}, "impossible .*local/mine.*context 41"),
        ({"variants": {"impossible": {"top_fraction": 0.2, "training": {"context": 9}}}}, "impossible .*top_fraction"),
        ({"evaluation.actions": "sampled"}, r"narrow .*local/mine.*evaluation\.actions"),
        ({"training.goal_relabeling": "hindsight"}, r"narrow .*local/mine.*achieved_goal"),
        (
            {"datasets": "local/poles", "objective": {"name": "action_chunk", "chunk_size": 2}},
            r"narrow .*local/poles.* Box.* Discrete\(2\)",
        ),
        ({"datasets": "local/none", "output": "deep/runs"}, "local/none"),
    ],
)
def test_impossible_comparison_is_refused_before_any_run(
    mine: Path, comparing: Compare, executor: Inline, keys: dict[str, Any], named: str, tmp_path: Path
) -> None:
    poles = Episode(np.zeros((9, 4)), np.arange(8) % 2, np.ones(8), terminated=True, truncated=False)
    write_store("local/poles", [poles] * 5, "CartPole-v1")
    keys["output"] = tmp_path / keys.get("output", "runs")
    with pytest.raises(InputError, match=named):
        comparing(executor, **keys)
    assert executor.started == []
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "deep").exists()


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("kind", ["backbone", "objective", "metric", "environment"])
def test_class_of_a_notebook_is_refused_before_any_run(
    mine: Path, comparing: Compare, executor: Inline, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs' processes cannot import its cells, which are the module __main__."""
    monkeypatch.setitem(gymnasium.registry, "Own-v0", EnvSpec("Own-v0", entry_point="__main__:Own"))
    modules = {"backbone": "layers.py", "objective": "myobjective.py", "metric": "mymetric.py"}
    if kind in modules:
        exec(example(modules[kind]), {"__name__": "__main__"})
    keys, name = {
        "backbone": ({"backbone": "average"}, "Average"),
        "objective": ({"objective": "huber"}, "Huber"),
        "metric": ({"evaluation.metrics": ["energy"]}, "Energy"),
        "environment": ({"evaluation.environment_id": "Own-v0"}, "Own"),
    }[kind]
    with pytest.raises(InputError, match=rf"the {kind}.* {name} .*plugins"):
        comparing(executor, **keys)
    assert executor.started == []


def test_datasets_and_seeds_named_twice_are_compared_once() -> None:
    plan = make_plan(small(Path("x"), datasets="hopper-medium,standin/hopper-medium", seeds=[3, 5, 3]), "test")
    assert (plan.datasets, list(plan.seeds)) == (("standin/hopper-medium",), [3, 5])


def test_printed_commands_train_what_is_missing_and_leave_runs_alone(
    mine: Path, comparing: Compare, executor: Inline, tmp_path: Path
) -> None:
    """One run was interrupted, as one in progress looks, and one has not begun."""
    comparing()
    run = tmp_path / "runs" / "local-mine" / "narrow-seed0"

    def contents() -> dict[str, tuple[int, int]]:
        stats = {path: path.stat() for path in [run, *run.rglob("*")]}
        return {str(path): (stat.st_mtime_ns, stat.st_size) for path, stat in stats.items()}

    shutil.rmtree(last_checkpoint(run))
    shutil.rmtree(run / "results")
    with locked(run / "training"):
        before = contents()
        commands = list_commands(make_plan(small(tmp_path / "runs", variants=NARROW_AND_WIDE), "test"))
    assert [f"{run} --resume" in commands[0], len(commands)] == [True, 2]
    assert contents() == before
    assert not (run.parent / "wide-seed0").exists()
    assert [main(command.split()[1:]) for command in commands] == [0, 0]
    trials = comparing(executor, variants=NARROW_AND_WIDE).trials
    assert executor.started == []
    assert [trial.run for trial in trials] == ["local-mine/narrow-seed0", "local-mine/wide-seed0"]
