"""The main findings of a report in words: which variants differ, and never more than the tests show."""

from dataclasses import replace

import numpy as np
from made_comparison import made_comparison, of_scores

from decision_rnn.comparison.report.conclusions import conclusions
from decision_rnn.comparison.report.parts import Findings


def at_best(**scores: list[float]) -> str:
    """The finding for the data's best return of variants with these seed scores; those named c... are controls."""
    made = of_scores(**scores)
    best = [replace(dataset, targets=dataset.targets[2:]) for dataset in made.datasets]
    return conclusions(Findings(replace(made, datasets=tuple(best))))[0][1][0]


FIVE = {
    "a": [80.0, 81, 82, 83, 84],
    "b": [79.0, 81, 82, 83, 84],
    "c": [80.0, 80, 81, 82, 84],
    "d": [40.0, 41, 42, 43, 44],
}


def test_conclusion_says_that_behaviour_cloning_has_no_target_return() -> None:
    text = at_best(a=[50.0, 51.0], bc=[60.0, 61.0])
    assert text.startswith("At target 3000, the data's best, the control bc, which has no target, scores highest, 60.5")


def test_conclusion_names_only_significant_differences_from_the_first_variant() -> None:
    text = at_best(**FIVE)
    assert text.startswith("At target 3000, the data's best, a scores highest, 82.0 (95% interval 80.0 to 84.0).")
    assert "Compared with a (82.0), d (42.0) is worse, no difference is shown for b (81.8) and the control c " in text
    assert "tied" not in text
    better = at_best(d=FIVE["d"], a=FIVE["a"])
    assert "a scores highest" in better
    assert better.endswith("Compared with d (42.0), a (82.0) is better.")


def test_conclusion_of_few_seeds_claims_no_order() -> None:
    for text in (at_best(a=[80, 81, 82], b=[70, 71, 72]), at_best(a=[80], b=[20])):
        assert text.endswith(" With fewer than 5 seeds a difference cannot be told from chance.")
        assert "better" not in text
        assert "interval" not in text
    assert at_best(a=[80]) == "At target 3000, the data's best, a scores 80.0."


def test_conclusion_compares_with_the_first_variant_of_enough_seeds() -> None:
    text = at_best(few=[95, 95.3], b=FIVE["a"], d=FIVE["d"])
    assert "few scores highest, 95.2 (range of seeds 95.0 to 95.3)." in text
    assert "Compared with b (82.0), d (42.0) is worse. Too few seeds for a verdict: few (95.2)." in text


def test_conclusion_over_datasets_has_the_verdicts_of_the_probability_of_improvement() -> None:
    made = made_comparison(("a", "b"), 5, ("own/x", "own/y"), (), (), checkpoints=0)
    better = {"a": 1000.0, "b": 3000.0}
    trials = [
        replace(
            trial, targets=tuple(replace(of, score_mean=better[trial.variant] + trial.seed) for of in trial.targets)
        )
        for trial in made.trials
    ]
    (title, (text, *_)), *_ = conclusions(Findings(replace(made, trials=tuple(trials))))
    assert title == "Over all datasets"
    middle = np.sort([better["b"] + trial.seed for trial in trials if trial.variant == "b"])[2:8].mean()
    assert text.startswith(f"At the first target of each task, b has the highest interquartile mean, {middle:.1f}.")
    assert "Compared with a, b is better. These verdicts rest on the 95% intervals of the probability of " in text


def test_conclusion_without_any_result_says_so() -> None:
    made = made_comparison(labels=("mingru",), controls=(), cloning=(), seeds=1, failed=(("mingru", 0),))
    assert conclusions(Findings(made)) == [("standin/hopper-medium", ["On standin/hopper-medium no run has a result."])]
