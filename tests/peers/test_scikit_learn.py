"""scikit-learn and Assay under the preset that reproduces it.

ndcg_score takes the expectation over tied documents; so does the preset. What differs elsewhere:
- label_ranking_average_precision_score gives every tied label the last rank of its tie group, all
  tied relevant labels at once; no order of the list has that value, so it equals AP only without
  ties. Samples in which no label or every label is relevant count 1 there.
- top_k_accuracy_score breaks ties by the *higher* index, and takes one target per sample.
"""

from __future__ import annotations

import numpy as np
import pytest

from assay import Judgments, Ranking, judge, preset, score

metrics = pytest.importorskip("sklearn.metrics")

RULES = preset("sklearn")


def graded(truth: np.ndarray) -> Judgments:
    from assay import Ids

    queries, docs = np.nonzero(truth >= 0)
    return Judgments.from_pairs(
        Ids.count(truth.shape[0]), Ids.count(truth.shape[1]), queries, docs, truth[queries, docs]
    )


def ours(truth: np.ndarray, scores: np.ndarray, name: str, rules=RULES):
    hits = judge(Ranking.from_scores(scores), graded(truth), conventions=rules)
    return score(hits, name, conventions=rules)


@pytest.mark.parametrize("k", [None, 1, 3, 7, 50])
@pytest.mark.parametrize("levels", [2, 4, 1000])
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_ndcg_score(k, levels, step):
    rng = np.random.default_rng(levels)
    truth = rng.choice([0, 0, 1, 2, 3, 0.5], (200, 12))
    truth[:5] = 0
    scores = rng.integers(0, levels, truth.shape).astype(float)
    name = "nDCG" if k is None else f"nDCG@{k}"
    found = ours(truth, scores, name)
    for row in range(0, len(truth), step):
        wanted = metrics.ndcg_score(truth[row : row + 1], scores[row : row + 1], k=k)
        assert np.nan_to_num(found[name])[row] == pytest.approx(wanted, abs=1e-12)
    assert found.mean()[name] == pytest.approx(metrics.ndcg_score(truth, scores, k=k), abs=1e-12)


def test_label_ranking_average_precision_is_ap_where_nothing_ties():
    rng = np.random.default_rng(2)
    truth = (rng.random((100, 9)) < 0.4).astype(int)
    truth[:, 0], truth[:, 1] = 1, 0  # never all, never none
    scores = rng.permuted(np.tile(np.arange(9.0), (100, 1)), axis=1)
    wanted = metrics.label_ranking_average_precision_score(truth, scores)
    assert ours(truth, scores, "AP").mean()["AP"] == pytest.approx(wanted, abs=1e-12)


def test_label_ranking_average_precision_under_ties_is_no_order_of_the_list():
    truth, scores = np.array([[1, 1, 0]]), np.zeros((1, 3))
    assert metrics.label_ranking_average_precision_score(truth, scores) == pytest.approx(2 / 3)
    by_order = {(1 + 1) / 2, (1 + 2 / 3) / 2, (1 / 2 + 2 / 3) / 2}
    expected = ours(truth, scores, "AP")["AP"][0]
    assert expected == pytest.approx(sum(by_order) / 3)
    assert all(abs(2 / 3 - value) > 0.05 for value in by_order)


def test_top_k_accuracy():
    rng = np.random.default_rng(3)
    scores, targets = rng.random((300, 8)), rng.integers(0, 8, 300)
    hits = judge(Ranking.from_scores(scores), Judgments.from_targets(targets), conventions=RULES)
    for k in (1, 3, 7):
        wanted = metrics.top_k_accuracy_score(targets, scores, k=k, labels=range(8))
        mean = score(hits, f"Success@{k}", conventions=RULES).mean()
        assert mean[f"Success@{k}"] == pytest.approx(wanted, abs=1e-12)


def test_top_k_accuracy_under_ties_takes_the_higher_index():
    scores = np.zeros((3, 3))
    assert metrics.top_k_accuracy_score([0, 1, 2], scores, k=1, labels=range(3)) == pytest.approx(
        1 / 3
    )
    assert metrics.top_k_accuracy_score([2, 2, 2], scores, k=1, labels=range(3)) == 1.0
