"""The score of an agent on held-out episodes: how well it predicts their actions, beside references without a network.

At every step the agent has the recorded history: true observations, actions and rewards (teacher forcing).
"""

import copy
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium.spaces import Box
from torch import Tensor

from decision_rnn.agent import DecisionAgent
from decision_rnn.agent.conditions.return_to_go import ReturnToGo
from decision_rnn.agent.network import RESOLUTION
from decision_rnn.backbones import State
from decision_rnn.config import RunConfig
from decision_rnn.data.dataset import as_dataset, is_ready, open_dataset
from decision_rnn.data.hindsight import GoalEntries, HindsightGoals
from decision_rnn.data.limits import return_to_go_limits
from decision_rnn.data.store import EpisodeStore, top_episodes
from decision_rnn.data.stream import Batch
from decision_rnn.evaluation.actor import prepare_to_act
from decision_rnn.evaluation.statistics import Estimate, estimate_score
from decision_rnn.runs.checkpoint import TrainedAgent
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.files import check_destination
from decision_rnn.utils.messages import align_columns, pluralize, warn

AGENT = "agent"
"""The name of the agent among what predicts the actions."""
GROUP, CHUNK, BLOCK = 64, 256, 1 << 16
"""Episodes and steps that are predicted at once, and steps of a regression."""
SINGULAR = 1e-10
"""Singular values of the normal equations below this share of the largest count as zero."""
STILL = 0.005
"""The share of the width of the action box up to which the standard deviation of an entry is that of a constant."""
MOST_PANELS = 6
"""How many of the worst entries are plotted."""


@dataclass(frozen=True, kw_only=True)
class HeldOutScore:
    """The errors of an agent, and of references, in predicting the actions of held-out episodes.

    The error of a Box action is its squared difference from the recorded one, which may be outside the action box; that
    of a discrete action is 1 where another choice was recorded. The score of an entry is 1 - error / variance, and
    `score` its mean over the entries that vary: R2, as scikit-learn's `r2_score`, with the variance of the held-out
    actions about their own mean, so that the mean of the training actions scores below 0 by how far it is off. Discrete
    actions have variance 1, which makes it the accuracy.

    Attributes:
        agent: The agent's backbone and dataset.
        step: Its training step.
        dataset: The name of the held-out episodes, or their path.
        fingerprint: Of the held-out episodes.
        measure: What `score` is.
        entries: The names of the action entries, or of the sub-actions of a MultiDiscrete action.
        steps: (episodes,), the length of every episode.
        variance: (entries,), 0 for entries in no score, which are constant in the held-out episodes: their standard
            deviation is at most `STILL` of the width of the action box.
        errors: By predictor, (episodes, entries), the mean error over the steps of every episode; the predictors are
            `agent`, `linear regression`, `mean action` and `previous action`, the latter three if the training data are
            at hand.
    """

    agent: str
    step: int
    dataset: str
    fingerprint: str
    measure: Literal["R2", "accuracy"]
    entries: tuple[str, ...]
    steps: tuple[int, ...]
    variance: tuple[float, ...]
    errors: dict[str, tuple[tuple[float, ...], ...]]

    def entry_scores(self, predictor: str = AGENT) -> np.ndarray:
        """(entries,), the score of every entry; NaN for constant ones."""
        errors = np.average(self.errors[predictor], axis=0, weights=self.steps)
        return 1 - errors / np.where(self.variance, self.variance, np.nan)

    def episode_errors(self, predictor: str = AGENT) -> np.ndarray:
        """(episodes,), the mean of error / variance over the steps and entries of every episode, without constant
        ones."""
        varying = np.flatnonzero(self.variance)
        relative = np.array(self.errors[predictor])[:, varying] / np.array(self.variance)[varying]
        return relative.mean(axis=1) if varying.size else np.full(len(self.steps), np.nan)

    def score(self, predictor: str = AGENT) -> float:
        """The mean score over entries; NaN if all are constant."""
        return self.estimate(predictor).value

    def estimate(self, predictor: str = AGENT) -> Estimate:
        """`score` with a 95% interval over episodes, from five on."""
        return estimate_score(self.episode_errors(predictor)[None], self.steps)

    def __str__(self) -> str:
        size = f"{pluralize(len(self.steps), 'episode')}, {pluralize(sum(self.steps), 'step')}"
        estimates = [self.estimate(predictor) for predictor in self.errors]
        intervals = ["" if each.low is None else f"[{each.low:z.3f}, {each.high:z.3f}]" for each in estimates]
        rows = [["", *self.errors], [self.measure, *(f"{each.value:z.3f}" for each in estimates)]]
        rows.append(["95% interval", *intervals])
        scores = [self.entry_scores(predictor) for predictor in self.errors]
        for entry, name in enumerate(self.entries if len(self.entries) > 1 else ()):
            cells = [f"{values[entry]:z.3f}" for values in scores]
            rows.append([name, *(cells if self.variance[entry] else ["constant"] * len(cells))])
        return "\n".join([f"{self.agent}, step {self.step}: actions of {self.dataset}, {size}", *align_columns(rows)])

    __repr__ = __str__  # as a notebook shows it


def held_out_score(
    trained: TrainedAgent, episodes: EpisodeStore, data: EpisodeStore | None = None, references: bool = True
) -> HeldOutScore:
    """Score an agent by how well it predicts the actions of held-out episodes.

    Actions are those that the agent would take in evaluation: the mean or the mode of their distribution, the first of
    a chunk. It is conditioned as in training: on the recorded return-to-go, or on goals in hindsight.

    Args:
        trained: The agent.
        episodes: The held-out episodes.
        data: The episodes that it was trained on; without them there are no references.
        references: Whether the references are scored too.

    Raises:
        InputError: If the episodes have observations or actions of other sizes than the agent's, or it predicts actions
            that are not finite.
    """
    agent = trained.agent
    sizes = agent.observation_layout.size, agent.action_dim
    episodes.check_entries("the agent", sizes, trained.observation_names, trained.provenance.action_names)
    predictions = {AGENT: predict_actions(trained, episodes, data)}
    if not np.isfinite(predictions[AGENT]).all():
        raise InputError(f"the actions that the agent predicts for {episodes.name or episodes.path} are not finite.")
    if references and data is not None:
        predictions |= reference_actions(trained, episodes, data)
    return score_predictions(trained, episodes, predictions)


def score_predictions(
    trained: TrainedAgent, episodes: EpisodeStore, predictions: dict[str, np.ndarray]
) -> HeldOutScore:
    """The score of predicted actions (steps, A), by predictor; of the agent only its spaces matter."""
    agent = trained.agent
    continuous, recorded = isinstance(agent.action_space, Box), episodes.actions
    errors = {}
    for predictor, actions in predictions.items():
        differences = _values(agent, actions) - _values(agent, recorded)
        by_step = np.square(differences, dtype=np.float64) if continuous else differences != 0
        sums = np.add.reduceat(by_step, episodes.offsets[:-1], dtype=np.float64)
        errors[predictor] = tuple(map(tuple, (sums / episodes.episode_lengths[:, None]).tolist()))
    mean, std = recorded.mean(axis=0, dtype=np.float64), recorded.std(axis=0, dtype=np.float64)
    width = (agent.action_scale.high - agent.action_scale.low).cpu().numpy()
    variance = np.where(std > np.maximum(RESOLUTION * np.abs(mean), STILL * width), std**2, 0.0)
    names = episodes.action_names
    count = len(differences[0])
    return HeldOutScore(
        agent=f"{trained.config.backbone.name} on {trained.provenance.name}",
        step=trained.step,
        dataset=episodes.name or str(episodes.path),
        fingerprint=episodes.fingerprint,
        measure="R2" if continuous else "accuracy",
        entries=tuple(names) if len(names) == count else tuple(f"action {entry}" for entry in range(count)),
        steps=tuple(episodes.episode_lengths.tolist()),
        variance=tuple(variance.tolist()) if continuous else (1.0,) * count,
        errors=errors,
    )


def score_run(trained: TrainedAgent, name: Any, plot: Path | str | None = None) -> HeldOutScore:
    """`held_out_score` on the dataset `name`, of whose episodes a run takes the same `top_fraction` as of its own, with
    references if its own dataset is there and unchanged; `plot` is the file of a figure.

    Raises:
        InputError: If the dataset is not available, or of another task, or the figure cannot be written.
    """
    config, data, figure = trained.config, None, None if plot is None else Path(plot)
    if figure is not None:
        check_destination(figure)
    episodes = top_episodes(as_dataset(name, partial=config.partial).store, config.top_fraction)
    try:
        if not is_ready(config.dataset):
            raise InputError(f"{config.dataset} is not on this machine; `decision-rnn data info` makes it")
        store = open_dataset(config.dataset, config.path, config.partial).store
        if store.fingerprint != trained.provenance.fingerprint:
            raise InputError(f"{config.dataset} has other contents than in training")
        data = top_episodes(store, config.top_fraction)
    except InputError as error:
        warn(f"the held-out score has no references: {error}")
    score = held_out_score(trained, episodes, data)
    if not any(score.variance):
        warn(
            f"warning: the actions of {score.dataset} vary by less than {STILL:.1%} of the action box, so that R2 is "
            "not defined: give them the unit of the training data"
        )
    if figure is not None:
        plot_held_out(score, trained, episodes, data, figure)
    return score


@torch.inference_mode()
def predict_actions(trained: TrainedAgent, episodes: EpisodeStore, data: EpisodeStore | None = None) -> np.ndarray:
    """The agent's action at every recorded step, (steps, A), with the history up to there, as `evaluation.inference`
    has it; arguments as for `held_out_score`.

    Returns-to-go are limited as in training, which is known from `data`; without them, as in acting.
    """
    agent, settings, steps = prepare_to_act(trained.agent), trained.config.evaluation, _steps(trained.config, episodes)
    condition = agent.condition
    if isinstance(condition, ReturnToGo) and condition.acting_limit is not None and condition.training_limit is None:
        condition.training_limit = condition.acting_limit
        if data is not None:
            _, limit = return_to_go_limits(data, getattr(trained.config.condition, "rtg_quantile", 1.0))
            condition.training_limit = torch.from_numpy(limit).float()

    def predict(index: np.ndarray, state: State | None = None) -> tuple[np.ndarray, State]:
        """Actions at the steps (batch, time) of segments, as in `PolicyNetwork.forward`, and the state after them."""
        batch = Batch(*(values[torch.from_numpy(index)] for values in steps))
        value = condition.from_batch(batch)
        tokens = agent.embed(value, batch.observation, batch.previous_action, batch.timestep)
        hidden, state = agent.run_backbone(tokens, batch.reset, state)
        action = agent.select_actions(value, hidden)
        return agent.to_environment_actions(action, batch.previous_action, batch.timestep).numpy(), state

    actions, first, lengths = np.empty_like(episodes.actions), episodes.offsets[:-1], episodes.episode_lengths
    if settings.inference == "window":  # a segment for every step, its last one
        firsts = np.repeat(first, lengths)[:, None]
        segments = np.maximum(np.arange(episodes.steps)[:, None] + np.arange(1 - settings.window, 1), firsts)
        for start in range(0, episodes.steps, GROUP * CHUNK // settings.window + 1):
            rows = slice(start, start + GROUP * CHUNK // settings.window + 1)
            actions[rows] = predict(segments[rows])[0][:, -1]
        return actions
    for group in np.array_split(np.argsort(lengths, kind="stable"), math.ceil(len(lengths) / GROUP)):
        longest, state = lengths[group].max(), None
        for start in range(0, longest, CHUNK):
            time = np.arange(start, min(start + CHUNK, longest))
            present = time < lengths[group, None]
            index = first[group, None] + np.minimum(time, lengths[group, None] - 1)  # repeats an episode's last step
            predicted, state = predict(index, state)
            actions[index[present]] = predicted[present]
    return actions


@torch.inference_mode()
def reference_actions(trained: TrainedAgent, episodes: EpisodeStore, data: EpisodeStore) -> dict[str, np.ndarray]:
    """Actions (steps, A) of predictors without a network, by name, fitted on the training data: least squares from the
    normalised observation entries that the agent reads, with intercept; the mean action; the recorded action of the
    step before, at an episode's first step the mean one. Discrete actions are one-hot, of which the largest entry
    decides."""
    encoder = copy.deepcopy(trained.agent.encoder).cpu()
    training, recorded = _steps(trained.config, data), _steps(trained.config, episodes)

    def inputs(observation: Tensor) -> Tensor:
        return F.pad(encoder(observation).double(), (1, 0), value=1.0)

    blocks = zip(training.observation.split(BLOCK), training.action.split(BLOCK), strict=True)
    pairs = ((inputs(observation), action.double()) for observation, action in blocks)
    products = torch.stack([x.T @ torch.cat([x, y], dim=1) for x, y in pairs]).sum(0)
    gram, moments = products.split([encoder.features + 1, data.action_dim], dim=1)
    weights = torch.linalg.lstsq(gram, moments, rcond=SINGULAR, driver="gelsd").solution
    mean = training.action.double().mean(0)
    return {
        "linear regression": torch.cat(
            [inputs(block) @ weights for block in recorded.observation.split(BLOCK)]
        ).numpy(),
        "mean action": mean.expand(episodes.steps, -1).numpy(),
        "previous action": torch.where(recorded.reset[:, None], mean, recorded.previous_action.double()).numpy(),
    }


def plot_held_out(
    score: HeldOutScore, trained: TrainedAgent, episodes: EpisodeStore, data: EpisodeStore | None, path: Path
) -> None:
    """Plot predicted and recorded actions over the held-out episode of median error, the worst entries first.

    Args:
        score: The score of the agent.
        trained, episodes, data: As for `held_out_score`.
        path: The file, such as a PNG.
    """
    from matplotlib.figure import Figure  # heavy

    order, scores = np.argsort(score.episode_errors()), score.entry_scores()
    number = int(order[(len(order) - 1) // 2])
    episode = episodes.select(np.arange(len(episodes)) == number)
    lines = {"recorded": episode.actions, "predicted": predict_actions(trained, episode, data)}
    entries = np.argsort(scores)[:MOST_PANELS]  # constant ones last
    figure = Figure(figsize=(9, 1 + 1.5 * len(entries)), layout="constrained")
    for entry, panel in zip(entries, figure.subplots(len(entries), squeeze=False, sharex=True)[:, 0], strict=True):
        for (label, actions), color in zip(lines.items(), ("0.45", "C0"), strict=True):
            panel.plot(_values(trained.agent, actions)[:, entry], color=color, label=label)
        title = f"{score.entries[entry]}, {score.measure} of all episodes {scores[entry]:z.3f}"
        panel.set_title(title, loc="left", fontsize=9)
        panel.spines[["top", "right"]].set_visible(False)
    figure.axes[0].legend(frameon=False, fontsize=8, ncols=2, loc="lower right", bbox_to_anchor=(1, 1))
    figure.axes[-1].set_xlabel("step")
    title = f"{score.agent}, step {score.step}: episode {number} of {score.dataset}, of median error per step"
    figure.suptitle(title, fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format=path.suffix[1:] or "png", dpi=120)


def _steps(config: RunConfig, store: EpisodeStore) -> Batch:
    """All steps of a store, (steps, ...), with goals in hindsight as training draws them, but for random ones."""
    table = torch.from_numpy(store.table)
    columns = {name: table[:, entries] for name, entries in store.columns.items()}
    columns |= {"reward": columns["reward"][:, 0], "timestep": columns["timestep"][:, 0].long()}
    columns["reset"] = columns["reset"][:, 0] > 0
    steps = Batch(**columns, subgoal=table[:, :0])
    if config.training.goal_relabeling != "hindsight":
        return steps
    entries = GoalEntries.of_space(store.observation_space, store.name or str(store.path))
    context = min(1000, store.steps)
    start = torch.arange(0, store.steps, context).clamp_max(store.steps - context)
    generator = torch.Generator().manual_seed(0)
    ahead = config.subgoal_steps
    goals = HindsightGoals(store, entries, len(start), generator, config.goal_discount, subgoal_steps=ahead)
    index = start[:, None] + torch.arange(context)
    goal, remaining, subgoals = goals.draw(start, steps.reset[index], None, context)
    observation, to_go = steps.observation.clone(), steps.return_to_go.clone()
    observation[index, entries.desired] = goals.achieved[goal]
    to_go[index] = -remaining.unsqueeze(-1).to(to_go)
    subgoal = torch.empty_like(observation[:, entries.achieved])
    subgoal[index] = goals.achieved[subgoals]
    return steps._replace(observation=observation, return_to_go=to_go, subgoal=subgoal)


def _values(agent: DecisionAgent, rows: np.ndarray) -> np.ndarray:
    """The entries of actions (steps, entries): numbers, or choices as the action space numbers them."""
    return agent.action_layout.values(rows).reshape(len(rows), -1)
