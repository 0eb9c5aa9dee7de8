"""Reads the code blocks of the tutorials in docs/, so that tests run what the tutorials show."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
FENCE = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class CodeBlock:
    """A block of code in a page.

    Attributes:
        language: The word after its opening fence: `python` and `bash` are run, `console` and `text` only shown.
        title: The name of the file that it shows, or None.
        text: The code.
        line: The number of its first line in the page.
    """

    language: str
    title: str | None
    text: str
    line: int


def code_blocks(page: Path) -> list[CodeBlock]:
    """The code blocks of a page, in order."""
    text = page.read_text()
    blocks = []
    for found in FENCE.finditer(text):
        line = text.count("\n", 0, found.start("text")) + 1
        blocks.append(CodeBlock(found["language"], found["title"], found["text"], line))
    return blocks


def example(file: str) -> str:
    """The code of a file that one of the tutorials shows."""
    (text,) = (block.text for page in TUTORIALS for block in code_blocks(page) if block.title == file)
    return text
