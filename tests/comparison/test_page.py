"""The page and the pictures: self-contained, well-formed, and in the order in which people look."""

import re
import subprocess
import xml.etree.ElementTree as ET
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from shutil import which

import numpy as np
import pytest
from made_comparison import of_scores

from decision_rnn.comparison.figures import return_tracking
from decision_rnn.comparison.results import Comparison, read_comparison, write_comparison

LABEL = "minlstm-context20-rate-0.0003"


@pytest.fixture(scope="module", params=[("standin/hopper-medium",), ("local/x", "local/y")], ids=["one", "two"])
def comparison(request: pytest.FixtureRequest) -> Comparison:
    scores = {label: np.arange(5.0) + 10 * row for row, label in enumerate(("mingru", "lru", LABEL, "mlp", "bc"))}
    return of_scores(scores, request.param, failed=[("lru", 1)])


@pytest.fixture(scope="module")
def html(comparison: Comparison, tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(comparison, tmp_path_factory.mktemp("page"))


def page_of(comparison: Comparison, folder: Path) -> str:
    write_comparison(folder, comparison)
    return (folder / "report.html").read_text()


@pytest.fixture(scope="module")
def tree(html: str) -> ET.Element:
    return ET.fromstring(re.sub(r"<((?:meta|img)\b[^>]*)>", r"<\1/>", html.partition("<!DOCTYPE html>")[2]))


def text_of(element: ET.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def test_page_needs_no_network_and_runs_no_script(html: str, tree: ET.Element) -> None:
    assert "script" not in {element.tag for element in tree.iter()}
    links = [value for element in tree.iter() for name, value in element.items() if name in ("href", "src")]
    assert links
    assert all(link.startswith("data:image/svg+xml;base64,") for link in links)
    assert "default-src 'none'" in html


def test_page_begins_with_picture_finding_and_table(comparison: Comparison, tree: ET.Element) -> None:
    first = next(element for element in tree.iter("section"))
    tags = [element.tag for element in first.iter()]
    assert tags.index("img") < tags.index("p") < tags.index("table")
    (folded,) = tree.iter("details")
    assert comparison.command in text_of(folded)
    assert "1 of " in text_of(first)  # the failed run
    pictures = [*tree.iter("img")]
    assert len(pictures) == (2 if len(comparison.datasets) == 1 else 5)
    assert all(picture.get("alt") for picture in pictures)
    drawings = [ET.fromstring(b64decode(str(picture.get("src")).partition(",")[2])) for picture in pictures]
    shown = {text_of(element) for svg in drawings for element in svg.iter() if element.tag.endswith("text")}
    assert {"minGRU", LABEL} <= shown
    assert any(text.startswith("LRU (") and "failed" in text for text in shown)


def test_page_escapes_html_in_names_commands_and_errors(tmp_path: Path) -> None:
    made = of_scores({"<b>": [1.0], "lru": [1.0]}, failed=[("lru", 0)])
    failed = replace(made.failed[0], error="<script>alert(1)</script>")
    made = replace(made, command="<i>", failed=(failed,))
    html = page_of(made, tmp_path)
    for text in ("<b>", "<script>", "<i>"):
        assert text not in html
        assert text in str(made)


def test_page_is_the_same_for_the_same_record(comparison: Comparison, html: str, tmp_path: Path) -> None:
    write_comparison(tmp_path, comparison)
    assert read_comparison(tmp_path) == comparison
    ET.fromstring((tmp_path / "scores.svg").read_text())
    assert page_of(read_comparison(tmp_path), tmp_path) == html


def test_return_tracking_is_drawn_of_variants_with_targets() -> None:
    made = of_scores({"mingru": [1.0]})
    assert return_tracking(made, made.datasets[0])
    (trial,) = made.trials
    cloned = replace(trial, targets=(replace(trial.targets[0], target_return=None),))
    assert return_tracking(replace(made, trials=(cloned,)), made.datasets[0]) == ""


@pytest.mark.slow
@pytest.mark.skipif(which("chromium") is None, reason="needs chromium")
@pytest.mark.parametrize("width", [500, 1280])
def test_page_fits_the_window_of_a_browser(html: str, width: int, tmp_path: Path) -> None:
    """Tables scroll by themselves: the page is not wider than the window."""
    probe = "<script>document.title=document.documentElement.scrollWidth</script></body>"
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    (tmp_path / "page.html").write_text(policy.sub("", html).replace("</body>", probe))
    command = ["chromium", "--headless", "--no-sandbox", f"--window-size={width},900", "--dump-dom"]
    page = subprocess.run([*command, f"file://{tmp_path}/page.html"], capture_output=True, text=True, timeout=120)
    title = re.search(r"<title>(\d+)</title>", page.stdout)
    assert title is not None
    assert int(title[1]) <= width
