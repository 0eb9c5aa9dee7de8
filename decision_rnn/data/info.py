"""What a dataset holds: a summary, and warnings about valid but harmful data."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from gymnasium.spaces import Box, Dict

from decision_rnn.data.dataset import Dataset
from decision_rnn.data.entries import KINDS, format_entries
from decision_rnn.data.logs import listed
from decision_rnn.data.spec import ACHIEVED, DESIRED
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.writing import moments
from decision_rnn.environments.layouts import numbered
from decision_rnn.environments.registry import check_environment
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import pluralize

SHIFTED = 0.01
"""The share of steps outside the training range, or of actions outside their space, that is reported."""
SHOWN = 5
"""The most entries outside the training range that have a sentence each."""


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
    returns = (format(s[f"return_{key}"], _digits(store)) for key in ("mean", "sd", "min", "max"))
    sizes = f"{pluralize(store.observation_dim, 'observation')}, {pluralize(store.action_dim, 'action')}"
    columns = store.source.get("columns", {}).items()
    spaces = {kind: store.space(kind) for kind in KINDS if not store.layout(kind).flat}
    warnings = [*warn_of_observations(store), *warn_of_choices(store), *warn_of_copies(store), *warn_of_bounds(store)]
    if store.environment_id or store.rewards.any():  # otherwise it is cloned
        warnings += warn_of_returns(store)
    scores = list[tuple[str, str]]()
    if store.environment_id:
        mean, low, high = (float(spec.normalised(s[key])) for key in ("return_mean", "return_min", "return_max"))
        scores = [
            ("score", f"{mean:.1f}, {low:.1f} to {high:.1f} ({spec.score_meaning})"),
            ("compare", spec.comparable),
        ]
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
        ("fingerprint", store.fingerprint),
        ("store", str(store.path)),
        *(("note", note) for note in store.source.get("notes", [])),
    ]
    return "\n".join([spec.name, *(f"  {key:<12} {value}" for key, value in rows), format_entries(store)])


def format_size(dataset: Dataset) -> str:
    """The numbers of episodes and steps, the range of returns and the folder, in a line."""
    store = dataset.store
    size = f"{pluralize(len(store), 'episode')}, {pluralize(store.steps, 'step')}"
    low, high = (format(bound, _digits(store)) for bound in (store.episode_returns.min(), store.episode_returns.max()))
    return f"{dataset.name}: {size}, returns {low} to {high}, in {store.path}"


def _digits(store: EpisodeStore) -> str:
    """The format of returns, whose unit may be any: never with an exponent that loses digits, as 1.055e+04."""
    return ".1f" if np.abs(store.episode_returns).max() >= 10 else ".4g"


def warn_of_observations(store: EpisodeStore) -> Iterator[str]:
    """A sentence on the observation entries that never change, or by less than float32 resolves, as a Unix time."""
    constant = store.observation_std <= 1e-6 * np.abs(store.observation_mean)
    constant &= ~store.layout("observations").categorical  # a choice may well never be made
    if constant.any():
        yield (
            f"{_named(store, 'observations', np.flatnonzero(constant))} never changes in the data, or by less than "
            "float32 resolves: leave it out if it can change when the agent acts; from Unix times subtract the first"
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


def warn_of_copies(store: EpisodeStore) -> Iterator[str]:
    """Sentences on observation entries that equal an action of the same step, and on actions that hardly differ from
    the previous ones."""
    rows = store.table[:: max(1, store.steps // 10_000)]  # so many steps are enough
    rows = rows[rows[:, store.columns["reset"].start] == 0].astype(np.float64)
    observations, actions, previous = (rows[:, store.columns[k]] for k in ("observation", "action", "previous_action"))
    varied = np.flatnonzero(np.ptp(actions, axis=0)) if len(rows) else np.array([], int)
    if not len(varied):
        return
    variance = actions.var(axis=0)
    for entry in varied.tolist():
        copies = ((observations - actions[:, [entry]]) ** 2).mean(axis=0) <= 1e-6 * variance[entry]
        if copies.any():
            yield (
                f"{_named(store, 'observations', np.flatnonzero(copies))} equals action "
                f"{numbered(entry, store.labels('actions'))} of the same step: in training the agent would see its "
                "answer, when acting it would not. Leave it out"
            )
    explained = 1 - np.mean(((actions - previous) ** 2).mean(axis=0)[varied] / variance[varied])
    if explained > 0.98:  # as of a sine of 44 steps a period
        yield (
            f"repeating the previous action explains {explained:.1%} of the actions' variance: the log is faster than "
            "its decisions, and a low loss means little. `data import --every n` keeps every n-th step; "
            "--agent.delta_actions true learns changes"
        )


def warn_of_choices(store: EpisodeStore) -> Iterator[str]:
    """A sentence if actions without a stated space are whole numbers of at most 100, as of choices."""
    largest, whole = store.actions.max(), (store.actions == np.floor(store.actions)).all()
    if store.stated_spaces[1] is None and whole and store.actions.min() == 0 < largest <= 100:
        yield (
            f"the actions are whole numbers from 0 to {largest:.0f}, read as quantities. If they number choices, "
            "import them with --choices"
        )


def warn_of_bounds(store: EpisodeStore) -> Iterator[str]:
    """Sentences on actions that agents cannot return, and on entries that use little of their bounds."""
    if not isinstance(box := store.action_space, Box):
        return
    if (outside := share_outside(store.actions, box)) >= SHIFTED:
        yield (
            f"in {outside:.1%} of the steps an action is outside the action space, {box.low.min():.4g} to "
            f"{box.high.max():.4g}, so that agents cannot return it: give actions and bounds the same unit"
        )
    spread = np.ptp(store.actions, axis=0)
    if (little := (spread > 0) & (spread < 0.1 * (box.high - box.low).ravel())).any():
        yield (
            f"{_named(store, 'actions', np.flatnonzero(little))} uses less than a tenth of its bounds: give actions "
            "and bounds the same unit"
        )


def share_outside(actions: np.ndarray, box: Box) -> float:
    """The share of steps with an action outside a box."""
    return float(((actions < box.low.ravel()) | (actions > box.high.ravel())).any(axis=1).mean())


def warn_of_shift(store: EpisodeStore, held_out: EpisodeStore) -> Iterator[str]:
    """Sentences on held-out episodes that are also in the training data in `store`; on entries that are more than two
    standard deviations outside its range in `SHIFTED` of the held-out steps, the farthest first, one for the rest; on
    entries that vary by less than a twentieth of theirs; and on actions that agents trained on it cannot return."""
    trained, others = ([hash(s.table[i:j].tobytes()) for i, j in pairwise(s.offsets)] for s in (store, held_out))
    if shared := np.isin(others, trained).sum():
        yield (
            f"{shared} of {pluralize(len(held_out), 'held-out episode')} are in the training data too, so that the "
            "score is too good: train on the others, such as NAME-train of `data split`"
        )
    for kind in KINDS:
        training, values = getattr(store, kind), getattr(held_out, kind)
        low, high = training.min(axis=0), training.max(axis=0)
        resolution = 1e-6 * np.maximum(np.abs(low), np.abs(high)) + 1e-12  # so that constants may differ in last bits
        deviation = np.maximum(moments(training, store.offsets)[1], resolution)
        distance = np.maximum(low - values, values - high) / deviation
        far = distance > 2
        shifted = np.flatnonzero((far.mean(axis=0) >= SHIFTED) & ~store.layout(kind).categorical)
        shifted = shifted[np.argsort(-distance[:, shifted].max(axis=0), kind="stable")]
        for entry in shifted[:SHOWN]:
            episodes = np.flatnonzero(np.logical_or.reduceat(far[:, entry], held_out.offsets[:-1])).astype(str)
            yield (
                f"{_named(store, kind, np.array([entry]))} is far outside the training range, {low[entry]:.4g} "
                f"to {high[entry]:.4g}, in {far[:, entry].mean():.1%} of the held-out steps, by up to "
                f"{distance[:, entry].max():,.1f} standard deviations, in the episodes {listed(episodes.tolist())}"
            )
        if len(shifted) > SHOWN:
            yield f"{_named(store, kind, shifted[SHOWN:])} is far outside its training range too"
        spread = moments(values, held_out.offsets)[1] / deviation
        varied = (deviation > resolution) & (np.ptp(values, axis=0) > 0) & ~store.layout(kind).categorical
        if (little := varied & (spread < 0.05)).any():  # 0.0175 is that of radians for degrees
            yield (
                f"{_named(store, kind, np.flatnonzero(little))} hardly varies in the held-out steps, by "
                f"{spread[little].max():.1%} of the standard deviation in training: give both the same unit"
            )
    if isinstance(box := store.action_space, Box) and (outside := share_outside(held_out.actions, box)) >= SHIFTED:
        yield (
            f"in {outside:.1%} of the held-out steps an action is outside the box that agents keep to: set it by "
            "`data import --action_low --action_high`"
        )


def _named(store: EpisodeStore, kind: str, entries: np.ndarray) -> str:
    """`entry 3 (velocity) of the actions`, or `each of the entries 3, 5 (angle) and 12 more of the actions`."""
    text = listed([numbered(entry, store.labels(kind)) for entry in entries])
    return f"{'entry' if len(entries) == 1 else 'each of the entries'} {text} of the {kind}"
