"""What an agent was trained on: shared by checkpoints, results and comparisons, which outlive the data."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from decision_rnn.data.spaces import spaces_of
from decision_rnn.data.spec import DatasetSpec, described_spaces
from decision_rnn.data.store import EpisodeStore
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.parsing import AUTO


@dataclass(frozen=True, kw_only=True)
class DataSummary(DatasetSpec):
    """Everything that evaluation and reports need to know about a dataset, without the data: its spec and its returns.

    Attributes:
        fingerprint: SHA-256 of its contents.
        return_mean: Mean of its episodes' returns, in the environment's units.
        return_sd: Their standard deviation.
        return_min: The lowest return.
        return_max: The highest return.
        longest_episode: The steps of its longest episode; None in files of version 0.2.
        time_limit: The steps after which its episodes were truncated, if most that were truncated have this length.
        notes: What a reader of the scores should know about the data, in sentences.
    """

    fingerprint: str
    return_mean: float
    return_sd: float
    return_min: float
    return_max: float
    longest_episode: int | None = None
    time_limit: int | None = None
    notes: tuple[str, ...] = ()
    target_returns: tuple[float, ...] = ()  # these two are not in all files of version 0.2
    return_scale: float = 1.0

    @classmethod
    def from_spec(cls, spec: DatasetSpec, **contents: Any) -> "DataSummary":
        """The summary of a dataset with this spec; `contents` are the attributes that a spec lacks."""
        return cls(**{**vars(spec), **contents})

    @classmethod
    def from_store(cls, spec: DatasetSpec, store: EpisodeStore) -> "DataSummary":
        """The summary of a dataset with this spec whose episodes are in this store."""
        statistics = store.manifest["statistics"]
        cut = store.episode_lengths[store.truncated & ~store.terminated]
        limit = int(cut.max()) if len(cut) and np.mean(cut == cut.max()) >= 0.5 else None
        return cls.from_spec(
            spec,
            fingerprint=store.fingerprint,
            environment_id=store.environment_id,
            spaces=described_spaces(*spaces_of(store)),
            longest_episode=int(store.episode_lengths.max()),
            time_limit=limit,
            notes=tuple(store.manifest["source"].get("notes", ())),
            **{name: statistics[name] for name in ("return_mean", "return_sd", "return_min", "return_max")},
        )

    @property
    def scale(self) -> str:
        """What scores of 0 and 100 are, in words: the data's lowest and highest return where the source gives no other
        references (`comparable` says so)."""
        if self.reference_min != self.return_min:
            return "0 is a random policy, 100 an expert"
        high = "its highest" if self.reference_max == self.return_max else f"a return of {self.reference_max:g}"
        return f"0 is the data's lowest return, 100 {high}"

    @property
    def score_mean(self) -> float:
        """Mean normalised score of the episodes."""
        return float(self.normalised(self.return_mean))

    def contains(self, target_return: float | None) -> bool | None:
        """Whether a return is inside the data's range; None without a return, and for `auto`."""
        return None if target_return in (None, AUTO) else self.return_min <= target_return <= self.return_max

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
