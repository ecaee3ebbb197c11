"""Real per-query values, from which simulations draw."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from assay import Ranking, evaluate

RUNS = ("InexpC2", "MU03rob01", "NLPR03vb10", "pircRBa1", "rutcor03100")


@pytest.fixture(scope="session")
def robust(data_dir: Callable[[str], Path]) -> dict[str, NDArray[np.float64]]:
    """Per-query values of the five Robust 2003 runs: systems × 100 queries, by measure."""
    folder = data_dir("robust03")
    qrels = folder / "robust03_qrels.txt.gz"
    names = ("AP", "nDCG@10", "P@10")
    scores = [evaluate(folder / f"input.{run}.gz", qrels, names) for run in RUNS]
    return {name: np.stack([each[name] for each in scores]) for name in names}


@pytest.fixture(scope="session")
def scifact(data_dir: Callable[[str], Path]) -> NDArray[np.float64]:
    """nDCG@10 of MiniLM vectors on the 300 queries of SciFact."""
    folder = data_dir("scifact")
    vectors = np.load(folder / "minilm.npz")
    similarity = vectors["queries"].astype(np.float32) @ vectors["docs"].astype(np.float32).T
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as corpus:
        doc_ids = [json.loads(line)["_id"] for line in corpus]
    lines = (folder / "queries.jsonl").read_text("utf-8").splitlines()
    query_ids = [json.loads(line)["_id"] for line in lines]
    ranking = Ranking.from_scores(similarity, query_ids=query_ids, doc_ids=doc_ids)
    return evaluate(ranking, folder / "qrels.trec", "nDCG@10")["nDCG@10"]
