"""Small HTML tables, by which a notebook shows an object."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def html_table(title: str, rows: Iterable[Sequence[object]], head: Sequence[str] = ()) -> str:
    """A table with a title and, if there is one, a row of column names; all texts are escaped."""
    lines = [f"<caption>{escape(title)}</caption>"]
    for tag, row in [("th", head)] * bool(head) + [("td", row) for row in rows]:
        lines.append("<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in row) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def html_properties(title: str, properties: Mapping[str, object]) -> str:
    """A table of names and values, without those that are None."""
    return html_table(title, [item for item in properties.items() if item[1] is not None])
