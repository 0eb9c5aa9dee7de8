"""A comparison as a Markdown table."""

from typing import Any

from decision_rnn.evaluation.report import describe_range, describe_target
from decision_rnn.evaluation.statistics import INTERVAL_NOTE


def format_comparison(comparison: dict[str, Any]) -> str:
    """The table of a comparison, and below it what its numbers are."""
    data, protocol = comparison["dataset"], comparison["protocol"]
    asked, episodes = protocol["target_returns"], protocol["episodes"]
    ranges = {
        target["target_return"]: target["in_range"] for entry in comparison["variants"] for target in entry["targets"]
    }
    heads = [", ".join(filter(None, (describe_target(target), describe_range(ranges[target])))) for target in asked]
    head = ["variant", *(f"score, {text}" for text in heads), *(f"return, {text}" for text in heads)]
    head += ["parameters", "training", "one action"]
    rows = [head, ["---"] * len(head)]
    for entry in comparison["variants"]:
        targets = {target["target_return"]: target for target in entry["targets"]}
        rows.append(
            [
                entry["label"],
                *(_score(targets[target]) if target in targets else "" for target in asked),
                *(_return(targets[target], episodes) if target in targets else "" for target in asked),
                f"{entry['parameters']:,}",
                f"{entry['training_seconds']:.0f} s",
                f"{entry['action_microseconds']:.0f} µs",
            ]
        )
    rows.append([f"(the data, {data['name']})", f"{data['score_mean']:.1f}", *[""] * (len(head) - 2)])
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", " ".join(_notes(comparison))]
    remarks = dict.fromkeys(remark for entry in comparison["variants"] for remark in entry["remarks"])
    failed = [f"{run['label']}, seed {run['seed']}, failed: {run['error']}" for run in comparison["failed"]]
    if remarks or failed:
        lines += ["", *(f"- {line}" for line in (*remarks, *failed))]
    return "\n".join(lines)


def _score(target: dict[str, Any]) -> str:
    """A cell; of few seeds it shows every one."""
    text = f"{target['score']:.1f}"
    if target["spread"] is None:
        return text
    if target["spread"] == "range":
        each = ", ".join(f"{score:.1f}" for score in target["score_per_seed"])
        return f"{text}, range {target['low']:.1f} to {target['high']:.1f} ({each})"
    return f"{text} [{target['low']:.1f}, {target['high']:.1f}]"


def _return(target: dict[str, Any], episodes: int) -> str:
    mean = f"{target['return_mean']:.0f}"
    return mean if episodes == 1 else f"{mean} ± {target['return_sd']:.0f}"


def _notes(comparison: dict[str, Any]) -> list[str]:
    """What the numbers are, in sentences."""
    entries, protocol, jobs = comparison["variants"], comparison["protocol"], comparison["jobs"]
    state = "carried state" if protocol["state"] == "carry" else f"window of {protocol['window']}"
    steps = [f"{entry['config']['training']['steps']:,}" for entry in entries]
    trained = steps[0] if len(set(steps)) == 1 else _by_label(entries, steps)
    kinds = {(target["score_is"], target["spread"]) for entry in entries for target in entry["targets"]}
    scores = []
    if ("score", None) in kinds:
        scores.append("of one seed")
    if ("mean", "range") in kinds:
        scores.append("mean over seeds, their range, which is no interval of confidence, and every seed's")
    if ("mean", "95% interval") in kinds:
        scores.append(INTERVAL_NOTE)
    sentences = [
        f"Last checkpoint after {trained} steps; seeds {', '.join(map(str, comparison['seeds']))}; "
        f"{protocol['episodes']} episodes per target, {state}.",
        f"Score: {'; or '.join(scores)}. Return: mean over seeds ± standard deviation over a seed's episodes.",
        "Training: median wall time of a run"
        + (f", {jobs} runs at a time" if jobs > 1 else "")
        + "; one action: median at batch 1 on one thread.",
    ]
    comparable = [entry["comparable"] for entry in entries]
    if any(comparable):
        same = len(set(comparable)) == 1
        sentences.append(f"Comparability: {comparable[0] if same else _by_label(entries, comparable)}.")
    return sentences + [f"{note}." for note in comparison["dataset"]["notes"]]


def _by_label(entries: list[dict[str, Any]], values: list[str]) -> str:
    """Values that differ, each with the labels it is of."""
    labels: dict[str, list[str]] = {}
    for entry, value in zip(entries, values, strict=True):
        labels.setdefault(value, []).append(entry["label"])
    return "; ".join(f"{value} ({', '.join(of)})" for value, of in labels.items())
