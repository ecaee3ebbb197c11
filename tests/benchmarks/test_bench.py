"""The benchmarks of bench and of indexes run, at a size that takes a moment, without peers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def said(script: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, FOLDER / script, *arguments], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("peer", ["sentence-transformers", "mteb"])
def test_assays_side_gives_the_peers_measures(peer: str) -> None:
    answer = said("bench.py", "--child", "assay", peer, "20x300x8", "1")
    assert answer["evaluation"] > 0
    assert all(0 <= value <= 1 for value in answer["means"].values())
    assert len(answer["means"]) == (42 if peer == "mteb" else 15)


def test_indexes_are_measured() -> None:
    exact, flat = said(
        "indexes.py", "--data", "20x300x8", "--specs", "exact", "faiss:Flat", "--json"
    )
    assert exact["recall"] == flat["recall"] == 1.0
    assert flat["spec"] == "faiss:Flat"
