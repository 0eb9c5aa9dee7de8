"""Makes results/return-limits/: scores of agents under different caps of the return-to-go.

    decision-rnn compare hopper-medium --seeds 5 --backbones mingru --controls none --output runs/return-limits
    python scripts/rtg_caps.py runs/return-limits    # a minute for each agent on one core (estimate)

The cap is changed when the agent acts, so each agent is evaluated under all caps, asked for `best`, and without a cap
for the paper's target return, which no episode reaches in most datasets. Only finished runs are evaluated.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from results_folder import RESULTS, Made, table, write_report

from decision_rnn import evaluate, load_agent
from decision_rnn.comparison.record import Trial, read_comparison
from decision_rnn.utils.files import write_atomically
from decision_rnn.utils.messages import bar

LIMITS = (0.0, 1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6)
"""No limit, the largest return-to-go of the data, and quantiles below it."""

Scores = dict[str, dict[float, list[float]]]
"""A score for each seed, by dataset and limit."""


def named(limit: float) -> str:
    return {0.0: "none", 1.0: "the largest"}.get(limit, f"{limit:g}")


def finished(comparison: Path, variant: str) -> list[tuple[Path, Trial]]:
    """The runs of a variant that have a result, with their records, ordered by dataset and seed."""
    cells = [cell for cell in read_comparison(comparison).trials if cell.variant == variant]
    return [(comparison / cell.run, cell) for cell in sorted(cells, key=lambda cell: (cell.dataset, cell.seed))]


def over_seeds(scores: list[float]) -> str:
    return f"{np.mean(scores):.1f}" + (f" ± {np.std(scores, ddof=1):.1f}" if len(scores) > 1 else "")


def picture(scores: Scores, path: Path) -> None:
    """Plot a line for each dataset and a dot for each seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for number, (name, by_limit) in enumerate(scores.items()):
        places = np.arange(len(by_limit)) + 0.06 * (number - len(scores) / 2)
        (line,) = axes.plot(places, [np.mean(seeds) for seeds in by_limit.values()], label=name)
        for place, seeds in zip(places, by_limit.values(), strict=True):
            axes.plot([place] * len(seeds), seeds, ".", color=line.get_color(), alpha=0.5)
    axes.set_xticks(range(len(by_limit)), [named(limit) for limit in by_limit])
    axes.set(xlabel="condition.rtg_cap when acting", ylabel="score")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("comparison", type=Path, help="the folder of a comparison, whose agents are evaluated")
    parser.add_argument("--variant", default="mingru", help="which of its variants (default: mingru)")
    parser.add_argument("--episodes", type=int, default=50, help="for each agent and limit (default: 50)")
    parser.add_argument("--caps", type=float, nargs="+", default=LIMITS, help="0: none, 1: the largest of the data")
    parser.add_argument("--output", type=Path, default=RESULTS / "return-limits")
    options = parser.parse_args()
    runs = finished(options.comparison, options.variant)
    if not runs:
        parser.error(
            f"{options.comparison} holds no finished runs of {options.variant}: name the folder of a comparison"
        )
    cells = [cell for _, cell in runs]
    made = Made.from_trials(cells)

    scores: Scores = {}
    targets: dict[str, float] = {}
    for run, cell in bar(runs, desc="evaluating", unit="agent"):
        trained = load_agent(run)
        target = targets[cell.dataset] = trained.provenance.target_returns[0]
        by_limit = scores.setdefault(cell.dataset, {limit: [] for limit in options.caps})
        for limit, found in by_limit.items():
            asked = "best" if limit else target
            result = evaluate(trained, asked, episodes=options.episodes, rtg_cap=limit, progress=False)
            found.append(round(result.targets[0].score_mean, 2))
    options.output.mkdir(parents=True, exist_ok=True)
    write_atomically(options.output / "scores.json", (json.dumps(scores, indent=1) + "\n").encode())
    picture(scores, options.output / "scores.png")
    head, rows = ["data", "target", "seeds", *map(named, options.caps)], []
    for name, by_limit in scores.items():
        seeds = ", ".join(str(cell.seed) for cell in cells if cell.dataset == name)
        rows.append([name, f"{targets[name]:g}", seeds, *map(over_seeds, by_limit.values())])
    write_report(
        options.output / "README.md",
        f"# Limits of the return-to-go\n\nThe score of the last checkpoint of {options.variant} asked for `best` under "
        "caps of the return-to-go that it sees when it acts: a quantile of the data's, the largest, or none, and then "
        "asked for the paper's target return. The weights are the same in a row, trained with the default cap. Mean ± "
        f"standard deviation over seeds, of one seed its score; {options.episodes} episodes each. scores.json holds "
        f"every seed's.\n\n{table(head, rows)}\n\n![scores against limits](scores.png)",
        made,
    )


if __name__ == "__main__":
    main()
