"""The main findings of a report in words: which variants differ, and never more than the tests show."""

from dataclasses import replace

import numpy as np
from made_comparison import made_comparison, of_scores

from decision_rnn.comparison.report.conclusions import conclusions
from decision_rnn.comparison.report.parts import Findings

HIGH, LOW = [80.0, 81, 82, 83, 84], [40.0, 41, 42, 43, 44]


def at_best(**scores: list[float]) -> str:
    """The finding for the data's best return of variants with these seed scores; those named c... are controls."""
    made = of_scores(**scores)
    best = [replace(dataset, targets=dataset.targets[2:]) for dataset in made.datasets]
    return conclusions(Findings(replace(made, datasets=tuple(best))))[0][1][0]


def test_conclusion_names_only_significant_differences_from_the_first_variant() -> None:
    text = at_best(a=HIGH, b=[79.0, 81, 82, 83, 84], c=[80.0, 80, 81, 82, 84], d=LOW)
    assert text.startswith("Target 3000, the data's best: a scores highest, 82.0 (95% interval 80.0 to 84.0).")
    assert text.endswith("with a (82.0), worse: d (42.0); no difference shown: b (81.8) and c (control) (81.4).")
    better = at_best(d=LOW, a=HIGH)
    assert "a scores highest" in better
    assert better.endswith("Compared with d (42.0), better: a (82.0).")


def test_conclusion_of_few_seeds_claims_no_order() -> None:
    for text in (at_best(a=[80, 81, 82], b=[70, 71, 72]), at_best(a=[80], b=[20])):
        assert text.endswith(" With fewer than 5 seeds a difference cannot be told from chance.")
        assert "better" not in text
        assert "interval" not in text
    assert at_best(a=[80]) == "Target 3000, the data's best: a scores highest, 80.0."
    assert ": bc (control), which has no target, scores highest, 60.5" in at_best(a=[50.0, 51.0], bc=[60.0, 61.0])


def test_conclusion_compares_with_the_first_variant_of_enough_seeds() -> None:
    text = at_best(few=[95, 95.3], b=HIGH, d=LOW)
    assert "few scores highest, 95.2 (range of seeds 95.0 to 95.3)." in text
    assert "Compared with b (82.0), worse: d (42.0). Too few seeds for a verdict: few (95.2)." in text


def test_conclusion_over_datasets_has_the_verdicts_of_the_probability_of_improvement() -> None:
    made = made_comparison(("a", "b"), 5, ("local/x", "local/y"), (), (), checkpoints=0)
    scores = {"a": 1000.0, "b": 3000.0}
    trials = [
        replace(
            trial, targets=tuple(replace(of, score_mean=scores[trial.variant] + trial.seed) for of in trial.targets)
        )
        for trial in made.trials
    ]
    (title, (text, *_)), *_ = conclusions(Findings(replace(made, trials=tuple(trials))))
    assert title == "Over all datasets"
    middle = np.sort([scores["b"] + trial.seed for trial in trials if trial.variant == "b"])[2:8].mean()
    assert text.startswith(f"At the first target of each task, b has the highest interquartile mean, {middle:.1f}.")
    assert "Compared with a, better: b. These verdicts rest on the 95% intervals of the probability of " in text


def test_conclusion_without_any_result_says_so() -> None:
    made = made_comparison(labels=("mingru",), controls=(), cloning=(), seeds=1, failed=(("mingru", 0),))
    assert conclusions(Findings(made)) == [("standin/hopper-medium", ["On standin/hopper-medium no run has a result."])]
