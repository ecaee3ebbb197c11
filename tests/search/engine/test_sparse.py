"""Exact search among sparse vectors: the definition, the twin, files and hostile input."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import SparseVectors, prepare, rank, read_sparse, target_ranks
from assay.errors import AssayError
from assay.native import engine_name

ENGINES = ["numpy", "native"] if engine_name() == "native" else ["numpy"]
BLOCK = 1 << 16  # documents that the compiled search takes at a time


def make_rows(n: int, width: int, length: int, seed: int, kind: str = "float") -> SparseVectors:
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, n, n * length) * width + rng.integers(0, width, n * length))
    weights = rng.lognormal(0, 1, len(cells))
    if kind == "ties":
        weights = rng.integers(1, 4, len(cells)).astype(float)
    if kind == "signs":
        weights = rng.normal(0, 1, len(cells))
    offsets = np.searchsorted(cells // width, np.arange(n + 1))
    return SparseVectors(offsets, (cells % width).astype(np.int32), weights, width)


def scores_of(query: Any, docs: SparseVectors) -> np.ndarray[Any, Any]:
    """Add up one term after the other, in the order of columns, as the definition says."""
    weights = dict(zip(*query, strict=True))
    sums = []
    for start, end in zip(docs.offsets[:-1], docs.offsets[1:], strict=True):
        total = 0.0
        row = zip(docs.columns[start:end].tolist(), docs.weights[start:end].tolist(), strict=True)
        for column, weight in sorted(row):
            if column in weights:
                total += weights[column] * weight
        sums.append(total)
    return np.array(sums)


def row_of(rows: SparseVectors, row: int) -> Any:
    part = slice(rows.offsets[row], rows.offsets[row + 1])
    return rows.columns[part].tolist(), rows.weights[part].astype(float).tolist()


def assert_equal(one: Any, other: Any) -> None:
    assert one.offsets.tolist() == other.offsets.tolist()
    assert one.docs.tolist() == other.docs.tolist()
    assert one.scores.tobytes() == other.scores.tobytes()
    splits = [np.zeros(0) if r.tie_split is None else r.tie_split for r in (one, other)]
    assert splits[0].tolist() == splits[1].tolist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["float", "ties", "signs"])
@pytest.mark.parametrize("keep_ties", [False, True])
def test_the_best_documents_are_those_of_the_definition(engine: Any, kind: str, keep_ties: bool):
    queries, docs = make_rows(6, 40, 7, 1, kind), make_rows(150, 40, 5, 2, kind)
    for k in (1, 10, 400):
        ranking = rank(queries, docs, k, metric="dot", keep_ties=keep_ties, engine=engine)
        for query in range(6):
            scores = scores_of(row_of(queries, query), docs)
            order = sorted(range(150), key=lambda doc: (-scores[doc], doc))
            end = min(k, 150)
            if keep_ties:
                end = int((scores >= scores[order[end - 1]]).sum())
            part = slice(ranking.offsets[query], ranking.offsets[query + 1])
            assert ranking.docs[part].tolist() == order[:end]
            assert ranking.scores[part].tobytes() == scores[order[:end]].tobytes()


@pytest.mark.skipif(len(ENGINES) == 1, reason="the compiled kernels are not installed")
@pytest.mark.parametrize("kind", ["float", "ties", "signs"])
def test_16_bit_sums_lose_no_document(kind: str):
    """Two blocks of documents, small weights among large ones, terms of half the documents."""
    docs = make_rows(BLOCK + 100, 60, 12, 3, kind)
    rare = np.arange(len(docs.weights)) % 5 == 0
    held = (docs.columns < 10) | rare
    offsets = np.concatenate([[0], np.cumsum(held)])[docs.offsets]
    weights = docs.weights * np.where(docs.columns % 3 == 0, 0.01, 1.0)
    docs = SparseVectors(offsets, docs.columns[held], weights[held], 60)
    queries = make_rows(5, 60, 12, 4, kind)
    narrow = SparseVectors(docs.offsets, docs.columns, docs.weights.astype(np.float32), 60)
    targets = [0, BLOCK + 1, 7, BLOCK, 9]
    for rows in (docs, narrow):
        rankings, counts = [], []
        for engine, threads in (("native", 1), ("native", 3), ("numpy", 1)):
            options: Any = {"metric": "dot", "engine": engine, "threads": threads}
            rankings.append(rank(queries, rows, 10, **options))
            counts.append(target_ranks(queries, rows, targets, **options))
        assert_equal(rankings[0], rankings[1])
        assert_equal(rankings[0], rankings[2])
        for name in ("above", "tied", "before"):
            assert len({getattr(count, name).tobytes() for count in counts}) == 1


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_scores_are_near_the_exact_ones(data: Any):
    weight = st.floats(-1e6, 1e6, allow_nan=False)
    row = st.dictionaries(st.sampled_from("abcdefgh"), weight, min_size=1)
    queries, docs = (data.draw(st.lists(row, min_size=1, max_size=6)) for _ in range(2))
    if not {t for q in queries for t in q} & {t for d in docs for t in d}:
        return
    ranking = rank(queries, docs, len(docs), metric="dot")
    for query, weights in enumerate(queries):
        for doc, score in ranking.row(query):
            products = [
                Fraction(weights[t]) * Fraction(docs[doc][t]) for t in weights if t in docs[doc]
            ]
            size = sum(map(abs, products))
            assert abs(Fraction(score) - sum(products)) <= size * 16 * Fraction(
                1, 2**53
            ) + Fraction(8 * 5e-324)


def test_cosine_divides_by_the_norms():
    ranking = rank([{"a": 3.0, "z": 4.0}], [{"a": 2.0}, {"a": 1.0, "b": 1.0}], 2)
    assert ranking.row(0) == [(0, 0.6), (1, pytest.approx(0.6 / np.sqrt(2), abs=1e-15))]
    dense = rank([[3.0, 4.0, 0.0]], [[2.0, 0.0, 0.0], [1.0, 0.0, 1.0]], 2)
    assert [doc for doc, _ in dense.row(0)] == [0, 1]
    assert ranking.scores == pytest.approx(dense.scores, abs=1e-15)


def test_documents_without_a_shared_term_score_zero():
    ranking = rank([{"a": 1.0}, {"a": -1.0}], [{"b": 1.0}, {"a": 2.0}, {"b": 3.0}], 3, metric="dot")
    assert ranking.row(0) == [(1, 2.0), (0, 0.0), (2, 0.0)]
    assert ranking.row(1) == [(0, 0.0), (2, 0.0), (1, -2.0)]


@pytest.mark.parametrize("engine", ENGINES)
def test_scores_are_floats_where_no_query_shares_a_term(engine: Any):
    docs = SparseVectors([0, 1, 2], [0, 0], [1.0, 2.0], 3)
    ranking = rank(SparseVectors([0, 1], [2], [1.0], 3), docs, 2, metric="dot", engine=engine)
    assert (ranking.scores.dtype, ranking.scores.tolist()) == (np.float64, [0.0, 0.0])


@pytest.mark.parametrize("engine", ENGINES)
def test_excluded_documents_are_not_found(engine: Any):
    rows = make_rows(30, 20, 6, 5, "ties")
    whole = rank(rows, rows, 30, metric="dot", engine=engine)
    others = rank(rows, rows, 5, metric="dot", exclude="self", engine=engine)
    for row in range(30):
        assert others.row(row) == [entry for entry in whole.row(row) if entry[0] != row][:5]


def test_a_cut_that_divides_a_tie_is_said():
    docs = [{"a": 1.0}, {"a": 2.0}, {"a": 1.0}, {"a": 0.5}]
    for engine in ENGINES:
        ranking = rank([{"a": 1.0}], docs, 2, metric="dot", engine=engine)
        assert ranking.row(0) == [(1, 2.0), (0, 1.0)]
        assert ranking.tie_split is not None
        assert ranking.tie_split.tolist() == [True]
        kept = rank([{"a": 1.0}], docs, 2, metric="dot", keep_ties=True, engine=engine)
        assert kept.row(0) == [(1, 2.0), (0, 1.0), (2, 1.0)]


def test_matrices_and_files_of_scipy(tmp_path: Path):
    sparse = pytest.importorskip("scipy.sparse")
    queries, docs = make_rows(4, 25, 5, 6), make_rows(40, 25, 5, 7)
    expected = rank(queries, docs, 5, metric="dot")
    matrices = [
        sparse.csr_matrix((r.weights, r.columns, r.offsets), r.shape) for r in (queries, docs)
    ]
    assert_equal(expected, rank(*matrices, 5, metric="dot"))
    assert_equal(
        expected, rank(matrices[0].tocsc(), sparse.csr_array(matrices[1]), 5, metric="dot")
    )
    for name, matrix in zip(("q.npz", "d.npz"), matrices, strict=True):
        sparse.save_npz(tmp_path / name, matrix)
    assert_equal(expected, rank(tmp_path / "q.npz", str(tmp_path / "d.npz"), 5, metric="dot"))
    product = (matrices[0] @ matrices[1].T).toarray()
    assert expected.scores == pytest.approx(-np.sort(-product)[:, :5].ravel(), rel=1e-12)
    sparse.save_npz(tmp_path / "columns.npz", matrices[1].tocsc())
    with pytest.raises(AssayError, match=r"tocsr\(\)"):
        rank(tmp_path / "q.npz", tmp_path / "columns.npz", 5)


def test_lines_of_terms(tmp_path: Path):
    rows = [{"cat": 1.5, "sat": 0.25}, {"dog": 2.0, "sat": 1}]
    plain, nested = tmp_path / "plain.jsonl", tmp_path / "nested.jsonl"
    plain.write_text("\n".join(map(json.dumps, rows)) + "\n", "utf-8")
    lines = [{"id": str(i), "contents": "…", "vector": row} for i, row in enumerate(rows)]
    nested.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    assert read_sparse(plain).names == ("cat", "dog", "sat")
    expected = rank([{"sat": 1.0, "cow": 9.0}], rows, 2, metric="dot")
    assert expected.row(0) == [(1, 1.0), (0, 0.25)]
    for docs in (plain, nested):
        assert_equal(expected, rank([{"sat": 1.0, "cow": 9.0}], docs, 2, metric="dot"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [-1], [1.0], 3), "Row 0 holds column -1"),
        (([0, 1], [3], [1.0], 3), "Row 0 holds column 3"),
        (([0, 0, 2], [1, 1], [1.0, 2.0], 3), "Row 1 holds column 1 twice"),
        (([0, 1], [1], [np.nan], 3), "nan"),
        (([0, 1], [1], [np.inf], 3), "inf"),
        (([0, 2], [1], [1.0], 3), "offsets"),
        (([0, 2, 1], [1], [1.0], 3), "offsets"),
        (([0, 1, 0, 1], [1], [1.0], 3), "must not fall"),
        (([0], [], [], 3), "offsets"),
        (([0, 1], [1, 2], [1.0], 3), "columns"),
        (([0, 1], [1.5], [1.0], 3), "columns"),
        (([0, 1], [1], ["x"], 3), "weights"),
        (([0, 1], [1], [1.0], 0), "width"),
        (([0, 1], [1], [1.0], 2**31), "2147483647 columns"),
    ],
)
def test_rows_that_lie_are_refused(arguments: Any, message: str):
    with pytest.raises(AssayError, match=message):
        SparseVectors(*arguments)


@pytest.mark.parametrize(
    ("queries", "docs", "options", "message"),
    [
        ([{"a": 1.0}], [{"b": 1.0}], {}, "share no term"),
        ([{"a": 1.0}], [{}], {}, "Pass weights"),
        ([{"a": 1.0}], [{"a": 1.0}, {}], {}, "docs row 1 is empty"),
        ([{"a": 0.0}], [{"a": 1.0}], {}, "queries row 0 is empty"),
        ([{"a": 1.0}], [{"a": 1.0}], {"metric": "l2"}, "'dot' or 'cosine'"),
        ([{"a": 1e200}], [{"a": 1e200}], {"metric": "dot"}, "Scale the weights down"),
        ([{"a": 1.0}], [{"a": "x"}], {}, "not term: number"),
        ([{"a": 1.0}], [{"a": 1.0}, [1]], {}, "docs row 1 is list"),
        ([{"a": 1.0}], [[1.0, 2.0]], {}, "docs row 0 is list"),
        ([{"a": 1.0}], [{"a": 1.0}], {"zero": "drop"}, "zero='error'"),
        ([{"a": 1.0}], [{"a": 1.0}], {"k": 0}, "k"),
    ],
)
def test_what_cannot_be_searched_is_refused(queries: Any, docs: Any, options: Any, message: str):
    with pytest.raises(AssayError, match=message):
        rank(queries, docs, options.pop("k", 1), **options)


def test_named_and_numbered_columns_are_not_mixed():
    rows = SparseVectors([0, 1], [0], [1.0], 2)
    with pytest.raises(AssayError, match="One side names terms, the other numbers columns"):
        rank([{"a": 1.0}], rows, 1)
    with pytest.raises(AssayError, match="2 columns, docs 3"):
        rank(rows, SparseVectors([0, 1], [0], [1.0], 3), 1)


def test_rows_are_sorted_and_lists_made_once():
    rows = SparseVectors([0, 3], [2, 0, 1], np.array([3, 1, 2], np.float16), 3)
    assert rows.columns.tolist() == [0, 1, 2]
    assert rows.weights.tolist() == [1, 2, 3]
    assert rows.weights.dtype == np.float32
    rank(rows, rows, 1, metric="dot")
    lists = dict(rows.indexes)
    rank(rows, rows, 1, metric="dot")
    assert rows.indexes == lists
    assert len(lists) == 1


def test_a_document_of_ten_thousand_terms():
    width = 10_000
    docs = SparseVectors([0, width, width + 1], [*range(width), 5], np.ones(width + 1), width)
    for engine in ENGINES:
        ranking = rank(docs, docs, 2, metric="dot", engine=engine)
        assert ranking.row(0) == [(0, 10_000.0), (1, 1.0)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["float", "ties", "signs"])
@pytest.mark.parametrize("metric", ["dot", "cosine"])
def test_ranks_of_targets_are_those_of_the_whole_ranking(engine: Any, kind: str, metric: Any):
    queries, docs = make_rows(12, 30, 7, 8, kind), make_rows(200, 30, 5, 9, kind)
    targets = [*range(0, 44, 4), -1]
    exclude = [(2, 5), (3, 6), (3, 7)]
    whole = rank(queries, docs, 200, metric=metric, exclude=exclude, engine=engine)
    ranks = target_ranks(
        queries, docs, targets, metric=metric, exclude=exclude, engine=engine, threads=2
    )
    for query, target in enumerate(targets[:-1]):
        row = whole.row(query)
        score = dict(row)[target]
        assert ranks.rank[query] == [doc for doc, _ in row].index(target) + 1
        assert ranks.tied[query] == sum(value == score for _, value in row) - 1
    assert (ranks.above[-1], ranks.tied[-1], ranks.rank[-1]) == (-1, -1, 0)
    assert ranks.settings["metric"] == f"sparse-{metric}"


def test_targets_by_id_and_those_that_do_not_fit():
    rows = [{"a": 1.0}, {"a": 2.0}, {"b": 1.0}]
    ranks = target_ranks([{"a": 1.0}], rows, ["x"], metric="dot", doc_ids=["x", "y", "z"])
    assert ranks.rank.tolist() == [2]
    for targets, message in (([3], "targets"), ([0, 1], "targets"), ([-2], "no target")):
        with pytest.raises(AssayError, match=message):
            target_ranks([{"a": 1.0}], rows, targets, metric="dot")
    with pytest.raises(AssayError, match="excluded"):
        target_ranks([{"a": 1.0}], rows, [0], metric="dot", exclude=[(0, 0)])
    with pytest.raises(AssayError, match="zero='error'"):
        target_ranks([{"a": 1.0}], rows, [0], zero="last")


def test_prepared_rows_give_the_same_bytes(tmp_path: Path):
    rows = [{"a": 1.0, "b": 2.0}, {"a": 2.0}, {"b": 1.0}]
    prepared = prepare(rows)
    assert prepared.indexes
    assert_equal(rank(rows, prepared, 2, metric="dot"), rank(rows, rows, 2, metric="dot"))
    with pytest.raises(AssayError, match="Sparse vectors cannot be prepared in a file"):
        prepare(rows, tmp_path / "lists")


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float16, np.float32])
def test_weights_of_other_types_score_as_float64(dtype: Any):
    rows = make_rows(20, 15, 5, 10, "ties")
    narrow = SparseVectors(rows.offsets, rows.columns, rows.weights.astype(dtype), 15)
    assert_equal(rank(rows, rows, 5, metric="dot"), rank(narrow, narrow, 5, metric="dot"))


@pytest.mark.parametrize("engine", ENGINES)
def test_queries_and_documents_without_weights(engine: Any):
    docs = SparseVectors([0, 0, 2, 2, 3], [0, 2, 2], [1.0, 0.0, 5.0], 3)
    queries = SparseVectors([0, 0, 1, 2], [1, 2], [1.0, 0.0], 3)  # nothing, no such term, a zero
    ranking = rank(queries, docs, 9, metric="dot", engine=engine)
    for query in range(3):
        assert ranking.row(query) == [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0)]
    ranks = target_ranks(queries, docs, [3, 0, 2], metric="dot", engine=engine)
    assert ranks.rank.tolist() == [4, 1, 3]
    assert ranks.tied.tolist() == [3, 3, 3]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [1e-305, 1e-160, 1e150, 1e307])
def test_tiny_and_huge_weights(engine: Any, size: float):
    """Sums of 16 bits cannot hold them all; every row is looked at then."""
    docs = [{"a": size, "b": 1.0}, {"a": -size}, {"a": size / 2, "c": size}, {"b": 2.0}]
    ranking = rank([{"a": 0.5, "b": 0.25}], docs, 4, metric="dot", engine=engine)
    expected = [0.5 * size + 0.25, 0.5 * -size, 0.5 * (size / 2), 0.5]
    order = sorted(range(4), key=lambda doc: (-expected[doc], doc))
    assert ranking.row(0) == [(doc, expected[doc]) for doc in order]


@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e-31, 1e-29, 1e35])
def test_tiny_and_huge_weights_of_float32(size: float):
    """A query's weight in units of its sums may lie beyond float32."""
    weights = np.array([3, 1, 2, 5, 4] * 20, np.float32) * np.float32(size)
    docs = SparseVectors(np.arange(101), np.arange(100) % 2, weights, 2)
    queries = SparseVectors([0, 2, 3], [0, 1, 1], [0.5, 1.0, 1e-20], 2)
    for engine in ENGINES:
        ranking = rank(queries, docs, 7, metric="dot", engine=engine)
        for query in range(2):
            scores = scores_of(row_of(queries, query), docs)
            order = sorted(range(100), key=lambda doc: (-scores[doc], doc))[:7]
            assert ranking.docs[7 * query : 7 * query + 7].tolist() == order


def test_all_scores_equal():
    docs = SparseVectors(np.arange(501), np.zeros(500, np.int32), np.full(500, 0.3), 1)
    for engine in ENGINES:
        ranking = rank(docs[:2], docs, 10, metric="dot", engine=engine)
        assert ranking.docs.tolist() == [*range(10)] * 2
        assert ranking.tie_split is not None
        assert target_ranks(docs[:1], docs, [7], metric="dot", engine=engine).rank.tolist() == [8]


def test_ids_of_files(tmp_path: Path):
    lines = tmp_path / "docs.jsonl"
    lines.write_text('{"id": "x", "vector": {"a": 1}}\n{"vector": {"a": 2}}\n', "utf-8")
    with pytest.raises(AssayError, match='1 of 2 lines have no "id"'):
        read_sparse(lines)
