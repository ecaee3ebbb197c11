"""rank with floors: what scores at least that much is found as without them, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from assay import prepare
from assay.errors import AssayError
from assay.search.engine import rank
from tests.cluster.corpora import as_sparse
from tests.search.engine.nasty import nasty_cases, nasty_inputs

K = 5


def rows_of(found):
    return [
        list(zip(found.docs[a:b].tolist(), found.scores[a:b].tolist(), strict=True))
        for a, b in zip(found.offsets, found.offsets[1:], strict=False)
    ]


def check(queries, docs, k, floors, **options):
    whole = rows_of(rank(queries, docs, k, **options))
    found = rows_of(rank(queries, docs, k, floors=floors, **options))
    wanted = [
        [one for one in row if not np.isfinite(floor) or one[1] >= floor]
        for row, floor in zip(whole, floors, strict=True)
    ]
    assert found == wanted


def places(queries, docs, k, **options):
    """Scores that stand somewhere in the lists, a bit above or below, and no floor at all."""
    rows = rows_of(rank(queries, docs, k, **options))
    floors = np.full(len(rows), -np.inf)
    for number, row in enumerate(rows):
        if row and number % 4:
            score = row[number % len(row)][1]
            floors[number] = (score, np.nextafter(score, np.inf), np.nextafter(score, -np.inf))[
                number % 3
            ]
    return floors


@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize("keep_ties", [False, True])
@pytest.mark.parametrize(("metric", "name"), nasty_cases()[::3])
def test_what_reaches_the_floor_is_found(metric, name, keep_ties, engine):
    nasty = nasty_inputs()[name]
    options = {"metric": metric, "keep_ties": keep_ties, "engine": engine, "zero": "drop"}
    floors = places(nasty.queries, nasty.docs, K, **options)
    check(nasty.queries, nasty.docs, K, floors, **options)


@pytest.mark.parametrize("engine", ["native", "numpy"])
@pytest.mark.parametrize("keep_ties", [False, True])
@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("k", [3, 40, 2000])
def test_floors_of_sparse_documents(k, signs, keep_ties, engine):
    """Rare terms and frequent ones, ties, scores of 0, and floors above and below them."""
    rng = np.random.default_rng(8)
    held = rng.random((2000, 60)) < np.linspace(0.01, 0.4, 60)
    dense = np.where(held, rng.integers(-1 if signs else 1, 4, held.shape), 0)
    docs, queries = as_sparse(dense), as_sparse(dense[:400:40] * np.tile([1.0, 0.5], 30))
    options = {"metric": "dot", "keep_ties": keep_ties, "engine": engine}
    floors = places(queries, docs, k, **options)
    floors[[4, 5]] = 0.0, -1.0
    check(queries, docs, k, floors, **options)


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_floors_of_many_documents(threads, prepared):
    rng = np.random.default_rng(0)
    docs = rng.normal(size=(9000, 48)).astype(np.float32)
    docs[5000:5400] = docs[:400]  # ties
    queries = np.concatenate([rng.normal(size=(140, 48)), docs[:60]]).astype(np.float32)
    floors = places(queries, docs, 20, threads=threads)
    check(queries, prepare(docs) if prepared else docs, 20, floors, threads=threads)


def test_the_tie_at_the_cut_is_still_told():
    docs = [[1.0, 0.0]] * 3 + [[0.0, 1.0]]
    found = rank([[1.0, 0.0], [0.0, 1.0]], docs, 2, floors=[1.0, 1.0])
    assert rows_of(found) == [[(0, 1.0), (1, 1.0)], [(3, 1.0)]]
    assert found.tie_split.tolist() == [True, False]
    assert found.settings["floors"] == "given"


def test_a_floor_for_each_query():
    with pytest.raises(AssayError, match="floors"):
        rank([[1.0]], [[1.0]], 1, floors=[0.0, 1.0])


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize("engine", [None, "numpy"])
def test_documents_sorted_by_score_are_found_as_in_any_order(engine, order, k):
    rng = np.random.default_rng(8)
    docs = rng.normal(size=(20_000, 8)).astype(np.float32)
    queries = docs[:1] + np.float32(0.1) * rng.normal(size=(3, 8)).astype(np.float32)
    places = np.argsort(order * (docs @ queries[0]))
    shuffled = rank(queries, docs, k, metric="dot", engine=engine)
    by_score = rank(queries, docs[places], k, metric="dot", engine=engine)
    assert places[by_score.docs].tolist() == shuffled.docs.tolist()
    assert by_score.scores.tobytes() == shuffled.scores.tobytes()
