"""The tutorials in docs/: what they show is what the tests run."""

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
        language: What follows its opening fence: `python` and `bash` are run, `console` and `text` are shown.
        title: The file that it is, or None.
        text: The code.
        line: Its first line in the page.
    """

    language: str
    title: str | None
    text: str
    line: int


def code_blocks(page: Path) -> list[CodeBlock]:
    """The blocks of a page in their order."""
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
