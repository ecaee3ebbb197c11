"""Debian's Chromium, driven by Playwright; skipped, visibly, where there is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One browser for each module; Playwright's loop must not outlive it."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = subprocess.run(
        [ROOT / "scripts" / "browser"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(found.stderr.strip().splitlines()[-1])
    path = found.stdout.split()[-1]
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a file in a page of its own, offline; complaints and requests are kept on the page."""
    contexts = []

    def open_file(path: Path, *, width: int = 1100, **options: Any) -> Any:
        page = _watched(browser, width=width, offline=True, **options)
        contexts.append(page.context)
        return shown(page, path.as_uri())

    yield open_file
    for context in contexts:
        context.close()


@pytest.fixture
def visited(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open an address in a page of its own, as `opened` does a file."""
    contexts = []

    def visit(address: str, *, width: int = 1280, **options: Any) -> Any:
        page = _watched(browser, width=width, **options)
        contexts.append(page.context)
        return shown(page, address)

    yield visit
    for context in contexts:
        context.close()


def _watched(browser: Any, *, width: int, **options: Any) -> Any:
    context = browser.new_context(viewport={"width": width, "height": 900}, **options)
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.complaints, page.requests = [], []
    page.scripted = options.get("java_script_enabled", True)
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("dialog", lambda dialog: page.complaints.append(dialog.message))
    page.on("request", lambda request: page.requests.append(request.url))
    wait = page.wait_for_selector

    def wait_until_loaded(selector: str, **settings: Any) -> Any:
        """Wait for a part and for the scripts of its page, which may come after the part."""
        part = wait(selector, **settings)
        page.wait_for_load_state()
        return part

    page.wait_for_selector = wait_until_loaded
    return page


def shown(page: Any, address: str) -> Any:
    """Go there and wait until the page is whole.

    A page that waits for statistics loads itself anew, which may happen before a slow machine has
    told of its first load: only the last page counts.
    """
    page.goto(address, wait_until="commit")
    return settled(page)


def settled(page: Any) -> Any:
    """Wait for a page that is whole and will not load itself anew."""
    ready = "html[data-ready]" if page.scripted else "html"
    page.wait_for_selector(f"{ready}:not(:has(meta[http-equiv=refresh])):has(body)")
    page.wait_for_load_state()
    return page


@pytest.fixture
def picture() -> Callable[[Any, str], None]:
    """Keep a picture of the page in the folder ASSAY_PICTURES, if that is set."""
    folder = os.environ.get("ASSAY_PICTURES")

    def save(page: Any, name: str) -> None:
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    return save


@pytest.fixture(scope="session")
def axe() -> Callable[..., list[str]]:
    """What axe-core finds wrong on a page, by all rules or by those named.

    Skipped, visibly, where there is no axe-core.
    """
    found = subprocess.run([ROOT / "scripts" / "axe"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(found.stderr.strip().splitlines()[-1])
    code = Path(found.stdout.strip()).read_text("utf-8")

    def look(page: Any, *rules: str) -> list[str]:
        if not page.evaluate("'axe' in window"):
            page.evaluate(code)  # by the debugger: the policy of the page would refuse a script
        options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
        answer = page.evaluate("options => axe.run(document, options)", options)
        return [
            f"{rule['id']}: {node['target']} {node['failureSummary']}"
            for rule in answer["violations"]
            for node in rule["nodes"]
        ]

    return look
