"""The sections of the page, in order."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from decision_rnn.comparison.page import charts, tables
from decision_rnn.comparison.page.dots import score_dots
from decision_rnn.comparison.page.overall import overall_section
from decision_rnn.comparison.page.parts import Chart, Group, Section
from decision_rnn.comparison.page.style import Mark
from decision_rnn.comparison.page.svg import Canvas
from decision_rnn.comparison.page.words import describe_scores, main_targets, score_of
from decision_rnn.comparison.record import ComparedDataset, Comparison, Trial
from decision_rnn.comparison.summary import VariantSummary
from decision_rnn.comparison.verdicts import Overall
from decision_rnn.evaluation.statistics import DEVIATION_NOTE

Point = tuple[float, float]
MOST_POINTS = 200
"""The most points of a loss curve in a chart."""


class Sections:
    """Makes the sections that show results, each with a group per dataset.

    Args:
        comparison: The record.
        found: Its summaries, by dataset.
        overall: Scores over all datasets.
        marks: How the variants are drawn.
    """

    def __init__(
        self,
        comparison: Comparison,
        found: dict[str, list[VariantSummary]],
        overall: Sequence[Overall],
        marks: dict[str, Mark],
    ) -> None:
        self.comparison, self.found, self.overall, self.marks = comparison, found, overall, marks
        self.canvas = Canvas()
        self.traits = comparison.traits()

    def all(self) -> list[Section]:
        """The sections that are not empty."""
        made = (
            self.scores(), self.obedience(), self.learning(), self.cost(), self.calibration(), self.tuning(),
            overall_section(self.canvas, self.comparison, self.overall, self.marks),
        )  # fmt: skip
        return [section for section in made if section.groups]

    def scores(self) -> Section:
        def group(dataset: ComparedDataset, found: list[VariantSummary]) -> Group:
            targets = main_targets(dataset, found)
            dots = [score_dots(self.canvas, dataset, t, found, self.marks) for t in targets]
            return Group(
                charts=tuple(dots),
                tables=(
                    tables.score_table(dataset, found, self.traits, self.comparison.checkpoint_episodes),
                    tables.target_table(found),
                ),
            )

        targets = list(chain.from_iterable(s.targets for s in chain(*self.found.values())))
        shown, several = [of.scores for of in targets], any(of.deviation for of in targets)
        text = (
            "Normalised scores of the last checkpoint: 0 is a random policy, 100 an expert. A return inside the data's "
            "range measures how well an agent obeys; one beyond it measures how it extrapolates, which is another "
            f"question, in a column of its own. {describe_scores(shown)} "
            "The obedience error is the mean distance of the median return from the target, over the targets inside "
            "the data's range: lower is better. The best checkpoint is chosen by the same episodes that score it, so "
            "its score is biased upwards: it is shown because papers report it."
            + (f" Over seeds the table of every target gives the {DEVIATION_NOTE}." if several else ""),
            "In the charts a large mark is the score, with its interval (a line with ends) or the range of its seeds "
            "(a plain line); small dots below it are the seeds. Hollow marks and dashed lines are controls.",
        )
        return Section("scores", "Scores", text, self._groups(group, foldable=False))

    def obedience(self) -> Section:
        def group(dataset: ComparedDataset, found: list[VariantSummary]) -> Group:
            return Group(charts=tuple(charts.obedience_panels(self.canvas, dataset, found, self.marks)))

        text = (
            "The return that an agent achieves for each target: the median of all seeds' episodes, with a band from "
            "the 10th to the 90th percentile. On the dashed diagonal it achieves its target; to the right of the "
            "dotted line the target is higher than any return in the data. The numbers are in the table of every "
            "target, with the scores.",
        )
        return Section("obedience", "Target and achieved return", text, self._groups(group))

    def learning(self) -> Section:
        def group(dataset: ComparedDataset, found: list[VariantSummary]) -> Group:
            panels = charts.learning_panels(self.canvas, found, self.marks)
            losses = {s.variant: mean_loss(self.comparison.trials_of(s.variant, s.dataset)) for s in found}
            loss = charts.overlay(self.canvas, "Loss", "training steps", "loss", losses, self.marks, log="y")
            found_tables = [tables.checkpoint_table(found)] * bool(panels)
            found_tables += [tables.curve_table("Loss", "step", "loss", losses)] * (loss is not None)
            return Group(charts=(*([loss] if loss else []), *panels), tables=tuple(found_tables))

        text = (
            "The loss, mean over seeds, and the score of every checkpoint, by "
            f"{self.comparison.checkpoint_episodes} episodes each: a thick line with marks is the mean over seeds for "
            "the first target, thin lines are its seeds, a dotted line is the mean for the data's best "
            "return, grey lines are the other variants. A curve that still rises says that longer training may change "
            "the order. Losses of different objectives cannot be compared.",
        )
        return Section("learning", "Learning curves", text, self._groups(group))

    def cost(self) -> Section:
        def group(dataset: ComparedDataset, found: list[VariantSummary]) -> Group:
            target = main_targets(dataset, found)[0]
            scores = {s.variant: of.scores.score for s in found if (of := score_of(s, target)) is not None}

            def chart(title: str, x: str, key: str) -> Chart | None:
                costs = {s.variant: (float(getattr(s, key)), scores[s.variant]) for s in found if s.variant in scores}
                return charts.cost_chart(self.canvas, title, x, costs, self.marks)

            made = (
                chart("Parameters", "parameters", "parameters"),
                chart("Training", "seconds of training", "training_seconds"),
                chart("One action", "µs for one action", "action_microseconds"),
                chart("State", "bytes of state per environment", "state_bytes"),
            )
            return Group(charts=tuple(c for c in made if c), tables=(tables.cost_table(found, self.traits),))

        text = (
            "The score at the first target, over the cost of an agent: further left is cheaper, further up is "
            f"better. Training is the median wall time of a run{self.comparison.describe_jobs()}; an action is one "
            "step in one environment on one thread, of the seed where it is fastest; the state is what the agent keeps "
            "of one environment between steps.",
        )
        return Section("cost", "Score against cost", text, self._groups(group))

    def calibration(self) -> Section:
        def group(dataset: ComparedDataset, found: list[VariantSummary]) -> Group:
            cells: dict[str, Sequence[Trial]] = {
                s.variant: self.comparison.trials_of(s.variant, s.dataset) for s in found
            }
            panels = charts.calibration_panels(self.canvas, dataset, cells, self.marks)
            return Group(charts=tuple(panels), tables=(tables.calibration_table(cells),) * bool(panels))

        text = (
            "The difference between each seed's median return and its target: a line is a seed. Above zero it earns "
            "more than its target, below zero less; right of the dotted line the target is higher than any return in "
            "the data. Lines close together point to the method, lines far apart to luck in training.",
        )
        return Section("calibration", "Calibration of each seed", text, self._groups(group))

    def tuning(self) -> Section:
        def group(dataset: ComparedDataset, found: list[VariantSummary]) -> Group:
            curves = {s.variant: list(zip(t.episodes, t.score, strict=True)) for s in found if (t := s.tuning)}
            chart = charts.overlay(
                self.canvas, "Score of the chosen target", "episodes spent on choosing", "normalised score", curves,
                self.marks, log="x",
            )  # fmt: skip
            return Group(charts=(chart,), tables=(tables.tuning_table(found),)) if chart else Group()

        text = (
            "Anyone who can play in the environment can choose a target by trying. This is the expected score of a "
            "choice made by that many episodes per seed, over all targets: the gain from left to right is bought with "
            "interaction, which offline learning is meant to do without.",
        )
        return Section("tuning", "Score against episodes spent on choosing a target", text, self._groups(group))

    def _groups(
        self, make: Callable[[ComparedDataset, list[VariantSummary]], Group], foldable: bool = True
    ) -> tuple[Group, ...]:
        """A group for each dataset with something to show, titled if there are several datasets. From the second
        group on they are collapsed, since the pictures are many."""
        made: list[Group] = []
        for dataset in self.comparison.datasets:
            found = self.found[dataset.data.name]
            group = make(dataset, found) if found else Group()
            if not group.empty:
                several = len(self.comparison.datasets) > 1
                title = dataset.data.name if several else ""
                made.append(replace(group, title=title, folded=foldable and len(made) > 0))
        return tuple(made)


def mean_loss(cells: Sequence[Trial]) -> list[Point]:
    """The loss over steps, mean over the seeds that logged it; if there are many points, neighbours are averaged."""
    by_step: dict[int, list[float]] = {}
    for cell in cells:
        for step, loss in cell.loss:
            by_step.setdefault(step, []).append(loss)
    points = np.array([(step, np.mean(losses)) for step, losses in sorted(by_step.items())])
    parts = np.array_split(points, min(len(points), MOST_POINTS)) if len(points) else []
    return [(float(part[-1, 0]), float(part[:, 1].mean())) for part in parts]
