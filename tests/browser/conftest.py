"""A real Chromium against the live portal. Every page must stay silent: an error in the console fails the test."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.portal.pages import showcase

# Playwright's event loop runs in this thread, and Django would take its own ORM calls here for asynchronous ones.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

CHROMIUM = os.environ.get("KERNELYARD_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator[object]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on PATH (Debian: apt install chromium), nor named by KERNELYARD_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def eventually() -> Callable[..., None]:
    """``eventually(page, expression, wanted)``: until the expression has this value. Playwright's own waiting for an
    expression evaluates a string inside the page, which the page's security policy rightly refuses."""

    def wait(page, expression: str, wanted: object, seconds: float = 10) -> None:
        last, end = None, time.monotonic() + seconds
        while time.monotonic() < end:
            last = page.evaluate(expression)
            if last == wanted:
                return
            page.wait_for_timeout(50)
        raise AssertionError(f"{expression} stayed {last!r}, never {wanted!r}")

    return wait


VIEWPORT = {"width": 1280, "height": 900}
IN_EVERY_TAB = {"viewport", "color_scheme"}
"""What can be changed in a tab that is there already."""


@pytest.fixture(scope="session")
def tab(chromium, live_server) -> Iterator[object]:
    """The page that most tests share: one that is new starts processes and compiles plotly anew, most of their time.

    Closed before the live server is: a connection that ends later could not give its database back.
    """
    context = chromium.new_context(viewport=VIEWPORT)
    yield context.new_page()
    context.close()


@pytest.fixture
def open_page(chromium, live_server, request) -> Iterator[Callable[..., object]]:
    """``open_page(address, **context)``: a page without cookies or storage, watched for errors until the test ends."""
    contexts, opened, errors = [], [], []

    def heard(message) -> None:
        if message.type in ("error", "warning"):
            errors.append(message.text)

    def failed(error) -> None:
        errors.append(str(error))

    def opener(address: str = "/", **options: object):
        if IN_EVERY_TAB.issuperset(options) and not opened:
            page = request.getfixturevalue("tab")
            page.set_viewport_size(options.get("viewport", VIEWPORT))
            page.emulate_media(color_scheme=options.get("color_scheme", "light"))
        else:
            contexts.append(chromium.new_context(**({"viewport": VIEWPORT} | options)))
            page = contexts[-1].new_page()
        opened.append(page)
        page.set_default_timeout(30_000)  # of a machine that does other things too
        page.on("console", heard)
        page.on("pageerror", failed)
        page.goto(live_server.url + address)
        return page

    yield opener
    for page in opened:
        if page.context not in contexts:
            _left_as_found(page)
        page.remove_listener("console", heard)
        page.remove_listener("pageerror", failed)
    for context in contexts:
        context.close()
    assert not errors, errors


def _left_as_found(page) -> None:
    """As a new tab of a new visitor: nothing of the last page goes on, and nothing of it is kept."""
    page.evaluate("localStorage.clear(), sessionStorage.clear()")
    page.context.clear_cookies()
    page.mouse.move(0, 0)
    page.goto("about:blank")
    assert page.context.pages == [page], "a test left another page open"


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, settings) -> Path:
    """Repositories and caches of this test alone, and quick password hashes."""
    root = tmp_path / "home"
    root.mkdir()
    settings.KERNELYARD_HOME = root
    settings.ATTEMPTS_REPOSITORY = root / "attempts.git"
    settings.SOLUTIONS_REPOSITORY = root / "solutions.git"
    settings.CACHE_DIR = root / "cache"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return root


@pytest.fixture
def shown(transactional_db):
    """The showcase as rows: one problem of the suite with a dozen attempts."""
    return showcase.build(problems=1, attempts=12, seed=5, repositories=False)


@pytest.fixture
def published(transactional_db):
    """The showcase in real repositories: one problem with four attempts, each a commit."""
    return showcase.build(problems=1, attempts=4, seed=3)
