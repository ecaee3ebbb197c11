"""Exact MaxSim search: the definition, the bound, the twin, files and hostile input."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay import Ranking, TokenVectors, prepare, rank, read_tokens, score_pairs, target_ranks
from assay.errors import AssayError
from assay.native import engine_name, load
from assay.native.twins.search import rotate_rows
from assay.search.engine import rerank, tokens
from assay.search.engine.blocks import signs_of
from assay.search.engine.workers import Control

ENGINES: Any = ["numpy", "native"] if engine_name() == "native" else ["numpy"]
WIDE = engine_name() == "native" and load("native").coarse_rows() > 0


def make(n: int, lo: int, hi: int, seed: int, columns: int = 24, kind: str = "unit") -> Any:
    """Make texts of lo to hi − 1 tokens."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(n):
        rows = rng.standard_normal((int(rng.integers(lo, hi)), columns))
        if kind == "ties":
            rows = rng.integers(-1, 2, rows.shape).astype(float)
        if kind == "alike":  # all nearly the same
            rows = 1 + rows / 500
        if kind == "unit":
            rows /= np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9
        texts.append(rows.astype(np.float32))
    return texts


def exact_score(query: Any, doc: Any) -> float:
    """Add up the largest products, each rounded once, in the order of the query's tokens."""
    total = 0.0
    for row in query:
        total += max(exact_product(row, other) for other in doc)
    return total


def exact_product(left: Any, right: Any) -> float:
    """Return the product of two rows of float32, rounded once.

    A product of two such numbers is a float64, and `math.fsum` rounds the sum of them once.
    """
    assert left.dtype == right.dtype == np.float32
    return math.fsum((left.astype(np.float64) * right).tolist())


def test_products_are_those_of_rational_arithmetic():
    rows = [row for kind in ("unit", "ties", "alike") for row in make(1, 9, 10, 1, kind=kind)[0]]
    for left, right in itertools.product(rows, repeat=2):
        pairs = zip(left.tolist(), right.tolist(), strict=True)
        assert exact_product(left, right) == float(sum(Fraction(a) * Fraction(b) for a, b in pairs))


def expected(queries: Any, docs: Any, k: int, barred: Any = (), keep_ties: bool = False) -> Any:
    """Return the best documents of each query, by exact arithmetic."""
    ranked = []
    for q, query in enumerate(queries):
        scored = [
            (-exact_score(query, doc), d)
            for d, doc in enumerate(docs)
            if len(doc) and len(query) and (q, d) not in barred
        ]
        scored.sort()
        end = min(k, len(scored))
        while keep_ties and 0 < end < len(scored) and scored[end][0] == scored[end - 1][0]:
            end += 1
        ranked.append([(d, -score) for score, d in scored[:end]])
    return ranked


def rows_of(ranking: Any) -> list[Any]:
    return [ranking.row(query) for query in range(len(ranking))]


def assert_equal(first: Any, second: Any) -> None:
    assert first.offsets.tolist() == second.offsets.tolist()
    assert first.docs.tolist() == second.docs.tolist()
    assert first.scores.tobytes() == second.scores.tobytes()
    splits = [np.zeros(0) if r.tie_split is None else r.tie_split for r in (first, second)]
    assert splits[0].tolist() == splits[1].tolist()


number = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(-2, 2, width=32),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@st.composite
def searches(draw: Any) -> Any:
    columns = draw(st.integers(1, 5))
    row = st.lists(number, min_size=columns, max_size=columns)
    text = st.lists(row, min_size=1, max_size=4)
    queries = draw(st.lists(text, min_size=1, max_size=3))
    docs = draw(st.lists(st.one_of(text, text, st.just([])), min_size=1, max_size=8))
    docs = docs if any(docs) else [*docs, queries[0]]
    return queries, docs, draw(st.integers(1, 9)), draw(st.booleans())


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=150, deadline=None)
@given(case=searches())
def test_scores_and_order_are_those_of_rational_arithmetic(engine, case):
    queries, docs, k, keep_ties = case
    width = len(queries[0][0])
    left, right = (
        [np.array(text, np.float32).reshape(-1, width) for text in side] for side in (queries, docs)
    )
    ranking = rank(left, right, k, metric="maxsim", keep_ties=keep_ties, engine=engine)
    assert rows_of(ranking) == expected(left, right, k, keep_ties=keep_ties)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["unit", "ties", "alike"])
def test_the_bytes_do_not_depend_on_threads_blocks_or_preparation(engine, kind, monkeypatch):
    queries, docs = make(9, 1, 9, 1, kind=kind), make(300, 0, 70, 2, kind=kind)
    docs[7], docs[250] = docs[200], docs[200]  # ties
    reference = rank(queries, docs, 12, metric="maxsim", threads=1, engine="numpy")
    prepared = prepare(read_tokens(docs))
    for threads in (1, 2, 5):
        for corpus in (docs, prepared):
            ranking = rank(queries, corpus, 12, metric="maxsim", threads=threads, engine=engine)
            assert_equal(ranking, reference)
    few = rank(queries[:1], docs, 12, metric="maxsim", threads=4, engine=engine)
    assert rows_of(few) == rows_of(reference)[:1]
    monkeypatch.setattr(tokens, "COARSE_BYTES", 24 * 500)  # many blocks
    monkeypatch.setattr(tokens, "_MOST_ROWS", 8)
    for corpus in (docs, prepared):
        assert_equal(rank(queries, corpus, 12, metric="maxsim", engine=engine), reference)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("columns", [1, 3, 31, 32, 100, 128])
def test_long_lists_agree_with_brute_force(engine, columns):
    queries, docs = make(6, 1, 50, 3, columns), make(200, 1, 90, 4, columns)
    ranking = rank(queries, docs, 25, metric="maxsim", engine=engine)
    for query, row in zip(queries, rows_of(ranking), strict=True):
        scores = np.array(
            [(query.astype(float) @ doc.T.astype(float)).max(1).sum() for doc in docs]
        )
        places = np.array([doc for doc, _ in row])
        assert np.allclose([score for _, score in row], scores[places], rtol=1e-13)
        assert (np.diff(scores[places]) <= 1e-12).all()
        assert np.delete(scores, places).max() <= scores[places].min() + 1e-12


@pytest.mark.parametrize("simd", ["none", "avx2"])
def test_narrower_vectors_give_the_same_bytes(simd, monkeypatch):
    queries, docs = make(5, 1, 40, 5, 128), make(120, 0, 80, 6, 128)
    wide = rank(queries, docs, 10, metric="maxsim")
    monkeypatch.setenv("ASSAY_SIMD", simd)
    assert_equal(rank(queries, docs, 10, metric="maxsim"), wide)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["unit", "ties", "alike", "sizes"])
def test_no_score_is_further_off_than_its_bound(engine, kind):
    queries, docs = make(4, 1, 40, 7, 64, kind), make(80, 1, 60, 8, 64, kind)
    if kind == "sizes":
        docs = [doc * np.float32(10.0 ** (row % 30 - 15)) for row, doc in enumerate(docs)]
    search = tokens.TokenSearch.new(queries, docs, engine=engine)
    block = next(search.blocks())
    bounds = search.bounds(block, (0, 4), (0, 80), Control.new())
    for query, exponent, (low, high, _) in zip(queries, search.exponents, bounds, strict=True):
        scores = np.array(
            [(query.astype(float) @ doc.T.astype(float)).max(1).sum() for doc in docs]
        )
        scores = np.ldexp(scores, -exponent)
        assert (low <= scores).all()
        assert (scores <= high).all()
        assert np.isfinite(high).all()


def adversary(anchor: float) -> tuple[Any, Any]:
    """Make a query, and documents of which one is off by nearly all of the bound.

    Once rotated, what rounding leaves of that document points the way of the query, and what it
    leaves of the query the way of the document. The others are rounded to themselves.
    """
    columns = 4096
    block = rotate_rows(np.eye(64, dtype=np.float32), 64).astype(float)
    query, doc, near = np.full(columns, 20.0), np.full(columns, 0.4995), np.zeros(columns)
    query[:2], doc[:2] = (anchor, 0), (127, 0)
    bound = np.linalg.norm(query) * np.linalg.norm(doc[1:])
    near[5::32] = (query @ doc - 0.0002 * bound) / 20 / 128
    turned = [
        (row.reshape(-1, 64) @ block.T).ravel() * signs_of(columns) for row in (query, doc, near)
    ]
    rows = [row.astype(np.float32)[None] for row in turned]
    return rows[0], [rows[2], rows[2], rows[1], rows[2]]


@pytest.mark.skipif(not WIDE, reason="no product of 8-bit numbers on this machine")
def test_a_bound_that_is_a_hundredth_smaller_loses_a_document(monkeypatch):
    lost = []
    for share in (1.0, 0.99):
        monkeypatch.setattr(tokens, "_SLACK", share)
        for anchor in (126.5, 127.0):  # as kernels limit the codes of queries, or do not
            query, docs = adversary(anchor)
            assert int(np.argmax([exact_score(query, doc) for doc in docs])) == 2
            ranking = rank([query], docs, 1, metric="maxsim", engine="native", threads=1)
            lost.append(ranking.row(0)[0][0] != 2)
    assert lost[:2] == [False, False]
    assert any(lost[2:])


@pytest.mark.parametrize("engine", ENGINES)
def test_self_and_pairs_are_excluded(engine):
    docs = make(30, 0, 6, 9, kind="ties")
    docs[3] = docs[4]
    queries = [doc if len(doc) else docs[4] for doc in docs]
    ranking = rank(queries, docs, 40, metric="maxsim", exclude="self", engine=engine)
    barred = {(row, row) for row in range(30)}
    assert rows_of(ranking) == expected(queries, docs, 40, barred)
    names = [f"d{row}" for row in range(30)]
    by_id = {"query_ids": names, "doc_ids": names[::-1], "exclude": "self"}
    swapped = rank(queries, docs[::-1], 5, metric="maxsim", engine=engine, **by_id)
    assert all(doc != name for name in names for doc, _ in swapped.row(name))
    assert swapped.settings["exclude"] == "self"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["unit", "ties", "alike"])
def test_targets_rank_where_the_whole_list_puts_them(engine, kind):
    queries, docs = make(12, 1, 6, 10, kind=kind), make(60, 1, 20, 11, kind=kind)
    docs[5] = docs[6] = docs[40]
    docs[33] = docs[33][:0]
    targets = np.array([40, 6, 5, -1, *range(8)])
    ranks = target_ranks(queries, docs, targets, metric="maxsim", engine=engine, threads=3)
    for q, (target, row) in enumerate(zip(targets, expected(queries, docs, 60), strict=True)):
        if target < 0:
            assert (ranks.above[q], ranks.tied[q], ranks.rank[q]) == (-1, -1, 0)
            continue
        score = dict(row)[target]
        assert ranks.above[q] == sum(other > score for _, other in row)
        assert ranks.tied[q] == sum(other == score for _, other in row) - 1
        assert ranks.rank[q] == [doc for doc, _ in row].index(target) + 1
    assert ranks.settings["metric"] == "maxsim"
    prepared = target_ranks(queries, prepare(read_tokens(docs)), targets, metric="maxsim")
    assert prepared.rank.tolist() == ranks.rank.tolist()
    with pytest.raises(AssayError, match=r"document 33, which has no tokens"):
        target_ranks(queries, docs, np.full(12, 33), metric="maxsim")


@pytest.mark.parametrize("engine", ENGINES)
def test_candidates_are_scored_as_in_a_search(engine):
    queries, docs = make(5, 0, 6, 12), make(20, 0, 9, 13)
    queries[1], docs[2] = queries[1][:0], docs[2][:0]
    candidates: list[list[int]] = [[2, 19, 0, 0], [3], [], [7, 2], [1]]
    scored = score_pairs(queries, docs, candidates, engine=engine)
    for query, row, scores in zip(queries, candidates, scored, strict=True):
        for doc, score in zip(row, scores.tolist(), strict=True):
            some = len(query) and len(docs[doc])
            assert score == (exact_score(query, docs[doc]) if some else -np.inf)
    queries[1] = queries[2] if len(queries[2]) else docs[1]
    queries = [query if len(query) else docs[1] for query in queries]
    first = Ranking.from_arrays([[2, 19, 0], [3, 4, 5], [1, 2, 6], [7, 8, 9], [1, 3, 5]], n_docs=20)
    again = rerank(first, queries, docs=docs, metric="maxsim", engine=engine)
    listed = [{doc for doc, _ in first.row(query)} for query in range(5)]
    barred = {(q, d) for q in range(5) for d in range(20) if d not in listed[q]}
    assert rows_of(again) == expected(queries, docs, 20, barred)
    assert again.settings["metric"] == "maxsim"


def test_a_document_of_ten_thousand_tokens_and_of_equal_ones():
    long = make(1, 10_000, 10_001, 14, 16)[0]
    docs = [long, np.repeat(long[:1], 500, axis=0), long[:1], long[9_999:]]
    queries = [long[[0, 9_999, 5]], long[:1]]
    for engine in ENGINES:
        ranking = rank(queries, docs, 10, metric="maxsim", engine=engine)
        brute = [(queries[0].astype(float) @ doc.T.astype(float)).max(1).sum() for doc in docs]
        assert np.allclose([score for _, score in ranking.row(0)], np.sort(brute)[::-1])
        assert [doc for doc, _ in ranking.row(1)][:3] == [0, 1, 2]  # a tie
        assert len({score for _, score in ranking.row(1)[:3]}) == 1


def test_floors_leave_out_only_what_scores_less():
    queries, docs = make(4, 1, 9, 15), make(100, 1, 9, 16)
    ranking = rank(queries, docs, 8, metric="maxsim")
    floors = ranking.scores[ranking.offsets[1:] - 1]
    assert_equal(rank(queries, docs, 8, metric="maxsim", floors=floors), ranking)
    higher = rank(queries, docs, 8, metric="maxsim", floors=floors + 100)
    assert len(higher.docs) == 0


# Values and files


def test_every_form_holds_the_same_tokens(tmp_path: Path):
    texts = make(5, 1, 6, 17)
    texts[3] = texts[3][:0]
    values, lengths = np.concatenate(texts), [len(text) for text in texts]
    offsets = np.cumsum([0, *lengths])
    padded = np.zeros((5, max(lengths), 24), np.float32)
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    padded[mask] = values
    np.save(tmp_path / "values.npy", values)
    ids = np.array([f"d{row}" for row in range(5)])
    forms = {
        "ragged": {"embeddings": values, "lengths": lengths, "doc_ids": ids},
        "doclens": {"embs": values.astype(np.float16).astype(np.float32), "doclens": lengths},
        "offsets": {"token_embeddings": values, "offsets": offsets},
        "mask": {"embeddings": padded, "attention_mask": mask.astype(np.int64)},
        "padded": {"embeddings": padded, "lengths": lengths},
        "numbered": {f"arr_{row}": text for row, text in enumerate(texts)},
        "named": {f"doc_{row}": text for row, text in enumerate(texts)},
    }
    sources: list[Any] = [texts, (values, offsets), (padded, mask), (padded, lengths)]
    sources += [(str(tmp_path / "values.npy"), offsets), TokenVectors(values, offsets)]
    for name, arrays in forms.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
        sources += [arrays, tmp_path / f"{name}.npz"]
        numbers = {key: np.asarray(array) for key, array in arrays.items() if "ids" not in key}
        write_safetensors(tmp_path / f"{name}.safetensors", numbers)
        sources.append(str(tmp_path / f"{name}.safetensors"))
    reference = rank(texts[:2], texts, 5, metric="maxsim")
    for source in sources:
        tokens_of = read_tokens(source)
        assert tokens_of.offsets.tolist() == offsets.tolist(), source
        if "doclens" not in str(source):
            assert_equal(rank(texts[:2], source, 5, metric="maxsim"), reference)
    assert list(read_tokens(tmp_path / "ragged.npz").ids or ()) == ids.tolist()
    assert list(read_tokens(tmp_path / "named.npz").ids or ())[3] == "doc_3"
    many = {f"arr_{row}": np.full((1, 2), row, np.float32) for row in range(12)}
    assert read_tokens(many).values[2:11:4][:, 0].tolist() == [2.0, 6.0, 10.0]


def write_safetensors(path: Path, arrays: dict[str, Any], bfloat16: bool = False) -> None:
    header, body = {}, b""
    for key, array in arrays.items():
        kind = {"f": "F", "i": "I", "b": "BOOL"}[array.dtype.kind]
        name = kind if kind == "BOOL" else f"{kind}{8 * array.dtype.itemsize}"
        raw = np.ascontiguousarray(array).tobytes()
        if bfloat16 and kind == "F":
            name, raw = "BF16", (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()
        place = [len(body), len(body) + len(raw)]
        header[key] = {"dtype": name, "shape": array.shape, "data_offsets": place}
        body += raw
    head = json.dumps(header).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + body)


def test_narrow_types_are_widened_and_wide_ones_must_fit(tmp_path: Path):
    texts = [text.astype(np.float16) for text in make(6, 1, 5, 18)]
    wide = [text.astype(np.float32) for text in texts]
    reference = rank(wide, wide, 3, metric="maxsim")
    assert_equal(rank(texts, texts, 3, metric="maxsim"), reference)
    doubled = [text.astype(np.float64) for text in texts]
    assert_equal(rank(doubled, prepare(read_tokens(doubled)), 3, metric="maxsim"), reference)
    with pytest.raises(
        AssayError, match=r"docs row 1 holds 0\.1 in token 0, column 1, which float32"
    ):
        rank([[[1.0, 0.0]]], [[[1.0, 0.5]], [[0.5, 0.1]]], 1, metric="maxsim")
    numbers = {"embeddings": np.float32([[1, 2], [0.5, 3]]), "lengths": np.array([1, 1])}
    write_safetensors(tmp_path / "b.safetensors", numbers, bfloat16=True)
    assert read_tokens(tmp_path / "b.safetensors").values.tolist() == [[1, 2], [0.5, 3]]


def test_a_prepared_file_is_used_and_a_damaged_one_refused(tmp_path: Path, monkeypatch):
    queries, docs = make(3, 1, 9, 19), read_tokens(make(90, 0, 30, 20))
    reference = rank(queries, docs, 5, metric="maxsim")
    file = tmp_path / "docs.prepared"
    prepare(docs, file)
    stamp = file.stat().st_mtime_ns
    again = prepare(docs, file)
    assert file.stat().st_mtime_ns == stamp
    assert again.prepared is not None
    assert again.prepared.coarse is not None
    assert_equal(rank(queries, again, 5, metric="maxsim"), reference)
    prepare(np.asarray(docs.values), file)  # as rows, whose codes may be others: written anew
    assert file.stat().st_mtime_ns != stamp
    prepare(docs, file)
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(AssayError, match="is damaged"):
        prepare(docs, file)


NAN = np.array([[1.0, np.nan]], np.float32)


@pytest.mark.parametrize(
    ("docs", "message"),
    [
        ([np.ones((2, 2)), NAN], r"docs row 1 holds nan in token 0, column 1"),
        ([np.ones((2, 2)), -np.inf * np.ones((1, 2))], r"docs row 1 holds -inf in token 0"),
        ([np.ones((2, 3))], r"queries have 2 columns, docs 3"),
        ([np.ones((2, 2)), np.ones((2, 3))], r"docs row 1 has the shape \(2, 3\)"),
        ([np.ones((2, 0))], r"docs row 0 has the shape \(2, 0\)"),
        ([np.ones(2)], r"docs row 0 has the shape \(2,\)"),
        ([], r"docs"),
        ([np.ones((0, 2))], "docs holds no tokens"),
        ((np.ones((3, 2)), [0, 2, 1, 3]), r"must not fall; they do after row 1"),
        ((np.ones((3, 2)), [1, 3]), r"must start with 0 and end with 3"),
        ((np.ones((3, 2)), [0, 4]), r"offsets"),
        ((np.ones((3, 2)), [0, 2]), r"must start with 0 and end with 3"),
        ((np.ones((3, 2)), [-1, 3]), r"offsets"),
        ((np.ones((3, 2)), [0.5, 3]), r"offsets"),
        ((np.ones((2, 3, 2)), [1, 4]), r"lengths"),
        ((np.ones((2, 3, 2)), [1]), r"lengths"),
        ((np.ones((2, 3, 2)), np.full((2, 3), 2)), r"a mask holds 0 or 1"),
        (
            {"embeddings": np.ones((3, 2)), "lengths": [1, 1]},
            r"add up to 2 tokens, and there are 3",
        ),
        ({"embeddings": np.ones((3, 2)), "docs": np.ones((3, 2)), "lengths": [3]}, r"in one array"),
        ("tokens.txt", r"cannot hold token vectors"),
        ([[["a", "b"]]], r"real numbers"),
    ],
)
def test_hostile_documents_are_refused_by_name(docs, message):
    with pytest.raises(AssayError, match=message):
        rank([np.ones((1, 2), np.float32)], docs, 1, metric="maxsim")


def test_pickled_arrays_are_never_loaded(tmp_path: Path):
    ragged = np.empty(2, object)
    ragged[:] = [np.ones((1, 2)), np.ones((2, 2))]
    np.savez(tmp_path / "docs.npz", embeddings=ragged)
    with pytest.raises(AssayError, match="pickled Python objects"):
        read_tokens(tmp_path / "docs.npz")


def test_texts_without_tokens_are_never_retrieved_and_counted():
    docs = make(6, 1, 4, 21)
    docs[2] = docs[5] = docs[2][:0]
    ranking = rank(docs[:1], docs, 9, metric="maxsim")
    assert sorted(doc for doc, _ in ranking.row(0)) == [0, 1, 3, 4]
    assert ranking.zero_rows == (0, 2)
    queries = [docs[0], docs[2]]
    with pytest.raises(
        AssayError, match=r"queries row 1 \(id 'b'\) has no tokens \(1 such queries\)"
    ):
        rank(queries, docs, 3, metric="maxsim", query_ids=["a", "b"], doc_ids=list("uvwxyz"))
    dropped = rank(queries, docs, 3, metric="maxsim", zero="drop")
    assert [len(row) for row in rows_of(dropped)] == [3, 0]
    assert dropped.settings["zero"] == "drop"
    with pytest.raises(AssayError, match="zero='error' or 'drop'"):
        rank(queries, docs, 3, metric="maxsim", zero="last")
    with pytest.raises(AssayError, match="compared by metric='maxsim'"):
        rank(read_tokens(docs), read_tokens(docs), 3)


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_of_any_size_are_ranked_right(engine):
    queries = [np.float32([[3e38, -3e38], [1e-45, 1e-44]]), np.float32([[0, 0]])]
    docs = [np.float32([[x, y], [y, x]]) for x in (0, 1e-45, -3e38, 3e38, 1) for y in (1, 2e-40)]
    ranking = rank(queries, docs, 4, metric="maxsim", keep_ties=True, engine=engine)
    assert rows_of(ranking) == expected(queries, docs, 4, keep_ties=True)


def test_many_short_texts_are_cut_into_blocks(monkeypatch):
    queries, docs = make(50, 1, 2, 22, kind="ties"), make(400, 1, 2, 23, kind="ties")
    reference = rank(queries, docs, 7, metric="maxsim")
    monkeypatch.setattr(tokens, "_CELLS", 1000)
    search = tokens.TokenSearch.new(queries, docs)
    widest = max(stop - start for start, stop in search.tiles())
    assert max(len(block) for block in search.blocks()) * widest <= 1000
    assert_equal(rank(queries, docs, 7, metric="maxsim"), reference)
