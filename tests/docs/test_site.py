"""The documentation: generated pages are complete, and written pages agree with the code."""

import inspect
import re
from dataclasses import fields

import pytest
from guide import ROOT, code_blocks

import decision_rnn
from decision_rnn.backbones import BACKBONES, registered
from decision_rnn.config import AgentConfig, EvaluationConfig, RunConfig, TrainingConfig

site_pages = pytest.importorskip("site_pages", reason='needs pip install -e ".[docs]"')

PAGES = sorted((ROOT / "docs").rglob("*.md"))
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
OURS = [name for name in BACKBONES.names() if registered(name).config.__module__.startswith("decision_rnn.")]
TUTORIAL_OPTIONS = ("--backbone.decay", "--objective.delta")
"""Options of the tutorials' own backbone and objective."""


def test_every_public_name_is_in_the_python_reference_once() -> None:
    documented = re.findall(r"^::: decision_rnn\.(\w+)$", (ROOT / "docs/reference/api.md").read_text(), re.MULTILINE)
    assert sorted(set(documented) & set(decision_rnn.__all__)) == sorted(decision_rnn.__all__)
    assert len(documented) == len(set(documented))


def test_command_line_reference_has_every_command() -> None:
    page = site_pages.command_line_page()
    for words in ("train", "evaluate", "compare", "data info", "data export"):
        assert f"`decision-rnn {words}`" in page
    for option in ("--training.steps", "--target_returns", "--controls", "--partial", "--plot", "--push"):
        assert option in page


def test_configuration_reference_has_every_key_with_its_meaning() -> None:
    page = site_pages.configuration_page()
    for kind, prefix in ((TrainingConfig, "training."), (EvaluationConfig, "evaluation."), (AgentConfig, "agent.")):
        for field in fields(kind):
            assert re.search(rf"^`{prefix}{field.name}`\n:   \S.+ Default: .+\.$", page, re.MULTILINE), field.name
    assert "\n`training.steps`\n:   Optimiser steps. Default: `2000`.\n" in page
    assert all(f"### {name}\n" in page for name in OURS)
    assert all(f"`{field.name}" in page or f"--{field.name}" in page for field in fields(RunConfig))


def test_backbones_pages_have_every_backbone() -> None:
    page, choosing = site_pages.backbones_page(), (ROOT / "docs/choosing-a-backbone.md").read_text()
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == OURS
    for name in OURS:
        assert f"\n## {name}\n\n{inspect.getdoc(inspect.getmodule(registered(name).cls))}\n" in page
        assert f"`{name}`" in choosing


def test_commands_and_options_in_the_documentation_exist() -> None:
    """Also in console blocks, which are not run; the options of all backbones and objectives are allowed."""
    helps = {words: site_pages.help_of(words) for words in site_pages.commands()}
    keys = site_pages.configuration_page()
    blocks = [(page, block) for page in WRITTEN for block in code_blocks(page) if block.language in ("bash", "console")]
    for page, line in ((page, line) for page, block in blocks for line in block.text.splitlines()):
        words = re.sub(r"^\$ ", "", line).split(" #")[0].split()
        if words[:1] != ["decision-rnn"]:
            continue
        name = tuple(words[1:3]) if tuple(words[1:3]) in helps else tuple(words[1:2])
        assert name in helps, f"{page.name}: {line}"
        for option in (word for word in words if word.startswith("--")):
            known = option in helps[name] or f"`{option[2:]}`" in keys or option in TUTORIAL_OPTIONS
            assert known, f"{page.name}: {option} in {line}"


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[a](../results/speed/README.md#data)", "[a](tables/speed/README.md#data)"),
        ("[a](../results/speed)", "[a](tables/speed/README.md)"),
        ("![p](../results/speed/backbones.png)", "![p](tables/speed/backbones.png)"),
        ("[a](results/speed.md)", "[a](results/speed.md)"),
        ("[a](../CONTRIBUTING.md)", "[a](contributing.md)"),
        ("[`a`](../decision_rnn/config.py)", "`a`"),
        ("[a](https://example.org)", "[a](https://example.org)"),
        ("```\n[a](../CONTRIBUTING.md)\n```", "```\n[a](../CONTRIBUTING.md)\n```"),
    ],
)
def test_repository_links_become_site_links(link: str, expected: str) -> None:
    paths = [path for pattern in site_pages.PUBLISHED for path in ROOT.glob(pattern)]
    published = {site_pages.site_path(path.relative_to(ROOT).as_posix()) for path in paths}
    published |= {path.relative_to(ROOT / "docs").as_posix() for path in PAGES} | set(site_pages.MOVED.values())
    assert site_pages.rewrite_links(link, "docs/datasets.md", lambda path: path * (path in published)) == expected


def test_version_is_that_of_the_citation_and_the_changelog() -> None:
    assert f"version: {decision_rnn.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == decision_rnn.__version__
