"""A summary of a dataset in a few lines of text."""

from decision_rnn.data.layouts import Layout
from decision_rnn.data.spaces import spaces_of
from decision_rnn.data.spec import DatasetSpec
from decision_rnn.data.store import EpisodeStore
from decision_rnn.data.warnings import equal_returns, odd_entries
from decision_rnn.environments.environments import check_environment
from decision_rnn.utils.errors import InputError
from decision_rnn.utils.messages import counted


def format_info(spec: DatasetSpec, store: EpisodeStore) -> str:
    """The summary: sizes, episode ends, returns, scores, their comparability, obstacles to evaluation, fingerprint."""
    s, faults = store.manifest["statistics"], []
    observations, actions = spaces_of(store)
    try:
        check_environment(store.environment_id, spec.requirements, spec.environment_settings)
    except InputError as error:
        faults.append(str(error))
    both = int((store.terminated & store.truncated).sum())
    partial = int((~store.terminated & ~store.truncated).sum())
    mean, low, high = (float(spec.normalised(s[key])) for key in ("return_mean", "return_min", "return_max"))
    rows = [
        (
            "environment",
            f"{store.environment_id or 'none'}: {counted(store.observation_dim, 'observation')}, "
            f"{counted(store.action_dim, 'action')}",
        ),
        *(
            (kind, " ".join(str(space).split()))
            for kind, space in (("observation", observations), ("action", actions))
            if not Layout.of_space(space, kind).flat
        ),
        *((kind, ", ".join(names)) for kind, names in store.manifest["source"].get("columns", {}).items()),
        ("steps", f"{s['steps']:,}"),
        ("episodes", f"{s['episodes']:,}, of {s['length_mean']:.0f} ± {s['length_sd']:.0f} steps"),
        ("ends", f"{s['terminated']} terminated, {s['truncated']} truncated, {both} both, {partial} partial (neither)"),
        ("return", f"{s['return_mean']:.1f} ± {s['return_sd']:.1f}, {s['return_min']:.1f} to {s['return_max']:.1f}"),
        ("score", f"{mean:.1f}, {low:.1f} to {high:.1f} (0 is {spec.reference_min:g}, 100 is {spec.reference_max:g})"),
        ("compare", spec.comparable),
        *(("evaluate", fault) for fault in faults),
        *(
            ("warning", oddity)
            for oddity in (*odd_entries(store, observations=observations), *equal_returns(store, observations))
        ),
        ("fingerprint", store.fingerprint),
        ("store", str(store.path)),
        *(("note", note) for note in store.manifest["source"].get("notes", [])),
    ]
    return "\n".join([spec.name, *(f"  {key:<12} {value}" for key, value in rows)])
