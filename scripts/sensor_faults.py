"""Makes results/memory/sensor-faults/: how agents act while a sensor fails, and for how long after that.

    decision-rnn compare --config configs/comparisons/sensor-faults.yaml --output runs/sensor-faults
    python scripts/sensor_faults.py runs/sensor-faults

Scores: every agent plays in environments whose observations freeze, or are zero or noise, in the last steps of every
200. Results are stored in the folders of the runs: the same command continues where it was interrupted. Recovery: on
recorded episodes, the root mean square difference of the predicted actions from those without a fault, in standard
deviations of the latter, by the step since the end of a frozen spell of 25 steps.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from results_folder import RESULTS, read_trials, source, table, with_range, write_report

from decision_rnn import EpisodeStore, Run, open_dataset, read_comparison
from decision_rnn.evaluation.evaluate import evaluate_once
from decision_rnn.evaluation.held_out import predict_actions

EVERY = 200
FAULTS = (*product(("freeze",), (0, 5, 10, 25)), ("zero", 10), ("noise", 10))
"""Faults and their lengths in steps."""
FAULT = slice(100, 125)
"""The steps of the recorded episodes at which the observation of step 99 is seen."""
AFTER, SHOWN = 50, (1, 2, 5, 10, 20, 50)
"""Steps after the fault that are compared, and those in the table."""
EPISODES = 100
FOLDER = RESULTS / "memory" / "sensor-faults"
SCORES, RECOVERY, PICTURE = FOLDER / "scores.csv", FOLDER / "recovery.csv", "sensor-faults.svg"
TRAINED = "-faults"
"""How variants that are trained with faults end."""


def score(run: Run, fault: str, length: int) -> float:
    """The mean normalised score where the last `length` of every `EVERY` steps are a fault."""
    own = run.agent.provenance.environment_id
    environment_id = f"decision_rnn/{fault}-{length}-of-{EVERY}-{own}" if length else None
    settings = replace(run.config.evaluation, environment_id=environment_id)
    return evaluate_once(run.folder, run.agent, settings).targets[0].score_mean


def with_fault(dataset: str, folder: Path) -> tuple[EpisodeStore, EpisodeStore]:
    """Long episodes of a dataset, with their observations and with those of a fault."""
    store = open_dataset(dataset).store
    episodes = [episode for episode in store if len(episode.rewards) >= FAULT.stop + AFTER][:EPISODES]
    frozen = [replace(episode, observations=episode.observations.copy()) for episode in episodes]
    for episode in frozen:
        episode.observations[FAULT] = episode.observations[FAULT.start - 1]
    options = {"environment_id": store.environment_id, "spaces": (store.observation_space, store.action_space)}
    parts = {"seen": episodes, "frozen": frozen}
    seen, failed = (EpisodeStore.write(folder / name, rows, source={}, **options) for name, rows in parts.items())
    return seen, failed


def recovery(run: Run, seen: EpisodeStore, frozen: EpisodeStore) -> np.ndarray:
    """How far actions differ from those without the fault, (AFTER,), by the step since its end."""
    steps = seen.offsets[:-1, None] + np.arange(FAULT.stop, FAULT.stop + AFTER)
    usual, afterwards = (predict_actions(run.agent, store) for store in (seen, frozen))
    return np.sqrt((((afterwards - usual)[steps] / usual.std(axis=0)) ** 2).mean(axis=(0, 2)))


def draw(names: dict[str, str], scores: pd.DataFrame, differences: pd.DataFrame) -> None:
    """Means over seeds of the scores where observations freeze and of the recovery, a row for each dataset; agents that
    were trained with faults are dashed."""
    datasets = scores["dataset"].unique()
    figure, places = plt.subplots(
        len(datasets), 2, layout="constrained", figsize=(11, 0.5 + 3.5 * len(datasets)), squeeze=False
    )
    plain = [name for name in names if not name.endswith(TRAINED)]
    frozen = scores[scores["fault"] == "freeze"]
    labels = ("frozen steps", "normalised score"), ("steps since the fault", "difference of actions")
    for (row, dataset), (column, rows) in product(enumerate(datasets), enumerate((frozen, differences))):
        place, (x_label, y_label) = places[row, column], labels[column]
        means = rows[rows["dataset"] == dataset].pivot_table("value", "steps", "variant", sort=False)
        for variant, values in means.items():
            color, style = f"C{plain.index(variant.removesuffix(TRAINED))}", "--" if variant.endswith(TRAINED) else "-"
            place.plot(means.index, values, color=color, linestyle=style, label=names[variant])
        place.set(xlabel=x_label, ylabel=y_label, title=dataset)
    figure.legend(*places[0, 0].get_legend_handles_labels(), loc="outside right center", fontsize=7)
    with plt.rc_context({"svg.hashsalt": "decision-rnn"}):
        figure.savefig(FOLDER / PICTURE, metadata={"Date": None})


def markdown(file: Path, names: dict[str, str], rows: pd.DataFrame, columns: Sequence[str], decimals: int) -> str:
    """Table of means over seeds, with their range in brackets, by variant and some values of `column`."""
    grouped = rows.groupby(["variant", "column"])["value"].agg(["mean", "min", "max"])
    lines = [
        [name, *(with_range(*grouped.loc[variant, column], decimals) for column in columns)]
        for variant, name in names.items()
    ]
    return f"{table(['agent', *columns], lines)}\n\n{source(file, columns)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparisons", type=Path, nargs="+", help="folders of the comparison, or of its parts")
    folders = parser.parse_args().comparisons
    comparisons = [read_comparison(folder) for folder in folders]
    names = {each.label: each.name for comparison in comparisons for each in comparison.variants}
    trials, sentence = read_trials(folders)
    played, predicted = [], []
    for dataset in dict.fromkeys(trial.dataset for trial in trials.values()):
        with tempfile.TemporaryDirectory() as temporary:
            stores = with_fault(dataset, Path(temporary))
            for path, trial in trials.items():
                if trial.dataset == dataset:
                    run, key = Run(path), (dataset, trial.variant, trial.seed)
                    played += [(*key, *fault, score(run, *fault)) for fault in FAULTS]
                    predicted += [(*key, step, value) for step, value in enumerate(recovery(run, *stores), 1)]
                    print(*(f"{value:.1f}" for *_, value in played[-len(FAULTS) :]), *key, flush=True)
    scores = pd.DataFrame(played, columns=["dataset", "variant", "seed", "fault", "steps", "value"])
    differences = pd.DataFrame(predicted, columns=["dataset", "variant", "seed", "steps", "value"])
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, rows in ((SCORES, scores), (RECOVERY, differences)):
        rows.replace({"variant": names}).to_csv(file, index=False, float_format="%.5g")
    draw(names, scores, differences)
    columns = ["no fault" if not length else f"{fault} {length}" for fault, length in FAULTS]
    scores["column"] = [columns[FAULTS.index(fault)] for fault in zip(scores["fault"], scores["steps"], strict=True)]
    differences["column"] = differences["steps"].astype(str)
    text = [
        "# Sensors that fail" + (": preliminary" if scores["seed"].nunique() < 5 else ""),
        f"![Scores by length of faults, and recovery]({PICTURE})",
        f"First tables: normalised score where the last steps of every {EVERY} are frozen, zero or standard normal "
        "noise; columns are the fault and its length in steps. Mean over seeds and their range, "
        f"{run.config.evaluation.episodes} episodes a seed. Agents that were trained with faults saw frozen "
        "observations, of lengths drawn at random. Second tables: difference of actions from those without a fault by "
        f"the step since the end of {FAULT.stop - FAULT.start} frozen steps, over at most {EPISODES} long episodes of "
        "the data: root mean square, in standard deviations.",
    ]
    for dataset in scores["dataset"].unique():
        own, recovered = (rows[rows["dataset"] == dataset] for rows in (scores, differences))
        text += [
            f"## {dataset}",
            markdown(SCORES, names, own, columns, 1),
            markdown(RECOVERY, names, recovered, list(map(str, SHOWN)), 3),
        ]
    write_report(FOLDER / "README.md", "\n\n".join(text), sentence)


if __name__ == "__main__":
    main()
