"""What an agent was trained on: shared by checkpoints, results and comparisons, which outlive the data."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from decision_rnn.data.spec import DatasetSpec, flat_spaces, normalised_scores
from decision_rnn.data.store.episode_store import EpisodeStore
from decision_rnn.errors import InputError


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """Everything that evaluation and reports need to know about a dataset, without the data.

    Attributes:
        name: The dataset's name.
        fingerprint: SHA-256 of its contents.
        environment_id: The environment that agents are evaluated in.
        return_mean: Mean of its episodes' returns, in the environment's units.
        return_sd: Their standard deviation.
        return_min: The lowest return.
        return_max: The highest return.
        reference_min: The return that scores 0.
        reference_max: The return that scores 100.
        comparable: Where the reference scores come from, and which scores may be compared, in a sentence.
        target_returns: The dataset's own target returns; empty if read from a file of version 0.2 other than a
            checkpoint.
        requirements: As in `DatasetSpec`.
        environment_settings: As in `DatasetSpec`.
        spaces: As in `DatasetSpec`; None in files of version 0.2.
        notes: What a reader of the scores should know about the data, in sentences.
    """

    name: str
    fingerprint: str
    environment_id: str
    return_mean: float
    return_sd: float
    return_min: float
    return_max: float
    reference_min: float
    reference_max: float
    comparable: str
    target_returns: tuple[float, ...] = ()
    requirements: tuple[str, ...] = ()
    environment_settings: dict[str, Any] | None = None
    spaces: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def from_spec(cls, spec: DatasetSpec, **contents: Any) -> "DataSummary":
        """The summary of a dataset with this spec; `contents` are the attributes that a spec lacks."""
        shared = {field.name: getattr(spec, field.name) for field in fields(cls) if hasattr(spec, field.name)}
        return cls(**{**shared, **contents})

    @classmethod
    def from_store(cls, spec: DatasetSpec, store: EpisodeStore) -> "DataSummary":
        """The summary of a dataset with this spec whose episodes are in this store."""
        statistics = store.manifest["statistics"]
        return cls.from_spec(
            spec,
            fingerprint=store.fingerprint,
            environment_id=store.environment_id,
            spaces=flat_spaces(store.observation_dim, store.action_dim),
            notes=tuple(store.manifest["source"].get("notes", ())),
            **{name: statistics[name] for name in ("return_mean", "return_sd", "return_min", "return_max")},
        )

    @property
    def score_mean(self) -> float:
        """Mean normalised score of the episodes."""
        return float(self.normalised(self.return_mean))

    def normalised(self, returns: np.ndarray | float) -> np.ndarray:
        """Normalised scores of returns, by `normalised_scores`."""
        return normalised_scores(returns, self.reference_min, self.reference_max)

    def contains(self, target_return: float | None) -> bool | None:
        """Whether a return is inside the data's range; None without a return."""
        return None if target_return is None else self.return_min <= target_return <= self.return_max

    def check_contents(self, store: EpisodeStore, subject: object, remedy: str) -> None:
        """InputError if the store has other contents than those trained on.

        Args:
            store: The current dataset.
            subject: What was trained on the dataset, for the message.
            remedy: What to do about it, for the message.
        """
        if store.fingerprint != self.fingerprint:
            raise InputError(
                f"{subject} was trained on other contents of {self.name} (fingerprint {self.fingerprint[:12]}, "
                f"now {store.fingerprint[:12]}): {remedy}"
            )
