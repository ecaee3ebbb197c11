"""The functions of document 002: their contracts, ties, and everything they refuse."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from assay.codes.compat import (
    build_relevance_from_dataset,
    compute_topk_indices,
    cosine_similarity_matrix,
    hamming_distance_matrix,
    ndcg_at_k,
    neighbor_overlap_at_k,
    recall_at_k,
    topk_cosine,
    topk_hamming,
    topk_neighbor_indices,
)
from assay.errors import (
    AssayError,
    IdError,
    InputError,
    MismatchError,
    ShapeError,
    UsageError,
    ValueRangeError,
)

MATRIX_FUNCTIONS = (cosine_similarity_matrix, hamming_distance_matrix)


@pytest.fixture
def vectors() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(40, 12))


@pytest.fixture
def bits() -> np.ndarray:
    return np.random.default_rng(2).integers(0, 2, size=(40, 13))


def test_cosine_is_the_product_of_unit_rows(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = cosine_similarity_matrix(vectors)
    assert found.dtype == np.float32
    assert found.shape == (40, 40)
    np.testing.assert_allclose(found, unit @ unit.T, atol=1e-6)
    np.testing.assert_allclose(np.diag(found), 1.0, atol=1e-6)
    assert (found == found.T).all()
    assert found.tobytes() == cosine_similarity_matrix(vectors).tobytes()
    np.testing.assert_allclose(cosine_similarity_matrix(unit, True), found, atol=1e-6)


def test_assumed_normalised_rows_are_not_touched():
    assert cosine_similarity_matrix([[2.0, 0.0], [0.0, 0.0]], True).tolist() == [[4, 0], [0, 0]]


def test_blocks_of_rows_change_nothing(vectors, bits, monkeypatch):
    whole = cosine_similarity_matrix(vectors), hamming_distance_matrix(bits)
    for rows in (1, 7, 39):
        monkeypatch.setattr("assay.codes.compat.BLOCK_ROWS", rows)
        np.testing.assert_allclose(cosine_similarity_matrix(vectors), whole[0], atol=1e-7)
        assert (cosine_similarity_matrix(vectors) == cosine_similarity_matrix(vectors).T).all()
        assert hamming_distance_matrix(bits).tobytes() == whole[1].tobytes()


def test_tiny_and_huge_norms_lose_nothing(vectors):
    plain = cosine_similarity_matrix(vectors)
    sizes = np.resize([1e-300, 1e-30, 1.0, 1e30, 1e300], 40)[:, None]
    np.testing.assert_allclose(cosine_similarity_matrix(vectors * sizes), plain, atol=1e-6)


def test_hamming_counts_the_bits_that_differ(bits):
    found = hamming_distance_matrix(bits)
    want = (bits[:, None, :] != bits[None, :, :]).sum(axis=2)
    assert found.dtype == np.float32
    assert (found == want).all()
    assert not np.diag(found).any()
    assert (found == found.T).all()
    inverse = np.stack([bits[0], 1 - bits[0]])
    assert hamming_distance_matrix(inverse)[0, 1] == bits.shape[1]
    assert hamming_distance_matrix(bits.astype(bool)).tobytes() == found.tobytes()


@pytest.mark.parametrize("shape", [(3,), (0, 4), (4, 0), (2, 2, 2)])
@pytest.mark.parametrize("function", MATRIX_FUNCTIONS)
def test_other_shapes_are_refused(function, shape):
    with pytest.raises(ShapeError, match=str(shape).replace("(", r"\(").replace(")", r"\)")):
        function(np.zeros(shape))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(value):
    matrix = np.ones((3, 3))
    matrix[1, 2] = value
    for call in (
        lambda: cosine_similarity_matrix(matrix),
        lambda: compute_topk_indices(matrix, 1),
        lambda: topk_neighbor_indices(matrix, 1),
        lambda: neighbor_overlap_at_k(np.eye(3), matrix, 1),
        lambda: ndcg_at_k([[0]] * 3, matrix, 1),
    ):
        with pytest.raises(ValueRangeError, match="row 1"):
            call()


def test_a_row_of_zeros_has_no_cosine():
    with pytest.raises(ValueRangeError, match="row 1"):
        cosine_similarity_matrix([[1.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("value", [2, -1, 0.5, np.nan])
def test_codes_of_anything_but_0_and_1_are_refused(value):
    wrong = np.zeros((3, 4))
    wrong[2, 1] = value
    for call in (lambda: hamming_distance_matrix(wrong), lambda: topk_hamming(wrong, k=1)):
        with pytest.raises(ValueRangeError, match="row 2, column 1"):
            call()
    assert issubclass(ValueRangeError, ValueError)
    with pytest.raises(ValueRangeError, match="dtype"):
        hamming_distance_matrix([["0", "1"]])


def test_best_columns_come_first_and_ties_go_to_the_lower_index():
    table = [[1, 5, 5, 0], [2, 2, 2, 2]]
    assert compute_topk_indices(table, 3).tolist() == [[1, 2, 0], [0, 1, 2]]
    assert compute_topk_indices(table, 3, largest=False).tolist() == [[3, 0, 1], [0, 1, 2]]
    assert compute_topk_indices([[-0.0, 0.0]], 2).tolist() == [[0, 1]]


def test_any_row_is_sorted_as_a_stable_sort_does():
    rng = np.random.default_rng(3)
    table = rng.integers(0, 5, size=(50, 30))
    want = np.argsort(-table, axis=1, kind="stable")
    for k in (1, 7, 30):
        assert (compute_topk_indices(table, k) == want[:, :k]).all()
    want = np.argsort(table, axis=1, kind="stable")
    assert (compute_topk_indices(table, 30, largest=False) == want).all()


def test_no_item_is_its_own_neighbour_even_with_an_equal_one():
    same = np.ones((3, 3))
    assert topk_neighbor_indices(same, 2).tolist() == [[1, 2], [0, 2], [0, 1]]
    assert topk_neighbor_indices(same, 2, exclude_self=False).tolist() == [[0, 1]] * 3
    distances = [[0, 0, 2], [0, 0, 1], [2, 1, 0]]
    assert topk_neighbor_indices(distances, 1, largest=False).tolist() == [[1], [0], [1]]


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "1", None])
def test_invalid_cutoffs_are_refused(k):
    square = np.eye(3)
    for call in (
        lambda: compute_topk_indices(square, k),
        lambda: topk_neighbor_indices(square, k),
        lambda: neighbor_overlap_at_k(square, square, k),
        lambda: recall_at_k([[0]], [{0}], k),
        lambda: ndcg_at_k([[0]], [[1.0]], k),
        lambda: topk_cosine(square, k=k),
        lambda: topk_hamming(square, k=k),
    ):
        with pytest.raises(UsageError, match="whole number"):
            call()


def test_k_beyond_the_collection_is_refused():
    square = np.eye(3)
    assert compute_topk_indices(square, 3).shape == (3, 3)
    for call in (
        lambda: compute_topk_indices(square, 4),
        lambda: topk_neighbor_indices(square, 3),  # k = N with self excluded
        lambda: neighbor_overlap_at_k(square, square, 3),
        lambda: topk_cosine(square, k=3),
        lambda: topk_hamming(square, k=3),
        lambda: topk_cosine(square, square, 4),
    ):
        with pytest.raises(UsageError, match="only"):
            call()


def brute_overlap(left, right, k):
    def nearest(table, i):
        others = [j for j in range(len(table)) if j != i]
        return set(sorted(others, key=lambda j: (-table[i][j], j))[:k])

    shares = [len(nearest(left, i) & nearest(right, i)) / k for i in range(len(left))]
    return math.fsum(shares) / len(shares)


def test_overlap_of_neighbours(vectors, bits):
    cosine, distance = cosine_similarity_matrix(vectors), hamming_distance_matrix(bits)
    for k in (1, 5, 39):
        want = brute_overlap(cosine.tolist(), (-distance).tolist(), k)
        found = neighbor_overlap_at_k(cosine, distance, k)
        assert found == pytest.approx(want, abs=1e-12)
        assert neighbor_overlap_at_k(cosine, -distance, k) == found
        assert neighbor_overlap_at_k(cosine, distance, k, distances=True) == found
    assert neighbor_overlap_at_k(cosine, cosine, 5) == 1.0
    low, middle, high = (
        neighbor_overlap_at_k(cosine, distance, 5, ties=t) for t in ("worst", "expected", "best")
    )
    assert low < middle < high


def test_overlap_excludes_self_so_that_constant_codes_do_not_look_good():
    """With self among the neighbours every item would find at least itself."""
    cosine = cosine_similarity_matrix(np.random.default_rng(0).normal(size=(50, 8)))
    constant = np.zeros((50, 50))
    assert neighbor_overlap_at_k(cosine, constant, 1, ties="expected") == pytest.approx(1 / 49)


def test_overlap_refuses_what_it_cannot_read(vectors):
    cosine = cosine_similarity_matrix(vectors)
    with pytest.raises(MismatchError, match=r"\(40, 40\).*\(3, 3\)"):
        neighbor_overlap_at_k(cosine, np.zeros((3, 3)), 1)
    with pytest.raises(UsageError, match="distances=True"):
        neighbor_overlap_at_k(np.ones((2, 3)), np.ones((2, 3)), 1)
    with pytest.raises(UsageError, match="neither distances nor similarities"):
        neighbor_overlap_at_k(np.eye(2), [[1, 0], [5, 0]], 1)
    with pytest.raises(ShapeError, match="square"):
        topk_neighbor_indices(np.ones((2, 3)), 1)
    sides = np.array([[3.0, 2.0, 1.0]])
    assert neighbor_overlap_at_k(sides, -sides, 1, exclude_self=False, distances=True) == 1.0


def test_searches_equal_the_matrices(vectors, bits):
    cosine, distance = cosine_similarity_matrix(vectors), hamming_distance_matrix(bits)
    assert (topk_cosine(vectors, k=7) == topk_neighbor_indices(cosine, 7)).all()
    assert (topk_hamming(bits, k=7) == topk_neighbor_indices(distance, 7, largest=False)).all()
    sides = topk_cosine(vectors[:5], vectors[5:], 3)
    assert (sides == compute_topk_indices(cosine[:5, 5:], 3)).all()
    sides = topk_hamming(bits[:5], bits[5:], 3)
    assert (sides == compute_topk_indices(distance[:5, 5:], 3, largest=False)).all()
    assert (topk_cosine(cosine, k=4, precomputed=True) == compute_topk_indices(cosine, 4)).all()
    found = topk_hamming(distance, k=4, precomputed=True)
    assert (found == compute_topk_indices(distance, 4, largest=False)).all()
    for function in (topk_cosine, topk_hamming):
        with pytest.raises(UsageError, match="drop docs"):
            function(cosine, cosine, 2, precomputed=True)


def test_different_dimensions_are_refused(vectors, bits):
    with pytest.raises(InputError, match=r"12.*11"):
        topk_cosine(vectors, vectors[:, :11], 2)
    with pytest.raises(InputError, match=r"13.*12"):
        topk_hamming(bits, bits[:, :12], 2)


def test_any_layout_gives_the_same_answer(vectors, bits):
    for layout in (
        np.asfortranarray,
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: np.repeat(a, 2, axis=0)[::2],
    ):
        given = layout(vectors), layout(bits)
        assert (cosine_similarity_matrix(given[0]) == cosine_similarity_matrix(vectors)).all()
        assert (hamming_distance_matrix(given[1]) == hamming_distance_matrix(bits)).all()
        assert (topk_cosine(given[0], k=3) == topk_cosine(vectors, k=3)).all()
        assert (topk_hamming(given[1], k=3) == topk_hamming(bits, k=3)).all()


def test_inputs_are_never_modified(vectors, bits):
    kept = vectors.copy(), bits.copy()
    neighbor_overlap_at_k(cosine_similarity_matrix(vectors), hamming_distance_matrix(bits), 3)
    assert (vectors == kept[0]).all()
    assert (bits == kept[1]).all()


def test_recall_divides_by_all_relevant_documents():
    found = [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert recall_at_k(found, [{0, 9}, {4}, {1}], 3) == pytest.approx((0.5 + 1 + 0) / 3)
    assert recall_at_k(found, [[0, 9], np.array([4]), (1,)], 1) == pytest.approx(0.5 / 3)
    assert recall_at_k(found, [{0: 2.0, 9: 1.0, 1: 0.0}, {4: 1}, {1: 3}], 3) == pytest.approx(0.5)
    every = [set(range(9))] * 3
    assert recall_at_k(found, every, 3) == pytest.approx(1 / 3)


def test_queries_without_relevant_documents_count_0_or_are_left_out():
    found = [[0, 1], [1, 0]]
    assert recall_at_k(found, [{0}, set()], 2) == 0.5
    assert recall_at_k(found, [{0}, set()], 2, empty="skip") == 1.0
    assert ndcg_at_k(found, [[1, 0], [0, 0]], 2) == 0.5
    assert ndcg_at_k(found, [[1, 0], [0, 0]], 2, empty="skip") == 1.0


def brute_ndcg(docs, gains, k):
    def dcg(values):
        return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(values[:k], 1))

    ideal = dcg(sorted(gains, reverse=True))
    return dcg([gains[doc] for doc in docs]) / ideal if ideal else 0.0


def test_ndcg_against_the_definition():
    rng = np.random.default_rng(4)
    gains = rng.integers(0, 4, size=(30, 12)) * rng.integers(0, 2, size=(30, 1))
    docs = np.array([rng.permutation(12)[:8] for _ in range(30)])
    for k in (1, 3, 8):
        each = [brute_ndcg(d, g, k) for d, g in zip(docs.tolist(), gains.tolist(), strict=True)]
        want = math.fsum(each) / 30
        rows = [{int(doc): g[doc] for doc in np.flatnonzero(g)} for g in gains]
        pairs = {(q, doc): gain for q, row in enumerate(rows) for doc, gain in row.items()}
        for given in (gains, gains.tolist(), rows, pairs):
            assert ndcg_at_k(docs, given, k) == pytest.approx(want, abs=1e-12)


def test_ids_out_of_range_and_doubled_are_refused():
    cases = [
        (lambda: recall_at_k([[0, 0]], [{0}], 2), IdError, "twice"),
        (lambda: recall_at_k([[0, 1]], [[3, 3]], 2), IdError, "3 appears twice"),
        (lambda: recall_at_k([[0, -1]], [{0}], 2), ValueRangeError, "-1 at row 0, column 1"),
        (lambda: recall_at_k([[0, 7]], [{0}], 2, n_docs=5), ValueRangeError, "for 5 documents"),
        (lambda: recall_at_k([[0, 1]], [{7}], 2, n_docs=5), ValueRangeError, "Document 7"),
        (lambda: recall_at_k([[0, 1]], [{-1}], 2), ValueRangeError, "-1"),
        (lambda: recall_at_k([[0, 1]], [{"0"}], 2), ValueRangeError, "'0'"),
        (lambda: ndcg_at_k([[0, 3]], [[1, 0, 0]], 2), ValueRangeError, "for 3 documents"),
        (lambda: ndcg_at_k([[0, 1]], [{9: 1.0}], 2, n_docs=5), ValueRangeError, "Document 9"),
        (lambda: ndcg_at_k([[0, 1]], {(1, 0): 1.0}, 2), MismatchError, "query 1"),
    ]
    for call, kind, words in cases:
        with pytest.raises(kind, match=words):
            call()


def test_relevance_that_does_not_fit_is_refused():
    cases = [
        (lambda: recall_at_k([[0, 1]], [{0}, {1}], 2), "1.*2"),
        (lambda: recall_at_k([[0, 1]], [None], 2), "None for query row 0"),
        (lambda: recall_at_k([[0, 1]], [5], 2), "not a set"),
        (lambda: recall_at_k([[0]], [{0}], 2), "too few columns"),
        (lambda: recall_at_k([[0.5]], [{0}], 1), "whole numbers"),
        (lambda: recall_at_k([0, 1], [{0}], 1), "two dimensions"),
        (lambda: ndcg_at_k([[0, 1]], [[1, -1]], 2), "gains are"),
        (lambda: ndcg_at_k([[0, 1]], [{0: math.inf}], 2), "gains are"),
        (lambda: ndcg_at_k([[0, 1]], {0: 1.0}, 2), "relevance_scores has the key 0"),
        (lambda: ndcg_at_k([[0, 1]], [[1, 0], [0, 1]], 2), "1.*2"),
    ]
    for call, words in cases:
        with pytest.raises(AssayError, match=words):
            call()


def test_relevance_by_labels():
    queries = SimpleNamespace(labels=["a", "b", "c"])
    corpus = {"labels": ["b", "a", "b"]}
    made = build_relevance_from_dataset(queries, corpus)
    assert made == [{1: 1.0}, {0: 1.0, 2: 1.0}, {}]
    found = [[1, 0], [0, 2], [0, 1]]
    assert recall_at_k(found, made, 2) == pytest.approx(2 / 3)
    assert ndcg_at_k(found, made, 2) == pytest.approx(2 / 3)


def test_relevance_without_self():
    own = {"labels": [1, 1, 2], "ids": ["x", "y", "z"]}
    assert build_relevance_from_dataset(own, own) == [{1: 1.0}, {0: 1.0}, {}]
    everything = build_relevance_from_dataset(own, own, exclude_self=False)
    assert everything == [{0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}, {2: 1.0}]
    turned = {"labels": [2, 1, 1], "ids": ["z", "y", "x"]}
    assert build_relevance_from_dataset(own, turned, exclude_self=True) == [{1: 1.0}, {2: 1.0}, {}]


def test_relevance_by_ids_with_gains():
    corpus = {"ids": ["x", "y", "z"]}
    queries = {"relevance": [{"y": 2.0}, ["z", "x"], set()]}
    made = build_relevance_from_dataset(queries, corpus)
    assert made == [{1: 2.0}, {2: 1.0, 0: 1.0}, {}]
    assert build_relevance_from_dataset({"relevance": [{0}]}, {}) == [{0: 1.0}]
    for given, words in (
        ({"relevance": [["w"]]}, "'w'"),
        ({"relevance": [["x", "x"]]}, "twice"),
        ({"relevance": [None]}, "None"),
        ({"labels": None}, "query_dataset says nothing"),
        ({"labels": [1]}, "corpus_dataset says nothing"),
    ):
        with pytest.raises(AssayError, match=words):
            build_relevance_from_dataset(given, corpus)
    with pytest.raises(MismatchError, match="never equal"):
        build_relevance_from_dataset({"labels": ["3"]}, {"labels": [3]})
