"""Every reproduction in docs/third-party-layers.md shows its finding."""

import re

import pytest
from guide import ROOT, CodeBlock, code_blocks

REPRODUCTIONS = [block for block in code_blocks(ROOT / "docs" / "third-party-layers.md") if "assert" in block.text]


@pytest.mark.slow
@pytest.mark.parametrize("block", REPRODUCTIONS, ids=lambda block: f"line {block.line}")
def test_reproduction_shows_its_finding(block: CodeBlock) -> None:
    for package in re.findall(r"^(?:from|import) (\w+)", block.text, re.MULTILINE):
        pytest.importorskip(package)
    assert len(block.text.replace("\n\n", "\n").splitlines()) <= 10
    exec(block.text, {})
