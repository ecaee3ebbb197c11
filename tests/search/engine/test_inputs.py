"""What the search takes, in whatever type and order it lies, and what it refuses in words."""

from __future__ import annotations

import os
import pickle
from fractions import Fraction

import numpy as np
import pytest

from assay.errors import (
    FormatError,
    IdError,
    MismatchError,
    ShapeError,
    StorageError,
    UsageError,
    ValueRangeError,
)
from assay.search.engine import rank, target_ranks
from tests.search.engine.nasty import METRICS

RNG = np.random.default_rng(11)
QUERIES = RNG.integers(1, 90, (9, 13)).astype(np.float64)
DOCS = np.concatenate([QUERIES[::-1], RNG.integers(1, 90, (40, 13))]).astype(np.float64)


def found(queries, docs, engine, metric="cosine", **options):
    """Everything that a search and a count of ranks say, as bytes."""
    lists = rank(queries, docs, 7, metric=metric, engine=engine, keep_ties=True, **options)
    targets = np.arange(len(lists.query_ids)) % 40
    counts = target_ranks(queries, docs, targets, metric=metric, engine=engine, **options)
    arrays = (lists.offsets, lists.docs, lists.scores, counts.above, counts.tied, counts.before)
    return [array.tobytes() for array in arrays]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["f2", "i1", "u1", "i2", "u2", ">f2", ">i2", ">f4"])
def test_small_types_are_widened_to_float32(dtype, metric, engine):
    queries, docs = QUERIES.astype(dtype), DOCS.astype(dtype)
    want = found(queries.astype(np.float32), docs.astype(np.float32), engine, metric)
    assert found(queries, docs, engine, metric) == want
    assert found(queries.astype(np.float32), docs, engine, metric) == want


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", ">i8", ">f8", "<f8"])
def test_large_types_are_widened_to_float64(dtype, metric, engine):
    queries, docs = QUERIES * 1000 + 3, DOCS * 1000 + 3
    want = found(queries, docs, engine, metric)
    assert found(queries.astype(dtype), docs.astype(dtype), engine, metric) == want
    assert found(queries, docs.astype(dtype), engine, metric) == want


@pytest.mark.parametrize("metric", METRICS)
def test_bfloat16_is_widened(metric, engine):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    queries, docs = (QUERIES / 7).astype(bfloat16), (DOCS / 7).astype(bfloat16)
    want = found(queries.astype(np.float32), docs.astype(np.float32), engine, metric)
    assert found(queries, docs, engine, metric) == want


def test_lists_are_arrays(engine):
    want = found(QUERIES, DOCS, engine)
    assert found(QUERIES.tolist(), DOCS.tolist(), engine) == want
    assert found(list(QUERIES), tuple(DOCS), engine) == want


def _shifted(array):
    """The same array at an odd address."""
    raw = np.empty(array.nbytes + 1, np.uint8)
    shifted = raw[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    return shifted


LAYOUTS = {
    "fortran": np.asfortranarray,
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "every other column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "not aligned": _shifted,
    "one row repeated": lambda a: np.broadcast_to(a[0], a.shape),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_memory_layout_gives_the_same_ranking(layout, dtype, engine):
    queries, docs = LAYOUTS[layout](QUERIES.astype(dtype)), LAYOUTS[layout](DOCS.astype(dtype))
    plain = np.array(queries, dtype, order="C"), np.array(docs, dtype, order="C")
    before = docs.tobytes()
    for metric in METRICS:
        assert found(queries, docs, engine, metric) == found(*plain, engine, metric)
    assert docs.tobytes() == before


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", ">f4"])
def test_files_of_any_type(dtype, order, tmp_path, engine):
    docs, queries = DOCS.astype(dtype), QUERIES.astype(dtype)
    np.save(tmp_path / "docs.npy", np.array(docs, order=order))
    np.save(tmp_path / "queries.npy", np.array(queries, order=order))
    os.chmod(tmp_path / "docs.npy", 0o400)
    want = found(queries, docs, engine)
    assert found(tmp_path / "queries.npy", tmp_path / "docs.npy", engine) == want
    assert found(queries, np.load(tmp_path / "docs.npy", mmap_mode="r"), engine) == want


def test_read_only_arrays_stay_as_they_are(engine):
    docs = DOCS.astype(np.float32)
    docs.flags.writeable = False
    assert found(docs[:9], docs, engine) == found(docs[:9].copy(), docs.copy(), engine)


def test_blocks_of_different_types(engine):
    blocks = [DOCS[:10].astype(np.int8), DOCS[10:20].astype(np.float16), DOCS[20:]]
    got = rank(QUERIES, iter(blocks), 5, metric="dot", engine=engine)
    want = rank(QUERIES, DOCS, 5, metric="dot", engine=engine)
    assert got.docs.tolist() == want.docs.tolist()
    assert got.scores.tolist() == want.scores.tolist()


@pytest.mark.parametrize("value", [2**53 + 1, -(2**53) - 1, 2**63 - 1])
def test_integers_beyond_2_to_the_53_are_refused(value, engine):
    docs = np.full((3, 2), value)
    with pytest.raises(ValueRangeError, match=r"docs.*2\^53"):
        rank([[1, 2]], docs, 1, engine=engine)
    with pytest.raises(ValueRangeError, match=r"queries.*2\^53"):
        rank(docs, [[1, 2]], 1, engine=engine)


def test_integers_up_to_2_to_the_53_are_exact(engine):
    docs = np.array([[2**53 - 1], [2**53], [2**53 - 2]])
    assert rank([[1]], docs, 3, metric="dot", engine=engine).row(0) == [
        (1, 2.0**53),
        (0, 2.0**53 - 1),
        (2, 2.0**53 - 2),
    ]


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e-38, 3e38])
@pytest.mark.parametrize("metric", ["cosine", "dot"])
def test_one_huge_or_tiny_document_among_ordinary_ones(scale, metric, engine):
    docs = RNG.standard_normal((30, 5)).astype(np.float32)
    docs /= np.abs(docs).max(axis=1, keepdims=True)
    docs[17] *= np.float32(scale)
    got = rank(docs[:4], docs, 30, metric=metric, engine=engine)
    for q in range(4):
        exact = [sum(map(_product, docs[q], doc)) for doc in docs]
        if metric == "cosine":
            exact = [float(dot) / _norm(doc) for dot, doc in zip(exact, docs, strict=True)]
        order = sorted(range(30), key=lambda doc: (-exact[doc], doc))
        assert [doc for doc, _ in got.row(q)] == order


def _product(a, b):
    return Fraction(float(a)) * Fraction(float(b))


def _norm(row):
    return float(np.linalg.norm(row.astype(np.float64)))


ZEROS = DOCS.astype(np.float32)
ZEROS[[3, 11, 30]] = 0
ZERO_QUERIES = QUERIES.astype(np.float32)
ZERO_QUERIES[[0, 5]] = 0


def test_zero_rows_are_refused_under_cosine(engine):
    ids = [f"d{number}" for number in range(len(ZEROS))]
    with pytest.raises(ValueRangeError, match=r"docs row 3 \(id 'd3'\) is all zeros.*3 such rows"):
        rank(QUERIES, ZEROS, 3, doc_ids=ids, engine=engine)
    with pytest.raises(ValueRangeError, match=r"queries row 0 is all zeros.*zero='drop'"):
        rank(ZERO_QUERIES, DOCS, 3, engine=engine)
    with pytest.raises(ValueRangeError, match="row 3 is all zeros"):
        target_ranks(QUERIES, ZEROS, np.arange(9), engine=engine)
    for metric in ("dot", "l2"):
        assert rank(QUERIES, ZEROS, 3, metric=metric, engine=engine).n_docs == len(ZEROS)


@pytest.mark.parametrize("keep_ties", [False, True])
@pytest.mark.parametrize("k", [2, 47, 60])
def test_zero_rows_dropped(k, keep_ties, engine):
    exclude = [(q, doc) for q in range(9) for doc in (1, 3, 40)]
    options = {"exclude": exclude, "keep_ties": keep_ties, "engine": engine}
    got = rank(ZERO_QUERIES, ZEROS, k, zero="drop", **options)
    kept = np.flatnonzero(ZEROS.any(axis=1))
    renumbered = [(q, int(np.flatnonzero(kept == doc)[0])) for q, doc in exclude if doc in kept]
    want = rank(QUERIES.astype(np.float32), ZEROS[kept], k, **(options | {"exclude": renumbered}))
    for q in range(9):
        row = [] if q in (0, 5) else [(int(kept[doc]), score) for doc, score in want.row(q)]
        assert got.row(q) == row


@pytest.mark.parametrize("keep_ties", [False, True])
@pytest.mark.parametrize("k", [2, 46, 47, 60])
@pytest.mark.parametrize("blocks", [False, True])
def test_zero_rows_last(k, keep_ties, blocks, engine):
    exclude = [(q, doc) for q in range(9) for doc in (1, 3, 40)]
    docs = iter([ZEROS[:5], ZEROS[5:]]) if blocks else ZEROS
    got = rank(
        ZERO_QUERIES, docs, k, zero="last", exclude=exclude, keep_ties=keep_ties, engine=engine
    )
    ordinary = rank(
        ZERO_QUERIES, ZEROS, 60, zero="drop", exclude=exclude, keep_ties=keep_ties, engine=engine
    )
    allowed = [doc for doc in range(len(ZEROS)) if doc not in (1, 3, 40)]
    for q in range(9):
        nowhere = allowed if q in (0, 5) else [11, 30]
        row = ordinary.row(q) + [(doc, -2.0) for doc in nowhere]
        ties = keep_ties and k < len(row) and row[k - 1][1] == -2.0
        assert got.row(q) == (row if ties else row[:k]), q


def test_targets_with_zero_rows_last(engine):
    """A query without direction ties with everything: its target is never found for free."""
    exclude = [(q, doc) for q in range(9) for doc in (1, 40)]
    targets = np.array([7, 11, 30, 3, 48, 0, 11, -1, 2])
    got = target_ranks(ZERO_QUERIES, ZEROS, targets, zero="last", exclude=exclude, engine=engine)
    lists = rank(ZERO_QUERIES, ZEROS, 60, zero="last", exclude=exclude, engine=engine)
    for q, target in enumerate(targets.tolist()):
        if target < 0:
            assert (got.above[q], got.tied[q], got.before[q], got.rank[q]) == (-1, -1, -1, 0)
            continue
        row = dict(lists.row(q))
        others = {doc: score for doc, score in row.items() if doc != target}
        assert got.above[q] == sum(score > row[target] for score in others.values())
        assert got.tied[q] == sum(score == row[target] for score in others.values())
        assert got.rank[q] == list(row).index(target) + 1


def test_dropped_rows_have_no_rank(engine):
    with pytest.raises(UsageError, match="dropped target"):
        target_ranks(QUERIES, ZEROS, np.arange(9), zero="drop", engine=engine)
    with pytest.raises(UsageError, match="zero must be"):
        rank(QUERIES, DOCS, 3, zero="ignore", engine=engine)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"exclude": "others"}, UsageError, "exclude is 'others'"),
        ({"exclude": [(0, 1, 2)]}, ShapeError, r"pairs.*\(1, 3\)"),
        ({"exclude": [0, 1]}, ShapeError, r"pairs.*\(2,\)"),
        ({"exclude": [(0.5, 1.0)]}, ShapeError, "whole numbers"),
        ({"exclude": [(0, 49)]}, ValueRangeError, "doc numbers in exclude.*49"),
        ({"exclude": [(9, 0)]}, ValueRangeError, "query numbers in exclude.*9"),
        ({"exclude": [(-1, 0)]}, ValueRangeError, "query numbers in exclude.*-1"),
        ({"exclude": "self"}, MismatchError, "9 queries and 49 documents"),
        ({"query_ids": ["a", "b"]}, MismatchError, "query_ids has 2"),
        ({"query_ids": [*"abcdefgh", "a"]}, IdError, "'a' appears twice, in rows 0 and 8"),
        ({"metric": "euclid"}, UsageError, "metric must be"),
        ({"engine": "cuda"}, UsageError, "engine must be"),
        ({"threads": 0}, UsageError, "threads must be"),
        ({"threads": True}, UsageError, "threads must be"),
    ],
)
def test_arguments_that_make_no_sense(options, error, words):
    for docs in (DOCS, iter([DOCS[:20], DOCS[20:]])):
        with pytest.raises(error, match=words):
            rank(QUERIES, docs, 3, **options)
    with pytest.raises(error, match=words):
        target_ranks(QUERIES, [DOCS[:20], DOCS[20:]], np.arange(9), **options)


def test_ids_may_be_files(tmp_path, engine):
    ids = {"query_ids": [f"q{i}" for i in range(9)], "doc_ids": [f"d{i}" for i in range(49)]}
    files = {side: tmp_path / f"{side}.txt" for side in ids}
    for side, names in ids.items():
        files[side].write_text("".join(f"{name}\n" for name in names), "utf-8")
    from_lists = rank(QUERIES, DOCS, 3, engine=engine, **ids)
    for paths in (files, {side: str(path) for side, path in files.items()}):
        ranking = rank(QUERIES, DOCS, 3, engine=engine, **paths)
        assert [list(ranking.query_ids), list(ranking.doc_ids)] == list(ids.values())
        assert ranking.row("q3") == from_lists.row("q3")
    with pytest.raises(MismatchError, match="query_ids has 49"):
        rank(QUERIES, DOCS, 3, query_ids=files["doc_ids"], engine=engine)
    with pytest.raises(StorageError, match="nothere"):
        rank(QUERIES, DOCS, 3, doc_ids="nothere.txt", engine=engine)


def test_too_few_ids(engine):
    for docs in (DOCS, iter([DOCS]), [DOCS]):
        with pytest.raises(MismatchError, match="doc_ids has 2"):
            rank(QUERIES, docs, 3, doc_ids=["a", "b"], engine=engine)


@pytest.mark.parametrize("strange", [5, [1, 2], ["ab"], [("a",)], [("a", "x")], [("x", "a")]])
def test_pairs_of_ids_that_are_none(strange, engine):
    ids = {"query_ids": [*"abcdefghi"], "doc_ids": [f"{number}" for number in range(49)]}
    with pytest.raises((ShapeError, IdError), match="exclude"):
        rank(QUERIES, DOCS, 3, exclude=strange, engine=engine, **ids)


def test_a_stream_is_read_once(engine):
    with pytest.raises(UsageError, match="twice"):
        target_ranks(QUERIES, iter([DOCS]), np.arange(9), engine=engine)


@pytest.mark.parametrize(
    ("targets", "error", "words"),
    [
        (np.arange(8), MismatchError, "targets has 8"),
        (np.full(9, 49), ValueRangeError, "targets"),
        (np.full(9, -2), ValueRangeError, "row 0 is -2"),
        (np.zeros((9, 1), int), ShapeError, r"\(9, 1\)"),
        (np.zeros(9), ShapeError, "float64"),
        (["a"] * 9, ShapeError, "doc_ids"),
    ],
)
def test_targets_that_are_none(targets, error, words, engine):
    for docs in (DOCS, [DOCS[:20], DOCS[20:]]):
        with pytest.raises(error, match=words):
            target_ranks(QUERIES, docs, targets, engine=engine)


def test_targets_by_id(engine):
    ids = [f"d{number}" for number in range(49)]
    with pytest.raises(IdError, match="'x' of query row 2"):
        target_ranks(QUERIES, DOCS, ["d1", "d1", "x", *["d1"] * 6], doc_ids=ids, engine=engine)
    with pytest.raises(MismatchError, match="doc_ids has 3, docs has 49"):
        target_ranks(QUERIES, [DOCS], ["d1"] * 9, doc_ids=ids[:3], engine=engine)
    got = target_ranks(QUERIES, DOCS, [None, *["d1"] * 8], doc_ids=ids, engine=engine)
    want = target_ranks(QUERIES, DOCS, [-1, *[1] * 8], engine=engine)
    assert got.rank.tolist() == want.rank.tolist()


def test_scores_beyond_float64_are_refused(engine):
    for metric in ("dot", "l2"):
        with pytest.raises(ValueRangeError, match="Scale the vectors down"):
            rank(QUERIES * 1e200, -DOCS * 1e200, 3, metric=metric, engine=engine)
        with pytest.raises(ValueRangeError, match="Scale the vectors down"):
            target_ranks(QUERIES * 1e200, -DOCS * 1e200, np.arange(9), metric=metric, engine=engine)
    assert rank(QUERIES * 1e200, DOCS * 1e200, 3, engine=engine).n_docs == len(DOCS)


class _Payload:
    def __reduce__(self):
        return (os.mkdir, ("payload_ran",))


def test_a_pickle_in_a_npy_is_never_run(tmp_path, monkeypatch, engine):
    monkeypatch.chdir(tmp_path)
    np.save("docs.npy", np.array([[_Payload()]], object), allow_pickle=True)
    (tmp_path / "bare.npy").write_bytes(pickle.dumps(_Payload()))
    for path in ("docs.npy", "bare.npy"):
        with pytest.raises(FormatError, match=path):
            rank([[1.0]], path, 1, engine=engine)
        with pytest.raises(FormatError, match=path):
            rank(path, [[1.0]], 1, engine=engine)
    assert not (tmp_path / "payload_ran").exists()
