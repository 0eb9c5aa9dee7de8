"""The table of a comparison: scores, intervals, verdicts, controls, checkpoints, aggregates, remarks."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from decision_rnn.comparison.plan import SPREAD
from decision_rnn.comparison.record import (
    CheckpointScores,
    ComparedDataset,
    ComparedVariant,
    Comparison,
    Failure,
    Target,
    Trial,
)
from decision_rnn.comparison.summary import summarise
from decision_rnn.comparison.table import format_comparison
from decision_rnn.data.summary import DataSummary
from decision_rnn.evaluation.obedience import obedience, spread_targets
from decision_rnn.evaluation.results import TargetResult
from decision_rnn.evaluation.statistics import summarise_seeds

TARGETS = (
    Target(target_return=3600.0, roles=("paper",), in_range=False),
    Target(target_return=1800.0, roles=("paper",), in_range=True),
    Target(target_return=3000.0, roles=("best",), in_range=True),
    Target(target_return=1000.0, roles=("spread",), in_range=True),
    Target(target_return=2000.0, roles=("spread",), in_range=True),
)
DATA = DataSummary(
    name="standin/hopper-medium",
    fingerprint="ab" * 32,
    environment_id="Hopper-v5",
    return_mean=1500.0,
    return_sd=500.0,
    return_min=0.0,
    return_max=3000.0,
    reference_min=0.0,
    reference_max=3000.0,
    comparable="with no paper's",
)


def achieved(asked: float | None, returns: Sequence[float]) -> TargetResult:
    values = np.array(returns)
    return TargetResult(
        target_return=asked,
        in_range=None if asked is None else asked <= 3000,
        return_mean=float(values.mean()),
        return_sd=float(values.std()),
        score_mean=float(values.mean()) / 30,
        score_sd=float(values.std()) / 30,
        length_mean=100.0,
        returns=tuple(returns),
    )


def cell(variant: str, seed: int, returns: Sequence[float], cloning: bool = False, **changes: Any) -> Trial:
    asked = [None] if cloning else [target.target_return for target in TARGETS]
    values = {
        "variant": variant,
        "dataset": DATA.name,
        "seed": seed,
        "run": f"standin-hopper-medium/{variant}-seed{seed}",
        "step": 10_000,
        "targets": tuple(achieved(target, returns) for target in asked),
        "checkpoints": (),
        "loss": ((10_000, 0.1),),
        "parameters": 498_947,
        "backbone_parameters": 480_000,
        "state_bytes": 1576,
        "action_microseconds": 393.2,
        "training_seconds": 334.8,
        "evaluation_seconds": 20.0,
        "remarks": (),
        "commit": None,
        "versions": {"torch": "2.13.0"},
        "hardware": {"cpu": "a processor", "cores": 2, "threads": 1, "gpu": None},
    }
    return Trial(**{**values, **changes})


def comparison(cells: Sequence[Trial], state: str = "carry", **changes: Any) -> Comparison:
    variants = dict.fromkeys(each.variant for each in cells)
    evaluation = {"state": state, "window": 20}
    values = {
        "command": "decision-rnn compare",
        "seeds": tuple(sorted({each.seed for each in cells})),
        "episodes": 2,
        "checkpoint_episodes": 20,
        "datasets": (ComparedDataset(data=DATA, targets=TARGETS),),
        "variants": tuple(
            ComparedVariant(
                label=label,
                control=label == "cloning",
                config={"training": {"steps": 10_000}, "evaluation": evaluation},
            )
            for label in variants
        ),
        "trials": tuple(cells),
        "failed": (),
        "versions": {},
        "hardware": {},
    }
    return Comparison(**{**values, **changes})


def of_scores(scores: Sequence[float], variant: str = "mingru", **changes: Any) -> list[Trial]:
    """One cell per seed whose two episodes have that mean score."""
    return [cell(variant, seed, (30 * s - 30, 30 * s + 30), **changes) for seed, s in enumerate(scores)]


def rows(text: str, corner: str) -> list[list[str]]:
    """The body rows of the table whose first header cell starts with `corner`."""
    lines = [line.strip("|").split("|") for line in text.split(f"| {corner}")[1].split("\n\n")[0].splitlines()[2:]]
    return [[each.strip() for each in line] for line in lines]


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        ([80.2], "80.2"),
        ([80.2, 90.4], "85.3 (80.2, 90.4)"),
        ([89.6, 90.4, 90.0], "90.0 (89.6, 90.4, 90.0)"),
    ],
)
def test_table_of_fewer_than_five_seeds_shows_each_score_and_no_interval(scores: list[float], text: str) -> None:
    table = format_comparison(comparison(of_scores(scores)))
    assert rows(table, "score of the last")[0][:4] == ["mingru", text, text, text]
    assert "95%" not in table
    assert "[" not in table


def test_table_of_five_seeds_has_intervals_and_verdicts() -> None:
    scores, others = [50.0, 51.0, 52.0, 53.0, 60.0], [10.0, 11.0, 12.0, 13.0, 14.0]
    text = format_comparison(comparison([*of_scores(scores), *of_scores(others, "lru"), *of_scores(scores, "copy")]))
    summary = summarise_seeds(scores)
    assert rows(text, "score of the last")[0][1] == f"53.2 [{summary.low:.1f}, {summary.high:.1f}]"
    assert "mean over seeds with Student's t 95% interval" in text
    assert "verdicts at 5% over the comparisons of one column of one dataset, by Holm's method." in text
    assert "range, which" not in text
    worse, same = rows(text, "difference from mingru")
    assert worse[0] == "lru"
    assert all(entry.startswith("-41.2 [") and entry.endswith("], worse") for entry in worse[1:])
    assert all("no difference shown" in entry for entry in same[1:])


def test_table_has_standard_deviation_over_seeds_with_and_without_episode_noise() -> None:
    """mingru: episodes vary alike for all seeds, so nothing is noise; lru: seeds differ by episode noise alone."""
    alike = of_scores([50.0, 51.0, 52.0, 53.0, 60.0])
    lucky = [cell("lru", seed, (90.0 * (seed % 2), 90.0 * ((seed + 1) % 2))) for seed in range(5)]
    text = format_comparison(comparison([*alike, *lucky, *of_scores([1.0, 2.0, 3.0, 4.0], "few")]))
    assert rows(text, "standard deviation over seeds") == [["mingru", *["4.0 (4.0)"] * 3], ["lru", *["0.0 (0.0)"] * 3]]
    assert "without the noise of a finite number of episodes" in text
    assert "standard deviation over seeds" not in format_comparison(comparison(of_scores([80.2, 90.4])))


def test_table_has_separate_columns_for_extrapolation_and_obedience() -> None:
    remark = "3600 is beyond the data's best 3000: its score measures extrapolation"
    text = format_comparison(comparison(of_scores([50.0], remarks=(remark,))))
    head = next(line for line in text.splitlines() if line.startswith("| score of the last"))
    assert [each.strip() for each in head.strip("|").split("|")][1:] == [
        "target 3600, beyond the data",
        "target 1800, inside the data",
        "target 3000, the data's best",
        "obedience error",
    ]
    assert f"- {remark}" in text
    # 1500 for targets 1000 and 2000: 500 off, of a range of 3000.
    assert rows(text, "score of the last")[0][-1] == "16.7%"


def test_table_says_what_an_agent_at_the_middle_of_the_range_has_as_obedience_error() -> None:
    asked = spread_targets(0.0, 1000.0, SPREAD)
    error = obedience(asked, [np.full(3, 500.0)] * SPREAD, (0.0, 1000.0)).error
    text = format_comparison(comparison(of_scores([1.0])))
    assert f"an agent that always returns the middle of the range has about {error:.0f}." in text


def test_table_of_a_dataset_without_a_target_of_its_own_has_verdicts_at_the_best() -> None:
    def own(each: Trial) -> Trial:
        return replace(each, targets=each.targets[2:])

    cells = [own(each) for label, score in (("mingru", 0.0), ("lru", 50.0)) for each in of_scores([score] * 5, label)]
    dataset = ComparedDataset(data=DATA, targets=TARGETS[2:])
    ((label, difference),) = rows(format_comparison(comparison(cells, datasets=(dataset,))), "difference from mingru")
    assert (label, difference) == ("lru", "+50.0 [+50.0, +50.0], better")


def test_table_remark_names_its_variant() -> None:
    text = format_comparison(comparison([*of_scores([50.0], remarks=("is slow",)), *of_scores([50.0], "lru")]))
    assert "- mingru: is slow" in text


def test_table_has_rows_for_cloning_and_the_mean_of_the_data() -> None:
    text = format_comparison(comparison([*of_scores([80.0]), *of_scores([40.0], "cloning", cloning=True)]))
    asked, cloned, data = rows(text, "score of the last")
    assert asked[1:5] == ["80.0", "80.0", "80.0", ""]
    assert cloned == ["cloning (control)", "", "", "", "40.0", ""]
    assert data == ["(the data's mean)", "50.0", "50.0", "50.0", "50.0", ""]


def test_table_has_columns_for_the_last_and_the_best_checkpoint() -> None:
    def checkpoint(step: int, score: float) -> CheckpointScores:
        return CheckpointScores(step=step, targets=tuple(achieved(t, [30 * score]) for t in (3600.0, 3000.0)))

    cells = [
        cell("mingru", seed, (0.0, 0.0), checkpoints=(checkpoint(5_000, early), checkpoint(10_000, late)))
        for seed, (early, late) in enumerate([(70.0, 60.0), (20.0, 40.0)])
    ]
    text = format_comparison(comparison(cells))
    head = next(line for line in text.splitlines() if line.startswith("| score by checkpoint"))
    assert "| last, target 3600 | best, target 3600 | last, target 3000 | best, target 3000 |" in head
    assert rows(text, "score by checkpoint")[0][1:3] == ["50.0 (40.0 to 60.0)", "55.0 (40.0 to 70.0)"]
    assert (
        "20 episodes each; the best one is chosen and measured by the same episodes, so its score is biased upwards"
        in text
    )
    (summary,) = summarise(comparison(cells))
    assert summary.curves[0].steps == (5_000, 10_000)
    assert summary.curves[0].mean == (45.0, 50.0)
    assert summary.curves[0].per_seed == ((70.0, 60.0), (20.0, 40.0))


def test_summary_curve_has_only_the_steps_that_all_seeds_have() -> None:
    def points(*steps: int) -> tuple[CheckpointScores, ...]:
        return tuple(CheckpointScores(step=step, targets=(achieved(3600.0, [step]),)) for step in steps)

    cells = [
        cell("mingru", 0, (0.0, 0.0), checkpoints=points(1, 2, 3)),
        cell("mingru", 1, (0.0, 0.0), checkpoints=points(3)),
    ]
    (summary,) = summarise(comparison(cells))
    assert summary.curves[0].steps == (3,)


def test_score_of_a_target_chosen_by_episodes_rises_to_that_of_the_best_target() -> None:
    """One of five targets scores 90, the others 0: one episode finds it in a fifth of cases, a hundred in all."""
    good = tuple(achieved(target.target_return, [2700.0 if "best" in target.roles else 0.0] * 10) for target in TARGETS)
    text = format_comparison(comparison([replace(cell("mingru", 0, (0.0, 0.0)), targets=good)]))
    (chosen,) = rows(text, "score of a target chosen")
    assert float(chosen[1]) == pytest.approx(18, abs=4)
    assert float(chosen[-1]) == 90


def test_table_aggregates_over_the_datasets_that_all_variants_have() -> None:
    def on(name: str) -> ComparedDataset:
        return ComparedDataset(data=replace(DATA, name=name), targets=TARGETS)

    scores = {"a": [10.0, 20.0], "b": [30.0, 40.0], "c": [0.0, 0.0]}
    cells = [replace(each, dataset=name) for name, of in scores.items() for each in of_scores(of)]
    cells += [replace(each, dataset=name) for name in "ab" for each in of_scores([50.0, 60.0], "lru")]
    text = format_comparison(comparison(cells, datasets=tuple(on(name) for name in "abc")))
    first, second = rows(text, "interquartile mean")
    assert first == ["mingru", "25.0", "25.0", ""]  # the middle two of 10, 20, 30, 40
    assert second == ["lru", "55.0", "55.0", "1.00"]
    assert "Left out, because not every variant has a result there: c." in text


def test_table_names_the_training_steps_of_each_variant_if_they_differ() -> None:
    made = comparison([*of_scores([1.0]), *of_scores([1.0], "long")])
    longer = replace(made.variants[1], config={**made.variants[1].config, "training": {"steps": 20_000}})
    text = format_comparison(replace(made, variants=(made.variants[0], longer)))
    assert "10,000 (mingru); 20,000 (long) steps" in text


def test_table_names_the_window_and_failed_runs() -> None:
    failed = Failure(variant="lru", dataset=DATA.name, seed=3, run="lru-seed3", error="MemoryError: no room")
    text = format_comparison(comparison(of_scores([1.0]), state="window", failed=(failed,)))
    assert "2 episodes per target, window of 20." in text
    assert "- lru on standin/hopper-medium, seed 3, failed: MemoryError: no room" in text


def test_table_label_of_a_variant_with_another_state_or_window_says_so() -> None:
    made = comparison([*of_scores([1.0]), *of_scores([2.0], "published"), *of_scores([3.0], "cloning", cloning=True)])
    carrying, published, cloning = made.variants
    own = {**published.config, "evaluation": {"state": "window", "window": 7}}
    text = format_comparison(
        replace(made, variants=(carrying, replace(published, config=own), replace(cloning, config=own)))
    )
    names = ["mingru", "published (window of 7)", "cloning (control, window of 7)"]
    for corner in ("score of the last", "cost"):
        assert [row[0] for row in rows(text, corner)][:3] == names
    assert "2 episodes per target, carried state, unless a label says otherwise." in text
    first = format_comparison(replace(made, variants=(replace(carrying, config=own), published)))
    assert rows(first, "score of the last")[1][0] == "published (carried state)"
    assert "2 episodes per target, window of 7, unless a label says otherwise." in first


def test_table_names_command_commits_hardware_and_versions() -> None:
    cells = of_scores([1.0, 2.0])
    text = format_comparison(comparison([replace(cells[0], commit="abc123"), replace(cells[1], commit="def456")]))
    machine = "a processor, 2 cores, GPU: none; torch 2.13.0"
    assert text.splitlines()[-1] == f"Made by `{comparison(cells).command}` at commit abc123, def456; {machine}."
