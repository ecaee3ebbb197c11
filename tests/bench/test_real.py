"""The bench on SciFact and Cranfield: published figures, and what the exact numbers rest on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from assay.bench import run_bench
from assay.io.collections import load_collection

Find = Callable[[str], Path]


@pytest.mark.slow
def test_scifact_reproduces_the_documented_figures(data_dir: Find) -> None:
    folder = data_dir("scifact")
    collection = load_collection(folder)
    minilm = f"minilm=npy:{folder / 'minilm.npz'}"
    result = run_bench(
        collection, ["bm25", "wordllama", minilm], fusions=["rrf:bm25+minilm"], measures="nDCG@10"
    )
    found = {one.name: one.scores.mean()["nDCG@10"] for one in result.systems}
    assert found["minilm"] == pytest.approx(0.645, abs=5e-4)  # what MTEB publishes
    assert found["bm25"] == pytest.approx(0.657, abs=2e-3)
    assert found["wordllama"] == pytest.approx(0.513, abs=2e-3)
    assert found["rrf(bm25+minilm)"] == pytest.approx(0.686, abs=2e-3)  # of lists of 100
    pair = result.standing.comparison.pair("bm25", "minilm")
    assert pair.outcome == "not separable"
    assert "a guess from these" in _verdict(result, "bm25", "minilm")
    assert result.chance.mean()["nDCG@10"] == pytest.approx(0.0009, abs=5e-5)
    assert result["bm25"].scores.n_queries == 300


def _verdict(result: object, a: str, b: str) -> str:
    from assay import compare

    return compare(result[a].scores, result[b].scores, names=[a, b]).verdict


def test_cranfield_with_its_two_empty_documents(data_dir: Find) -> None:
    folder = data_dir("cranfield")
    collection = load_collection(folder)
    result = run_bench(collection, [f"minilm=npy:{folder / 'minilm.npz'}"], measures="nDCG@10")
    one = result["minilm"]
    assert collection.empty_docs.to_list() == ["471", "995"]
    finding = result.diagnosis["empty-docs"]
    assert (finding.count, finding.examples) == (2, ("471", "995"))
    assert "1 of them relevant" in finding.effect
    names = {one.ranking.doc_ids[int(doc)] for doc in np.unique(one.ranking.docs)}
    assert not names & {"471", "995"}
    assert one.scores.mean()["nDCG@10"] == pytest.approx(0.3736, abs=5e-4)


def test_vectors_made_elsewhere_keep_their_rows(data_dir: Find) -> None:
    """Brute force on the file's own order gives the same best documents."""
    folder = data_dir("cranfield")
    collection = load_collection(folder)
    result = run_bench(collection, [f"minilm=npy:{folder / 'minilm.npz'}"], measures="nDCG@10")
    with np.load(folder / "minilm.npz") as arrays:
        docs, queries = (arrays[key].astype(np.float64) for key in ("docs", "queries"))
    empty = [collection.doc_ids.to_list().index(id) for id in collection.empty_docs]
    docs[empty] = 0
    lengths = np.linalg.norm(docs, axis=1)
    scores = queries @ docs.T / np.where(lengths, lengths, np.inf)
    for row, query in enumerate(collection.query_ids):
        best = collection.doc_ids[int(np.argmax(scores[row]))]
        assert result["minilm"].ranking.row(query)[0][0] == best
