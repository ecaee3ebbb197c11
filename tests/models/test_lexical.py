"""Lexical models against brute force, the packages themselves and published figures."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from assay import SparseVectors
from assay.errors import InputError, ShapeError, UsageError, ValueRangeError
from assay.models import LEXICAL, is_lexical, lexical_model
from assay.models.lexical import SparseFitted
from tests.collections_at_hand import ndcg_at_10, scifact

pytest.importorskip("bm25s")
pytest.importorskip("sklearn")

DOCS = [
    "a cat sat on the mat",
    "the dog chased the cat",
    "",
    "dogs and cats are animals",
    "the dog chased the cat",
    "of the and",
    "a mat, a mat, a red mat",
]
QUERIES = ["cat mat", "dog", "cat cat dog", "zebra", "", "red animals"]


def random_texts(seed, n):
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(30)]
    return [" ".join(rng.choice(words, rng.integers(0, 25))) for _ in range(n)]


def brute_bm25(docs, query, k1, b):
    """Lucene's BM25 as Kamphuis et al. write it, without the constant k1 + 1."""
    rows = [Counter(doc.split()) for doc in docs]
    lengths = [sum(row.values()) for row in rows]
    mean = sum(lengths) / len(rows)
    scores = np.zeros(len(docs))
    for word in query.split():
        df = sum(word in row for row in rows)
        idf = math.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
        for i, row in enumerate(rows):
            tf = row[word]
            if not tf:
                continue
            scores[i] += idf * tf / (tf + k1 * (1 - b + b * lengths[i] / mean))
    return scores


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.5, 0.75), (0.0, 0.0), (2.0, 1.0)])
def test_bm25_is_the_formula(k1, b):
    docs, queries = random_texts(0, 60), random_texts(1, 12)
    fitted = lexical_model("bm25", k1=k1, b=b, stopwords=None).fit(docs)
    found, scores = fitted.search(queries, 60)
    for query, numbers, values in zip(queries, found, scores, strict=True):
        expected = brute_bm25(docs, query, k1, b)
        kept = numbers >= 0
        assert set(numbers[kept]) == set(np.flatnonzero(expected))
        assert np.allclose(values[kept], expected[numbers[kept]], rtol=1e-12)
        assert not values[~kept].any()


@pytest.mark.parametrize("method", ["lucene", "robertson", "atire", "bm25l", "bm25+"])
def test_bm25_ranks_as_the_package_does(method):
    import bm25s

    docs, queries = random_texts(2, 80), random_texts(3, 10)
    model = bm25s.BM25(method=method, k1=1.2, b=0.7, delta=0.5, dtype="float64")
    model.index([doc.split() for doc in docs], show_progress=False)
    fitted = lexical_model("bm25", method=method, k1=1.2, b=0.7, stopwords=None).fit(docs)
    found, _ = fitted.search(queries, 5)
    for query, numbers in zip(queries, found, strict=True):
        words = query.split()
        expected = model.get_scores(words) if words else np.zeros(len(docs))
        best = np.sort(expected)[::-1][: (numbers >= 0).sum()]
        assert np.allclose(expected[numbers[numbers >= 0]], best)


@pytest.mark.parametrize("spec", ["bm25", "tfidf", "lsa:3"])
def test_ties_are_in_the_order_of_the_documents(spec):
    found, scores = lexical_model(spec).fit(DOCS).search(["dog chased"], 3)
    assert found[0, :2].tolist() == [1, 4]
    assert scores[0, 0] == scores[0, 1]


@pytest.mark.parametrize("spec", ["bm25", "tfidf"])
def test_what_shares_no_word_is_not_found(spec):
    found, scores = lexical_model(spec).fit(DOCS).search(QUERIES, 10)
    assert found.shape == scores.shape == (6, 10)
    assert found.dtype == np.int64
    assert sorted(found[0][found[0] >= 0]) == [0, 1, 4, 6]
    assert (found[3] == -1).all()
    assert (found[4] == -1).all()
    assert not scores[found < 0].any()
    kept = np.diff(scores, axis=1) <= 0
    assert kept.all()


def test_tfidf_is_the_cosine_of_scikit_learn():
    from sklearn.feature_extraction.text import TfidfVectorizer

    docs, queries = random_texts(4, 50), random_texts(5, 8)
    vectorizer = TfidfVectorizer(token_pattern=r"\S+", sublinear_tf=True)
    expected = (vectorizer.fit_transform(docs) @ vectorizer.transform(queries).T).toarray().T
    found, scores = lexical_model("tfidf", stopwords=None).fit(docs).search(queries, 50)
    for row, numbers, values in zip(expected, found, scores, strict=True):
        kept = numbers >= 0
        assert np.allclose(values[kept], row[numbers[kept]], rtol=1e-12)
        assert kept.sum() == np.count_nonzero(row)


def test_lsa_finds_by_meaning_and_leaves_out_rows_of_zeros():
    fitted = lexical_model("lsa:3").fit(DOCS)
    assert fitted.doc_vectors.shape == (7, 3)
    found, _ = fitted.search(QUERIES, 10)
    assert {2, 5}.isdisjoint(found.ravel())
    assert (found[3] == -1).all()
    assert (found[0, :5] >= 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_best_of_many_ties(seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 4, 40).astype(float)
    k = int(rng.integers(1, 45))
    expected = sorted((-s, d) for d, s in enumerate(weights) if s)[:k]
    docs = SparseVectors(np.arange(41), np.zeros(40, np.int32), weights, 1)
    fitted = SparseFitted(docs, lambda texts: docs.take(np.flatnonzero(weights == 1)[:1]))
    found, scores = fitted.search(["any"], k)
    assert [(-s, d) for s, d in zip(scores[0], found[0], strict=True) if s] == expected
    assert (found[0, len(expected) :] == -1).all()


@pytest.mark.parametrize("method", ["lucene", "robertson", "atire", "bm25l", "bm25+"])
@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (0.5, 1.0), (1.2, 0.75)])
def test_weights_are_those_of_the_package(method, k1, b):
    pytest.importorskip("bm25s")
    rng = np.random.default_rng(3)
    texts = [
        " ".join(f"w{word}" for word in rng.zipf(1.5, rng.integers(0, 40)).clip(0, 30))
        for _ in range(60)
    ]
    exact, package = (
        lexical_model("bm25", method=method, k1=k1, b=b, engine=engine).fit(texts)
        for engine in ("exact", "bm25s")
    )
    for name in ("offsets", "columns", "weights"):
        assert getattr(exact.docs, name).tobytes() == getattr(package.docs, name).tobytes()


@pytest.mark.parametrize("method", ["lucene", "robertson", "atire", "bm25l", "bm25+"])
def test_weights_at_the_ends_of_the_settings(method):
    for k1, delta in ((0, 0), (0, 0.5), (1000, 1000)):
        fitted = lexical_model("bm25", method=method, k1=k1, delta=delta, b=1).fit(DOCS)
        assert (fitted.docs.weights >= 0).all()


def test_settings_enter_the_fingerprint():
    base = lexical_model("bm25").fingerprint
    decided, _ = lexical_model("bm25").for_texts(["the cat and the dog"])
    assert decided.fingerprint == lexical_model("bm25", k1=0.9, stopwords="en").fingerprint != base
    assert lexical_model("bm25", k1=1).fingerprint == lexical_model("bm25", k1=1.0).fingerprint
    others = [
        {"k1": 1.2},
        {"b": 0.5},
        {"method": "atire"},
        {"stopwords": None},
        {"pattern": r"\w+"},
        {"stemmer": "english"},
    ]
    prints = {lexical_model("bm25", **settings).fingerprint for settings in others}
    assert len(prints | {base}) == len(others) + 1
    assert lexical_model("lsa:5").fingerprint != lexical_model("lsa:6").fingerprint


def test_the_order_of_the_documents_changes_no_score():
    docs, queries = random_texts(6, 70), random_texts(7, 10)
    order = np.random.default_rng(0).permutation(70)
    _, one = lexical_model("bm25").fit(docs).search(queries, 70)
    _, other = lexical_model("bm25").fit([docs[i] for i in order]).search(queries, 70)
    assert one.tobytes() == other.tobytes()


def test_words_are_lower_case_and_stop_words_stay_out():
    found, _ = lexical_model("bm25").fit(["The CAT", "the dog"]).search(["THE cat"], 2)
    assert found.tolist() == [[0, -1]]
    own = lexical_model("bm25", stopwords=["Cat"]).fit(["The CAT", "the dog"])
    assert own.search(["cat"], 1)[0].tolist() == [[-1]]


def test_a_stemmer_joins_forms_of_a_word(monkeypatch):
    import sys
    import types

    package = types.ModuleType("Stemmer")
    package.algorithms = lambda: ["english"]
    package.Stemmer = lambda _: types.SimpleNamespace(
        stemWords=lambda words: [word.rstrip("s") for word in words]
    )
    monkeypatch.setitem(sys.modules, "Stemmer", package)
    found, _ = lexical_model("tfidf", stemmer="english").fit(DOCS).search(["dogs"], 7)
    assert sorted(found[0][found[0] >= 0]) == [1, 3, 4]
    with pytest.raises(UsageError, match="Unknown stemmer 'klingon'"):
        lexical_model("tfidf", stemmer="klingon").fit(DOCS)


@pytest.mark.parametrize(
    ("spec", "settings", "words"),
    [
        ("bm26", {}, "Unknown lexical model"),
        ("bm25:x", {}, "Write bm25"),
        ("bm25:", {}, "Write bm25"),
        ("lsa", {}, "Write lsa:DIM"),
        ("lsa:x", {}, r"'lsa:x': not a whole number up to 10\^15"),
        ("lsa:0", {}, "whole number ≥ 1"),
        ("bm25", {"stopword": None}, "Did you mean stopwords"),
        ("bm25", {"method": "best"}, "method is one of"),
        ("bm25", {"stopwords": "xx"}, "Unknown stopwords"),
        ("tfidf", {"stopwords": 3}, "Unknown stopwords"),
        ("bm25", {"stopwords": iter(["a"])}, "Unknown stopwords"),
        ("tfidf", {"sublinear": "yes"}, "sublinear must be"),
        ("lsa:2", {"seed": 1.5}, "seed must be"),
        (3, {}, "A lexical model must be"),
    ],
)
def test_what_is_asked_for_wrongly(spec, settings, words):
    with pytest.raises(UsageError, match=words):
        lexical_model(spec, **settings)


@pytest.mark.parametrize("settings", [{"k1": -1}, {"b": 2}, {"k1": True}, {"b": math.nan}])
def test_numbers_out_of_range(settings):
    with pytest.raises(ValueRangeError, match="must be a number"):
        lexical_model("bm25", **settings)


@pytest.mark.parametrize("spec", ["bm25", "tfidf", "lsa:1"])
def test_texts_that_are_none(spec):
    model = lexical_model(spec)
    for docs in ([], "one text", None):
        with pytest.raises(ShapeError, match="The documents"):
            model.fit(docs)
    with pytest.raises(ValueRangeError, match="row 1 is int"):
        model.fit(["a", 3])
    with pytest.raises(InputError, match="All documents consist of stop words"):
        model.fit(["", "the of"])
    fitted = model.fit(["cat dog", "dog"])
    with pytest.raises(UsageError, match="k must be a whole number"):
        fitted.search(["cat"], 0)


def test_lsa_wider_than_its_documents_has_as_many_dimensions_as_they_span():
    docs = ["cat dog", "dog mouse"]
    wide, narrow = lexical_model("lsa:3").fit(docs), lexical_model("lsa:2").fit(docs)
    assert wide.remarks == ("2 documents with 3 different words span 2 dimensions, not 3",)
    assert np.array_equal(wide.doc_vectors, narrow.doc_vectors)
    assert not narrow.remarks


def test_a_wrong_pattern_is_refused():
    for pattern, words in (
        ("(", "is not a regular expression"),
        (r"(\w)\w", "must not have groups"),
    ):
        with pytest.raises(UsageError, match=words):
            lexical_model("bm25", pattern=pattern).fit(["cat"])


def test_which_specs_are_lexical():
    assert all(is_lexical(kind) for kind in LEXICAL)
    assert is_lexical("lsa:200")
    assert not is_lexical("wordllama")


@pytest.mark.parametrize(("spec", "figure"), [("bm25", 0.657), ("tfidf", 0.630)])
def test_figures_on_scifact_are_the_published_ones(data_dir, spec, figure):
    data = scifact(data_dir)
    found, scores = lexical_model(spec).fit(data.docs).search(data.queries, 10)
    assert ndcg_at_10(data, found, scores) == pytest.approx(figure, abs=0.0015)
