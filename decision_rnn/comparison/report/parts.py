"""The parts of a report: sections of tables and charts, which Markdown and the page render alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from markupsafe import Markup

from decision_rnn.comparison.report.svg import SHAPES, Mark
from decision_rnn.comparison.summary import VariantSummary, summarise
from decision_rnn.comparison.verdicts import Overall, over_datasets
from decision_rnn.evaluation.actor import describe_acting

if TYPE_CHECKING:
    from decision_rnn.comparison.record import ComparedDataset, Comparison


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and details that the page adds in small print."""

    text: str
    detail: str = ""


Columns = dict[str, dict[str, Cell | str]]
"""Cells by column and by label of the variant."""


class Table:
    """A table; the first cell of a row is its header. Columns and rows without any text are left out.

    Args:
        title: The title.
        head: Column headers.
        rows: Cells or plain text.
        behind_chart: Whether it holds the numbers behind a chart: collapsed on the page, and not in Markdown.
    """

    def __init__(
        self, title: str, head: Sequence[str], rows: Sequence[Sequence[Cell | str]], behind_chart: bool = False
    ) -> None:
        cells = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
        cells = [row for row in cells if any(cell.text for cell in row[1:])]
        kept = [i for i in range(len(head)) if any(row[i].text for row in cells)]
        self.title, self.behind_chart = title, behind_chart
        self.head, self.rows = [head[i] for i in kept], [[row[i] for i in kept] for row in cells]

    def markdown(self) -> str:
        """The table in Markdown; its title is the header of the first column."""
        lines = [(self.title, *self.head[1:]), ["---"] * len(self.head), *([c.text for c in row] for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


@dataclass(frozen=True)
class Chart:
    """A picture with a title: inline SVG, or an image embedded in the page; `note` is shown below it."""

    title: str
    picture: Markup
    note: str = ""


@dataclass(frozen=True)
class Group:
    """The part of a section on one dataset, or on one topic.

    Attributes:
        title: The name of the dataset or topic.
        text: Paragraphs before the charts.
        tables: Tables, left out if empty; on the page those behind charts come after the charts, the others before.
        charts: Charts, side by side if there is room.
    """

    title: str
    text: Sequence[str] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", [table for table in self.tables if table.rows])


@dataclass(frozen=True)
class Section:
    """A section of the report; without groups it is left out.

    Attributes:
        title: The title.
        text: What the numbers are, in Markdown and on the page.
        groups: Its parts.
        legend: Explains tables and charts, on the page; Markdown names docs/protocol.md.
        foldable: Whether the page collapses all groups but the first.
    """

    title: str
    text: str
    groups: Sequence[Group]
    legend: str = ""
    foldable: bool = True


@dataclass(frozen=True)
class Findings:
    """What sections are made from: the record of a comparison, and the summaries computed from it."""

    comparison: Comparison

    @cached_property
    def summaries(self) -> tuple[VariantSummary, ...]:
        return summarise(self.comparison)

    @cached_property
    def overall(self) -> tuple[Overall, ...]:
        return over_datasets(self.comparison, self.summaries)

    @cached_property
    def marks(self) -> dict[str, Mark]:
        """How the variants are drawn in every chart, by label."""
        return {
            variant.label: Mark(f"v{i % 12}{' control' * variant.control}", SHAPES[i % len(SHAPES)])
            for i, variant in enumerate(self.comparison.variants)
        }

    @cached_property
    def names(self) -> dict[str, str]:
        """The names of the variants in tables, by label: they add that a variant is a control, and how it acts if not
        as the first one does."""
        first, *_ = acting = [describe_acting(of.window, of.actions) for of in self.comparison.variants]
        named = {}
        for variant, acts in zip(self.comparison.variants, acting, strict=True):
            traits = ["control"] * variant.control + [acts] * (acts != first)
            named[variant.label] = f"{variant.label} ({', '.join(traits)})" if traits else variant.label
        return named

    def table(self, title: str, columns: Mapping[str, Mapping[str, Cell | str]], behind_chart: bool = False) -> Table:
        """A table with a row for each variant in one of the columns, in order, and then for what else is in them."""
        rows = [
            [self.names.get(label, label), *(column.get(label, "") for column in columns.values())]
            for label in dict.fromkeys(chain(self.names, *columns.values()))
        ]
        return Table(title, ("variant", *columns), rows, behind_chart)

    def on(self, dataset: ComparedDataset) -> list[VariantSummary]:
        """The summaries of one dataset."""
        return [summary for summary in self.summaries if summary.compared is dataset]

    def groups(self, make: Callable[[ComparedDataset, list[VariantSummary]], Group]) -> list[Group]:
        """A group for each dataset that has a result and something to show."""
        made = (make(dataset, found) for dataset in self.comparison.datasets if (found := self.on(dataset)))
        return [group for group in made if group.text or group.tables or group.charts]
