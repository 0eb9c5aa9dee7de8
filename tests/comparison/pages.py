"""An HTML parser for tests of comparison pages."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "img", "source", "br"}


@dataclass
class Row:
    """A row of a table: the text of each cell, and the <small> text in each."""

    cells: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)


class Page(HTMLParser):
    """A parsed page; raises AssertionError if its tags do not close in order.

    Attributes:
        attributes: (tag, name, value) of every attribute.
        tables: Rows by caption.
        headings: Texts of h1 to h3.
        text: All text of the page, with single spaces.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.tables: dict[str, list[Row]] = {}
        self.headings: list[str] = []
        self._open: list[str] = []
        self._texts: list[str] = []
        self._row = Row()
        self._caption = ""
        self.feed(html)
        self.close()
        assert not self._open, f"never closed: {self._open}"
        self.text = " ".join(" ".join(self._texts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in VOID:
            return
        self._open.append(tag)
        if tag == "caption":
            self._caption = ""
        elif tag == "tr":
            self._row = Row()
        elif tag in ("td", "th"):
            self._row.cells.append("")
            self._row.details.append("")
        elif tag in ("h1", "h2", "h3"):
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1] == tag, f"</{tag}> closes <{self._open[-1]}>"
        self._open.pop()
        if tag == "caption":
            assert self._caption not in self.tables or self._caption
            self.tables.setdefault(self._caption, [])
        elif tag == "tr":
            self.tables[self._caption].append(self._row)

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] == "style":
            return
        self._texts.append(data)
        if self._open[-1] == "caption":
            self._caption += data
        elif "small" in self._open:
            self._row.details[-1] += data
        elif self._open[-1] in ("td", "th"):
            self._row.cells[-1] += data.strip()
        elif self._open[-1] in ("h1", "h2", "h3"):
            self.headings[-1] += data
