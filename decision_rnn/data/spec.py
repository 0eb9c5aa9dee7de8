"""The spec of a dataset: everything that evaluation and reports need to know about it, without the data."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np

from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.spaces import described_spaces, read_spaces
from decision_rnn.environments.tasks import task_of

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"
"""The entries of observations of Gymnasium-Robotics' `GoalEnv`."""
D4RL_REFERENCES = (
    "the dataset defines no reference scores, so D4RL's for the same task are used; do not compare with scores on "
    "D4RL's data"
)


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """The evaluation environment, reference scores, target returns and contents of a dataset, as its source states.

    Checkpoints, results and comparisons hold it, since they outlive the data.

    Attributes:
        name: The full name, including the source.
        environment_id: The Gymnasium id of the environment; None for data of no environment, such as a robot's, on
            which agents are trained but not evaluated.
        reference_min: The return that scores 0.
        reference_max: The return that scores 100.
        score_meaning: What scores of 0 and 100 mean, in words.
        comparable: Where the references come from, and which scores may be compared with.
        target_returns: The target returns of evaluation.
        return_scale: Divides returns-to-go, as in the Decision Transformer (Chen et al. 2021, appendix A).
        spaces: The spaces of an observation and an action in Minari's JSON; `observation_space` and `action_space` are
            the same as objects.
        fingerprint: SHA-256 of the data.
        return_mean: Mean of the episodes' undiscounted returns; `return_sd`, `return_min` and `return_max` likewise.
        longest_episode: The steps of the longest episode.
        notes: What a reader of the scores should know about the data, in sentences.
        requirements: The packages that the dataset declares for its environment, in pip's syntax.
        environment_settings: Its settings of the environment besides the id (`kwargs`, `max_episode_steps`,
            `additional_wrappers`), None if it gives none. Both are read from third-party files and are checked by
            `check_environment`.
        tasks: The number of tasks; `reset(seed=s)` begins task s % tasks.
        observation_names: The names of the entries of an observation, as in a log; empty if there are none.
        action_names: The names of the numbers of an action, of choices not one-hot, likewise.
    """

    name: str
    environment_id: str | None
    reference_min: float
    reference_max: float
    score_meaning: str
    comparable: str
    target_returns: tuple[float, ...]
    return_scale: float
    spaces: dict[str, str]
    fingerprint: str
    return_mean: float
    return_sd: float
    return_min: float
    return_max: float
    longest_episode: int | None = None
    notes: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    environment_settings: dict[str, Any] | None = None
    tasks: int = 1
    observation_names: tuple[str, ...] = ()
    action_names: tuple[str, ...] = ()

    @cached_property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The space of an observation."""
        return read_spaces(self.spaces)[0]

    @cached_property
    def action_space(self) -> gymnasium.Space[Any]:
        """The space of an action; every entry of a box has finite bounds."""
        return read_spaces(self.spaces)[1]

    @property
    def score_mean(self) -> float:
        """Mean normalised score of the episodes."""
        return float(self.normalised(self.return_mean))

    def normalised(self, returns: np.ndarray | float) -> np.ndarray:
        """The scores of returns: 0 is `reference_min`, 100 `reference_max` (Fu et al., "D4RL", 2020)."""
        span = self.reference_max - self.reference_min
        return 100.0 * (np.asarray(returns, np.float64) - self.reference_min) / span

    def contains(self, target_return: float | None) -> bool | None:
        """Whether a return is inside the data's range; None without a return, and for `auto`, which is infinite."""
        if target_return is None or target_return == math.inf:
            return None
        return self.return_min <= target_return <= self.return_max


def spec_of_store(name: str, store: EpisodeStore, **stated: Any) -> DatasetSpec:
    """The spec of a dataset, read from its store, except for the fields that its source states.

    The references are the store's own if it has any, otherwise D4RL's if the task is in `TASKS`, otherwise the lowest
    and highest return in the data. The target returns are the task's, otherwise the highest and the median return in
    the data.
    """
    statistics = store.statistics
    low, high = statistics["return_min"], statistics["return_max"]
    largest, highest = max(abs(low), abs(high)), "its highest"
    if store.equal_returns:
        high = low + (largest or 1.0)
        highest = f"a return of {high:g}"
    fields: dict[str, Any] = {
        "environment_id": store.environment_id,
        "reference_min": low,
        "reference_max": high,
        "score_meaning": f"0 is the data's lowest return, 100 {highest}",
        "comparable": "scores are scaled to these data alone and are not comparable with published ones",
        "target_returns": (statistics["return_max"], float(np.percentile(store.episode_returns, 50))),
        "return_scale": largest / 3 or 1.0,  # as Hopper's 3600 is divided by 1000 in the Decision Transformer
        "spaces": described_spaces(store.observation_space, store.action_space),
        "fingerprint": store.fingerprint,
        **{key: statistics[key] for key in ("return_mean", "return_sd", "return_min", "return_max")},
        "longest_episode": int(store.episode_lengths.max()),
        "notes": tuple(store.source.get("notes", ())),
        "requirements": tuple(store.source.get("requirements", ())),
        "environment_settings": store.source.get("environment_settings"),
        "observation_names": tuple(store.entry_names("observations")),
        "action_names": tuple(store.action_names),
    }
    if task := task_of(store.environment_id):
        fields |= {**task.scores(), "comparable": D4RL_REFERENCES}
    if references := store.source.get("reference_scores"):
        fields |= {
            "reference_min": references[0],
            "reference_max": references[1],
            "score_meaning": f"0 is a return of {references[0]:g}, 100 one of {references[1]:g}, as the dataset states",
            "comparable": "the reference scores are the dataset's own: compare with scores on the same dataset",
        }
    return DatasetSpec(name=name, **{**fields, **stated})
