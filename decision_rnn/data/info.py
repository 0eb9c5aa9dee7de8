"""What a dataset holds: a summary, a picture of its returns, and warnings about valid but harmful data."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from gymnasium.spaces import Box, Dict

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.spec import ACHIEVED, DESIRED
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.layouts import Layout, numbered
from decision_rnn.environments.registry import check_environment
from decision_rnn.environments.spaces import share_outside
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import counted

SHOWN = 5
"""The most entries that a sentence names."""
UNRESOLVED = 2.0**20
"""Around a value this large, such as a Unix time, float32 holds no changes of a sixteenth and less."""
LEVELS = 8
"""An entry whose standard deviation is below this many steps of float32 is taken to have lost its changes."""


def format_info(dataset: Dataset) -> str:
    """The summary: sizes, episode ends, returns, scores, their comparability, obstacles to evaluation, fingerprint."""
    spec, store, s = dataset.spec, dataset.store, dataset.store.statistics
    faults = list[str]()
    try:
        check_environment(store.environment_id, spec.requirements, spec.environment_settings)
    except InputError as error:
        faults.append(str(error))
    terminated, truncated = store.terminated, store.truncated
    ends = {"terminated": terminated, "truncated": truncated, "both": terminated & truncated}
    ends["partial (neither)"] = ~(terminated | truncated)
    mean, low, high = (float(spec.normalised(s[key])) for key in ("return_mean", "return_min", "return_max"))
    digits = ".1f" if np.abs(store.episode_returns).max() >= 10 else ".4g"  # rewards may be in any unit
    returns = (format(s[f"return_{key}"], digits) for key in ("mean", "sd", "min", "max"))
    sizes = f"{counted(store.observation_dim, 'observation')}, {counted(store.action_dim, 'action')}"
    spaces = {"observation": store.observation_space, "action": store.action_space}
    rows = [
        ("environment", f"{store.environment_id or 'none'}: {sizes}"),
        *((kind, " ".join(str(s).split())) for kind, s in spaces.items() if not Layout.of_space(s, kind).flat),
        *((kind, ", ".join(names)) for kind, names in store.source.get("columns", {}).items()),
        ("steps", f"{store.steps:,}"),
        ("episodes", f"{len(store):,}, of {s['length_mean']:.0f} ± {s['length_sd']:.0f} steps"),
        ("ends", ", ".join(f"{flags.sum()} {end}" for end, flags in ends.items())),
        ("return", "{} ± {}, {} to {}".format(*returns)),
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


def plot_returns(dataset: Dataset, path: Path) -> None:
    """Plot a dataset into a PNG file: a histogram of its episodes' returns, and return over length."""
    from matplotlib.figure import Figure  # heavy

    returns, lengths = dataset.store.episode_returns, dataset.store.episode_lengths
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.hist(returns, bins=50, color="C0")
    left.axvline(float(returns.mean()), color="0.3", linestyle="--", linewidth=1, label=f"mean {returns.mean():.4g}")
    left.set(xlabel="return of an episode", ylabel="episodes")
    left.legend(frameon=False, fontsize=8)
    right.plot(lengths, returns, ".", markersize=2, alpha=0.4, color="C0")
    right.set(xlabel="length in steps", ylabel="return")
    for panel in (left, right):
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{dataset.name}: {len(returns)} episodes, {lengths.sum():,} steps", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def warn_of_observations(store: EpisodeStore, visible: np.ndarray | None = None) -> Iterator[str]:
    """Sentences on the observation entries that never change, and on those whose changes float32 does not hold.

    Args:
        store: The dataset.
        visible: The indices of the observation entries that the agent sees; None for all.
    """
    layout = Layout.of_space(store.observation_space, "observations")
    entries = np.arange(store.observation_dim) if visible is None else visible
    entries = entries[~layout.categorical[entries]]  # a choice may well never be made
    names = store.entry_names("observations") or layout.names
    mean, std = np.abs(store.observation_mean[entries]), store.observation_std[entries]
    lost = (mean >= UNRESOLVED) & (std < LEVELS * np.spacing(mean.astype(np.float32)))
    expected = store.source.get("constant_entries", ())  # constant in the environment too
    constant = (std == 0) & ~lost & ~np.isin(entries, expected)
    if constant.any():
        yield (
            f"{_named(entries[constant], names)} of the observations never changes in the data; the agent has never "
            "seen another value, so drop this entry if it can change when the agent acts"
        )
    if lost.any():
        yield (
            f"{_named(entries[lost], names)} of the observations is around {mean[lost].max():.3g}, where float32 loses "
            "its changes; subtract the first value, as from a Unix time"
        )


def warn_of_returns(store: EpisodeStore) -> Iterator[str]:
    """A sentence if all episodes have the same return."""
    returns, space = store.episode_returns, store.observation_space
    goals = isinstance(space, Dict) and {ACHIEVED, DESIRED} <= set(space.spaces)
    remedy = "--training.goal_relabeling hindsight" if goals else "--condition none, or add other episodes"
    if len(returns) > 1 and store.equal_returns:
        yield (
            f"all {len(returns):,} episodes have the return {returns[0]:g}, so a target return carries no information; "
            f"train with {remedy}"
        )


def warn_of_actions(store: EpisodeStore) -> Iterator[str]:
    """Sentences on entries that fill little of their bounds, and on the box to which actions are scaled, unless it is
    [-1, 1] and holds all of them."""
    box = store.action_space
    if not isinstance(box, Box):
        return
    outside, extent = share_outside(store.actions, box), np.ptp(store.actions, axis=0)
    narrow = np.flatnonzero((extent > 0) & (extent < (box.high - box.low).ravel() / 10))
    if narrow.size:
        yield (
            f"{_named(narrow, store.entry_names('actions'))} of the actions fills less than a tenth of its bounds "
            "and is learnt badly, since actions are scaled to their bounds: give tighter bounds, or no action space"
        )
    if (box.low == -1).all() and (box.high == 1).all() and not outside:
        return
    fixed = np.flatnonzero(box.low.ravel() == box.high.ravel())
    origin = ", their range in the data" if store.stated_spaces[1] is None else ""
    alone = (
        f"; {_named(fixed, store.entry_names('actions'))} has a single value and is held at it" if len(fixed) else ""
    )
    clipped = f"; in {outside:.1%} of the steps an action is outside and is clipped" if outside else ""
    yield f"actions are scaled from {box.low.min():.3g} to {box.high.max():.3g}{origin}{alone}{clipped}"


def _named(entries: np.ndarray, names: Sequence[str | None]) -> str:
    """`entry 3 (velocity)`, or `each of the entries 3, 5 (angle) and 12 more`; `names` are those of all entries."""
    listed = [numbered(entry, names) for entry in entries[:SHOWN]]
    if len(entries) == 1:
        return f"entry {listed[0]}"
    more = f" and {len(entries) - SHOWN} more" if len(entries) > SHOWN else ""
    return f"each of the entries {', '.join(listed)}{more}"
