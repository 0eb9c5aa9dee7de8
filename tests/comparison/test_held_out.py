"""Comparisons on data of no environment: the loss on held-out episodes, its table, and what is refused."""

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from made_comparison import make_dataset, make_trial, of_trials
from scipy import stats
from small_comparison import Inline, pendulum_episodes, small

from decision_rnn import Episode, write_store
from decision_rnn.comparison.compare import list_commands, make_plan
from decision_rnn.comparison.record import HeldOut
from decision_rnn.comparison.results import Comparison, read_comparison, write_comparison, write_page
from decision_rnn.comparison.tables import sections
from decision_rnn.data.dataset import open_dataset
from decision_rnn.data.limits import return_to_go_limits
from decision_rnn.data.store import top_episodes
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


def squared_error(trained: TrainedAgent, episode: Episode) -> float:
    """That of the actions in the range of the data, stepped by hand: what is left to earn is capped as in training."""
    steps = torch.arange(STEPS)[None]
    to_go = episode.rewards[::-1].cumsum()[::-1]
    if trained.config.takes_target:
        seen = top_episodes(open_dataset("local/mine").store, trained.config.top_fraction)
        _, caps = return_to_go_limits(seen, trained.config.condition.rtg_quantile)
        assert (to_go > caps).any(), "no return-to-go is capped"
        to_go = np.minimum(to_go, caps)
        trained.agent.condition.acting_limit = None  # the lower one of acting, which `predict` applies
    action, observation = (torch.from_numpy(of)[None].float() for of in (episode.actions, episode.observations[:-1]))
    before = torch.cat([torch.zeros_like(action[:, :1]), action[:, :-1]], dim=1)
    asked = torch.from_numpy(to_go.astype(np.float32))[None, :, None][..., : int(trained.config.takes_target)]
    with torch.no_grad():
        agent = trained.agent
        predicted, *_ = agent.predict(asked, observation, before, steps, steps == 0)
    return (predicted - action).square().mean().item()  # the box is [-1, 1]


def test_comparison_on_a_log_without_rewards_clones_it(tmp_path: Path) -> None:
    write_store("local/plain", [replace(each, rewards=np.zeros(STEPS)) for each in pendulum_episodes(0)])

    def conditions(**keys: Any) -> dict[str, str]:
        plan = make_plan(small(tmp_path / "runs", **{"datasets": "local/plain", **keys}), "test")
        return {variant.label: variant.config.condition.name for variant in plan.variants}

    assert conditions(controls="bc,bc-mlp,mlp") == {"narrow": "none", "bc-mlp": "none"}
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


def test_held_out_loss_is_over_the_same_segments_for_all(comparing: Compare, tmp_path: Path) -> None:
    """Every segment is one of two episodes, drawn with an unknown weight: the same for an agent that is trained, and in
    its own metrics validated, on the best episodes alone, or that carries no state."""
    others: dict[str, Any] = {
        "best": {"top_fraction": 0.5, "training.precision": "fp32"},
        "memoryless": {"backbone": "mlp"},
    }
    comparison = comparing(**WHOLE, variants={"narrow": {}, **others}, controls="bc", seeds=2)
    held_out = open_dataset("local/held-out").store
    best = int(held_out.episode_returns.argmax())
    weights = []
    for trial in comparison.trials:
        trained = load_agent(last_checkpoint(tmp_path / "runs" / trial.run))
        losses = [squared_error(trained, episode) for episode in held_out]
        assert trial.held_out_loss is not None
        weights.append((trial.held_out_loss - losses[1]) / (losses[0] - losses[1]))
        own = read_metrics(tmp_path / "runs" / trial.run)[-1]["validation_loss"]
        if trial.variant == "best":
            assert own == pytest.approx(losses[best], rel=1e-4)
        assert (trial.targets, trial.checkpoints, trial.step) == ((), (), 4)
        assert trial.parameters == sum(weight.numel() for weight in trained.agent.parameters())
        assert trial.state_bytes
    assert weights == pytest.approx([weights[0]] * 8, abs=1e-3)
    assert 0.1 < weights[0] < 0.9
    (dataset,) = comparison.datasets
    assert dataset.held_out == HeldOut(
        dataset="local/held-out", fingerprint=held_out.fingerprint, episodes=2, steps=2 * STEPS, measure="loss"
    )
    assert (dataset.targets, comparison.episodes, comparison.checkpoint_episodes) == ((), 0, 0)
    assert read_comparison(tmp_path / "runs") == comparison
    rows = {row["variant"]: row for row in comparison.table()}
    narrow = [trial.held_out_loss for trial in comparison.trials if trial.variant == "narrow"]
    assert rows["narrow"]["held_out_loss"] == pytest.approx(np.mean(narrow))
    assert "score" not in rows["narrow"]
    assert rows["bc"]["control"]


def test_killed_and_resumed_comparison_has_the_same_held_out_losses(comparing: Compare, tmp_path: Path) -> None:
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
    write_store("local/held-out", pendulum_episodes(2), append=True)
    (after,) = comparing(executor, **WHOLE).trials
    write_store("local/others", pendulum_episodes(3))
    (others,) = comparing(executor, **{**WHOLE, "validation": "local/others"}).trials
    assert executor.started == []
    assert len({before.held_out_loss, after.held_out_loss, others.held_out_loss}) == 3


def test_held_out_losses_of_other_configurations_are_refused(comparing: Compare) -> None:
    comparing(**WHOLE, condition="none")
    with pytest.raises(InputError, match=r"narrow-seed0.*condition\.name 'none'"):
        comparing(executor := Inline(), **WHOLE)
    assert executor.started == []


def test_variants_of_different_objectives_are_compared_by_squared_error(comparing: Compare, tmp_path: Path) -> None:
    """One held-out episode: all segments are it, in the runs' own metrics too. That none is played may be said."""
    write_store("local/one", pendulum_episodes(1)[:1])
    variants = {"plain": {}, "mixture": {"objective": "gmm"}, "chunk": {"objective": "action_chunk"}}
    options = {"validation": "local/one", "training.precision": "fp32", "evaluation.episodes": 0}
    comparison = comparing(**{**WHOLE, **options}, variants=variants)
    logged = {trial.variant: read_metrics(tmp_path / "runs" / trial.run)[-1] for trial in comparison.trials}
    for row in comparison.table():
        name = "validation_loss" if row["variant"] == "plain" else "validation_squared_error"
        assert row["held_out_squared_error"] == pytest.approx(logged[row["variant"]][name], rel=1e-4)
    assert "| held-out squared error |" in (tmp_path / "runs" / "comparison.md").read_text()


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"validation": None}, r"local/mine.*--validation"),
        ({"validation": "local/none"}, "local/none"),
        ({"validation": "local/mine"}, "validation local/mine"),
        ({"validation": "local/wide"}, "local/wide.*local/mine"),
        ({"validation": "local/short"}, "training.context 4"),
        ({"variants": {"a": {}, "b": {"validation": "local/mine"}}}, "variant b sets validation"),
    ],
)
def test_impossible_comparison_of_held_out_losses_is_refused(
    comparing: Compare, keys: dict[str, Any], named: str, tmp_path: Path
) -> None:
    write_store("local/wide", [replace(of, observations=np.zeros((9, 4))) for of in pendulum_episodes(1)])
    write_store("local/short", [Episode(np.zeros((4, 3)), np.zeros((3, 1)), np.zeros(3), False, True)])
    write_store("local/played", pendulum_episodes(2), "Pendulum-v1")
    with pytest.raises(InputError, match=named):
        comparing(executor := Inline(), **{"validation": "local/held-out", **keys})
    assert executor.started == []
    assert not (tmp_path / "runs" / "local-mine").exists()


LOSSES = {"mingru": [1.0, 1.1, 1.2, 1.3, 1.4], "lru": [0.2, 0.3, 0.2, 0.3, 0.2], "mlp": [2.0, 2.1, 2.0, 2.2, 2.1]}


def of_losses(seeds: int) -> Comparison:
    """A comparison of variants with the first of these held-out losses; mlp is a control."""
    unplayed: dict[str, Any] = {"targets": (), "action_microseconds": None}
    trials = [
        make_trial(label, 0, seed, held_out_loss=loss, **unplayed)
        for label, losses in LOSSES.items()
        for seed, loss in enumerate(losses[:seeds])
    ]
    held_out = HeldOut(dataset="local/held-out", fingerprint="b" * 64, episodes=9, steps=900, measure="loss")
    datasets = (replace(make_dataset(), targets=(), held_out=held_out),)
    return replace(of_trials(trials), episodes=0, checkpoint_episodes=0, datasets=datasets)


def test_lower_held_out_loss_is_better_in_rows_tables_and_page(tmp_path: Path) -> None:
    comparison = of_losses(5)
    write_comparison(tmp_path, comparison)
    assert read_comparison(tmp_path) == comparison
    welch = stats.ttest_ind(LOSSES["lru"], LOSSES["mingru"], equal_var=False)
    low, high = welch.confidence_interval()
    assert [row["significant"] for row in comparison.table()] == [None, True, True]
    cell = f"-0.96 [{low:+.4g}, {high:+.4g}], significantly lower"
    text = (tmp_path / "comparison.md").read_text()
    assert cell in text
    assert cell in write_page(tmp_path).read_text()
    (section,) = sections(comparison)
    assert section.finding.startswith("LRU has the lowest held-out loss: 0.24")
    assert "significantly higher: MLP" in section.finding
    assert "score" not in text.partition("## Method")[0].replace("[Scores](scores.svg)", "")
    assert "| LRU | 0.25 (0.2, 0.3) |" in str(of_losses(2))
