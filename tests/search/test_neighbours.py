"""Overlap, RBO and correlations of rankings, against brute force over all orders and scipy."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, permutations, product

import numpy as np
import pytest
from scipy import stats

from assay import Ranking
from assay.errors import AssayError, MismatchError, UsageError
from assay.native import kernels
from assay.search import neighbours
from assay.search.neighbours import (
    TIES,
    correlations,
    kendall,
    overlap,
    ranking_similarity,
    rbo,
    spearman,
)


def orders(scores: list[int]) -> list[tuple[int, ...]]:
    """Every order of documents in which no score rises."""
    every = permutations(range(len(scores)))
    return [o for o in every if all(scores[x] >= scores[y] for x, y in pairwise(o))]


def random_scores(rng: np.random.Generator, n_queries: int, n_docs: int, levels: int):
    return rng.integers(0, levels, size=(n_queries, n_docs))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("levels", [1, 2, 3, 9])
def test_overlap_is_what_all_orders_of_tied_documents_give(seed, levels):
    rng = np.random.default_rng(seed)
    x, y = random_scores(rng, 1, 6, levels), random_scores(rng, 1, 6, 3)
    a, b = Ranking.from_scores(x), Ranking.from_scores(y)
    of_x, of_y = orders(x[0].tolist()), orders(y[0].tolist())
    for k in range(1, 8):
        tops = (Counter(frozenset(order[:k]) for order in each) for each in (of_x, of_y))
        pairs = product(*(top.items() for top in tops))
        found = [len(p & q) / k for (p, m), (q, n) in pairs for _ in range(m * n)]
        by_rule = np.argsort(-x[0], kind="stable")[:k], np.argsort(-y[0], kind="stable")[:k]
        want = {
            "order": len(set(by_rule[0]) & set(by_rule[1])) / k,
            "expected": math.fsum(found) / len(found),
            "best": max(found),
            "worst": min(found),
        }
        for ties in TIES:
            assert overlap(a, b, k=k, ties=ties)[0] == pytest.approx(want[ties], abs=1e-12)


def kept(scores: np.ndarray, k: int) -> Ranking:
    """The first k documents of each row and all that tie with the k-th."""
    least = -np.sort(-scores, axis=1)[:, k - 1 : k]
    docs = np.where(scores >= least, np.arange(scores.shape[1]), -1)
    return Ranking.from_arrays(docs, scores, n_docs=scores.shape[1])


@pytest.mark.parametrize("ties", TIES)
def test_rankings_that_keep_ties_at_the_cut_give_the_overlap_of_whole_ones(ties):
    rng = np.random.default_rng(5)
    x = random_scores(rng, 40, 60, 12)
    y = (x + random_scores(rng, 40, 60, 8)) // 3
    whole = overlap(Ranking.from_scores(x), Ranking.from_scores(y), k=7, ties=ties)
    assert overlap(kept(x, 7), kept(y, 9), k=7, ties=ties).tolist() == whole.tolist()
    assert len(set(whole.tolist())) > 2


def test_a_cut_through_ties_is_refused_unless_order_counts():
    a = Ranking.from_scores([[1, 1, 1, 0]]).first(2)
    b = Ranking.from_scores([[4, 3, 2, 1]])
    assert overlap(a, b, k=2).tolist() == [1.0]
    for call in (lambda: overlap(a, b, k=2, ties="expected"), lambda: kendall(a, b)):
        with pytest.raises(
            UsageError, match=r"The first ranking cuts through tied documents, e\.g"
        ):
            call()
    for which in ("p", "q"):
        rows = [[4, 3, 2, 1], [1, 1, 1, 0]][:: 1 if which == "q" else -1]
        cut = Ranking.from_scores(rows, query_ids=["p", "q"]).first(2)
        with pytest.raises(UsageError, match=f"second ranking cuts .* for query '{which}'"):
            spearman(Ranking.from_scores(rows, query_ids=["p", "q"]), cut)


@pytest.mark.parametrize(("levels", "n"), [(2, 5), (4, 30), (100, 30), (10**9, 200), (7, 700)])
def test_correlations_equal_scipy_on_ties(levels, n):
    rng = np.random.default_rng(levels)
    x = random_scores(rng, 6, n, levels)
    y = np.where(rng.random((6, n)) < 0.5, x, random_scores(rng, 6, n, levels))
    a, b = Ranking.from_scores(x), Ranking.from_scores(y)
    for found, test in ((kendall(a, b), stats.kendalltau), (spearman(a, b), stats.spearmanr)):
        want = [test(p, q).statistic for p, q in zip(x, y, strict=True)]
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)
    assert [x.tolist() for x in correlations(a, b)] == [
        kendall(a, b).tolist(),
        spearman(a, b).tolist(),
    ]
    assert kendall(a, a).tolist() == spearman(a, a).tolist() == [1.0] * 6
    assert kendall(a, Ranking.from_scores(-x)).tolist() == [-1.0] * 6


def test_documents_that_a_ranking_lacks_tie_at_its_end():
    a = Ranking.from_arrays([[0, 1, 2]], n_docs=9)
    b = Ranking.from_arrays([[2, 0, 5]], n_docs=9)
    x, y = [1, 2, 3, 4], [2, 4, 1, 3]  # documents 0, 1, 2, 5
    assert kendall(a, b)[0] == pytest.approx(stats.kendalltau(x, y).statistic)
    assert spearman(a, b)[0] == pytest.approx(stats.spearmanr(x, y).statistic)
    longer = Ranking.from_arrays([[2, 0, 5, 7]], n_docs=9)
    x, y = [1, 2, 3, 4.5, 4.5], [2, 5, 1, 3, 4]  # and 7
    assert kendall(a, longer)[0] == pytest.approx(stats.kendalltau(x, y).statistic)
    assert spearman(a, longer)[0] == pytest.approx(stats.spearmanr(x, y).statistic)


def test_a_constant_ranking_has_no_correlation():
    a, b = Ranking.from_scores([[1, 1, 1]]), Ranking.from_scores([[3, 2, 1]])
    assert np.isnan([kendall(a, b)[0], spearman(a, b)[0]]).all()
    one = Ranking.from_scores([[1]])
    assert np.isnan([kendall(one, one)[0], spearman(one, one)[0]]).all()
    assert overlap(a, b, k=1, ties="expected")[0] == pytest.approx(1 / 3)


def rbo_by_hand(p: float, x: list[int], y: list[int]) -> float:
    found = [len(set(x[:d]) & set(y[:d])) / d for d in range(1, len(x) + 1)]
    head = math.fsum((1 - p) * p ** (d - 1) * share for d, share in enumerate(found, 1))
    return head + p ** len(x) * found[-1]


def test_rbo_is_the_mean_over_all_orders_of_tied_documents():
    x, y = [3, 2, 2, 1, 1], [1, 1, 1, 0, 2]
    each = [rbo_by_hand(0.8, list(p), list(q)) for p, q in product(orders(x), orders(y))]
    a, b = Ranking.from_scores([x]), Ranking.from_scores([y])
    assert rbo(a, b, p=0.8)[0] == pytest.approx(math.fsum(each) / len(each), abs=1e-12)
    by_rule = rbo_by_hand(0.8, [0, 1, 2, 3, 4], [4, 0, 1, 2, 3])
    assert rbo(a, b, p=0.8, ties="order")[0] == pytest.approx(by_rule, abs=1e-12)
    assert by_rule not in (pytest.approx(rbo(a, b, p=0.8)[0]),)


def test_rbo_looks_as_deep_as_the_shorter_ranking():
    a = Ranking.from_arrays([[0, 1, 2, 3], [0, 1, 2, 3]])
    b = Ranking.from_arrays([[1, 0, -1, -1], [3, 2, 1, 0]])
    want = [rbo_by_hand(0.9, [0, 1], [1, 0]), rbo_by_hand(0.9, [0, 1, 2, 3], [3, 2, 1, 0])]
    np.testing.assert_allclose(rbo(a, b), want, atol=1e-12)
    assert rbo(a, a).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("p", [0.3, 0.9])
@pytest.mark.parametrize("ties", ["order", "expected"])
def test_rbo_goes_on_with_the_share_that_was_common_at_the_last_depth(p, ties):
    """Lists that do not hold the same documents: what is beyond them is taken to be as alike."""
    rng = np.random.default_rng(2)
    x, y = ([rng.permutation(9)[:5].tolist() for _ in range(20)] for _ in range(2))
    want = [rbo_by_hand(p, left, right) for left, right in zip(x, y, strict=True)]
    a, b = (Ranking.from_arrays(docs, n_docs=9) for docs in (x, y))
    np.testing.assert_allclose(rbo(a, b, p=p, ties=ties), want, rtol=0, atol=1e-14)
    want = [rbo_by_hand(p, left[:3], right[:3]) for left, right in zip(x, y, strict=True)]
    np.testing.assert_allclose(rbo(a.first(3), b, p=p, ties=ties), want, rtol=0, atol=1e-14)


def test_queries_and_documents_are_matched_by_id():
    a = Ranking.from_scores([[3, 2, 1], [1, 2, 3]], query_ids=["p", "q"], doc_ids=["x", "y", "z"])
    b = Ranking.from_scores(
        [[9, 2, 1, 3], [0, 3, 2, 1]], query_ids=["q", "p"], doc_ids=["w", "z", "y", "x"]
    )
    assert overlap(a, b, k=2).tolist() == [0.5, 0.0]
    want = stats.kendalltau([1, 2, 3, 4], [3, 2, 1, 4]).statistic
    assert kendall(a, b)[0] == pytest.approx(want)
    one = Ranking.from_scores([[1, 2, 3]], query_ids=["p"], doc_ids=["x", "y", "z"])
    with pytest.raises(MismatchError, match="the second lacks 'q'"):
        overlap(a, one, k=1)
    with pytest.raises(MismatchError, match="The rankings have 1 and 2 queries"):
        overlap(one, a, k=1)
    many = Ranking.from_scores([[1.0]] * 7, query_ids=[*"abcdefg"])
    with pytest.raises(MismatchError, match=r"lacks 'a', 'b', 'c', 'd', 'e', … \(7 in all\)"):
        overlap(many, one, k=1)


def test_blocks_change_nothing(monkeypatch):
    rng = np.random.default_rng(3)
    x, y = (Ranking.from_scores(random_scores(rng, 30, 20, 6)) for _ in range(2))
    measures = (
        lambda: overlap(x, y, k=5, ties="expected"),
        lambda: rbo(x, y),
        lambda: kendall(x, y),
        lambda: spearman(x, y),
    )
    whole = [measure().tobytes() for measure in measures]
    for size in (1, 7, 100):
        monkeypatch.setattr(neighbours, "BLOCK", size)
        assert [measure().tobytes() for measure in measures] == whole


@pytest.mark.parametrize("k", [0, -1, 2.5, True])
def test_fault_22_cutoffs(k):
    a = Ranking.from_scores([[1, 2]])
    with pytest.raises(UsageError, match="whole number"):
        overlap(a, a, k=k)


def test_wrong_arguments_are_named():
    a = Ranking.from_scores([[1, 2]])
    for call in (
        lambda: overlap(a, a, k=1, ties="random"),
        lambda: rbo(a, a, p=1.0),
        lambda: rbo(a, a, p=0),
        lambda: rbo(a, a, p=True),
        lambda: rbo(a, a, p="0.9"),
        lambda: rbo(a, a, ties="best"),
        lambda: kendall(a, [[1, 2]]),
    ):
        with pytest.raises(AssayError, match=r"found|RBO has no ties"):
            call()


def test_several_likenesses_at_once_are_those_of_each_by_itself():
    rng = np.random.default_rng(8)
    a, b = (Ranking.from_scores(random_scores(rng, 9, 8, 4)) for _ in range(2))
    found = ranking_similarity(a, b, k=[2, 5], p=0.7)
    assert list(found.overlap) == [2, 5]
    for k, ties in product((2, 5), TIES):
        assert found.overlap[k][ties].tolist() == overlap(a, b, k=k, ties=ties).tolist()
    assert found.rbo.tolist() == rbo(a, b, p=0.7).tolist()
    spread = found.overlap[2]["best"] > found.overlap[2]["worst"]
    assert found.tied(2).tolist() == spread.tolist()
    assert {*spread.tolist()} == {False, True}
    some = found.take(np.array([4, 1]))
    assert some.rbo.tolist() == found.rbo[[4, 1]].tolist()
    assert some.overlap[5]["best"].tolist() == found.overlap[5]["best"][[4, 1]].tolist()


@pytest.mark.slow
def test_pairs_are_counted_exactly_where_many_short_rows_share_a_block_with_a_long_one():
    short, long = 1_100_000, 3_000_000
    offsets = np.append(np.arange(short + 1), short + long)
    ranks = np.concatenate([np.ones(short, np.int64), np.arange(1, long + 1)])
    tied, discordant = kernels().count_pairs(offsets, ranks, ranks)
    assert not tied.any()
    assert not discordant.any()
