"""The page for labelling in a real browser: keys only, phone and desktop, light and dark, kills."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.judging import LabelLog, make_pool
from tests.judging.samples import make_runs
from tests.waiting import until

EVIL = "<script>document.title = 'run'</script><img src=x onerror=alert(1)> {{7*7}}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pool = make_pool(make_runs(2), 20)
    pool.write(tmp_path / "pool.tsv")
    queries = [{"_id": str(q), "text": f"red fox {q}", "description": EVIL} for q in pool.query_ids]
    docs = [{"_id": str(d), "text": f"About.\n\nA red fox.\n\n{EVIL}"} for d in pool.doc_ids]
    for name, records in (("queries", queries), ("docs", docs)):
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    return tmp_path


def start(folder: Path, *options: str) -> tuple[str, subprocess.Popen[str]]:
    code = "import sys; from assay.cli.main import main; sys.exit(main(sys.argv[1:]))"
    words = ("label", "pool.tsv", "--queries", "queries.jsonl", "--docs", "docs.jsonl", *options)
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process.stdout.readline().strip(), process


def press(page: Any, key: str) -> None:
    """Press a key, and wait until the page has shown the answer."""
    with page.expect_response(lambda answer: answer.request.method == "POST"):
        page.keyboard.press(key)
    page.wait_for_selector("body:not([data-busy])")


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


def test_labelling_by_keys_alone(visited, folder: Path, axe, picture) -> None:
    address, process = start(folder)
    try:
        page = visited(address, width=1280)
        assert "token" not in page.url
        page.keyboard.type("ada")
        page.keyboard.press("Enter")
        page.wait_for_selector("#pair:not([hidden])")
        log = LabelLog(folder / "pool.labels.jsonl")
        assert page.locator("#description").inner_text() == EVIL
        assert page.locator("mark").count() > 0
        assert page.locator("#passage").inner_text() == "A red fox."
        wrong = {}
        for look in ("light", "dark"):
            page.emulate_media(color_scheme=look)
            wrong[look] = axe(page)
            picture(page, f"label-{look}")
        page.set_viewport_size({"width": 390, "height": 800})
        wrong["phone"] = axe(page)
        wide = page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert (wrong, wide) == ({"light": [], "dark": [], "phone": []}, True)
        boxes = [page.locator("#grades button").nth(n).bounding_box() for n in range(4)]
        assert len({(box["x"], box["width"]) for box in boxes}) == 1
        row = [page.locator(f"#{name}").bounding_box() for name in ("skip", "cannot", "undo")]
        assert len({(box["y"], box["height"]) for box in row}) == 1
        for n, key in enumerate("20s", 1):
            press(page, key)
            assert len(log.acts()[0]) == n
        page.keyboard.press("n")
        page.keyboard.type("3 is not a grade here")
        page.keyboard.press("Enter")
        press(page, "3")
        press(page, "u")
        press(page, "c")
        acts = [(act.state, act.grade, act.note) for act in log.acts()[0]]
        assert acts == [
            ("label", 2, ""),
            ("label", 0, ""),
            ("skip", None, ""),
            ("label", 3, "3 is not a grade here"),
            ("undo", None, ""),
            ("cannot", None, ""),
        ]
        shown = page.locator("#query").inner_text()
        page.reload()
        page.wait_for_selector("#pair:not([hidden])")
        assert page.locator("#query").inner_text() == shown
        assert page.title() == "Label · Assay"
        assert page.complaints == []
        assert all(url.startswith("http://127.0.0.1:") for url in page.requests)
    finally:
        stop(process)


def test_a_killed_server_is_said_and_nothing_is_lost(visited, folder: Path) -> None:
    address, process = start(folder, "--by", "ada")
    page = visited(address)
    press(page, "1")
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()
    page.keyboard.press("2")
    until(lambda: "does not answer" in page.locator("#error").inner_text())
    assert [label.grade for label in LabelLog(folder / "pool.labels.jsonl").read().labels] == [1]
