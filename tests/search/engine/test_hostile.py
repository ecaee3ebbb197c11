"""Every finite input, however made: the answer of exact arithmetic, or a clear refusal.

The score of a pair is its exact value rounded once to float64, documents tie where these are equal,
and neither threads nor blocks, engines, vector instructions or k can be seen in the answer.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np
import pytest

from assay.core.ranking import Ranking
from assay.errors import ValueRangeError
from assay.search.engine import rank, rerank, target_ranks
from tests.search.engine.exact import Scores, exact_rank, exact_target_ranks
from tests.search.engine.hostile import TYPES, Hostile, hostile, hostile_scores
from tests.search.engine.nasty import METRICS
from tests.search.engine.test_same_bytes import kernels  # noqa: F401 (a fixture)

FEW, MANY = 6, 1500
OPTIONS = {"zero": "last"}


def ways(case: Hostile) -> list[tuple[int, bool, int, int]]:
    """How to search: k, keep_ties, threads, and how many documents are in a block."""
    n_docs = len(case.docs)
    cuts = ((1, n_docs), (2, n_docs), (1, 3))  # each block of documents starts threads again
    wanted = product(sorted({1, case.k, n_docs}), (False, True))
    return [(k, ties, *cut) for k, ties in wanted for cut in cuts]


def check_rank(case: Hostile, scores: Scores, metric: str, engine: str, turns: slice) -> None:
    n_docs = len(case.docs)
    for k, keep_ties, threads, size in ways(case)[turns]:
        docs = case.docs
        if size < n_docs:
            docs = (case.docs[start : start + size] for start in range(0, n_docs, size))
        want = exact_rank(scores, k, keep_ties=keep_ties)
        how = f"{metric} k={k} keep_ties={keep_ties} threads={threads} blocks of {size}"
        try:
            found = rank(
                case.queries,
                docs,
                k,
                metric=metric,
                keep_ties=keep_ties,
                threads=threads,
                engine=engine,
                **OPTIONS,
            )
        except ValueRangeError as error:
            refused = "exceed float64" in str(error)
            assert refused, error  # noqa: PT017 (whether it raises depends on the case)
            assert any(math.isinf(score) for row in want for _, score in row), how
        else:
            assert [found.row(q) for q in range(len(want))] == want, how
            if not keep_ties:
                assert found_splits(found) == [splits(row, k) for row in scores], how


def found_splits(found: Ranking) -> list[bool]:
    return [False] * len(found) if found.tie_split is None else found.tie_split.tolist()


def splits(scores: list[float], k: int) -> bool:
    """Whether a cut after the k-th document divides a tie."""
    ordered = sorted(scores, reverse=True)
    return k < len(ordered) and ordered[k - 1] == ordered[k]


def check_targets(case: Hostile, scores: Scores, metric: str, engine: str, turns: slice) -> None:
    both = product(range(len(case.docs)), (1, 2))
    for target, threads in list(both)[turns]:
        targets = [target] * len(case.queries)
        if not all(math.isfinite(row[target]) for row in scores):
            with pytest.raises(ValueRangeError, match="exceeds float64"):
                target_ranks(
                    case.queries, case.docs, targets, metric=metric, engine=engine, **OPTIONS
                )
            continue
        found = target_ranks(
            case.queries,
            case.docs,
            targets,
            metric=metric,
            threads=threads,
            engine=engine,
            **OPTIONS,
        )
        got = list(zip(found.above, found.tied, found.before, strict=True))
        assert got == exact_target_ranks(scores, targets), f"{metric} {target} threads={threads}"


def check_rerank(case: Hostile, scores: Scores, metric: str, engine: str) -> None:
    n_docs = len(case.docs)
    if not np.isfinite(scores).all():
        return
    backwards = np.tile(np.arange(n_docs)[::-1], (len(case.queries), 1))
    given = Ranking.from_arrays(backwards, n_docs=n_docs)
    found = rerank(given, case.queries, docs=case.docs, metric=metric, engine=engine, **OPTIONS)
    got = [dict(found.row(q)) for q in range(len(scores))]
    assert got == [dict(enumerate(row)) for row in scores], metric


@cache
def cases(seed: int) -> list[tuple[str, Hostile, Scores]]:
    """The inputs of a seed under each metric, with their exact scores."""
    made = [(metric, hostile(seed, dtype)) for dtype, metric in product(TYPES, METRICS)]
    return [(metric, case, hostile_scores(metric, case)) for metric, case in made]


def check(seed: int, engine: str, stride: int) -> None:
    """Of the ways to search, each case takes every `stride`-th, and the next case the others."""
    for number, (metric, case, scores) in enumerate(cases(seed), seed):
        turns = slice(number % stride, None, stride)
        check_rank(case, scores, metric, engine, turns)
        check_targets(case, scores, metric, engine, turns)
        check_rerank(case, scores, metric, engine)


@pytest.mark.parametrize("seed", range(FEW))
def test_hostile_input_is_ranked_as_exact_arithmetic_ranks_it(seed, kernels):  # noqa: F811
    check(seed, kernels, stride=5)


@pytest.mark.slow
def test_much_hostile_input(kernels):  # noqa: F811
    for seed in range(MANY):
        check(seed, kernels, stride=1)


@pytest.mark.parametrize("threads", [1, 2])
def test_documents_so_short_that_only_the_query_counts_all_tie(threads, kernels):  # noqa: F811
    docs = np.array([[-3.0], [2.0], [5.0], [-1.0], [4.0]]) * 1e-20
    for dtype, k in product((np.float32, np.float64), range(1, 6)):
        found = rank([[1.0]], docs.astype(dtype), k, metric="l2", threads=threads, engine=kernels)
        assert found.row(0) == [(doc, -1.0) for doc in range(k)]
        found = rank(
            [[1.0]],
            docs.astype(dtype),
            k,
            metric="l2",
            keep_ties=True,
            threads=threads,
            engine=kernels,
        )
        assert found.row(0) == [(doc, -1.0) for doc in range(5)]


def test_what_large_terms_leave_when_they_cancel(kernels):  # noqa: F811
    queries, docs = np.array([[1e20, 1.0, -1e20]]), np.array([[1e20, 1.0, 1e20], [0.0, 2.0, 0.0]])
    assert rank(queries, docs, 2, metric="dot", engine=kernels).row(0) == [(1, 2.0), (0, 1.0)]
