"""Makes results/memory/sensor-faults/: how agents act while observations freeze, and for how long after that.

    decision-rnn compare --config configs/comparisons/sensor-faults.yaml --output runs/sensor-faults
    python scripts/sensor_faults.py runs/sensor-faults

Scores: every agent plays in an environment that freezes the last steps of every 200. Results are stored in the folders
of the runs: the same command continues where it was interrupted. Recovery: on recorded episodes, the root mean square
difference of the predicted actions from those without a fault, in standard deviations of the latter, by the step since
the end of a fault of 25 steps.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from results_folder import RESULTS, read_trials, source, table, write_report

from decision_rnn import EpisodeStore, Run, open_dataset, read_comparison
from decision_rnn.evaluation.evaluate import evaluate_once
from decision_rnn.evaluation.held_out import predict_actions

EVERY = 200
LENGTHS = (0, 1, 5, 10, 25, 50)
"""Lengths of the faults in steps."""
FAULT = slice(100, 125)
"""The steps of the recorded episodes at which the observation of step 99 is seen."""
AFTER, SHOWN = 50, (1, 2, 5, 10, 20, 50)
"""Steps after the fault that are compared, and those in the table."""
EPISODES = 100
FOLDER = RESULTS / "memory" / "sensor-faults"
SCORES, RECOVERY, PICTURE = FOLDER / "scores.csv", FOLDER / "recovery.csv", "sensor-faults.svg"
TRAINED = "-faults"
"""How variants that are trained with faults end."""


def score(run: Run, length: int) -> float:
    """The mean normalised score where the last `length` of every `EVERY` steps are frozen."""
    own = run.agent.provenance.environment_id
    environment_id = f"decision_rnn/freeze-{length}-of-{EVERY}-{own}" if length else None
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
    true, found = (predict_actions(run.agent, store) for store in (seen, frozen))
    return np.sqrt((((found - true)[steps] / true.std(axis=0)) ** 2).mean(axis=(0, 2)))


def draw(names: dict[str, str]) -> None:
    """Means over seeds of the scores and of the recovery; agents that were trained with faults are dashed."""
    figure, places = plt.subplots(1, 2, layout="constrained", figsize=(11, 4))
    plain = [name for name in names if not name.endswith(TRAINED)]
    for place, file, x_label in zip(places, (SCORES, RECOVERY), ("frozen steps", "steps since the fault"), strict=True):
        means = pd.read_csv(file).pivot_table("value", "steps", "variant", sort=False)
        for variant, values in means.items():
            color, style = f"C{plain.index(variant.removesuffix(TRAINED))}", "--" if variant.endswith(TRAINED) else "-"
            place.plot(means.index, values, color=color, linestyle=style, label=names[variant])
        place.set_xlabel(x_label)
    places[0].set_ylabel("normalised score")
    places[1].set_ylabel("difference of actions")
    figure.legend(*places[0].get_legend_handles_labels(), loc="outside right center", fontsize=7)
    with plt.rc_context({"svg.hashsalt": "decision-rnn"}):
        figure.savefig(FOLDER / PICTURE, metadata={"Date": None})


def markdown(file: Path, names: dict[str, str], columns: Sequence[int], decimals: int) -> str:
    """Table of means over seeds, with their range in brackets, by variant and some of the numbers of steps."""
    grouped = pd.read_csv(file).groupby(["variant", "steps"])["value"].agg(["mean", "min", "max"]).round(decimals)
    rows = [
        [name, *("{:g} ({:g} to {:g})".format(*grouped.loc[variant, steps]) for steps in columns)]
        for variant, name in names.items()
    ]
    head = list(map(str, columns))
    return f"{table(['agent', *head], rows)}\n\n{source(file, head)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparisons", type=Path, nargs="+", help="folders of the comparison, or of its seeds")
    folders = parser.parse_args().comparisons
    comparison = read_comparison(folders[0])
    (dataset,) = (entry.data.name for entry in comparison.datasets)
    names = {variant.label: comparison.names[variant.label] for variant in comparison.variants}
    trials, sentence = read_trials(folders)
    scores, differences = [], []
    with tempfile.TemporaryDirectory() as temporary:
        stores = with_fault(dataset, Path(temporary))
        for path, trial in trials.items():
            run, key = Run(path), (trial.variant, trial.seed)
            scores += [(*key, length, score(run, length)) for length in LENGTHS]
            differences += [(*key, step, value) for step, value in enumerate(recovery(run, *stores), 1)]
            print(*(f"{value:.1f}" for *_, value in scores[-len(LENGTHS) :]), *key, flush=True)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for file, rows in ((SCORES, scores), (RECOVERY, differences)):
        pd.DataFrame(rows, columns=["variant", "seed", "steps", "value"]).to_csv(file, index=False)
    draw(names)
    text = [
        "# Sensors that fail",
        f"![Scores by length of faults, and recovery]({PICTURE})",
        f"Normalised score on {dataset} where the last steps of every {EVERY} are frozen, by their number: mean over "
        f"seeds and their range, {run.config.evaluation.episodes} episodes a seed.",
        markdown(SCORES, names, LENGTHS, 1),
        f"Difference of actions from those without a fault, of {FAULT.stop - FAULT.start} steps, by the step since its "
        "end: root mean square, in standard deviations.",
        markdown(RECOVERY, names, SHOWN, 3),
    ]
    write_report(FOLDER / "README.md", "\n\n".join(text), sentence)


if __name__ == "__main__":
    main()
