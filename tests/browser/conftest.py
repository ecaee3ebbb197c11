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
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


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
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.complaints, page.requests = [], []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("dialog", lambda dialog: page.complaints.append(dialog.message))
        page.on("request", lambda request: page.requests.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", timeout=60_000)
        return page

    yield open_file
    for context in contexts:
        context.close()


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[Any, str], None]:
    """Keep a picture of the page; in the folder ASSAY_PICTURES if that is set."""

    def save(page: Any, name: str) -> None:
        folder = Path(os.environ.get("ASSAY_PICTURES", tmp_path))
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}.png", full_page=True)

    return save
