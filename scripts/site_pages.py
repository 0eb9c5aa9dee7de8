"""An MkDocs hook (mkdocs.yml) for the pages of the documentation that are not in docs/.

README.md is the first page, CONTRIBUTING.md and CHANGELOG.md are pages too, and every README in results/ comes with the
files it links to. The command-line and the configuration reference are made from the code. Links in Markdown work in
the repository; here they are rewritten for the site.
"""

import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from unittest import mock

import docstring_parser
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
MOVED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the site from files at the repository's root."""
PUBLISHED = ("results/*/*.md", "results/*/*.png", "results/*/*.html", "results/*/*.json", "configs/**/*.yaml")
LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s]+)(?P<after>\))")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HELP_COLUMNS = "80"
WIDE = 1000
"""Pixels; pictures at least this wide, such as panels side by side, are too small to read on a phone."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root and of results/, the files they link to, and the pages made from the code."""
    for source, page in MOVED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for pattern in PUBLISHED:
        for path in sorted(ROOT.glob(pattern)):
            files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    files.append(File.generated(config, "reference/cli.md", content=command_line_page()))
    files.append(File.generated(config, "reference/configuration.md", content=configuration_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the repository's links for the site."""
    places = {path: source for source, path in MOVED.items()}
    uri = page.file.src_uri
    source = places.get(uri) or (uri if uri.startswith("results/") else f"docs/{uri}")
    return rewrite_links(markdown, source, files.get_file_from_path)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link every picture to its file, and let wide ones scroll on a narrow screen."""

    def linked(match: re.Match[str]) -> str:
        path = Path(config.docs_dir, os.path.normpath(PurePosixPath(page.file.dest_uri).parent / match["source"]))
        file = files.get_file_from_path(path.relative_to(config.docs_dir).as_posix())
        wide = file is not None and file.abs_src_path is not None and width_of(Path(file.abs_src_path)) >= WIDE
        return f'<a class="picture{" wide" * wide}" href="{match["source"]}">{match[0]}</a>'

    return re.sub(r'<img [^>]*?src="(?P<source>[^":]+)"[^>]*>', linked, html)


def width_of(picture: Path) -> int:
    """The width of a PNG file in pixels, from its header."""
    return int.from_bytes(picture.read_bytes()[16:20], "big")


def rewrite_links(markdown: str, source: str, find: Callable[[str], Any]) -> str:
    """The text of a page with its links rewritten for the site.

    A link to a file of the repository that the site lacks is replaced by its text. A broken link is kept, for MkDocs to
    report.

    Args:
        markdown: The text in the repository.
        source: The page's path in the repository.
        find: Returns the site's file with a given path, or None.
    """

    def turned(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = os.path.normpath(PurePosixPath(source).parent / target).replace(os.sep, "/")
        if (ROOT / path / "README.md").is_file():
            path += "/README.md"
        if not (ROOT / path).exists() and not find(site_path(path)):
            return match[0]
        if not find(site_path(path)):
            return "\0"  # marks text without its link
        there = os.path.relpath(site_path(path), PurePosixPath(site_path(source)).parent).replace(os.sep, "/")
        return match["before"] + there + (f"#{anchor}" if anchor else "") + match["after"]

    def outside_code(text: str) -> str:
        text = LINK.sub(turned, text)
        return re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\0", r"\1", text)

    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [outside_code(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, outside_code(markdown[end:])])


def site_path(path: str) -> str:
    """The path in the site of a file of the repository."""
    return MOVED.get(path, path.removeprefix("docs/"))


def command_line_page() -> str:
    """Every command's help, as it prints it."""
    lines = [
        "# Command-line reference",
        "",
        "What `--help` prints, made with this site. Every key of a run is also in",
        "[Configuration](configuration.md), by section and with its default.",
    ]
    for words in commands():
        level = "##" if len(words) < 2 else "###"
        lines += ["", f"{level} `{' '.join(('decision-rnn', *words))}`", "", "```text", help_of(words), "```"]
    return "\n".join(lines) + "\n"


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every command with its own help, the program itself first."""
    from decision_rnn.bench import BENCHES
    from decision_rnn.cli.data import ACTIONS
    from decision_rnn.cli.main import COMMANDS

    below: Mapping[str, Any] = {"data": ACTIONS, "bench": BENCHES}
    yield ()
    for name in COMMANDS:
        yield (name,)
        for action in below.get(name, ()):
            yield name, action


def help_of(words: tuple[str, ...]) -> str:
    """The output of a command's `--help`."""
    from decision_rnn.cli.main import main

    out = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": HELP_COLUMNS}),
        contextlib.redirect_stdout(out),
        contextlib.suppress(SystemExit),
    ):
        main([*words, "--help"])
    return out.getvalue().strip("\n")


def configuration_page() -> str:
    """Every key of a run, with its default and what it means, from the configuration's dataclasses."""
    from dataclasses import fields

    from decision_rnn.agent import AgentConfig, registered_objective, registered_objectives
    from decision_rnn.backbones import BackboneConfig, registered, registered_names
    from decision_rnn.config import EvaluationConfig, ObservationConfig, RunConfig, TrainingConfig

    lines = [
        "# Configuration",
        "",
        "A run is decided by one tree of keys. On the command line a key is an option, `--training.steps 4000`; in a",
        "file for `--config` it is YAML. A run's folder holds `config.yaml` with all of them. This page is made from",
        "the dataclasses in `decision_rnn/config.py`, `agent/` and `backbones/`.",
        "",
        "## The run",
        "",
        *key_list(RunConfig, "", leave_out={"backbone", "observation", "agent", "objective", "training", "evaluation"}),
    ]
    for title, section, kind in (
        ("Observation", "observation", ObservationConfig),
        ("Agent", "agent", AgentConfig),
        ("Training", "training", TrainingConfig),
        ("Evaluation", "evaluation", EvaluationConfig),
    ):
        lines += ["", f"## {title}", "", *key_list(kind, f"{section}.")]
    lines += ["", "## Objective", "", "`--objective NAME` picks one.", ""]
    for name in registered_objectives():
        kind = registered_objective(name).config
        lines += [f"### {name}", "", (kind.__doc__ or "").split("\n\n")[0], "", *key_list(kind, "objective.")]
    lines += [
        "",
        "## Backbone",
        "",
        "`--backbone NAME` picks one. These keys are common to all; `--backbone.match_parameters 600k` takes the place",
        "of a width.",
        "",
        *key_list(BackboneConfig, "backbone.", leave_out={"name"}),
    ]
    common = {field.name for field in fields(BackboneConfig)}
    for name in registered_names():
        kind = registered(name).config
        if not kind.__module__.startswith("decision_rnn."):
            continue
        lines += ["", f"### {name}", "", (kind.__doc__ or "").split("\n\n")[0]]
        lines += ["", *key_list(kind, "backbone.", leave_out=common)]
    return "\n".join(lines) + "\n"


def key_list(kind: type, prefix: str, leave_out: set[str] | None = None) -> list[str]:
    """A dataclass's keys as a definition list: name, default, and the meaning that its docstring gives."""
    from dataclasses import MISSING, fields

    meanings = attributes_of(kind)
    lines: list[str] = []
    for field in fields(kind):
        if field.name in (leave_out or ()):
            continue
        shown = "Required." if field.default is MISSING else "Default: left out."
        if field.default is not MISSING and field.default not in (None, ()):
            shown = f"Default: `{written(field.default)}`."
        lines += [f"`{prefix}{field.name}`", f":   {' '.join(meanings[field.name].split())} {shown}", ""]
    return lines


def written(value: Any) -> str:
    """A default as written in YAML."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def attributes_of(kind: type) -> dict[str, str]:
    """The description of each attribute in the Attributes sections of a class and its base classes."""
    meanings: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        parsed = docstring_parser.parse(base.__doc__ or "", docstring_parser.DocstringStyle.GOOGLE)
        meanings |= {entry.arg_name: entry.description or "" for entry in parsed.params}
    return meanings
