"""A parser for tests of comparison pages."""

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass

VOID = re.compile(r"<((?:meta|img|source|br)\b[^>]*)>")


@dataclass
class Row:
    """A row of a table: the text of each cell, and the <small> text in each."""

    cells: list[str]
    details: list[str]


class Page:
    """A parsed page; raises ParseError if its tags do not close in order.

    Attributes:
        attributes: (tag, name, value) of every attribute.
        tables: Rows by caption; those of tables with the same caption follow each other.
        headings: Texts of h1 to h3.
        text: All text of the page, with single spaces.
    """

    def __init__(self, html: str) -> None:
        tree = ET.fromstring(VOID.sub(r"<\1/>", html.partition("<!DOCTYPE html>")[2]))
        self.attributes = [(of.tag, name, value) for of in tree.iter() for name, value in of.items()]
        self.headings = [text_of(of) for of in tree.iter() if of.tag in ("h1", "h2", "h3")]
        self.tables: dict[str, list[Row]] = {}
        for table in tree.iter("table"):
            for row in table.iter("tr"):
                cells = [(cell.text or "").strip() for cell in row], [text_of(cell.find("small")) for cell in row]
                self.tables.setdefault(text_of(table.find("caption")), []).append(Row(*cells))
        self.text = text_of(tree.find("body"))


def text_of(element: ET.Element | None) -> str:
    return "" if element is None else " ".join(" ".join(element.itertext()).split())
