"""What a dataset holds: a summary, and warnings about valid but harmful data."""

from collections.abc import Iterator, Sequence

import numpy as np
from gymnasium.spaces import Box, Dict

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.entries import format_entries
from decision_rnn.data.logs import SHOWN, listed
from decision_rnn.data.spec import ACHIEVED, DESIRED
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.layouts import Layout, numbered
from decision_rnn.environments.registry import check_environment
from decision_rnn.environments.spaces import share_outside
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import counted

UNRESOLVED = 2.0**20
"""Around a value this large, such as a Unix time, float32 holds no changes of a sixteenth and less."""
LEVELS = 8
"""An entry whose standard deviation is below this many steps of float32 is taken to have lost its changes."""
REACH = 4
"""Held-out values this many times as far beyond the training range as training episodes differ in reach are reported:
e^-4 of those that leave it where the tail is exponential, and fewer where it is lighter."""
COPIED = 0.98
"""The R2 of repeating the previous action from which a log is too fast: that of a sine of 44 steps a period."""


def format_info(dataset: Dataset) -> str:
    """The summary: sizes, episode ends, returns, scores, their comparability, obstacles to evaluation, fingerprint; and
    a table of the entries."""
    spec, store, s = dataset.spec, dataset.store, dataset.store.statistics
    faults = list[str]()
    if store.environment_id:
        try:
            check_environment(store.environment_id, spec.requirements, spec.environment_settings)
        except InputError as error:
            faults.append(str(error))
    terminated, truncated = store.terminated, store.truncated
    ends = {"terminated": terminated, "truncated": truncated, "both": terminated & truncated}
    ends["partial (neither)"] = ~(terminated | truncated)
    digits = ".1f" if np.abs(store.episode_returns).max() >= 10 else ".4g"  # rewards may be in any unit
    returns = (format(s[f"return_{key}"], digits) for key in ("mean", "sd", "min", "max"))
    sizes = f"{counted(store.observation_dim, 'observation')}, {counted(store.action_dim, 'action')}"
    columns = store.source.get("columns", {}).items()
    spaces = {"observation": store.observation_space, "action": store.action_space}
    scores = []
    if store.environment_id and not (store.equal_returns and spec.reference_min == s["return_min"]):
        mean, low, high = (float(spec.normalised(s[key])) for key in ("return_mean", "return_min", "return_max"))
        references = f"0 is {spec.reference_min:g}, 100 is {spec.reference_max:g}"
        scores = [("score", f"{mean:.1f}, {low:.1f} to {high:.1f} ({references})"), ("scale", spec.score_meaning)]
        scores.append(("compare", spec.comparable))
    rows = [
        ("environment", f"{store.environment_id or 'none'}: {sizes}"),
        *((kind, " ".join(str(s).split())) for kind, s in spaces.items() if not Layout.of_space(s, kind).flat),
        *((kind, ", ".join(names)) for kind, names in columns if not store.entry_names(kind)),
        ("steps", f"{store.steps:,}"),
        ("episodes", f"{len(store):,}, of {s['length_mean']:.0f} ± {s['length_sd']:.0f} steps"),
        ("ends", ", ".join(f"{flags.sum()} {end}" for end, flags in ends.items())),
        ("return", "{} ± {}, {} to {}".format(*returns)),
        *scores,
        *(("evaluate", fault) for fault in faults),
        *(("warning", warning) for warning in (*warn_of_observations(store), *warn_of_returns(store))),
        *warn_of_copies(store),
        ("fingerprint", store.fingerprint),
        ("store", str(store.path)),
        *(("note", note) for note in store.source.get("notes", [])),
    ]
    return "\n".join([spec.name, *(f"  {key:<12} {value}" for key, value in rows), format_entries(store)])


def format_size(dataset: Dataset) -> str:
    """The numbers of episodes and steps, the range of returns and the folder, in a line."""
    store = dataset.store
    size, returns = f"{counted(len(store), 'episode')}, {counted(store.steps, 'step')}", store.episode_returns
    return f"{dataset.name}: {size}, returns {returns.min():.4g} to {returns.max():.4g}, in {store.path}"


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


def warn_of_copies(store: EpisodeStore, delta_actions: bool = False) -> Iterator[tuple[str, str]]:
    """Sentences, each after `warning` or `note`, on observation entries that equal an action of the same step or of the
    step before, and, unless `delta_actions` are learnt, on actions that hardly differ from the previous ones."""
    table = store.table[:: max(1, store.steps // 10_000)]  # so many steps are enough
    table = table[table[:, store.columns["reset"].start] == 0].astype(np.float64)
    observations, actions, previous = (table[:, store.columns[k]] for k in ("observation", "action", "previous_action"))
    if not len(table):
        return
    varied = np.flatnonzero(np.ptp(actions, axis=0)).tolist()
    names, acted, spread = store.entry_names("observations"), store.entry_names("actions"), actions.var(axis=0)
    pairs: dict[str, list[str]] = {"note": [], "warning": []}
    for entry in varied:
        errors = [((observations - values[:, [entry]]) ** 2).mean(axis=0) for values in (previous, actions)]
        equal = (np.min(errors, axis=0) <= 1e-6 * spread[entry]) & (np.ptp(observations, axis=0) > 0)
        for copy in np.flatnonzero(equal).tolist():
            kind = "note" if errors[0][copy] <= errors[1][copy] else "warning"
            pairs[kind].append(f"{numbered(copy, names)} is action {numbered(entry, acted)}")
    leak = "of the same step: the agent reads the answer, which is not there when it acts. Leave it out"
    for kind, step in (("warning", leak), ("note", "of the step before")):
        if pairs[kind]:
            yield kind, f"observation entry {listed(pairs[kind])}, {step}"
    explained = 1 - np.mean(((actions - previous) ** 2).mean(axis=0)[varied] / spread[varied]) if varied else 0.0
    if explained > COPIED and not delta_actions:
        text = "the log is faster than its decisions, and a low loss means little. `data import --every n` keeps every "
        text += "n-th step; --agent.delta_actions true learns changes"
        yield "warning", f"repeating the previous action explains {explained:.1%} of the actions' variance: {text}"


def warn_of_actions(store: EpisodeStore) -> Iterator[str]:
    """Sentences on entries that fill little of their bounds, and on the box to which actions are scaled, unless it is
    [-1, 1] and holds all of them."""
    box = store.action_space
    if not isinstance(box, Box):
        return
    names = store.entry_names("actions")
    outside, extent = share_outside(store.actions, box), np.ptp(store.actions, axis=0)
    narrow = np.flatnonzero((extent > 0) & (extent < (box.high - box.low).ravel() / 10))
    if narrow.size:
        yield (
            f"{_named(narrow, names)} of the actions fills less than a tenth of its bounds "
            "and is learnt badly, since actions are scaled to their bounds: give tighter bounds, or no action space"
        )
    if (box.low == -1).all() and (box.high == 1).all() and not outside:
        return
    fixed = np.flatnonzero(box.low.ravel() == box.high.ravel())
    origin = ", their range in the data" if store.stated_spaces[1] is None else ""
    alone = f"; {_named(fixed, names)} has a single value and is held at it" if len(fixed) else ""
    clipped = f"; in {outside:.1%} of the steps an action is outside and is clipped" if outside else ""
    yield f"actions are scaled from {box.low.min():.3g} to {box.high.max():.3g}{origin}{alone}{clipped}"


def warn_of_shift(store: EpisodeStore, held_out: EpisodeStore) -> Iterator[str]:
    """Sentences on the entries of held-out episodes that lie outside the range of the training data in `store`, beyond
    chance, the farthest first, and on the actions that agents trained on it cannot return."""
    shifted_actions = False
    for kind, space in (("observations", store.observation_space), ("actions", store.action_space)):
        layout, values = Layout.of_space(space, kind), getattr(store, kind)
        distance, shifted = _shift(store, held_out, kind)
        entries = np.flatnonzero(shifted & ~layout.categorical)  # a choice may well never be made
        entries = entries[np.argsort(-distance[:, entries].max(axis=0), kind="stable")]
        names, shifted_actions = store.entry_names(kind) or layout.names, bool(entries.size)
        for entry in entries[:SHOWN]:
            low, high = values[:, entry].min(), values[:, entry].max()
            steps, farthest = distance[:, entry] > 0, distance[:, entry].max()
            place = f"the training range, {low:.4g} to {high:.4g}," if low < high else f"{low:.4g}, its training value,"
            reach = f"{farthest:,.{0 if farthest >= 10 else 1}f} standard deviations"
            episodes = np.flatnonzero(np.logical_or.reduceat(steps, held_out.offsets[:-1]))
            places = f", in episode{'s' * (len(episodes) > 1)} {', '.join(map(str, episodes))}"
            yield (
                f"entry {numbered(entry, names)} of the {kind} is outside {place} in {steps.mean():.1%} of the "
                f"held-out steps, by up to {reach}{places * (len(episodes) <= SHOWN)}"
            )
        if len(entries) > SHOWN:
            yield f"{_named(entries[SHOWN:], names)} of the {kind} is outside its training range too"
    if not isinstance(box := store.action_space, Box):
        return
    outside = (held_out.actions < box.low.ravel()) | (held_out.actions > box.high.ravel())
    share, chance = outside.any(axis=1).mean(), min(0.5, 4 * store.action_dim / (len(store) + 1))
    if share > (0.0 if store.stated_spaces[1] or shifted_actions else chance):
        entries = np.argsort(-outside.mean(axis=0), kind="stable")[: outside.any(axis=0).sum()]
        yield (
            f"in {share:.1%} of the held-out steps an action is outside the box that agents keep to, in "
            f"{_named(entries, store.entry_names('actions'))}: `data import --action_low --action_high` sets it"
        )


def _shift(store: EpisodeStore, held_out: EpisodeStore, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """How far the entries of held-out steps are outside the range of the training data, in its standard deviations,
    (steps, entries), and whether that is more than chance gives, (entries,) bool.

    That is so in two cases. Either too many episodes leave the range: if all E training and H held-out episodes were
    drawn alike, those with the k highest values of all would be held out with the probability H/(E+H) (H-1)/(E+H-1)
    ..., below 1% over all entries and both ends. Or some go too far: for a fifth of an episode's steps, half a
    standard deviation and `REACH` times what the upper half of the training episodes goes beyond the median one; or in
    a single step, by more than the whole range. Both limits are wider the fewer episodes are trained on.
    """
    training, values = getattr(store, kind), getattr(held_out, kind)
    episodes, number = len(store), len(held_out)
    low, high = training.min(axis=0), training.max(axis=0)
    resolution = 1e-6 * np.maximum(np.abs(low), np.abs(high)) + 1e-12  # so that constants may differ in their last bits
    std = store.observation_std if kind == "observations" else training.std(axis=0, dtype=np.float64)
    std = np.maximum(std, resolution).astype(np.float32)
    alike = np.cumprod([1.0, *((number - k) / (episodes + number - k) for k in range(number))])
    distance, shifted = np.zeros_like(values), np.zeros(values.shape[1], bool)
    for sign, extreme, end in ((1, np.maximum, high), (-1, np.minimum, low)):
        reached = sign * extreme.reduceat(training, store.offsets[:-1])
        spread = 2 * np.maximum(reached - np.median(reached, axis=0), 0).mean(axis=0)
        excess = np.maximum(sign * (values - end), 0)
        far = excess > REACH * spread + (0.5 + 5 / episodes) * std
        share = np.add.reduceat(far, held_out.offsets[:-1], dtype=np.float64) / held_out.episode_lengths[:, None]
        outside = np.logical_or.reduceat(excess > resolution, held_out.offsets[:-1]).sum(axis=0)
        shifted |= (alike[outside] < 0.01 / (2 * len(std))) | (share >= 0.2).any(axis=0)
        shifted |= (excess > np.maximum((1 + 10 / episodes) * (high - low), std)).any(axis=0)
        distance += excess / std
    return distance, shifted


def _named(entries: np.ndarray, names: Sequence[str]) -> str:
    """`entry 3 (velocity)`, or `each of the entries 3, 5 (angle) and 12 more`; `names` are those of all entries."""
    text = listed([numbered(entry, names) for entry in entries])
    return f"entry {text}" if len(entries) == 1 else f"each of the entries {text}"
