"""The benchmark runs, at a size that takes a moment; other packages are not needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("resource", reason="the benchmark asks the system for peak memory")

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "runs.py"


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.slow
def test_it_times_memory_and_files(tmp_path: Path) -> None:
    report = json.loads(
        _run(
            "--queries",
            "20",
            "--lines",
            "2000",
            "--repeats",
            "1",
            "--json",
            "--peers",
            "pytrec_eval",
            "--cache",
            str(tmp_path),
        )
    )
    results = [result for part in report["parts"] for result in part["results"]]
    names = [result["name"] for result in results]
    assert {
        "assay: from arrays, judgments too",
        "assay: from dicts",
        "assay: tuples",
        "assay: polars",
        "assay: evaluate(path, path)",
    } <= set(names)
    assert all(result["seconds"] > 0 for result in results)
    assert (tmp_path / "run-20-seed3.trec").read_bytes().count(b"\n") == 2000


@pytest.mark.slow
def test_it_prints_tables(tmp_path: Path) -> None:
    text = _run(
        "--queries", "5", "--lines", "500", "--repeats", "1", "--peers", "--cache", str(tmp_path)
    )
    assert "In memory: 5 queries × 100 results" in text
    assert "peak GB" in text


def test_its_scores_are_distinct_where_a_peer_rounds_them() -> None:
    """pytrec_eval compares scores as float32: a tie there is another order, not another measure."""
    sys.path.insert(0, str(SCRIPT.parent))
    try:
        from runs import Sample
    finally:
        sys.path.pop(0)
    scores = Sample(3000).scores
    for rounded in (scores.astype(np.float32), (scores * 1e9).astype(np.int64) / np.float32(1e9)):
        ordered = np.sort(rounded.astype(np.float32), axis=1)
        assert (np.diff(ordered, axis=1) > 0).all()
    assert 0 < scores.min() < scores.max() < 1
