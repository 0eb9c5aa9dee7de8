"""The site in a real browser: built, served locally, and every page checked at phone and desktop width.

    pip install -e ".[docs]" playwright axe-playwright-python
    playwright install chromium, or the system's: apt-get install chromium
    pytest -n 0 -m slow tests/docs/test_site_browser.py

Skipped without these.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from guide import ROOT

from decision_rnn.deploy.browser import server

pytest.importorskip("mkdocs", reason='needs pip install -e ".[docs]"')
pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs pip install axe-playwright-python")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as CI builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with server(site) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}/"
        serving.shutdown()


def faults_of(page: Any, width: int) -> Iterator[tuple[object, ...]]:
    """Layout and accessibility faults of a page at this width."""
    if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
        yield "scrolls sideways", wide
    pictures = page.evaluate(
        "[...document.querySelectorAll('article img')].map(image =>"
        " [image.src, image.naturalWidth, image.getBoundingClientRect().width, image.alt])"
    )
    for source, natural, shown, words in pictures:
        if not (natural and words and shown >= 0.8 * min(width, 0.4 * natural)):
            yield "a picture that is missing, has no words or is too small", source, natural, shown
    cells = page.evaluate(
        "[...document.querySelectorAll('article td, article th')].map(cell =>"
        " [cell.textContent, cell.getBoundingClientRect().width])"
    )
    yield from (("a narrow column", text, shown) for text, shown in cells if len(text) > 60 and shown < 110)
    for fault in axe.Axe().run(page).response["violations"]:
        if fault["impact"] in ("serious", "critical"):
            yield fault["id"], len(fault["nodes"]), fault["nodes"][0]["html"][:200]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_page_fits_needs_no_network_and_passes_axe(
    browser: Any, site: Path, address: str, width: int, theme: str
) -> None:
    pages = sorted(path.relative_to(site).as_posix().removesuffix("index.html") for path in site.rglob("index.html"))
    assert {"", "datasets/", "tutorials/deploy/", "reference/cli/", "results/speed/"} <= set(pages)
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
    context.set_default_timeout(120_000)
    faults: list[tuple[object, ...]] = []
    context.on("request", lambda request: request.url.startswith(address) or faults.append(("asks", request.url)))
    context.on("console", lambda message: faults.append((message.page.url, message.text)))
    for name in pages:
        page = context.new_page()
        page.goto(address + name, wait_until="load")
        page.wait_for_timeout(500)  # the theme fades its tabs in
        faults += [(name, *fault) for fault in faults_of(page, width)]
        page.close()
    context.close()
    assert faults == []
