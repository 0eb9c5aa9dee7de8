"""The documentation: generated pages are complete, and written pages agree with the code."""

import inspect
import re
from dataclasses import fields

import pytest
from guide import ROOT, code_blocks

import decision_rnn
from decision_rnn.backbones import registered, registered_names
from decision_rnn.config import AgentConfig, EvaluationConfig, RunConfig, TrainingConfig

site_pages = pytest.importorskip("site_pages", reason='needs pip install -e ".[docs]"')

PAGES = sorted((ROOT / "docs").rglob("*.md"))
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
OURS = [name for name in registered_names() if registered(name).config.__module__.startswith("decision_rnn.")]


def test_every_public_name_is_in_the_python_reference_once() -> None:
    documented = re.findall(r"^::: decision_rnn\.(\w+)$", (ROOT / "docs/reference/api.md").read_text(), re.MULTILINE)
    assert sorted(set(documented) & set(decision_rnn.__all__)) == sorted(decision_rnn.__all__)
    assert len(documented) == len(set(documented))


def test_command_line_reference_has_every_command_and_its_options() -> None:
    page = site_pages.command_line_page()
    for words in ("train", "evaluate", "compare", "report", "data info", "data export"):
        assert f"`decision-rnn {words}`" in page
    for option in ("--training.steps", "--target_returns", "--controls", "--partial", "--plot", "--push"):
        assert option in page
    assert "Error" not in page


def test_configuration_reference_has_every_key_with_its_meaning() -> None:
    page = site_pages.configuration_page()
    for kind, prefix in ((TrainingConfig, "training."), (EvaluationConfig, "evaluation."), (AgentConfig, "agent.")):
        for field in fields(kind):
            assert re.search(rf"^`{prefix}{field.name}`\n:   \S.+ Default: .+\.$", page, re.MULTILINE), field.name
    assert "\n`training.steps`\n:   Optimiser steps. Default: `2000`.\n" in page
    assert re.search(r"^`dataset`\n:   .* Required\.$", page, re.MULTILINE)
    assert re.search(r"^`validation`\n:   .* Default: left out\.$", page, re.MULTILINE)
    for name in OURS:
        assert f"### {name}\n" in page
    for field in fields(RunConfig):
        assert f"`{field.name}" in page or f"--{field.name}" in page


def test_backbones_reference_has_every_docstring() -> None:
    page = site_pages.backbones_page()
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == OURS
    for name in OURS:
        docstring = inspect.getdoc(inspect.getmodule(registered(name).cls))
        assert docstring is not None
        assert f"\n## {name}\n\n{docstring}\n" in page


def test_choosing_a_backbone_page_names_every_backbone() -> None:
    text = (ROOT / "docs/choosing-a-backbone.md").read_text()
    assert [name for name in OURS if f"`{name}`" not in text] == []


def test_readme_has_at_most_110_lines_and_a_picture_near_the_top() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 110
    picture = next(i for i, line in enumerate(lines) if line.startswith("!["))
    assert picture < 12


def test_commands_and_options_in_the_documentation_exist() -> None:
    """Also in console blocks, which are not run; the options of all backbones and objectives are allowed."""
    helps = {words: site_pages.help_of(words) for words in site_pages.commands()}
    parts = site_pages.configuration_page()
    for page in WRITTEN:
        for block in code_blocks(page):
            if block.language not in ("bash", "console"):
                continue
            for line in block.text.splitlines():
                words = re.sub(r"^\$ ", "", line).split(" #")[0].split()
                if words[:1] != ["decision-rnn"]:
                    continue
                name = tuple(words[1:3]) if tuple(words[1:3]) in helps else tuple(words[1:2])
                assert name in helps, f"{page.name}: {line}"
                for option in (word for word in words if word.startswith("--")):
                    known = option in helps[name] or f"`{option[2:]}`" in parts or option in OF_EXAMPLES
                    assert known, f"{page.name}: {option} in {line}"


OF_EXAMPLES = ("--backbone.decay", "--objective.delta")
"""Options of the tutorials' own parts."""


@pytest.mark.parametrize(
    ("link", "turned"),
    [
        ("[a](../results/speed/README.md#data)", "[a](results/speed/README.md#data)"),
        ("[a](../results/speed)", "[a](results/speed/README.md)"),
        ("![p](../results/speed/backbones.png)", "![p](results/speed/backbones.png)"),
        ("[a](tutorials/own-data.md)", "[a](tutorials/own-data.md)"),
        ("[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        ("[`a`](../decision_rnn/config.py)", "`a`"),
        ("[a](nowhere.md)", "[a](nowhere.md)"),
        ("[a](https://example.org)", "[a](https://example.org)"),
        ("[a](#here)", "[a](#here)"),
        ("```\n[a](../CONTRIBUTING.md)\n```", "```\n[a](../CONTRIBUTING.md)\n```"),
    ],
)
def test_rewrite_links_turns_repository_links_into_site_links(link: str, turned: str) -> None:
    published = {path.relative_to(ROOT).as_posix() for pattern in site_pages.PUBLISHED for path in ROOT.glob(pattern)}
    published |= {path.relative_to(ROOT / "docs").as_posix() for path in PAGES} | set(site_pages.MOVED.values())
    found = site_pages.rewrite_links(link, "docs/datasets.md", lambda path: path if path in published else None)
    assert found == turned


def test_documentation_contains_no_local_paths() -> None:
    for page in WRITTEN:
        assert not re.search(r"(?<![\w.])/(?:work|home|root|tmp)/", page.read_text()), page


def test_version_matches_citation_cff_and_the_first_changelog_entry() -> None:
    assert f"version: {decision_rnn.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == decision_rnn.__version__
