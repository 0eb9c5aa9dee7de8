"""What a page is made of: sections of charts and tables, which its template lays out."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: What it says.
        detail: What it says besides, in small print.
        span: Columns that it covers.
    """

    text: str
    detail: str = ""
    span: int = 1


@dataclass(frozen=True)
class Table:
    """A table; the first cell of a row is its head.

    Attributes:
        caption: What is in it.
        head: Of the columns.
        rows: Their cells.
        folded: Whether it shows only when asked for, as the numbers behind a chart do.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    folded: bool = True

    @classmethod
    def of(
        cls, caption: str, head: Sequence[str], rows: Sequence[Sequence[Cell | str]], folded: bool = True
    ) -> "Table":
        """A table of which most cells are plain text."""
        cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
        return cls(caption, tuple(head), cells, folded)


@dataclass(frozen=True)
class Chart:
    """A picture.

    Attributes:
        title: Seen above it.
        picture: Inline SVG, or an image whose content is part of the page.
        note: Seen below it.
    """

    title: str
    picture: Markup
    note: str = ""


@dataclass(frozen=True)
class Group:
    """What a section shows of one dataset, or of one point.

    Attributes:
        title: Empty where the section has one group.
        text: Paragraphs before the charts.
        charts: Side by side where there is room.
        tables: After the charts.
        folded: Whether it shows only when asked for.
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
    """A part of the page: what it shows and how to read it, then its groups."""

    key: str
    title: str
    text: tuple[str, ...]
    groups: tuple[Group, ...] = ()
