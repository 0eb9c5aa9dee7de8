"""An MkDocs hook (mkdocs.yml) for the pages of the documentation that are not in docs/.

README.md is the first page, CONTRIBUTING.md and CHANGELOG.md are pages too, and every README in results/ comes with the
files it links to, in the site's folder tables/, since docs/results/ has pages of the same names. The references of the
command line, the configuration and the backbones are made from the code. Links in Markdown work in the repository; here
they are rewritten for the site.
"""

import contextlib
import inspect
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from unittest import mock

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
MOVED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages of the site from files at the repository's root."""
TABLES = "tables/"
"""The site's folder for results/."""
PUBLISHED = (*(f"results/**/*.{kind}" for kind in ("md", "png", "svg", "json", "yaml")), "configs/**/*.yaml")
TRY_IT, TRY_IT_PAGE = ROOT / "build/try-it", "browser.md"
"""The folder that `decision-rnn play pretrained/hopper-medium --browser --output build/try-it` writes, which the site
shows if it is there, and the page that links to it."""
LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)\s]+)(?P<after>\))")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
BACKBONES_PAGE = "reference/backbones.md"
HELP_COLUMNS = "80"
WIDE = 1000
"""Pixels; pictures at least this wide, such as panels side by side, are too small to read on a phone."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root and of results/, the files they link to, and the pages made from the code."""
    for source, page in MOVED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for pattern in PUBLISHED:
        for path in sorted(ROOT.glob(pattern)):
            place = site_path(path.relative_to(ROOT).as_posix())
            files.append(File.generated(config, place, abs_src_path=str(path)))
    for path in filter(Path.is_file, TRY_IT.rglob("*")):
        place = path.relative_to(TRY_IT.parent).as_posix()
        files.append(File.generated(config, place, abs_src_path=str(path)))
    files.append(File.generated(config, "reference/cli.md", content=command_line_page()))
    files.append(File.generated(config, "reference/configuration.md", content=configuration_page()))
    files.append(File.generated(config, BACKBONES_PAGE, content=backbones_page()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the repository's links for the site."""
    places = {path: source for source, path in MOVED.items()}
    uri = page.file.src_uri
    if uri == TRY_IT_PAGE and TRY_IT.is_dir():
        markdown = re.sub(r"\A(# .*\n)", rf"\1\n**[Open the page]({TRY_IT.name}/index.html)**\n", markdown)
    table = uri.startswith(TABLES)
    source = places.get(uri) or (f"results/{uri.removeprefix(TABLES)}" if table else f"docs/{uri}")
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
    """The width of a PNG file in pixels, from its header; 0 of other files."""
    return int.from_bytes(picture.read_bytes()[16:20], "big") if picture.suffix == ".png" else 0


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
        if not find(site_path(path)):
            return "\0" if (ROOT / path).exists() else match[0]  # \0 marks text without its link
        there = os.path.relpath(site_path(path), PurePosixPath(site_path(source)).parent).replace(os.sep, "/")
        return match["before"] + there + (f"#{anchor}" if anchor else "") + match["after"]

    def outside_code(text: str) -> str:
        text = LINK.sub(turned, text)
        return re.sub(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\0", r"\1", text)

    parts = FENCE.split(markdown)
    parts[::2] = map(outside_code, parts[::2])  # between the fences
    return "".join(parts)


def site_path(path: str) -> str:
    """The path in the site of a file of the repository."""
    return MOVED.get(path) or re.sub("^results/", TABLES, path).removeprefix("docs/")


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
    from decision_rnn.cli import COMMANDS
    from decision_rnn.cli.data import ACTIONS

    yield ()
    for name in COMMANDS:
        yield (name,)
        if name == "data":
            yield from ((name, action) for action in ACTIONS)


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
    from decision_rnn.backbones import BackboneConfig
    from decision_rnn.config import CHOICES, SECTIONS, RunConfig
    from decision_rnn.utils.parsing import options_of

    run_options = options_of(RunConfig)
    lines = [
        "# Configuration",
        "",
        "A run is described by one tree of keys. On the command line a key is an option, `--training.steps 4000`; in a",
        "file for `--config` it is YAML. A run's folder holds `config.yaml` with all of them. This page is made from",
        "the dataclasses in `decision_rnn/config.py`, `agent/` and `backbones/`.",
        "",
        "## The run",
        "",
        *key_list({name: option for name, option in run_options.items() if name not in SECTIONS}),
    ]
    for section in SECTIONS:
        lines += ["", f"## {section.capitalize()}", "", run_options[section].help, ""]
        if section not in CHOICES:
            lines += key_list(options_of(run_options[section].hint), f"{section}.")
            continue
        common = dict(options_of(BackboneConfig)) if section == "backbone" else {}
        if common:
            lines += ["`--backbone.match_parameters 600k` takes the place of a width. Keys of all backbones:", ""]
            lines += key_list({name: option for name, option in common.items() if name != "name"}, "backbone.")
        for name, entry in sorted(CHOICES[section].items()):
            if entry.config.__module__.startswith("decision_rnn."):
                own = {key: option for key, option in options_of(entry.config).items() if key not in common}
                lines += ["", f"### {name}", "", (entry.config.__doc__ or "").split("\n\n")[0], ""]
                lines += key_list(own, f"{section}.")
    return "\n".join(lines) + "\n"


def backbones_page() -> str:
    """Every backbone of the package, with the docstring of its module."""
    from decision_rnn.backbones import BACKBONES

    lines = [
        "# Backbones",
        "",
        "Paper, equations and deviations of every layer, from the docstring of its module. What all have in common is",
        "in [Deviations from the papers](../deviations.md). Options are in [Configuration](configuration.md#backbone).",
    ]
    for name, entry in sorted(BACKBONES.items()):
        if entry.cls.__module__.startswith("decision_rnn."):
            lines += ["", f"## {name}", "", inspect.getdoc(inspect.getmodule(entry.cls)) or ""]
    return "\n".join(lines) + "\n"


def key_list(options: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Keys as a definition list: name, default, and meaning."""
    lines: list[str] = []
    for name, option in options.items():
        default = "" if "Default:" in option.help else "Default: left out."
        if option.default is inspect.Parameter.empty:
            default = "Required."
        elif option.default not in (None, ()):
            default = f"Default: `{written(option.default)}`."
        lines += [f"`{prefix}{name}`", f":   {option.help} {default}".rstrip(), ""]
    return lines


def written(value: Any) -> str:
    """A default as written in YAML."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
