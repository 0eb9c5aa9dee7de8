"""The page in a real browser at phone and desktop width, with an accessibility checker.

    pip install playwright axe-playwright-python
    playwright install chromium, or the system's: apt-get install chromium
    pytest -m slow tests/comparison/test_page_browser.py

Skipped without these. PAGE_SCREENSHOTS=folder saves screenshots of the whole page there.
"""

import os
from pathlib import Path
from typing import Any

import pytest
from made_comparison import LABELS, made_comparison

from decision_rnn.comparison.report.page import build_page

pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs pip install axe-playwright-python")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with long names, controls, a failed run and links."""
    made = made_comparison(
        labels=(*LABELS[:5], "minlstm-context20-rate-0.0003"), failed=(("lru", 1),), checkpoints=3, episodes=5
    )
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(build_page(made))
    return path


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_in_a_browser_fits_needs_no_network_and_passes_axe(
    browser: Any, file: Path, width: int, theme: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
    context.set_default_timeout(300_000)
    page = context.new_page()
    requests: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto(file.as_uri())
    if "PAGE_SCREENSHOTS" in os.environ:
        page.screenshot(path=Path(os.environ["PAGE_SCREENSHOTS"]) / f"page-{width}-{theme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    pixels = page.evaluate(
        "[...document.querySelectorAll('svg text')].map(text => parseFloat(getComputedStyle(text).fontSize)"
        " * text.ownerSVGElement.getBoundingClientRect().width / text.ownerSVGElement.viewBox.baseVal.width)"
    )
    assert min(pixels) >= 9.5  # the smallest text is a line's label
    outside = page.evaluate(
        "[...document.querySelectorAll('svg text')].filter(text => {"
        " const box = text.getBoundingClientRect(), svg = text.ownerSVGElement.getBoundingClientRect();"
        " return box.left < svg.left - 2 || box.right > svg.right + 2 || box.bottom > svg.bottom + 2"
        " || box.top < svg.top - 2 }).map(text => text.textContent)"
    )
    assert outside == []
    page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    violations = axe.Axe().run(page).response["violations"]
    assert [(fault["id"], fault["nodes"][0]["html"][:200]) for fault in violations] == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert said == []
    context.close()
