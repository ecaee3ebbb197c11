"""torchmetrics 1.9.0 and Assay under the preset that reproduces it.

It works in float32, so the agreement is to 1e-6. What a preset cannot reproduce is pinned down in
the last tests: scores of 0 or less, and the order of ties in everything but nDCG.
"""

from __future__ import annotations

import numpy as np
import pytest

from assay import Ids, Judgments, Ranking, judge, preset, score

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")
retrieval = pytest.importorskip("torchmetrics.retrieval")
functional = pytest.importorskip("torchmetrics.functional.retrieval")

RULES = preset("torchmetrics")
N_QUERIES, N_DOCS = 40, 12


def truth_and_scores(*, grades: int = 2, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    truth = rng.integers(0, grades, (N_QUERIES, N_DOCS)) * (rng.random((N_QUERIES, N_DOCS)) < 0.5)
    truth[:3] = 0
    if ties:
        return truth, rng.integers(1, 4, truth.shape).astype(np.float64)
    return truth, rng.permuted(np.tile(np.arange(1.0, N_DOCS + 1), (N_QUERIES, 1)), axis=1)


def ours(truth: np.ndarray, scores: np.ndarray, name: str, rules=RULES) -> float:
    queries, docs = np.nonzero(truth >= 0)
    judgments = Judgments.from_pairs(
        Ids.count(len(truth)), Ids.count(truth.shape[1]), queries, docs, truth[queries, docs]
    )
    hits = judge(Ranking.from_scores(scores), judgments, conventions=rules)
    return score(hits, name, conventions=rules).mean()[name]


def theirs(truth: np.ndarray, scores: np.ndarray, metric) -> float:
    indexes = torch.arange(len(truth)).repeat_interleave(truth.shape[1])
    preds = torch.tensor(scores.ravel(), dtype=torch.float32)
    return float(metric(preds, torch.tensor(truth.ravel()), indexes=indexes))


CASES = {
    "AP": retrieval.RetrievalMAP,
    "AP@3": lambda: retrieval.RetrievalMAP(top_k=3),
    "RR": retrieval.RetrievalMRR,
    "RR@2": lambda: retrieval.RetrievalMRR(top_k=2),
    "P@4": lambda: retrieval.RetrievalPrecision(top_k=4),
    "P@40": lambda: retrieval.RetrievalPrecision(top_k=40),
    "R@4": lambda: retrieval.RetrievalRecall(top_k=4),
    "Success@2": lambda: retrieval.RetrievalHitRate(top_k=2),
    "Rprec": retrieval.RetrievalRPrecision,
    "nDCG": retrieval.RetrievalNormalizedDCG,
    "nDCG@5": lambda: retrieval.RetrievalNormalizedDCG(top_k=5),
}


@pytest.mark.parametrize("name", CASES)
def test_shared_measures(name):
    truth, scores = truth_and_scores()
    assert ours(truth, scores, name) == pytest.approx(
        theirs(truth, scores, CASES[name]()), abs=1e-6
    )


@pytest.mark.parametrize("name", ["nDCG", "nDCG@5"])
def test_ndcg_takes_the_expectation_over_ties(name):
    truth, scores = truth_and_scores(grades=4, ties=True)
    wanted = theirs(truth, scores, CASES[name]())
    rules = RULES.replace(ties="expected")
    assert ours(truth, scores, name, rules) == pytest.approx(wanted, abs=1e-6)


def test_ap_divides_by_the_number_of_hits():
    preds, target = torch.tensor([0.9, 0.5, 0.4]), torch.tensor([1, 0, 1])
    assert float(functional.retrieval_average_precision(preds, target, top_k=2)) == 1.0
    assert ours(np.array([[1, 0, 1]]), np.array([[0.9, 0.5, 0.4]]), "AP@2") == 1.0


def test_a_score_of_zero_or_less_is_not_retrieved_there():
    preds, target = torch.tensor([-0.1, -0.5]), torch.tensor([1, 0])
    assert float(functional.retrieval_reciprocal_rank(preds, target)) == 0.0
    assert ours(np.array([[1, 0]]), np.array([[-0.1, -0.5]]), "RR") == 1.0


def test_empty_queries_count_zero_and_may_be_skipped():
    truth, scores = np.array([[1, 0], [0, 0]]), np.array([[2.0, 1.0], [2.0, 1.0]])
    assert theirs(truth, scores, retrieval.RetrievalMRR()) == ours(truth, scores, "RR") == 0.5
    skipping = retrieval.RetrievalMRR(empty_target_action="skip")
    assert theirs(truth, scores, skipping) == ours(truth, scores, "RR", RULES.replace(empty="skip"))
