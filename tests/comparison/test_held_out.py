"""Comparisons on held-out episodes: their scores, the table, differences by episode, and what is refused."""

import itertools
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from made_comparison import make_dataset, make_trial, of_trials
from small_comparison import Inline, pendulum_episodes, small

from decision_rnn import Episode, write_store
from decision_rnn.comparison.compare import list_commands, make_plan
from decision_rnn.comparison.record import HeldOut
from decision_rnn.comparison.results import Comparison, read_comparison, write_comparison
from decision_rnn.comparison.tables import sections
from decision_rnn.comparison.variants import CONTROLS
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.limits import return_to_go_limits
from decision_rnn.data.store import top_episodes
from decision_rnn.evaluation.statistics import compare_errors
from decision_rnn.runs.checkpoint import TrainedAgent, load_agent
from decision_rnn.runs.folder import last_checkpoint, read_metrics
from decision_rnn.utils.errors import InputError

Compare = Callable[..., Comparison]
STEPS = 8
"""The steps of every episode: segments that begin with an episode are whole episodes."""
WHOLE: dict[str, Any] = {"validation": "local/held-out", "training.context": STEPS, "training.segment_start": "episode"}


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The datasets local/mine and local/held-out, of five and two episodes and no environment; the latter earn more
    than training shows."""
    monkeypatch.setenv("DECISION_RNN_DATA", str(tmp_path / "data"))
    box = gymnasium.spaces.Box(-1, 1, (1,))
    write_store("local/mine", pendulum_episodes(0), action_space=box)
    held_out = [replace(of, rewards=np.abs(of.rewards)) for of in pendulum_episodes(1)[:2]]
    write_store("local/held-out", held_out, action_space=box)


def episode_errors(trained: TrainedAgent) -> list[float]:
    """The error over the variance of every held-out episode, by hand: what is left to earn is capped as in training."""
    held_out, condition = open_dataset("local/held-out").store, trained.agent.condition
    if trained.config.condition.takes_target:
        trained_on = top_episodes(open_dataset("local/mine").store, trained.config.top_fraction)
        _, caps = return_to_go_limits(trained_on, trained.config.condition.rtg_quantile)
        assert held_out.episode_returns.max() > caps.max(), "no return-to-go is capped"
        condition.acting_limit = torch.from_numpy(caps).float()
    errors = []
    for episode in held_out:
        to_go = torch.from_numpy(episode.rewards[::-1].cumsum()[::-1].astype(np.float32))[None, :, None]
        action, observation = (torch.from_numpy(x)[None].float() for x in (episode.actions, episode.observations[:-1]))
        before = torch.cat([torch.zeros_like(action[:, :1]), action[:, :-1]], dim=1)
        steps = torch.arange(STEPS)[None]
        with torch.no_grad():
            predicted, *_ = trained.agent.predict(to_go[..., : condition.size], observation, before, steps, steps == 0)
        errors.append((predicted - action).square().mean().item() / held_out.actions.var(dtype=float))
    return errors


def test_comparison_on_a_log_without_rewards_clones_it(tmp_path: Path) -> None:
    write_store("local/plain", [replace(each, rewards=np.zeros(STEPS)) for each in pendulum_episodes(0)])

    def conditions(**keys: Any) -> dict[str, str]:
        plan = make_plan(small(tmp_path / "runs", **{"datasets": "local/plain", **keys}), "test")
        return {variant.label: variant.config.condition.name for variant in plan.variants}

    assert conditions(controls="bc,bc-mlp,mlp") == {"narrow": "none", "bc-mlp": "none"}
    for default in (None, list(CONTROLS)):  # of the command and of Python
        assert conditions(controls=default) == {"narrow": "none", "mlp": "none"}
    assert conditions(condition="return_to_go") == {"narrow": "return_to_go"}
    own = {"bc": {"condition": "none"}, "other": {}}
    assert conditions(variants=own) == {"bc": "none", "other": "return_to_go"}
    assert conditions(datasets="local/plain,local/mine") == {"narrow": "return_to_go"}


def test_runs_that_stop_early_are_compared_at_their_last_step(comparing: Compare, tmp_path: Path) -> None:
    training = {"training.steps": 60, "training.log_every": 1, "training.early_stopping_patience": 1}
    comparison = comparing(**WHOLE, **training)
    (trial,) = comparison.trials
    losses = [line["validation_loss"] for line in read_metrics(tmp_path / "runs" / trial.run)]
    assert trial.step == len(losses) == int(last_checkpoint(tmp_path / "runs" / trial.run).name) < 60
    assert all(later < earlier for earlier, later in itertools.pairwise(losses[:-1]))
    assert losses[-1] >= losses[-2]
    assert f"trained for {trial.step} steps" in str(comparison)
    with pytest.raises(InputError, match=r"narrow-seed0 .*log_every 1, not 2"):
        comparing(**WHOLE, **{**training, "training.log_every": 2}, seeds=2)
    comparing(**WHOLE, **{**training, "training.early_stopping_patience": 0})
    with pytest.raises(InputError, match=r"narrow-seed0 .*_patience 0, not 1"):  # as other seeds would be
        comparing(**WHOLE, **training, seeds=2)


def test_all_variants_are_scored_on_the_same_episodes(comparing: Compare, tmp_path: Path) -> None:
    """Also those that are trained, and in their own metrics validated, on the best episodes alone."""
    others: dict[str, Any] = {
        "best": {"top_fraction": 0.5, "training.precision": "fp32"},
        "memoryless": {"backbone": "mlp"},
        "mixture": {"objective": "gmm"},
        "chunk": {"objective": "action_chunk"},
    }
    comparison = comparing(**WHOLE, variants={"narrow": {}, **others}, controls="bc")
    held_out = open_dataset("local/held-out").store
    for trial in comparison.trials:
        trained = load_agent(last_checkpoint(tmp_path / "runs" / trial.run))
        assert (trial.targets, trial.step) == ((), 4)
        assert trial.parameters == sum(weight.numel() for weight in trained.agent.parameters())
        assert trial.state_bytes
        assert trial.held_out == pytest.approx(episode_errors(trained), rel=1e-4)
    (dataset,) = comparison.datasets
    references = dataset.held_out.references
    mean = open_dataset("local/mine").store.actions.mean(dtype=float)
    squares = (held_out.actions.reshape(2, STEPS) - mean) ** 2
    assert references["mean action"] == pytest.approx((squares.mean(1) / held_out.actions.var(dtype=float)).tolist())
    assert list(references) == ["linear regression", "mean action", "previous action"]
    assert dataset.held_out.steps == (STEPS, STEPS)
    assert (dataset.targets, comparison.episodes) == ((), 0)
    assert read_comparison(tmp_path / "runs") == comparison
    rows = {row["variant"]: row for row in comparison.table()}
    scores = [1 - np.mean(trial.held_out) for trial in comparison.trials if trial.variant == "narrow"]
    assert rows["narrow"]["held_out_R2"] == pytest.approx(np.mean(scores))
    assert "score" not in rows["narrow"]
    assert rows["bc"]["control"]
    assert rows["linear regression"]["held_out_R2"] == pytest.approx(1 - np.mean(references["linear regression"]))
    assert "| previous action | " in (tmp_path / "runs" / "comparison.md").read_text()


def test_diverged_run_fails_and_the_others_are_compared(comparing: Compare, tmp_path: Path) -> None:
    diverged = {"training": {"learning_rate": 1e30, "gradient_clip": 0}}
    comparison = comparing(**WHOLE, variants={"narrow": {}, "diverged": diverged})
    assert [trial.variant for trial in comparison.trials] == ["narrow"]
    assert [failure.variant for failure in comparison.failed] == ["diverged"]
    assert read_comparison(tmp_path / "runs") == comparison


def test_killed_and_resumed_comparison_has_the_same_held_out_errors(comparing: Compare, tmp_path: Path) -> None:
    keys: dict[str, Any] = {**WHOLE, "variants": {"narrow": {}, "wide": {"backbone": {"width": 32}}}, "seeds": 2}
    first, executor = comparing(**keys), Inline()
    assert comparing(executor, **keys) == first
    assert executor.started == []
    runs = tmp_path / "runs" / "local-mine"
    shutil.rmtree(last_checkpoint(runs / "wide-seed0"))  # killed after step 2
    shutil.rmtree(runs / "wide-seed1")  # not begun
    missing = [command.split()[5] for command in list_commands(make_plan(small(tmp_path / "runs", **keys), "test"))]
    assert [Path(path).name for path in missing] == ["wide-seed0", "wide-seed1"]
    again = comparing(executor, **keys)
    assert executor.started == ["wide-seed0", "wide-seed1"]
    assert again.table() == first.table()
    weights = last_checkpoint(runs / "wide-seed0") / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    damaged = comparing(**keys)
    assert [failure.run for failure in damaged.failed] == ["local-mine/wide-seed0"]
    assert "cannot be read" in damaged.failed[0].error
    assert len(damaged.trials) == 3


def test_other_held_out_episodes_are_measured_without_training_anew(comparing: Compare) -> None:
    executor, (before,) = Inline(), comparing(**WHOLE).trials
    write_store("local/held-out", pendulum_episodes(2), overwrite=True)
    (after,) = comparing(executor, **WHOLE).trials
    write_store("local/others", pendulum_episodes(3))
    (others,) = comparing(executor, **{**WHOLE, "validation": "local/others"}).trials
    assert executor.started == []
    assert len({before.held_out, after.held_out, others.held_out}) == 3


def test_agents_predict_as_the_comparison_has_them_act(comparing: Compare, tmp_path: Path) -> None:
    """Also in one that goes on with finished runs, which acted in another way while they were trained."""
    comparing(**WHOLE)
    executor, windows = Inline(), {**WHOLE, "evaluation.inference": "window", "evaluation.window": 2}
    (again,), (anew,) = comparing(executor, **windows).trials, comparing(**windows, output=tmp_path / "anew").trials
    assert executor.started == []
    assert again.held_out == anew.held_out


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"validation": None}, r"local/mine.*--validation"),
        ({"margin": 5}, "margin"),
        ({"validation": "local/none"}, "local/none"),
        ({"validation": "local/mine"}, "validation local/mine"),
        ({"validation": "local/wide"}, "local/wide.*local/mine"),
        ({"validation": "local/short"}, "training.context 4"),
        ({"validation": "local/still"}, "local/still"),
        ({"variants": {"a": {}, "b": {"validation": "local/mine"}}}, "variant b sets validation"),
    ],
)
def test_impossible_comparison_on_held_out_episodes_is_refused(
    comparing: Compare, keys: dict[str, Any], named: str, tmp_path: Path
) -> None:
    write_store("local/wide", [replace(of, observations=np.zeros((9, 4))) for of in pendulum_episodes(1)])
    write_store("local/short", [Episode(np.zeros((4, 3)), np.zeros((3, 1)), np.zeros(3), False, True)])
    still = [replace(each, actions=np.ones((8, 1))) for each in pendulum_episodes(1)]
    write_store("local/still", still, action_space=gymnasium.spaces.Box(-1, 1, (1,)))
    write_store("local/played", pendulum_episodes(2), "Pendulum-v1")
    with pytest.raises(InputError, match=named):
        comparing(executor := Inline(), **{"validation": "local/held-out", **keys})
    assert executor.started == []
    assert not (tmp_path / "runs" / "local-mine").exists()


def of_errors(errors: dict[str, Any], references: dict[str, Any], steps: Sequence[int]) -> Comparison:
    """A comparison of variants with these held-out errors, (seeds, episodes), of the first label from the others."""
    unplayed: dict[str, Any] = {"targets": (), "action_microseconds": None}
    trials = [
        make_trial(label, 0, seed, held_out=tuple(row), **unplayed)
        for label, rows in errors.items()
        for seed, row in enumerate(np.asarray(rows).tolist())
    ]
    held_out = HeldOut("local/held-out", "b" * 64, "R2", tuple(steps), references)
    datasets = (replace(make_dataset(), targets=(), held_out=held_out),)
    return replace(of_trials(trials), episodes=0, datasets=datasets)


def drawn_errors(seeds: int, episodes: int) -> dict[str, np.ndarray]:
    """Errors of episodes that are hard or easy for all; lru's are smaller by 0.05, mlp's as large but for episode 3."""
    generator = np.random.default_rng(0)
    difficulty = generator.uniform(0.1, 0.9, episodes)
    noise = generator.normal(0, 0.01, (3, seeds, episodes))
    errors = {"mingru": difficulty + noise[0], "lru": difficulty - 0.05 + noise[1], "mlp": difficulty + noise[2]}
    errors["mlp"][:, 3] += 2
    return errors


def test_held_out_scores_over_datasets_are_not_said_to_be_missing() -> None:
    """They have no aggregate, since there are no returns."""
    one = of_errors(drawn_errors(5, 20), {}, [10] * 20)
    trials = [replace(trial, dataset=name) for name in ("local/a", "local/b") for trial in one.trials]
    datasets = [
        replace(one.datasets[0], data=replace(one.datasets[0].data, name=name)) for name in ("local/a", "local/b")
    ]
    first, *others = sections(replace(one, trials=tuple(trials), datasets=tuple(datasets)))
    assert "returns of every variant" in first.finding
    assert [section.title for section in others] == ["local/a", "local/b"]
    assert [head for table in first.tables for head in table.head] == ["local/a", "local/b"]


def test_differences_are_paired_by_episode_in_tables_and_page(tmp_path: Path) -> None:
    """Episodes differ more than variants, which an unpaired interval could not tell apart; one episode decides on mlp's
    difference, so that it is not significant."""
    errors, steps = drawn_errors(5, 20), [10, 30] * 10
    comparison = of_errors(errors, {"linear regression": tuple(0.01 * np.ones(20))}, steps)
    write_comparison(tmp_path, comparison)
    assert read_comparison(tmp_path) == comparison
    rows = {row["variant"]: row for row in comparison.table()}
    for label, values in errors.items():
        assert rows[label]["held_out_R2"] == pytest.approx(1 - np.average(values.mean(0), weights=steps))
    means = errors["mingru"].mean(0) - errors["lru"].mean(0)
    assert rows["lru"]["difference"] == pytest.approx(np.average(means, weights=steps))
    assert rows["lru"]["difference_high"] - rows["lru"]["difference_low"] < 0.04
    assert rows["lru"]["high"] - rows["lru"]["low"] > 0.15
    assert [rows[label]["significant"] for label in errors] == [None, True, False]
    assert rows["linear regression"]["held_out_R2"] == pytest.approx(0.99)
    for file in ("comparison.md", "report.html"):
        assert "significantly higher" in (tmp_path / file).read_text()
    (section,) = sections(comparison)
    assert section.finding.startswith("LRU has the highest held-out R2")
    few = of_errors({label: values[:2] for label, values in errors.items()}, {}, steps)
    values = ", ".join(f"{1 - np.average(row, weights=steps):.3f}" for row in errors["lru"][:2])
    assert f"({values}) |" in str(few)
    assert "[" not in next(line for line in str(few).splitlines() if line.startswith("| LRU"))
    assert [row["p_value"] for row in few.table()] == [None] * 3


def test_differences_cover_the_true_one_over_episodes_and_seeds() -> None:
    """A true difference of 0.1, with effects of variants' seeds and of episodes, drawn anew 200 times."""
    generator, covered = np.random.default_rng(0), 0
    for _ in range(200):
        episodes, own = generator.gamma(4.0, 0.1, 15), generator.gamma(4.0, 0.02, (2, 1, 15))
        seeds = generator.normal(0, 0.02, (2, 5, 1))
        first, second = episodes + own + seeds + [[[0.1]], [[0.0]]]
        estimate = compare_errors(first, second, [10] * 15)
        covered += estimate.low <= -0.1 <= estimate.high
    assert 0.9 < covered / 200 <= 1


def test_held_out_scores_stand_beside_the_returns(comparing: Compare, tmp_path: Path) -> None:
    for name, seed in (("mine", 0), ("held-out", 1)):
        write_store(f"local/{name}", pendulum_episodes(seed), "Pendulum-v1", overwrite=True)
    comparison = comparing(**WHOLE)
    (trial,) = comparison.trials
    assert trial.targets
    assert len(trial.held_out) == 5
    rows = [row for row in comparison.table() if "held_out_R2" in row]
    assert [row["variant"] for row in rows] == ["narrow", "linear regression", "mean action", "previous action"]
    assert rows[0]["held_out_R2"] == pytest.approx(1 - np.mean(trial.held_out))
    assert "held-out R2 |" in str(comparison)
    assert "score" in next(row for row in comparison.table())
