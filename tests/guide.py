"""Reads the code blocks of the tutorials in docs/, so that tests run what the tutorials show."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class CodeBlock(NamedTuple):
    """A block of code in a page: the word after its fence (`python` and `bash` are run, `console` and `text` only
    shown), the name of the file that it shows, the code, and the number of its first line."""

    language: str
    title: str | None
    text: str
    line: int


def code_blocks(page: Path) -> list[CodeBlock]:
    """The code blocks of a page, in order."""
    text = page.read_text()
    return [CodeBlock(*block.groups(), text.count("\n", 0, block.start(3)) + 1) for block in FENCE.finditer(text)]


def example(file: str) -> str:
    """The code of a file that one of the tutorials shows."""
    (text,) = (block.text for page in TUTORIALS for block in code_blocks(page) if block.title == file)
    return text
