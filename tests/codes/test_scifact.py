"""Codes of real vectors: all-MiniLM-L6-v2 on SciFact, 64 to 1024 bits, against float and qrels."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from assay.codes import CodesReport, evaluate_codes

BITS = (64, 256, 1024)


@pytest.fixture(scope="module")
def scifact(data_dir) -> dict:
    folder = data_dir("scifact")
    with gzip.open(folder / "corpus.jsonl.gz", "rt") as lines:
        doc_ids = [str(json.loads(line)["_id"]) for line in lines]
    with open(folder / "queries.jsonl") as lines:
        query_ids = [str(json.loads(line)["_id"]) for line in lines]
    with np.load(folder / "minilm.npz") as vectors:
        return {
            "docs": vectors["docs"].astype(np.float32),
            "queries": vectors["queries"].astype(np.float32),
            "doc_ids": doc_ids,
            "query_ids": query_ids,
            "qrels": folder / "qrels.trec",
        }


@pytest.fixture(scope="module")
def report(scifact) -> CodesReport:
    return evaluate_codes(
        bits=BITS, methods=["sign", "gaussian", "int8", "float16"], resamples=1000, **scifact
    )


def means(report: CodesReport, measure: str) -> dict[str, float]:
    return {name: found[measure].estimate for name, found in report.intervals.items()}


@pytest.mark.slow
def test_float_reproduces_the_published_ndcg(report):
    assert report["float"].judged.mean()["nDCG@10"] == pytest.approx(0.645, abs=5e-4)


def test_more_bits_lose_less(report):
    for measure in ("Overlap@10", "Overlap@50", "RBO(p=0.9)", "Kendall", "Spearman", "nDCG@10"):
        found = means(report, measure)
        gaussian = [found[f"gaussian-{n}"] for n in BITS]
        assert gaussian == sorted(gaussian), measure
        assert gaussian[-1] < found["int8"] <= found["float16"] <= 1.0


def test_figures_of_the_docs_page(report):
    found = means(report, "Overlap@10")
    assert found["sign"] == pytest.approx(0.5642, abs=5e-4)
    assert found["gaussian-64"] == pytest.approx(0.1785, abs=5e-4)
    assert found["gaussian-1024"] == pytest.approx(0.6636, abs=5e-4)
    assert found["int8"] == pytest.approx(0.9907, abs=5e-4)


def test_overlap_of_sign_bits_by_brute_force(report, scifact):
    docs, queries = scifact["docs"].astype(float), scifact["queries"].astype(float)
    near = queries @ (docs / np.linalg.norm(docs, axis=1, keepdims=True)).T
    left, right = queries > 0, docs > 0
    far = left.sum(1)[:, None] + right.sum(1) - 2 * (left.astype(float) @ right.T.astype(float))
    want = [
        len(set(np.argsort(-x, kind="stable")[:10]) & set(np.argsort(y, kind="stable")[:10])) / 10
        for x, y in zip(near, far, strict=True)
    ]
    by_id = np.argsort(scifact["query_ids"])
    found = report["sign"].similarity.overlap[10]["order"]
    assert found.tolist() == np.array(want)[by_id].tolist()


def test_codes_are_worse_than_float_and_the_test_says_so(report):
    comparison = report.comparison
    for name in ("sign", "gaussian-64", "gaussian-256"):
        pair = comparison.pair(name, "float", measure="nDCG@10")
        assert pair.winner == "float"
        assert pair.p < 0.05
    same = comparison.pair("int8", "float", measure="nDCG@10")
    assert same.outcome == "not separable"


def test_ties_decide_much_of_short_codes(report):
    shares = [report[f"gaussian-{n}"].similarity.tied(50).mean() for n in BITS]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.9
    spread = report["gaussian-64"].similarity.overlap[50]
    assert (spread["best"] - spread["worst"]).mean() > 0.02


def test_reranking_by_float_wins_most_of_it_back(scifact):
    again = evaluate_codes(
        bits=[256], methods=["gaussian"], k=[10], rerank=100, resamples=200, **scifact
    )
    assert again.intervals["gaussian-256"]["Overlap@10"].estimate > 0.8
    assert again["gaussian-256"].judged.mean()["nDCG@10"] > 0.62


@pytest.mark.slow
def test_learned_rotations_beat_random_directions(scifact):
    found = evaluate_codes(bits=[64, 256], methods=["gaussian", "itq"], resamples=200, **scifact)
    for bits in (64, 256):
        learned, drawn = (found.intervals[f"{m}-{bits}"]["Overlap@10"] for m in ("itq", "gaussian"))
        assert learned.low > drawn.high
