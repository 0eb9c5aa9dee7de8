"""The page in a real browser: what it returns, what it requests, how it looks and what it says of a missing file.

pip install playwright axe-playwright-python; apt-get install chromium, or playwright install chromium
pytest -n 0 -m slow tests/deploy/test_browser_play.py
"""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from decision_rnn.deploy.browser import server

pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs pip install axe-playwright-python")

pytestmark = pytest.mark.slow

TARGETS = (1000, 1800, 3200)
LOAD_MS, PLAY_MS = 60_000, 240_000


@pytest.fixture
def address(shipped_page: Path) -> Iterator[str]:
    with server(shipped_page) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}/"
        serving.shutdown()


def opened(browser: Any, address: str, width: int, **options: Any) -> tuple[Any, list[str]]:
    """The page, and what it reports to the console or requests outside its folder."""
    page = browser.new_context(viewport={"width": width, "height": 800}, **options).new_page()
    reports: list[str] = []
    page.on("console", lambda message: reports.append(message.text))
    page.on("pageerror", lambda error: reports.append(str(error)))
    page.on("request", lambda request: request.url.startswith((address, "data:")) or reports.append(request.url))
    page.goto(address)
    page.wait_for_selector("body[data-state]", timeout=LOAD_MS)
    return page, reports


def state(page: Any) -> str:
    return page.evaluate("document.body.dataset.state")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1280, "light")])
def test_returns_follow_the_target(browser: Any, address: str, width: int, scheme: str) -> None:
    page, reports = opened(browser, address, width, color_scheme=scheme)
    assert state(page) == "playing"
    page.select_option("#speed", label="fastest")
    returns = []
    for target in TARGETS:
        page.evaluate(
            "target => { const slider = document.getElementById('target'); slider.value = target;"
            "for (const kind of ['input', 'change']) slider.dispatchEvent(new Event(kind)); }",
            target,
        )
        page.wait_for_selector(f".verdict:has-text('target return {target:,}, return ')", timeout=PLAY_MS)
        verdict = page.inner_text(".verdict")
        returns.append(int(re.search(r", return ([\d,]+)", verdict)[1].replace(",", "")))
    assert returns == sorted(returns)
    assert returns[0] < 1800 < returns[-1]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not axe.Axe().run(page).response["violations"]
    assert not reports


def test_keys_pause_step_push_and_restart(browser: Any, address: str) -> None:
    page, reports = opened(browser, address, 1280, reduced_motion="reduce")
    assert state(page) == "paused"  # nothing moves before a key
    for key, steps in (("s", 1), ("s", 2), ("r", 0)):
        page.keyboard.press(key)
        page.wait_for_selector(f".steps:text-is('{steps}')", timeout=LOAD_MS)
    page.keyboard.press(" ")
    assert state(page) == "playing"
    page.keyboard.press("d")
    page.keyboard.press("d")
    page.wait_for_selector(".verdict:has-text('It fell after')", timeout=PLAY_MS)
    assert state(page) == "over"
    assert not reports


def test_a_missing_file_is_named(browser: Any, address: str, shipped_page: Path) -> None:
    file, aside = shipped_page / "policy.onnx", shipped_page / "aside"
    file.rename(aside)
    try:
        page, _ = opened(browser, address, 360)
        assert state(page) == "failed"
        assert "policy.onnx is missing" in page.inner_text("#message")
    finally:
        aside.rename(file)


def test_from_a_file_the_page_says_that_it_must_be_served(browser: Any, shipped_page: Path) -> None:
    page = browser.new_page()
    page.goto((shipped_page / "index.html").as_uri())
    assert "python -m http.server" in page.inner_text("#message")
    assert page.locator("#controls").is_hidden()
