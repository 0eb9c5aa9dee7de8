"""The examples of CONTRIBUTING.md: what the guide shows is what the tests run."""

from pathlib import Path

GUIDE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()


def example(file: str) -> str:
    """The code block that follows the first mention of a file's name."""
    return GUIDE.partition(f"`{file}`")[2].partition("```python\n")[2].partition("```")[0]
