"""Checks that the numbers in README and docs which come from results/ are those that results/ holds.

    python scripts/check_claims.py    # prints every number that fails; exit code 1 if there is one

A paragraph, list item, table or row of a table names its sources in an HTML comment at its end or, for a whole table or
list, after the next empty line:

    <!-- results/speed/train.json#train/mingru; settings: batch 64, 2018; 3.8 = 141.7 / 37.15 -->

Items are separated by semicolons. `FILE#ROW` is the row or section of a file with that label, `FILE` all of it.
`settings:` lists text that is no result. `A = B / C` (or -) is computed from two numbers of the sources. Every other
number outside code, links and URLs must be in the sources, rounded to the decimals that are written. A row of a table
must have its numbers in one row of a source with the same label and in the same order, unless it has a comment of its
own.

Pages of evidence need a source for every number, other pages where they link to results/. The README.md beside a
comparison.json must have the tables that are rendered from it.
"""

import csv
import functools
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from decision_rnn import read_comparison
from decision_rnn.utils.errors import InputError

ROOT = Path(__file__).parents[1]
EVIDENCE = {
    "README.md": (),
    "results/README.md": (),
    "docs/results/*.md": (),
    "docs/choosing-a-backbone.md": (),
    "docs/third-party-layers.md": (),
    "docs/performance.md": (),
    "docs/protocol.md": ("Intervals", "Tests"),
    "docs/datasets.md": ("Stand-ins",),
}
"""Pages of evidence, with those of their sections that are; none listed: all."""
MOST = 100
"""Different numbers that the sources of prose may have: among more, a wrong number is often found by chance."""
COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
NUMBER = re.compile(
    r"(?<![\w.,])(?<![A-Za-z]-)(?:(?<![^\s(\[|])[+-])?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\.?\d|-?\w)"
)
NO_PROSE = re.compile(
    r"`[^`]*`|\[[^]]*\]\(https?:[^)]*\)|<!--.*?-->|\]\([^)]*\)|https?://\S+|10% BC|version [\d.]+\d", re.DOTALL
)
DERIVED = re.compile(r"(\S+) = (\S+) ([-/]) (\S+)")


class Block(NamedTuple):
    """A part of a page with one comment; `label` is that of a table's row without a comment of its own."""

    line: int
    section: str
    text: str
    label: str
    comment: str


class Row(NamedTuple):
    """Numbers of a source, and the labels that lead to them, from the file's sections to the row's own."""

    path: tuple[str, ...]
    numbers: tuple[float, ...]


def number(written: str) -> float:
    return float(written.replace(",", ""))


def numbers_in(text: str) -> list[str]:
    """The numbers in a text outside code, links and URLs, as they are written."""
    return NUMBER.findall(NO_PROSE.sub(" ", text))


def name(label: str) -> str:
    """A label for comparison: lower case, without parentheses and punctuation."""
    return " ".join(re.findall(r"\w+", re.sub(r"\(.*?\)", "", label).lower()))


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in COMMENT.sub("", line).strip().strip("|").split("|")]


@functools.cache
def read_source(file: Path) -> list[Row]:
    """The rows of a Markdown, JSON or CSV file; where that has a column `seed`, with the mean over seeds."""
    if file.suffix == ".json":
        return list(json_rows(json.loads(file.read_text())))
    if file.suffix == ".md":
        return list(markdown_rows(file.read_text()))
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for line in csv.DictReader(file.read_text().splitlines()):
        *labels, value = (cell for column, cell in line.items() if column != "seed")
        groups[tuple(labels)].append(float(value))
    return [Row(path, (*values, sum(values) / len(values))) for path, values in groups.items()]


def json_rows(value: Any, path: tuple[str, ...] = ()) -> Iterator[Row]:
    items = list(value.items()) if isinstance(value, dict) else [("", each) for each in value]
    if isinstance(value, dict) and "name" in value:
        path = (*path, *str(value["name"]).split("/"))
    yield Row(path, tuple(each for key, each in items if isinstance(each, int | float) and key != "baseline_value"))
    for key, each in items:
        if isinstance(each, dict | list) and key != "baseline":
            yield from json_rows(each, (*path, *key.split("/")))


def markdown_rows(text: str) -> Iterator[Row]:
    section, label, table = "", "", 0
    for line in re.sub(r"^Made by .*", "", text, flags=re.MULTILINE).splitlines():
        if line.startswith("|"):
            first, *others = cells(line)
            label, text = first or label, " | ".join(others)
            path = f"{section} (table {table})/{label}"
        else:
            section, table = line if line.startswith("#") else section, table + 1
            path, text = section, line
        yield Row(tuple(path.split("/")), tuple(map(number, numbers_in(text))))


def labelled(rows: Iterable[Row], label: str) -> list[list[Row]]:
    """The rows under a label, a group for every place where it stands."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        for end in range(1, len(row.path) + 1):
            labels = (name(" ".join(row.path[start:end])) for start in range(end))
            if name(row.path[end - 1]) and name(label) in labels:
                groups[row.path[:end]].append(row)
    return list(groups.values())


def holds(rows: Iterable[Row], written: str) -> bool:
    """Whether rows have a number, rounded to its decimals; one without a sign may be an absolute value."""
    value, margin = number(written), 0.5 * 10.0 ** -len(written.partition(".")[2]) * (1 + 1e-9)
    numbers = (each for row in rows for each in row.numbers)
    return any(abs(value - (each if written[0] in "+-" else abs(each))) <= margin for each in numbers)


def lacking(rows: list[Row], written: list[str], ordered: bool) -> list[str]:
    """The numbers that rows do not have; if ordered, a single row must have them in the order in which they stand."""
    if not ordered or len(rows) > 1:
        return [each for each in written if not holds(rows, each)]
    wrong, numbers = list[str](), rows[0].numbers
    for each in written:
        rest = next((end for end in range(1, len(numbers) + 1) if holds([Row((), numbers[:end])], each)), 0)
        numbers, wrong = numbers[rest:], wrong if rest else [*wrong, each]
    return wrong


def blocks_of(text: str) -> Iterator[Block]:
    """The parts of a page outside fenced code."""
    text = re.sub(r"^```.*?^```", lambda match: "\n" * match[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    section, line, pieces = "", 1, [*re.split(r"(\n\s*\n)", text), "", ""]
    for chunk, gap, following in zip(pieces[::2], pieces[1::2], pieces[2::2], strict=False):
        if chunk.startswith("#"):
            section = chunk.splitlines()[0].lstrip("# ")
        shared = "" if COMMENT.sub("", following).strip() else ";".join(COMMENT.findall(following))
        table, label, start = chunk.startswith("|"), "", line
        for part in chunk.split("\n") if table else re.split(r"\n(?=\s*(?:[-*]|\d+\.) )", chunk):
            own = ";".join(COMMENT.findall(part))
            label = (cells(part)[0] or label) if table else ""
            if COMMENT.sub("", part).strip():
                yield Block(start, section, part, "" if own or start == line else label, own or shared)
            start += part.count("\n") + 1
        line += (chunk + gap).count("\n")


def faults_of(block: Block, root: Path, required: bool) -> Iterator[str]:
    """What is wrong with the numbers of a block."""
    text, rows, derived = block.text, list[Row](), list[re.Match[str]]()
    for item in filter(None, map(str.strip, block.comment.split(";"))):
        if match := DERIVED.fullmatch(item):
            derived.append(match)
        elif item.startswith("settings:"):
            for phrase in item.removeprefix("settings:").split(", "):
                text = re.sub(rf"(?<![\d.,]){re.escape(phrase.strip())}(?![.,]?\d)", " ", text)
        else:
            file, _, label = item.partition("#")
            source = read_source(root / file) if (root / file).is_file() else []
            rows += (new := [*chain(*labelled(source, label))] if label else source)
            if not new:
                yield f"there is no {item}"
    written = numbers_in(" | ".join(cells(text)[1:]) if block.label else text)
    for match in derived:
        result, left, sign, right = match.groups()
        value = number(left) / number(right) if sign == "/" else number(left) - number(right)
        if holds(rows, left) and holds(rows, right) and holds([Row((), (value,))], result):
            written = [each for each in written if each != result]
    groups = labelled(rows, block.label) if block.label else [rows]
    groups = [group for group in groups if len(group) == 1] or groups  # rows rather than sections of that label
    wrong = min((lacking(group, written, bool(block.label)) for group in groups), key=len, default=written)
    if wrong and (required or block.comment):
        values = sorted({each for row in chain(*groups) for each in row.numbers})
        holding = f"the source has {', '.join(f'{each:g}' for each in values[:20])}" if values else "no source"
        yield f"{', '.join(wrong)}: {holding}{f' in rows {block.label}' if block.label else ''}"
    elif written and rows and not block.label and len({each for row in rows for each in row.numbers}) > MOST:
        yield f"more than {MOST} numbers in {block.comment.strip()}: name the rows, FILE#ROW"


def faults(root: Path = ROOT) -> Iterator[str]:
    """All that is wrong, with file and line."""
    evidence = {page: sections for pattern, sections in EVIDENCE.items() for page in root.glob(pattern)}
    for page in sorted({*evidence, *root.glob("docs/**/*.md"), *root.glob("results/**/*.md")}):
        sections = evidence.get(page)
        for block in blocks_of(page.read_text()):
            required = sections is not None and (not sections or block.section in sections)
            required = required or bool(re.search(r"\]\([^)]*results/", block.text))
            yield from (f"{page.relative_to(root)}:{block.line}: {text}" for text in faults_of(block, root, required))
    for file in sorted(root.glob("results/**/comparison.json")):
        try:
            tables = str(read_comparison(file)).splitlines()
        except InputError:
            continue  # made before version 1.0
        readme = file.parent / "README.md"
        missing = set(tables) - set(readme.read_text().splitlines() if readme.exists() else ())
        yield from (f"{readme.relative_to(root)}: lacks {line}" for line in tables if line in missing)


def main() -> None:
    lines = list(faults())
    print(*lines or ["Every number has its source."], sep="\n")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
