"""Every finite input, however made: the answer of exact arithmetic, or a clear refusal.

The score of a pair is its exact value rounded once to float64, documents tie where these are equal,
and neither threads nor blocks, engines, vector instructions or k can be seen in the answer.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from assay.core.ranking import Ranking
from assay.errors import ValueRangeError
from assay.search.engine import rank, rerank, target_ranks
from tests.search.engine.exact import exact_rank, exact_target_ranks
from tests.search.engine.hostile import TYPES, Hostile, hostile, hostile_scores
from tests.search.engine.nasty import METRICS
from tests.search.engine.test_same_bytes import kernels  # noqa: F401 (a fixture)

FEW, MANY = 16, 1500
OPTIONS = {"zero": "last"}


def check_rank(case: Hostile, metric: str, engine: str) -> None:
    scores = hostile_scores(metric, case)
    n_docs = len(case.docs)
    cuts = ((1, n_docs), (2, n_docs), (1, 3))  # each block of documents starts threads again
    for (threads, size), k, keep_ties in product(cuts, {1, case.k, n_docs}, (False, True)):
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
            refused = "beyond the range of float64" in str(error)
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


def check_targets(case: Hostile, metric: str, engine: str) -> None:
    scores = hostile_scores(metric, case)
    for target in range(len(case.docs)):
        threads = 1 + target % 2
        targets = [target] * len(case.queries)
        if not all(math.isfinite(row[target]) for row in scores):
            with pytest.raises(ValueRangeError, match="beyond the range of float64"):
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


def check_rerank(case: Hostile, metric: str, engine: str) -> None:
    scores = hostile_scores(metric, case)
    n_docs = len(case.docs)
    if not np.isfinite(scores).all():
        return
    backwards = np.tile(np.arange(n_docs)[::-1], (len(case.queries), 1))
    given = Ranking.from_arrays(backwards, n_docs=n_docs)
    found = rerank(given, case.queries, docs=case.docs, metric=metric, engine=engine, **OPTIONS)
    got = [dict(found.row(q)) for q in range(len(scores))]
    assert got == [dict(enumerate(row)) for row in scores], metric


def check(seed: int, engine: str) -> None:
    for dtype, metric in product(TYPES, METRICS):
        case = hostile(seed, dtype)
        check_rank(case, metric, engine)
        check_targets(case, metric, engine)
        check_rerank(case, metric, engine)


@pytest.mark.parametrize("seed", range(FEW))
def test_hostile_input_is_ranked_as_exact_arithmetic_ranks_it(seed, kernels):  # noqa: F811
    check(seed, kernels)


@pytest.mark.slow
def test_much_hostile_input(kernels):  # noqa: F811
    for seed in range(FEW, MANY):
        check(seed, kernels)


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
