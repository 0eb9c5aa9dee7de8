"""The parts of a page: sections of charts and tables, laid out by its template."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: The text.
        detail: Additional text in small print.
        span: Number of columns that it spans.
    """

    text: str
    detail: str = ""
    span: int = 1


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its header.

    Attributes:
        caption: The caption.
        head: Column headers.
        rows: Cells of the rows.
        folded: Whether it is collapsed until it is opened, as are the numbers behind a chart.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = True

    @classmethod
    def of(
        cls, caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell | str]], folded: bool = True
    ) -> "Table":
        """A table from cells or plain text."""
        cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
        return cls(caption, tuple(head), cells, folded)


@dataclass(frozen=True)
class Chart:
    """A picture with a title.

    Attributes:
        title: Shown above the picture.
        picture: Inline SVG, or an image embedded in the page.
        note: Shown below the picture.
    """

    title: str
    picture: Markup
    note: str = ""


@dataclass(frozen=True)
class Group:
    """The part of a section on one dataset or one topic.

    Attributes:
        title: The title; empty if the section has one group.
        text: Paragraphs before the charts.
        charts: Charts, side by side if there is room.
        tables: Tables after the charts.
        folded: Whether it is collapsed until it is opened.
    """

    title: str = ""
    text: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: bool = False

    @property
    def empty(self) -> bool:
        return not (self.text or self.charts or self.tables)


@dataclass(frozen=True)
class Section:
    """A section of the page: an introduction that says how to read it, then its groups."""

    key: str
    title: str
    text: tuple[str, ...]
    groups: tuple[Group, ...] = ()
