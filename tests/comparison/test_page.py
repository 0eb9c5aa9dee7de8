"""The page and the pictures: self-contained, well-formed, and in the order in which people look."""

import math
import re
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from shutil import which

import pytest
from made_comparison import made_comparison

from decision_rnn.cli.main import main
from decision_rnn.comparison.figures import THEMES
from decision_rnn.comparison.page import build_page
from decision_rnn.comparison.results import Comparison, read_comparison, write_comparison

VOID = re.compile(r"<((?:meta|img|source|br)\b[^>]*)>")
LABEL = "minlstm-context20-rate-0.0003"


@pytest.fixture(scope="module", params=[("standin/hopper-medium",), ("local/x", "local/y")], ids=["one", "two"])
def comparison(request: pytest.FixtureRequest) -> Comparison:
    labels = ("mingru", "lru", LABEL)
    return made_comparison(labels, 5, request.param, failed=[("lru", 1)], checkpoints=3, episodes=5)


@pytest.fixture(scope="module")
def html(comparison: Comparison) -> str:
    return build_page(comparison)


@pytest.fixture(scope="module")
def tree(html: str) -> ET.Element:
    return ET.fromstring(VOID.sub(r"<\1/>", html.partition("<!DOCTYPE html>")[2]).replace("xlink:href", "href"))


def text_of(element: ET.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def test_page_needs_no_network_and_runs_no_script(html: str, tree: ET.Element) -> None:
    assert "script" not in {element.tag.rpartition("}")[2] for element in tree.iter()}
    links = [value for element in tree.iter() for name, value in element.items() if name in ("href", "src")]
    assert all(link.startswith("#") for link in links)
    assert "default-src 'none'" in html
    assert not re.findall(r"url\((?!#)", html)


def test_page_ids_are_unique_and_references_resolve(html: str, tree: ET.Element) -> None:
    ids = [value for element in tree.iter() for name, value in element.items() if name == "id"]
    assert len(ids) == len(set(ids))
    used = re.findall(r'(?:url\(#|href="#)([^)"]+)', html)
    assert used
    assert set(used) <= set(ids)


def test_page_begins_with_picture_finding_and_table(comparison: Comparison, tree: ET.Element) -> None:
    first = next(element for element in tree.iter("section"))
    tags = [element.tag.rpartition("}")[2] for element in first.iter()]
    assert tags.index("svg") < tags.index("p") < tags.index("table")
    folded = [text_of(element) for element in tree.iter("details")]
    assert any(comparison.command in text for text in folded)
    assert comparison.command not in text_of(first)
    assert "1 of " in text_of(first)  # the failed run


def test_pictures_have_text_alternatives_with_the_means(comparison: Comparison, tree: ET.Element) -> None:
    pictures = [element for element in tree.iter() if element.tag.endswith("svg")]
    assert len(pictures) == (3 if len(comparison.datasets) == 1 else 7)
    assert all(picture.get("role") == "img" for picture in pictures)
    texts = " ".join(str(picture.get("aria-label")) for picture in pictures)
    measure = comparison.summary.measures(comparison.datasets[0])[0]
    for label in ("mingru", LABEL):
        assert f"{comparison.summary.names[label]} {measure.summary(label).score:.4g}" in texts
    shown = {text_of(element) for picture in pictures for element in picture.iter() if element.tag.endswith("text")}
    assert {"minGRU", LABEL} <= shown
    assert any(text.startswith("LRU (") and "failed" in text for text in shown)


def test_page_of_the_same_record_has_the_same_bytes(comparison: Comparison, html: str, tmp_path: Path) -> None:
    write_comparison(tmp_path, comparison)
    assert build_page(read_comparison(tmp_path)) == html


def test_page_escapes_html_in_names_commands_and_errors() -> None:
    made = made_comparison(("<b>", "lru"), 1, controls=(), failed=[("lru", 0)])
    failed = replace(made.failed[0], error="<script>alert(1)</script>")
    html = build_page(replace(made, command="<i>", failed=(failed,)))
    for text in ("<b>", "<script>", "<i>"):
        assert text not in html


@pytest.mark.parametrize("theme", [0, 1])
def test_colours_have_the_contrast_that_wcag_requires(theme: int) -> None:
    def luminance(colour: str) -> float:
        channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return (
            math.sumprod((0.2126, 0.7152, 0.0722), linear)
            if hasattr(math, "sumprod")
            else sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
        )

    paper = luminance(THEMES["paper"][theme])
    for name, colours in THEMES.items():
        light, dark = sorted((paper, luminance(colours[theme])), reverse=True)
        least = {"paper": 1, "grid": 1, "ink": 4.5, "muted": 4.5}.get(name, 3)
        assert (light + 0.05) / (dark + 0.05) >= least, name


def test_report_writes_the_page(comparison: Comparison, html: str, tmp_path: Path) -> None:
    write_comparison(tmp_path, comparison)
    assert main(["report", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").read_text() == html
    other = tmp_path / "new" / "page.html"
    assert main(["report", str(tmp_path / "comparison.json"), "--output", str(other)]) == 0
    assert other.read_text() == html
    for arguments in ([str(tmp_path / "none")], [str(tmp_path), "--output", str(tmp_path)]):
        assert main(["report", *arguments]) == 2


@pytest.mark.slow
@pytest.mark.skipif(which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize("width", [500, 1280])
def test_page_fits_the_window_of_a_browser(comparison: Comparison, html: str, width: int, tmp_path: Path) -> None:
    """Tables scroll by themselves: the page is not wider than the window."""
    probe = "<script>document.title=document.documentElement.scrollWidth</script></body>"
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    (tmp_path / "page.html").write_text(policy.sub("", html).replace("</body>", probe))
    command = ["chromium", "--headless", "--no-sandbox", f"--window-size={width},900", "--dump-dom"]
    page = subprocess.run([*command, f"file://{tmp_path}/page.html"], capture_output=True, text=True, timeout=120)
    found = re.search(r"<title>(\d+)</title>", page.stdout)
    assert found is not None
    assert int(found[1]) <= width
