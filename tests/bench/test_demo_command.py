"""`assay demo`: the first thing a user sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.errors import install_command
from tests.bench.samples import small


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small collection instead of the standard library."""
    from assay.bench import demo

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("assay.search.demo_texts.stdlib_collection", small)
    monkeypatch.setattr(demo, "MODELS", ("bm25", "tfidf", "lsa:20", "wordllama"))
    return tmp_path


def test_it_says_where_everything_is(quick: Path, assay: Callable[..., Any]) -> None:
    done = assay("demo")
    assert done.code == 0, done.err
    assert "chance" in done.out
    for name in ("bm25", "tfidf", "lsa:20", "wordllama", "hybrid"):
        assert name in done.out
    assert "assay-demo/report.html" in done.out
    assert (quick / "assay-demo" / "report.html").stat().st_size > 10_000
    line = next(line for line in done.out.splitlines() if "assay explain" in line)
    explained = assay(*line.partition("assay ")[2].split())
    assert explained.code == 0, explained.err
    assert "hybrid" in explained.out
    listed = assay("runs", "list", "--store", "assay-demo/assay.db", "--tag", "demo")
    assert listed.out.count("finished") >= 5


def test_export(quick: Path, assay: Callable[..., Any]) -> None:
    done = assay("demo", "--export", "out")
    assert done.code == 0, done.err
    assert small().fingerprint in done.out
    assert assay("bench", "--corpus", "out", "--model", "bm25", "--no-cache").code == 0
    assert not (quick / "assay-demo").exists()


def test_the_standard_library_itself(
    tmp_path: Path, assay: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from assay.io.collections import load_collection

    monkeypatch.chdir(tmp_path)
    assert assay("demo", "--export", "out").code == 0
    found = load_collection("out")
    assert len(found.doc_ids) > 1500
    assert len(found.query_ids) > 1000


def test_files_of_the_documentation(
    tmp_path: Path, assay: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = assay("demo", "--files", "runs")
    assert done.code == 0, done.err
    assert "$ assay explain dense.run" in done.out
    assert "nDCG@5 of query q07" in done.out
    assert (tmp_path / "runs" / "qrels.txt").exists()


def test_what_excludes_each_other(quick: Path, assay: Callable[..., Any]) -> None:
    assert assay("demo", "--files", "a", "--export", "b").code == 2


def test_a_missing_package_is_named_with_the_extra(
    quick: Path, assay: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "sklearn", None)
    done = assay("demo")
    assert done.code == 4
    assert install_command("demo") in done.err
    assert not (quick / "assay-demo").exists()
