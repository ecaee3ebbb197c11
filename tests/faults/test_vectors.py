"""Vectors, and the ties and cuts of a search among them."""

from __future__ import annotations

import numpy as np
import pytest

from assay import Judgments, judge, score
from assay.errors import (
    FormatError,
    IdError,
    MismatchError,
    ShapeError,
    UsageError,
    ValueRangeError,
)
from assay.search.engine import rank, target_ranks

METRICS = ("cosine", "dot", "l2")


@pytest.fixture
def docs() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)


def same(a, b) -> bool:
    """The same bytes."""
    parts = ("offsets", "docs", "scores")
    return all(getattr(a, part).tobytes() == getattr(b, part).tobytes() for part in parts)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_not_a_number_is_named_with_row_and_id(odd, dtype, docs, engine):
    bad = docs.astype(dtype)
    bad[13, 4] = odd
    ids = [f"doc-{number}" for number in range(20)]
    place = rf"{odd} at row 13 \(id 'doc-13'\), column 4"
    for given in (bad, iter([bad[:5], bad[5:]]), [bad[:13], bad[13:]]):
        with pytest.raises(ValueRangeError, match=place):
            rank(docs, given, 3, doc_ids=ids, engine=engine)
    with pytest.raises(ValueRangeError, match=rf"queries holds {place}"):
        rank(bad, docs, 3, query_ids=ids, engine=engine)
    with pytest.raises(ValueRangeError, match=rf"docs holds {odd} at row 13, column 4"):
        target_ranks(docs, bad, np.arange(20), engine=engine)


def test_not_a_number_beyond_the_ids_is_named_by_row(docs, engine):
    docs[13, 4] = np.nan
    with pytest.raises(ValueRangeError, match="row 13, column 4"):
        rank(docs[:5], iter([docs]), 3, doc_ids=["a", "b"], engine=engine)


def test_a_zero_vector_has_no_cosine(docs, engine):
    bad = docs.copy()
    bad[4] = 0
    with pytest.raises(ValueRangeError, match=r"docs row 4 is all zeros.*zero='drop'"):
        rank(docs, bad, 3, engine=engine)
    with pytest.raises(ValueRangeError, match="queries row 4 is all zeros"):
        rank(bad, docs, 3, engine=engine)
    dropped = rank(docs, bad, 20, zero="drop", engine=engine)
    last = rank(docs, bad, 20, zero="last", engine=engine)
    assert set(np.diff(dropped.offsets)) == {19}
    assert 4 not in dropped.docs
    assert all(row[-1] == (4, -2.0) for row in map(last.row, range(20)))


def test_a_query_without_direction_never_looks_good(docs, engine):
    nowhere = np.zeros((1, 6), np.float32)
    for target in (0, 7, 19):
        ranks = target_ranks(nowhere, docs, [target], zero="last", engine=engine)
        assert (ranks.above[0], ranks.tied[0], ranks.rank[0]) == (0, 19, target + 1)
    assert rank(nowhere, docs, 5, zero="drop", engine=engine).docs.size == 0


@pytest.mark.parametrize("size", [1e-30, 1e30, 2.0**-120, 2.0**120])
def test_tiny_and_huge_norms(size, docs, engine):
    docs = np.sign(docs) * (1 + np.abs(docs))
    want = rank(docs[:5], docs, 20, engine=engine)
    wide = docs.astype(np.float64)
    factor = 2.0 ** np.round(np.log2(size))
    assert same(rank(docs[:5], docs * np.float32(factor), 20, engine=engine), want)
    assert same(rank(docs[:5] * np.float32(factor), docs, 20, engine=engine), want)
    got = rank(wide[:5] * factor**8, wide * factor**-8, 20, engine=engine)
    assert got.docs.tolist() == want.docs.tolist()
    np.testing.assert_array_max_ulp(got.scores, want.scores, 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8"])
def test_types_are_widened(dtype, docs, engine):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    given = (docs * 20).astype(dtype)
    wide = given.astype(np.float64 if given.dtype == np.float64 else np.float32)
    for metric in METRICS:
        got = rank(given[:5], given, 9, metric=metric, engine=engine)
        assert same(got, rank(wide[:5], wide, 9, metric=metric, engine=engine))


@pytest.mark.parametrize("shape", [(6,), (2, 3, 6), (0, 6), (4, 0), ()])
def test_shapes_are_in_the_message(shape, docs, engine):
    bad = np.zeros(shape, np.float32)
    words = rf"found shape {shape}".replace("(", r"\(").replace(")", r"\)")
    for call in (
        lambda: rank(docs, bad, 3, engine=engine),
        lambda: rank(bad, docs, 3, engine=engine),
        lambda: rank(docs, iter([docs, bad]), 3, engine=engine),
        lambda: target_ranks(docs, bad, np.arange(20), engine=engine),
    ):
        with pytest.raises(ShapeError, match=words):
            call()


def test_no_documents_at_all(docs, engine):
    for nothing in (iter([]), []):
        with pytest.raises(ShapeError, match="docs"):
            rank(docs, nothing, 3, engine=engine)


def test_dimensions_that_differ(docs, engine):
    for given in (docs[:, :5], iter([docs, docs[:, :5]]), [docs, docs[:, :5]]):
        with pytest.raises(MismatchError, match="queries have 6 columns, docs 5"):
            rank(docs, given, 3, engine=engine)


@pytest.mark.parametrize("metric", METRICS)
def test_any_order_of_memory(metric, docs, engine, tmp_path):
    want = rank(docs, docs, 6, metric=metric, engine=engine)
    np.save(tmp_path / "docs.npy", docs)
    for given in (
        np.asfortranarray(docs),
        np.repeat(docs, 3, axis=0)[::3],
        docs.astype(">f4"),
        np.load(tmp_path / "docs.npy", mmap_mode="r"),
        tmp_path / "docs.npy",
    ):
        assert same(rank(given, given, 6, metric=metric, engine=engine), want)


def test_objects_are_refused(docs, engine, tmp_path):
    with pytest.raises(ValueRangeError, match="object"):
        rank(docs, docs.astype(object), 3, engine=engine)
    np.save(tmp_path / "docs.npy", docs.astype(object), allow_pickle=True)
    with pytest.raises(FormatError, match="pickled"):
        rank(docs, tmp_path / "docs.npy", 3, engine=engine)
    with pytest.raises(ShapeError, match="different lengths"):
        rank(docs, [[1.0], [1.0, 2.0]], 3, engine=engine)


def test_duplicate_ids(docs, engine):
    with pytest.raises(IdError, match="'a' appears twice"):
        rank(docs, docs[:3], 3, doc_ids=["a", "b", "a"], engine=engine)


def test_all_scores_equal(engine):
    equal = np.ones((50, 4), np.float32)
    ranking = rank(equal[:1], equal, 5, keep_ties=True, engine=engine)
    assert np.diff(ranking.offsets).tolist() == [50]
    ranks = target_ranks(equal[:2], equal, [0, 49], engine=engine)
    assert ranks.tied.tolist() == [49, 49]
    assert ranks.rank.tolist() == [1, 50]
    assert score(ranks.hits(), "RR").tied.all()


def test_shuffled_documents_give_the_same_scores(docs, engine):
    order = np.random.default_rng(1).permutation(20)
    for metric in METRICS:
        plain = rank(docs, docs, 20, metric=metric, engine=engine)
        mixed = rank(docs, docs[order], 20, metric=metric, engine=engine)
        assert plain.scores.tobytes() == mixed.scores.tobytes()
        for q in range(20):
            assert {order[doc]: value for doc, value in mixed.row(q)} == dict(plain.row(q))


@pytest.mark.parametrize("size", [1, 7, 20])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_blocks_and_threads(size, threads, docs, engine):
    docs[1::2] = docs[0]
    blocks = (docs[start : start + size] for start in range(0, 20, size))
    want = rank(docs, docs, 6, threads=1, engine="numpy")
    assert same(rank(docs, blocks, 6, threads=threads, engine=engine), want)


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None, "3", float("nan"), [1], 10**16])
def test_depths_that_make_no_sense(k, docs, engine):
    with pytest.raises(UsageError, match="k must be"):
        rank(docs, docs, k, engine=engine)


@pytest.mark.parametrize("k", [21, 10**9, 10**15])
def test_k_beyond_the_collection(k, docs, engine):
    ranking = rank(docs, docs, k, engine=engine)
    assert set(np.diff(ranking.offsets)) == {20}
    assert ranking.complete.all()
    hits = judge(ranking, Judgments.from_targets(np.arange(20), n_docs=20))
    assert score(hits, "P@100").mean()["P@100"] == 1 / 100


def test_the_ninth_digit_counts(engine):
    docs = np.array([[0.123456788, 1.0], [0.123456789, 1.0]])
    got = rank([[1.0, 0.0]], docs, 2, metric="dot", engine=engine)
    assert got.row(0) == [(1, 0.123456789), (0, 0.123456788)]
    assert target_ranks([[1.0, 0.0]], docs, [0], metric="dot", engine=engine).above[0] == 1
    one_bit = np.array([[1.0], [1.0 + 2**-52]])
    assert rank([[1.0]], one_bit, 1, metric="dot", engine=engine).docs.tolist() == [1]


def test_negative_scores(engine):
    docs = np.array([[-3.0], [-1.0], [-2.0], [0.0]])
    got = rank([[1.0]], docs, 4, metric="dot", engine=engine)
    assert got.row(0) == [(3, 0.0), (1, -1.0), (2, -2.0), (0, -3.0)]
    assert not np.signbit(got.scores[0])
    opposite = rank([[1.0, 1.0]], [[-1.0, -1.0], [-1.0, -1.0]], 1, engine=engine)
    assert opposite.row(0) == [(0, pytest.approx(-1.0, abs=0))]


def test_self_goes_and_its_duplicate_stays(docs, engine):
    docs[9] = docs[2]
    ids = [f"d{number}" for number in range(20)]
    by_row = rank(docs, docs, 3, exclude="self", engine=engine)
    by_id = rank(
        docs[[9, 2]], docs, 3, exclude="self", query_ids=["d9", "d2"], doc_ids=ids, engine=engine
    )
    assert by_row.row(2)[0][0] == 9
    assert by_row.row(9)[0][0] == 2
    assert [by_id.row(q)[0][0] for q in ("d9", "d2")] == ["d2", "d9"]


def test_self_by_row_needs_as_many_rows(docs, engine):
    for fewer in (docs[:7], iter([docs[:3], docs[3:7]]), [docs[:7]]):
        with pytest.raises(MismatchError, match="20 queries and 7 documents"):
            rank(docs, fewer, 3, exclude="self", engine=engine)


def test_shards_merged_are_one_search(docs, engine):
    docs[1::2] = docs[0]
    whole = rank(docs[:4], docs, 6, engine=engine)
    shards = [
        (start, rank(docs[:4], docs[start : start + 9], 6, engine=engine)) for start in (0, 9, 18)
    ]
    for q in range(4):
        rows = [(doc + start, value) for start, shard in shards for doc, value in shard.row(q)]
        rows.sort(key=lambda row: (-row[1], row[0]))
        assert rows[:6] == whole.row(q)
