"""A summary of a dataset: a few lines of text, and a picture of its returns."""

from pathlib import Path

import numpy as np

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.layouts import Layout
from decision_rnn.data.warnings import warn_of_observations, warn_of_returns
from decision_rnn.environments.settings import check_environment
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import counted


def format_info(dataset: Dataset) -> str:
    """The summary: sizes, episode ends, returns, scores, their comparability, obstacles to evaluation, fingerprint."""
    spec, store = dataset.spec, dataset.store
    s, faults = store.statistics, list[str]()
    try:
        check_environment(store.environment_id, spec.requirements, spec.environment_settings)
    except InputError as error:
        faults.append(str(error))
    terminated, truncated = store.terminated, store.truncated
    ends = {"terminated": terminated, "truncated": truncated, "both": terminated & truncated}
    ends["partial (neither)"] = ~(terminated | truncated)
    mean, low, high = (float(spec.normalised(s[key])) for key in ("return_mean", "return_min", "return_max"))
    sizes = f"{counted(store.observation_dim, 'observation')}, {counted(store.action_dim, 'action')}"
    spaces = {"observation": store.observation_space, "action": store.action_space}
    rows = [
        ("environment", f"{store.environment_id or 'none'}: {sizes}"),
        *((kind, " ".join(str(s).split())) for kind, s in spaces.items() if not Layout.of_space(s, kind).flat),
        *((kind, ", ".join(names)) for kind, names in store.source.get("columns", {}).items()),
        ("steps", f"{store.steps:,}"),
        ("episodes", f"{len(store):,}, of {s['length_mean']:.0f} ± {s['length_sd']:.0f} steps"),
        ("ends", ", ".join(f"{flags.sum()} {end}" for end, flags in ends.items())),
        ("return", f"{s['return_mean']:.1f} ± {s['return_sd']:.1f}, {s['return_min']:.1f} to {s['return_max']:.1f}"),
        ("score", f"{mean:.1f}, {low:.1f} to {high:.1f} (0 is {spec.reference_min:g}, 100 is {spec.reference_max:g})"),
        ("scale", spec.score_meaning),
        ("compare", spec.comparable),
        *(("evaluate", fault) for fault in faults),
        *(("warning", warning) for warning in (*warn_of_observations(store), *warn_of_returns(store))),
        ("fingerprint", store.fingerprint),
        ("store", str(store.path)),
        *(("note", note) for note in store.source.get("notes", [])),
    ]
    return "\n".join([spec.name, *(f"  {key:<12} {value}" for key, value in rows)])


def format_size(dataset: Dataset) -> str:
    """The numbers of episodes and steps, the range of returns and the folder, in a line."""
    store = dataset.store
    size, returns = f"{counted(len(store), 'episode')}, {counted(store.steps, 'step')}", store.episode_returns
    return f"{dataset.name}: {size}, returns {returns.min():.4g} to {returns.max():.4g}, in {store.path}"


def plot_returns(name: str, returns: np.ndarray, lengths: np.ndarray, path: Path) -> None:
    """Plot a dataset: a histogram of its episodes' returns, and return over length.

    Args:
        name: The dataset's name.
        returns: (episodes,), undiscounted.
        lengths: (episodes,), in steps.
        path: The PNG file to write.
    """
    from matplotlib.figure import Figure  # heavy

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.hist(returns, bins=50, color="C0")
    left.axvline(float(returns.mean()), color="0.3", linestyle="--", linewidth=1, label=f"mean {returns.mean():.0f}")
    left.set_xlabel("return of an episode")
    left.set_ylabel("episodes")
    left.legend(frameon=False, fontsize=8)
    right.plot(lengths, returns, ".", markersize=2, alpha=0.4, color="C0")
    right.set_xlabel("length in steps")
    right.set_ylabel("return")
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{name}: {len(returns)} episodes, {lengths.sum():,} steps", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
