"""The page in a real browser: what it returns, what it requests, how it looks and what it says of a wrong policy.

    pip install playwright axe-playwright-python; apt-get install chromium, or playwright install chromium
    pytest -n 0 -m slow tests/deploy/test_browser_play.py

Skipped without these. PAGE_SCREENSHOTS=folder saves screenshots there.
"""

import os
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

WIDTHS = {"phone": 360, "desktop": 1280}
TARGETS = (1000, 1800, 3200)
LOAD_MS, PLAY_MS = 60_000, 240_000


@pytest.fixture
def address(shipped_page: Path) -> Iterator[str]:
    with server(shipped_page) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{serving.server_port}/"
        serving.shutdown()


def opened(browser: Any, address: str, width: int, **options: Any) -> tuple[Any, list[str], list[str]]:
    """The page, what it reports to the console, and what it requests outside its folder."""
    page = browser.new_context(viewport={"width": width, "height": 800}, **options).new_page()
    said: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(address)
    page.wait_for_selector("body[data-state]", timeout=LOAD_MS)
    return page, said, [url for url in requests if not url.startswith((address, "data:"))]


def state(page: Any) -> str:
    return page.evaluate("document.body.dataset.state")


def saved(page: Any, name: str) -> None:
    if screenshots := os.environ.get("PAGE_SCREENSHOTS"):
        page.screenshot(path=Path(screenshots, f"browser-{name}.png"), full_page=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_an_agent_returns_what_it_is_asked_for(browser: Any, address: str, width: str) -> None:
    scheme = "dark" if width == "phone" else "light"
    page, said, outside = opened(browser, address, WIDTHS[width], color_scheme=scheme)
    assert state(page) == "playing"
    page.select_option("#speed", label="fastest")
    earned = []
    for target in TARGETS:
        page.evaluate(
            "target => { const slider = document.getElementById('target'); slider.value = target;"
            "for (const kind of ['input', 'change']) slider.dispatchEvent(new Event(kind)); }",
            target,
        )
        page.wait_for_selector(f".verdict:has-text('target return {target:,}, return ')", timeout=PLAY_MS)
        verdict = page.inner_text(".verdict")
        earned.append(int(re.search(r", return ([\d,]+)", verdict)[1].replace(",", "")))
    assert earned == sorted(earned)
    assert earned[0] < 1800 < earned[-1]
    saved(page, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width]
    assert not axe.Axe().run(page).response["violations"]
    assert not said
    assert not outside


def test_keys_pause_step_push_and_restart(browser: Any, address: str) -> None:
    page, said, _ = opened(browser, address, 1280, reduced_motion="reduce")
    assert state(page) == "paused"  # nothing moves before it is asked to
    for number in (1, 2):
        page.keyboard.press("s")
        page.wait_for_selector(f".steps:text-is('{number}')", timeout=LOAD_MS)
    page.keyboard.press("r")
    page.wait_for_selector(".steps:text-is('0')", timeout=LOAD_MS)
    page.keyboard.press(" ")
    assert state(page) == "playing"
    page.keyboard.press("d")
    page.keyboard.press("d")
    page.wait_for_selector(".verdict:has-text('It fell after')", timeout=PLAY_MS)
    assert state(page) == "over"
    assert not said


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (b"decision_rnn", b"something_or", "is not a policy of decision_rnn"),
        (b"Hopper-v5", b"Hopper-v4", "is a policy for Hopper-v4, and this page plays Hopper-v5"),
        (b"target_return", b"target_rXturn", "lacks the inputs target_return"),
    ],
)
def test_a_wrong_policy_gets_one_sentence(
    browser: Any, address: str, shipped_page: Path, old: bytes, new: bytes, sentence: str
) -> None:
    file = shipped_page / "policy.onnx"
    right = file.read_bytes()
    try:
        file.write_bytes(right.replace(old, new))
        page, *_ = opened(browser, address, 360)
        assert state(page) == "failed"
        assert sentence in page.inner_text("#message")
    finally:
        file.write_bytes(right)


def test_from_a_file_the_page_says_that_it_must_be_served(browser: Any, shipped_page: Path) -> None:
    page = browser.new_page()
    page.goto((shipped_page / "index.html").as_uri())
    assert "python -m http.server" in page.inner_text("#message")
    assert page.locator("#controls").is_hidden()
