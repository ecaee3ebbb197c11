"""Every sentence of the documentation that promises a property points to what shows it.

`claims.toml` has a table for each page: a piece of the sentence, and the tests that show it, the
benchmark that measures it, or "not a promise: " and the reason. Who writes "never", "exact" or
"same bytes" adds a line there, and a test where there is none; who changes such a sentence looks
whether the tests still show it.
"""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.claims.sentences import PAGES, ROOT, promises, read_page

CLAIMS = tomllib.loads(Path(__file__).with_name("claims.toml").read_text("utf-8"))
NOT_A_PROMISE = "not a promise: "


@cache
def names_in(path: str) -> set[str]:
    """The names of the tests of a file, read but not run."""
    file = ROOT / path
    tree = ast.parse(file.read_text("utf-8")) if file.is_file() else ast.Module([], [])
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {node.name for node in found if node.name.startswith("test")}


@pytest.mark.parametrize("page", PAGES)
def test_every_promise_points_to_what_shows_it(page):
    known = CLAIMS.get(page, {})
    open_ones = [s for s in promises(page) if not any(piece in s for piece in known)]
    assert not open_ones, f"{page}: add to tests/claims/claims.toml:\n" + "\n".join(open_ones)


def test_every_point_of_the_security_page_is_shown():
    text = (ROOT / "SECURITY.md").read_text("utf-8").replace("\n  ", " ")
    points = [line for line in text.splitlines() if line.startswith("- ")]
    bare = [line for line in points if not any(piece in line for piece in CLAIMS["SECURITY.md"])]
    assert len(points) > 15
    assert not bare, "add to tests/claims/claims.toml:\n" + "\n".join(bare)


@pytest.mark.parametrize("page", sorted(CLAIMS))
def test_every_entry_is_still_said(page):
    text = read_page(page)
    gone = [piece for piece in CLAIMS[page] if piece not in text]
    assert not gone, f"{page} no longer says this; change or remove the entry:\n" + "\n".join(gone)


@pytest.mark.parametrize("page", sorted(CLAIMS))
def test_what_shows_it_exists(page):
    wrong = [f"{piece}: {shown}" for piece, shown in CLAIMS[page].items() if not _exists(shown)]
    assert not wrong, "\n".join(wrong)


def _exists(shown):
    """Tests by their ids, a benchmark by its path, or a reason of some words."""
    if isinstance(shown, str):
        reason = shown.removeprefix(NOT_A_PROMISE)
        return len(reason) > 3 if reason != shown else (ROOT / shown).is_file()
    parts = [test.partition("::") for test in shown]
    return bool(parts) and all(name in names_in(path) for path, _, name in parts)


def test_a_new_promise_and_a_lost_test_are_noticed():
    assert not _exists([])
    assert not _exists(["tests/claims/test_claims.py::test_that_nobody_wrote"])
    assert not _exists("benchmarks/none.py")
    assert not _exists(NOT_A_PROMISE)
    assert _exists(["tests/claims/test_claims.py::test_what_shows_it_exists"])
    assert list(promises("README.md"))
