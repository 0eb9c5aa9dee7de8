"""Makes results/statistics/: how often intervals cover the truth with usual numbers of seeds.

    python scripts/interval_coverage.py    # three minutes on one core

Scores are sampled from distributions with known mean, interquartile mean and so on; the coverage of an interval is the
share of samples in which it contains the true value.
"""

import argparse
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from results_folder import RESULTS, provenance, table, write_report
from scipy import stats

from decision_rnn.evaluation.statistics import (
    FEWEST_DATASETS,
    FEWEST_FOR_INTERVAL,
    FEWEST_RUNS,
    LEVEL,
    adjust_p_values,
    bootstrap_means,
    compare_over_datasets,
    compare_seeds,
    half_width,
    holm,
    interquartile_mean,
)

FOLDER = RESULTS / "statistics"
SEED = 0
RESAMPLES = 1000
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
LEVELS = ((20, 110), (2, 12))
"""The ranges of several datasets' means and standard deviations."""

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
Row = dict[str, Any]


def bimodal(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    low = generator.random(shape) < 0.3
    return np.where(low, generator.normal(55, 12, shape), generator.normal(90, 3, shape))


SHAPES: dict[str, tuple[Draw, float]] = {  # samplers and their means
    "normal": (lambda generator, shape: generator.normal(70, 10, shape), 70.0),
    "skewed": (lambda generator, shape: 100 - generator.lognormal(2.5, 0.8, shape), 100 - np.exp(2.5 + 0.8**2 / 2)),
    "bimodal": (bimodal, 0.7 * 90 + 0.3 * 55),
}
NAMED = {
    "normal": "normal (mean 70, sd 10)",
    "skewed": "skewed (100 less a lognormal of 2.5, 0.8)",
    "bimodal": "bimodal (in 7 of 10 cases around 90, sd 3, otherwise around 55, sd 12)",
}


def covered(low: np.ndarray, high: np.ndarray, truth: np.ndarray | float) -> dict[str, float]:
    """Coverage and median length of intervals; an end equal to the truth covers it."""
    coverage = ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean()
    return {"coverage": float(coverage), "width": float(np.median(high - low))}


def mean_intervals(scores: np.ndarray, generator: np.random.Generator) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Ends of the intervals for the mean of scores (draws, seeds), each (draws,)."""
    seeds = scores.shape[1]
    half = stats.t.ppf(TAILS[1], seeds - 1) * stats.sem(scores, axis=1)
    weights = generator.multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES).T / seeds
    low, high = np.quantile(scores @ weights, TAILS, axis=1)
    return {
        "range": (scores.min(axis=1), scores.max(axis=1)),
        "Student's t": (scores.mean(axis=1) - half, scores.mean(axis=1) + half),
        "percentile bootstrap": (low, high),
    }


def one_dataset(trials: int, generator: np.random.Generator) -> Iterator[Row]:
    """Intervals for the mean over seeds, and the percentile bootstrap for the interquartile mean."""
    for (shape, (draw, truth)), n in itertools.product(SHAPES.items(), (1, 3, 5, 10, 20)):
        x = draw(generator, (trials, n))
        if n == 1:  # the range of a single score is a point
            intervals = {"range": (x[:, 0], x[:, 0])}
        else:
            parts = [mean_intervals(part, generator) for part in np.array_split(x, max(1, trials // 500))]
            intervals = {name: np.concatenate([np.array(part[name]) for part in parts], axis=1) for name in parts[0]}
        for name, ends in intervals.items():
            yield {"shape": shape, "seeds": n, "interval": name, **covered(ends[0], ends[1], truth)}
        if n > 1:
            true = interquartile_mean(draw(generator, (1_000_000,)))
            bootstrapped = (bootstrap_means([scores], RESAMPLES, i) for i, scores in enumerate(x[: trials // 10]))
            ends = np.array([np.quantile(means, TAILS) for means in bootstrapped]).T
            name = "percentile bootstrap of the interquartile mean"
            yield {"shape": shape, "seeds": n, "interval": name, **covered(ends[0], ends[1], true)}


def differences(trials: int, generator: np.random.Generator) -> Iterator[Row]:
    """How often Welch's interval covers and detects a difference of 10, and how often equal variants seem to differ."""
    for shape, n in itertools.product(SHAPES, (5, 10, 20)):
        draw = SHAPES[shape][0]
        compared = [compare_seeds(a + 10, b) for a, b in draw(generator, (trials, 2, n))]
        row = {"shape": shape, "seeds": n}
        row["coverage"] = float(np.mean([each.low <= 10 <= each.high for each in compared]))
        row["better"] = float(np.mean([each.p_value < 0.05 and each.value > 0 for each in compared]))
        row["worse"] = float(np.mean([each.p_value < 0.05 and each.value < 0 for each in compared]))
        for count, reference in ((2, "reference named"), (6, "reference named"), (6, "against the best")):
            p_values = against_first if reference == "reference named" else against_best
            wrong = sum(min(p_values(x)) < 0.05 for x in draw(generator, (trials // 2, count, n)))
            row[f"{count} variants, {reference}"] = wrong / (trials // 2)
        yield row


def against_first(scores: np.ndarray) -> list[float]:
    """The adjusted p-values of scores (variants, seeds), the first being the reference."""
    compared = adjust_p_values({str(i): compare_seeds(values, scores[0]) for i, values in enumerate(scores[1:])})
    return [each.p_value for each in compared.values()]


def against_best(scores: np.ndarray) -> list[float]:
    """Those of the variants against the one with the highest mean, which needs an adjustment for all pairs."""
    pairs = list(itertools.combinations(range(len(scores)), 2))
    adjusted = holm([compare_seeds(scores[i], scores[j]).p_value for i, j in pairs])
    best = scores.mean(axis=1).argmax()
    return [p_value for pair, p_value in zip(pairs, adjusted, strict=True) if best in pair]


def suite(shape: str, datasets: int, seeds: int, trials: int, generator: np.random.Generator) -> np.ndarray:
    """Scores (trials, datasets, seeds) on datasets of different levels; a single dataset has the middle of LEVELS."""
    levels, sd = (np.linspace(*ends, datasets) if datasets > 1 else np.mean([ends], axis=1) for ends in LEVELS)
    draw, mean = SHAPES[shape]
    scale = {"normal": 10.0, "skewed": 15.9, "bimodal": 17.9}[shape]
    z = (draw(generator, (trials, datasets, seeds)) - mean) / scale
    return levels[:, None] + sd[:, None] * z


def aggregates(trials: int, generator: np.random.Generator) -> Iterator[Row]:
    """Intervals of the interquartile mean over datasets and seeds: the bootstrap's percentiles and ours."""
    cases = list(itertools.product(("normal", "skewed", "bimodal"), (1, 3, 9), (5, 10, 20)))
    for shape, datasets, n in [*cases, *(("normal", *few) for few in ((2, 15), (4, 8), (6, 5), (10, 3)))]:
        true = interquartile_mean(suite(shape, datasets, 500_000 // datasets, 1, generator))
        percentiles, ours = [], []
        for i, x in enumerate(suite(shape, datasets, n, trials, generator)):
            means, score = bootstrap_means(list(x), RESAMPLES, i), interquartile_mean(x)
            half = half_width(means, x.size, datasets)
            percentiles.append(np.quantile(means, TAILS))
            ours.append((score - half, score + half))
        for name, ends in (("percentile bootstrap", percentiles), ("t", ours)):
            reported = datasets >= FEWEST_DATASETS and x.size >= FEWEST_RUNS and n >= FEWEST_FOR_INTERVAL
            yield {"shape": shape, "datasets": datasets, "seeds": n, "interval": name,
                   "given": "yes" if reported else "no", **covered(*np.array(ends).T, true)}  # fmt: skip


def over_datasets(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean differences of scores (draws, datasets, seeds), standard errors and Satterthwaite's degrees of freedom, from
    the variances of all means of x and y on all datasets at once."""
    variances = np.concatenate([each.var(axis=2, ddof=1) / each.shape[2] for each in (x, y)], axis=1)
    degrees = np.repeat([x.shape[2] - 1, y.shape[2] - 1], x.shape[1])
    error = np.sqrt(variances.sum(axis=1)) / x.shape[1]
    value = (x.mean(axis=2) - y.mean(axis=2)).mean(axis=1)
    return value, error, variances.sum(axis=1) ** 2 / (variances**2 / degrees).sum(axis=1)


def mean_differences(trials: int, generator: np.random.Generator) -> Iterator[Row]:
    """Intervals of the mean difference over datasets, for two variants with equal means on each."""
    pairs = (*((shape, shape) for shape in SHAPES), ("skewed", "normal"))
    for shapes, datasets, n in itertools.product(pairs, (3, 9), (5, 10, 20)):
        value, error, degrees = over_datasets(*(suite(shape, datasets, n, trials, generator) for shape in shapes))
        half = stats.t.ppf(TAILS[1], degrees) * error
        row = {"shapes": " and ".join(shapes), "datasets": datasets, "seeds": n, "interval": "Student's t"}
        yield row | covered(value - half, value + half, 0.0)


def improvements(trials: int, generator: np.random.Generator) -> Iterator[Row]:
    """Intervals of the probability of improvement, for normal scores whose means are on average `effect` sd apart."""
    for datasets, effect, n in itertools.product((1, 3, 9), (0.0, 0.6, 1.5, 3.0), (5, 10, 20)):
        effects = np.linspace(0, 2 * effect, datasets) if datasets > 1 else np.array([effect])
        true = float(stats.norm.cdf(effects / np.sqrt(2)).mean())
        x = generator.normal(size=(trials, datasets, n)) + effects[:, None]
        y = generator.normal(size=(trials, datasets, n))
        weights = generator.multinomial(n, np.full(n, 1 / n), (2, RESAMPLES, datasets)) / n
        percentiles, ours = [], []
        for a, b in zip(x, y, strict=True):
            higher = (1 + np.sign(a[:, :, None] - b[:, None, :])) / 2
            redrawn = (np.einsum("rdi,dij->rdj", weights[0], higher) * weights[1]).sum(axis=(1, 2)) / datasets
            percentiles.append(np.quantile(redrawn, TAILS))
            improvement = compare_over_datasets(dict(enumerate(a)), dict(enumerate(b)))
            ours.append((improvement.low, improvement.high))
        for name, ends in (("percentile bootstrap", percentiles), ("Newcombe's", ours)):
            row = {"datasets": datasets, "truth": true, "seeds": n, "interval": name}
            yield row | covered(*np.array(ends).T, true)


def cell(row: Row) -> str:
    """Coverage, with the length in brackets; a length that results from dividing by zero is infinite."""
    width = row["width"]
    return f"{row['coverage']:.1%} ({'∞' if width > 1e6 else f'{round(width, 3):.3g}'})"


def pivot(rows: list[Row], down: tuple[str, ...]) -> str:
    """A Markdown table: a line for each value of `down`, a column for each interval."""
    columns = list(dict.fromkeys(row["interval"] for row in rows))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows:
        values = (row[key] for key in down)
        line = tuple(f"{value:.2f}" if isinstance(value, float) else str(value) for value in values)
        lines.setdefault(line, dict.fromkeys(columns, ""))[row["interval"]] = cell(row)
    return table([*down, *columns], [[*line, *cells.values()] for line, cells in lines.items()])


def plot(rows: list[Row]) -> None:
    """Plot coverage over seeds, a panel for each shape."""
    figure, panels = plt.subplots(1, len(SHAPES), figsize=(10, 3.6), sharey=True)
    for panel, shape in zip(panels, SHAPES, strict=True):
        panel.axhline(LEVEL, color="0.5", linestyle="--", linewidth=1)
        for i, name in enumerate(("Student's t", "percentile bootstrap", "range")):
            points = [row for row in rows if (row["shape"], row["interval"]) == (shape, name) and row["seeds"] > 1]
            panel.plot([row["seeds"] for row in points], [row["coverage"] for row in points], "o-", color=f"C{i}",
                       markersize=4, linewidth=2 if name == "Student's t" else 1.2, label=name)  # fmt: skip
        panel.set_title(shape, fontsize=10)
        panel.set_xticks([3, 5, 10, 20])
        panel.set_xlabel("seeds")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("coverage of the mean")
    panels[0].legend(frameon=False, fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(FOLDER / "coverage.png", dpi=130)


def report(tables: dict[str, list[Row]], trials: int) -> str:
    """The README's text."""
    rows, errors = tables["one dataset"], tables["differences"]
    by_shape = "\n\n".join(
        f"**{shape}**: {NAMED[shape]}\n\n" + pivot([row for row in rows if row["shape"] == shape], ("seeds",))
        for shape in SHAPES
    )
    kinds = [key for key in errors[0] if key not in ("shape", "seeds")]
    head = ["shape", "seeds", "Welch's interval covers", "found better", "found worse", *kinds[3:]]
    compared = [[row["shape"], str(row["seeds"]), *(f"{row[kind]:.1%}" for kind in kinds)] for row in errors]
    return f"""# How often the intervals cover

The nominal coverage of every interval is {LEVEL:.0%}. A cell gives the share of draws of scores in which the
interval covers, and in brackets its median length. For one dataset and for mean differences there are {trials:,} draws
of each kind, so the shares are accurate to half a point; for everything else there are {trials // 10:,}, accurate to a
point and a half, and for equal variants {trials // 20:,}. Bootstraps resample {RESAMPLES:,} times.

Findings:

- Below 5 seeds no interval of a useful length covers the mean, so none is given, only the range and every seed.
- From 5 seeds on, Student's t covers the mean of normal scores at its nominal rate; bootstraps do not.
- With skewed or bimodal scores, such as ours, every interval falls short at 5 seeds: if all five are in one mode,
  nothing indicates the other. With ten and twenty seeds coverage is about 90%.
- Five seeds distinguish variants 10 points apart, at a standard deviation of 10, in a quarter of cases, twenty in
  most. Equal variants are said to differ in at most 5% of comparisons.
- Over datasets, the percentile bootstrap is too narrow for few seeds, and has zero length if scores do not overlap.

## The mean over the seeds of one dataset

`summarise_seeds` gives the range below 5 seeds, labelled as such, and Student's t interval from 5 on. The columns are
intervals for the mean; the last one is for the interquartile mean of the distribution (of
{trials // 10:,} draws).

{by_shape}

![coverage](coverage.png)

## The difference of two variants on one dataset

`compare_seeds` of two variants whose means are 10 apart, and `adjust_p_values`: how often one of 2 or 6 equal variants
is said to differ.

{table(head, compared)}

## The interquartile mean over datasets

Datasets' levels run from 20 to 110 and their standard deviations from 2 to 12. `aggregate_scores` gives the interval
named t where it is `given`: from {FEWEST_DATASETS} datasets and {FEWEST_RUNS} runs on, 5 or more of each.

{pivot(tables["interquartile mean"], ("shape", "datasets", "seeds", "given"))}

## The mean difference over datasets

`average_differences` of two variants with equal means on every dataset, whose scores have these shapes.

{pivot(tables["mean differences"], ("shapes", "datasets", "seeds"))}

## The probability of improvement

Normal scores of equal variance. `compare_over_datasets` gives Newcombe's interval.

{pivot(tables["probability of improvement"], ("datasets", "truth", "seeds"))}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000, help="draws of one dataset's scores")
    trials = parser.parse_args().trials
    sentence = provenance(seeds=[SEED], packages=["scipy"])
    few = trials // 10
    makers = {
        "one dataset": (one_dataset, trials),
        "differences": (differences, few),
        "interquartile mean": (aggregates, few),
        "mean differences": (mean_differences, trials),
        "probability of improvement": (improvements, few),
    }
    tables = {name: list(make(count, np.random.default_rng(SEED))) for name, (make, count) in makers.items()}
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "coverage.json").write_text(json.dumps({"trials": trials, **tables}, indent=1) + "\n")
    plot(tables["one dataset"])
    write_report(FOLDER / "README.md", report(tables, trials), sentence)


if __name__ == "__main__":
    main()
