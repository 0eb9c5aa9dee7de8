"""What a dataset holds: a summary, and warnings about valid but harmful data."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from gymnasium.spaces import Box, Dict

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.entries import KINDS, format_entries
from decision_rnn.data.logs import SHOWN, listed
from decision_rnn.data.spec import ACHIEVED, DESIRED
from decision_rnn.data.store import EpisodeStore
from decision_rnn.environments.layouts import numbered
from decision_rnn.environments.registry import check_environment
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import counted

UNRESOLVED = 2.0**20
"""Around a value this large, such as a Unix time, float32 holds no changes of a sixteenth and less."""
REACH = 4
"""Held-out values are reported this many times as far beyond the training range as training episodes differ."""
COPIED = 0.98
"""The R2 of repeating the previous action from which a log is too fast: that of a sine of 44 steps a period."""
MOST_CHOICES = 100
"""Actions that are whole numbers up to here may number choices."""


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
    spaces = {kind: store.space(kind) for kind in KINDS if not store.layout(kind).flat}
    warnings = [*warn_of_observations(store), *warn_of_choices(store)]
    if store.environment_id or store.rewards.any():  # otherwise it is cloned
        warnings += warn_of_returns(store)
    scores = []
    if store.environment_id and not (store.equal_returns and spec.reference_min == s["return_min"]):
        mean, low, high = (float(spec.normalised(s[key])) for key in ("return_mean", "return_min", "return_max"))
        references = f"0 is {spec.reference_min:g}, 100 is {spec.reference_max:g}"
        scores = [("score", f"{mean:.1f}, {low:.1f} to {high:.1f} ({references})"), ("scale", spec.score_meaning)]
        scores.append(("compare", spec.comparable))
    rows = [
        ("environment", f"{store.environment_id or 'none'}: {sizes}"),
        *((kind, " ".join(str(space).split())) for kind, space in spaces.items()),
        *((kind, ", ".join(names)) for kind, names in columns if not store.entry_names(kind)),
        ("steps", f"{store.steps:,}"),
        ("episodes", f"{len(store):,}, of {s['length_mean']:.0f} ± {s['length_sd']:.0f} steps"),
        ("ends", ", ".join(f"{flags.sum()} {end}" for end, flags in ends.items())),
        ("return", "{} ± {}, {} to {}".format(*returns)),
        *scores,
        *(("evaluate", fault) for fault in faults),
        *(("warning", warning) for warning in warnings),
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
    entries = np.arange(store.observation_dim) if visible is None else visible
    entries = entries[~store.layout("observations").categorical[entries]]  # a choice may well never be made
    mean, std = np.abs(store.observation_mean[entries]), store.observation_std[entries]
    lost = (mean >= UNRESOLVED) & (std < 1e-6 * mean)
    expected = store.source.get("constant_entries", ())  # constant in the environment too
    constant = (std == 0) & ~lost & ~np.isin(entries, expected)
    if constant.any():
        yield (
            f"{_named(store, 'observations', entries[constant])} never changes in the data; the agent has never "
            "seen another value, so drop this entry if it can change when the agent acts"
        )
    if lost.any():
        yield (
            f"{_named(store, 'observations', entries[lost])} is around {mean[lost].max():.3g}, where float32 loses "
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
    varied = np.flatnonzero(np.ptp(actions, axis=0)).tolist() if len(table) else []
    if not varied:
        return
    names, acted, variance = store.labels("observations"), store.labels("actions"), actions.var(axis=0)
    pairs: dict[str, list[str]] = {"warning": [], "note": []}
    for entry in varied:
        now, before = (((observations - values[:, [entry]]) ** 2).mean(axis=0) for values in (actions, previous))
        equal = (np.minimum(now, before) <= 1e-6 * variance[entry]) & (np.ptp(observations, axis=0) > 0)
        for copy in np.flatnonzero(equal).tolist():
            kind = "note" if before[copy] <= now[copy] else "warning"
            pairs[kind].append(f"{numbered(copy, names)} is action {numbered(entry, acted)}")
    leak = "of the same step: the agent reads the answer, which is not there when it acts. Leave it out"
    for (kind, copies), step in zip(pairs.items(), (leak, "of the step before"), strict=True):
        if copies:
            yield kind, f"observation entry {listed(copies)}, {step}"
    explained = 1 - np.mean(((actions - previous) ** 2).mean(axis=0)[varied] / variance[varied])
    if explained > COPIED and not delta_actions:
        yield (
            "warning",
            f"repeating the previous action explains {explained:.1%} of the actions' variance: the log is faster than "
            "its decisions, and a low loss means little. `data import --every n` keeps every n-th step; "
            "--agent.delta_actions true learns changes",
        )


def warn_of_choices(store: EpisodeStore) -> Iterator[str]:
    """A sentence if actions without a stated space seem to number choices."""
    largest, whole = store.actions.max(), (store.actions == np.floor(store.actions)).all()
    if store.stated_spaces[1] is None and store.actions.min() == 0 < largest <= MOST_CHOICES and whole:
        choices = f"Discrete({largest + 1:.0f})" if store.action_dim == 1 else "MultiDiscrete"
        yield (
            f"the actions are whole numbers from 0 to {largest:.0f}, read as quantities. If they number choices, "
            f"import them with --choices, in Python with an action_space such as {choices}"
        )


def warn_of_shift(store: EpisodeStore, held_out: EpisodeStore) -> Iterator[str]:
    """Sentences on held-out episodes that are also in the training data in `store`; on the entries that lie outside its
    range, beyond chance, the farthest first; and on the actions that agents trained on it cannot return."""
    trained, others = ([hash(s.table[i:j].tobytes()) for i, j in pairwise(s.offsets)] for s in (store, held_out))
    if shared := np.isin(others, trained).sum():
        yield (
            f"{shared} of {counted(len(held_out), 'held-out episode')} are in the training data too, so that the score "
            "is too good: train on the others, such as NAME-train of `data split`"
        )
    for kind in KINDS:
        values, names = getattr(store, kind), store.labels(kind)
        distance, shifted = _shift(store, held_out, kind)
        entries = np.flatnonzero(shifted & ~store.layout(kind).categorical)  # a choice may well never be made
        entries = entries[np.argsort(-distance[:, entries].max(axis=0), kind="stable")]
        for entry in entries[:SHOWN]:
            steps, farthest = distance[:, entry] > 0, distance[:, entry].max()
            episodes = np.flatnonzero(np.logical_or.reduceat(steps, held_out.offsets[:-1])).tolist()
            yield (
                f"entry {numbered(entry, names)} of the {kind} is outside the training range, "
                f"{values[:, entry].min():.4g} to {values[:, entry].max():.4g}, in {steps.mean():.1%} of the held-out "
                f"steps, by up to {farthest:,.{0 if farthest >= 10 else 1}f} standard deviations, in episode"
                f"{'s' * (len(episodes) > 1)} {listed(list(map(str, episodes)))}"
            )
        if len(entries) > SHOWN:
            yield f"{_named(store, kind, entries[SHOWN:])} is outside its training range too"
    if not isinstance(box := store.action_space, Box):
        return
    outside = (held_out.actions < box.low.ravel()) | (held_out.actions > box.high.ravel())
    if outside.any() and (store.stated_spaces[1] is not None or len(entries)):
        beyond = np.argsort(-outside.mean(axis=0), kind="stable")[: outside.any(axis=0).sum()]
        yield (
            f"in {outside.any(axis=1).mean():.1%} of the held-out steps an action is outside the box that agents keep "
            f"to, entries {listed([numbered(entry, names) for entry in beyond])}: `data import --action_low "
            "--action_high` sets it"
        )


def _shift(store: EpisodeStore, held_out: EpisodeStore, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """How far the entries of held-out steps are outside the range of the training data, in its standard deviations,
    (steps, entries), and whether that is more than chance gives, (entries,) bool.

    That is so in two cases. Either too many episodes leave the range: if all E training and H held-out episodes were
    drawn alike, those with the k highest values of all would be held out with the probability H/(E+H) (H-1)/(E+H-1)
    ..., below 1% over all entries and both ends. Or an episode goes too far in a fifth of its steps: by half a standard
    deviation, more where few episodes are trained on, and `REACH` times that of the training episodes' extremes.
    """
    training, values = getattr(store, kind), getattr(held_out, kind)
    episodes, number = len(store), len(held_out)
    low, high = training.min(axis=0), training.max(axis=0)
    resolution = 1e-6 * np.maximum(np.abs(low), np.abs(high)) + 1e-12  # so that constants may differ in their last bits
    std = np.maximum(training.std(axis=0, dtype=np.float64), resolution).astype(np.float32)
    alike = np.cumprod([1.0, *((number - k) / (episodes + number - k) for k in range(number))])
    distance, shifted = np.zeros_like(values), np.zeros(values.shape[1], bool)
    for sign, extreme, end in ((1, np.maximum, high), (-1, np.minimum, low)):
        spread = extreme.reduceat(training, store.offsets[:-1]).std(axis=0)
        excess = np.maximum(sign * (values - end), 0)
        far = excess > REACH * spread + (0.5 + 5 / episodes) * std
        share = np.add.reduceat(far, held_out.offsets[:-1], dtype=np.float64) / held_out.episode_lengths[:, None]
        outside = np.logical_or.reduceat(excess > resolution, held_out.offsets[:-1]).sum(axis=0)
        shifted |= (alike[outside] < 0.01 / (2 * len(std))) | (share >= 0.2).any(axis=0)
        distance += excess / std
    return distance, shifted


def _named(store: EpisodeStore, kind: str, entries: np.ndarray) -> str:
    """`entry 3 (velocity) of the actions`, or `each of the entries 3, 5 (angle) and 12 more of the actions`."""
    text = listed([numbered(entry, store.labels(kind)) for entry in entries])
    return f"{'entry' if len(entries) == 1 else 'each of the entries'} {text} of the {kind}"
