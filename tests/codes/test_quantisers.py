"""Truncation, int4, float queries against bits, product quantisation and RaBitQ."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from assay.codes import evaluate_codes, make_encoder
from assay.codes.encoders import rabitq_of
from assay.errors import AssayError, install_command

SLOW = pytest.mark.slow
FEW = {"k": [5], "resamples": 200}
METRICS = ("cosine", "dot", "l2")


@pytest.fixture
def docs() -> np.ndarray:
    return (np.random.default_rng(21).normal(size=(600, 16)) + 0.3).astype(np.float32)


@pytest.fixture
def queries() -> np.ndarray:
    return (np.random.default_rng(22).normal(size=(25, 16)) + 0.3).astype(np.float32)


def unit(rows) -> np.ndarray:
    return rows.astype(float) / np.linalg.norm(rows.astype(float), axis=1, keepdims=True)


def scores(metric, queries, docs) -> np.ndarray:
    if metric == "l2":
        return -((queries[:, None].astype(float) - docs[None].astype(float)) ** 2).sum(axis=2)
    left, right = (queries, docs) if metric == "dot" else (unit(queries), unit(docs))
    return left.astype(float) @ right.astype(float).T


def overlap(wanted, found, k=5) -> float:
    tops = [np.argsort(-table, axis=1, kind="stable")[:, :k] for table in (wanted, found)]
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(*tops, strict=True)]))


def measured(docs, queries, method, metric="cosine", train=1) -> float:
    report = evaluate_codes(docs, queries, methods=[method], metric=metric, train=train, **FEW)
    return float(report[method].similarity.overlap[5]["order"].mean())


@pytest.mark.parametrize("metric", METRICS)
def test_truncation_ranks_by_the_first_dimensions(docs, queries, metric):
    want = overlap(scores(metric, queries, docs), scores(metric, queries[:, :6], docs[:, :6]))
    assert measured(docs, queries, "mrl:6", metric) == pytest.approx(want)


@pytest.mark.parametrize("then", ["sign", "asymmetric", "int4", "int8", "float16"])
@pytest.mark.parametrize("metric", METRICS)
def test_truncation_and_another_method_are_that_method_on_the_first_dimensions(docs, metric, then):
    made = make_encoder(f"mrl:6+{then}", docs, metric=metric)
    want = make_encoder(then, np.ascontiguousarray(docs[:, :6]), metric=metric)
    assert (made.bits, made.bytes_per_vector) == (want.bits, want.bytes_per_vector)
    for name in ("encode", "encode_queries"):
        found, known = (
            getattr(one, name)(rows) for one, rows in ((made, docs), (want, docs[:, :6]))
        )
        for array in ("packed",) if then == "sign" else ("__array__",):
            left, right = getattr(found, array), getattr(known, array)
            left, right = (left(), right()) if callable(left) else (left, right)
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("metric", METRICS)
def test_asymmetric_scores_numbers_of_the_query_by_signs_of_the_document(docs, queries, metric):
    near = queries.astype(float) @ np.where(docs > 0, 1.0, -1.0).T
    want = overlap(scores(metric, queries, docs), near.round(9))
    assert measured(docs, queries, "asymmetric", metric) == pytest.approx(want, abs=0.01)


def test_int4_rounds_to_fifteen_steps(docs):
    made = make_encoder("int4", docs)
    largest = np.abs(docs).max(axis=1, keepdims=True)
    np.testing.assert_array_equal(made.encode(docs), np.rint(7 * docs.astype(float) / largest))
    assert made.bytes_per_vector == 8
    together = make_encoder("int4", docs, metric="dot").encode(docs)
    np.testing.assert_array_equal(together, np.rint(7 * docs.astype(float) / np.abs(docs).max()))


@pytest.mark.parametrize("metric", METRICS)
def test_product_quantisation_is_that_of_faiss(docs, queries, metric):
    faiss = pytest.importorskip("faiss")
    kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
    index = faiss.IndexPQ(16, 4, 8, kind)
    index.pq.cp.seed, index.pq.cp.min_points_per_centroid = 1, 1
    rows = [unit(x).astype(np.float32) if metric == "cosine" else x for x in (docs, queries)]
    faiss.omp_set_num_threads(1)
    index.train(rows[0])
    index.add(rows[0])
    ranked = index.search(rows[1], 5)[1]
    tops = np.argsort(-scores(metric, queries, docs), axis=1, kind="stable")[:, :5]
    want = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(tops, ranked, strict=True)])
    found = measured(docs, queries, "pq:4", metric)
    assert found == pytest.approx(want, abs=0.02)  # documents of one code tie in faiss's own order
    assert found > measured(docs, queries, "pq:2", metric)


def test_rabitq_of_one_bit_estimates_what_faiss_does(docs, queries):
    faiss = pytest.importorskip("faiss", minversion="1.11")
    made = rabitq_of(1, docs, rows=None, seed=0, metric="l2")
    turned = [np.ascontiguousarray(x @ made.rotation, np.float32) for x in (docs, queries)]
    index = faiss.IndexRaBitQ(16, faiss.METRIC_L2)
    index.qb = 0  # queries are not rounded
    index.train(turned[0])
    index.add(turned[0])
    far, found = index.search(turned[1], len(docs))
    encoder = made.encoder()
    of_docs, of_queries = encoder.encode(docs), encoder.encode_queries(queries)
    own = made.unit**2 * (of_queries @ of_docs.T)
    own = (queries**2).sum(axis=1)[:, None] - own
    own = np.maximum(np.take_along_axis(own, found, 1), 0)  # faiss has no squares below 0
    np.testing.assert_allclose(own, far, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("metric", METRICS)
def test_rabitq_keeps_its_bound_and_gains_by_bits(docs, queries, metric):
    found = [measured(docs, queries, f"rabitq:{bits}", metric) for bits in (1, 2, 4, 8)]
    assert found == sorted(found)
    assert found[-1] > 0.95
    bounds = []
    for bits in (1, 2, 4):
        made = rabitq_of(bits, docs, rows=None, seed=0, metric=metric)
        bound, kept = made.check_bound(docs.astype(float), queries.astype(float))
        assert 0.9 < kept < 0.99  # 94.3 % of a normal law lie within 1.9 deviations
        bounds.append(bound)
    assert bounds[0] > 2 * bounds[1] > 4 * bounds[2]


def test_rabitq_rounds_to_nearly_the_best_direction():
    vectors = np.random.default_rng(4).normal(size=(50, 3))
    made = rabitq_of(2, vectors, rows=None, seed=0, metric="dot")
    turned = (vectors / made.unit - made.centre) @ made.rotation
    grid = unit(np.array(list(product((-1.5, -0.5, 0.5, 1.5), repeat=3))))
    best = (unit(turned) @ grid.T).max(axis=1)
    near = made.decode(vectors)[2]
    assert (near <= best + 1e-12).all()
    assert (best - near).max() < 0.01
    own = made.decode(made.centre[None] * made.unit)[0]
    np.testing.assert_allclose(own, made.centre[None], rtol=1e-12)


@pytest.mark.parametrize("method", ["pq:4", "rabitq:1", "rabitq:3", "asymmetric", "int4", "mrl:6"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("power", [-400, *(pytest.param(n, marks=SLOW) for n in (100, 400))])
def test_the_size_of_the_numbers_changes_nothing(docs, queries, metric, method, power):
    if method == "pq:4":
        pytest.importorskip("faiss")
    left, right = docs.astype(float), queries.astype(float)
    far = 2.0**power
    large = left * far, right * (far if metric == "l2" else 1.0)
    assert measured(*large, method, metric) == measured(left, right, method, metric)


def test_codes_are_learnt_from_documents_that_are_no_query(docs):
    pytest.importorskip("faiss")
    ids = [f"d{i}" for i in range(600)]
    given = {"doc_ids": ids, "query_ids": ids[:40], "exclude_self": True, **FEW}
    methods = ["rabitq:1", "pq:4", "itq"]
    changed = docs.copy()
    changed[:40] = changed[:40][::-1] * 5  # other queries, the same documents to learn from
    report, other = (
        evaluate_codes(x, x[:40], methods=methods, bits=[8], **given) for x in (docs, changed)
    )
    said = [one for one in report.remarks if "trained on" in one]
    whose = "other documents than the encoded one, none of them a query"
    assert said == [f"itq-8, rabitq:1, pq:4: trained on 279 {whose}"]  # the others are 281
    rows = np.arange(40, 600)
    for method in ("rabitq:1", "pq:4"):
        made = [make_encoder(method, x, rows=rows).encode(docs[40:]) for x in (docs, changed)]
        np.testing.assert_array_equal(*made)
    assert other.remarks[0] == report.remarks[0]
    own = evaluate_codes(docs, methods=["rabitq:1"], train=1, **FEW).remarks[0]
    assert own == (
        "rabitq:1: trained on the 600 documents that are searched, which are the queries as well: "
        "documents added later lose more"
    )


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("mrl:17", "exceeds the 16 dimensions"),
        ("mrl:8+itq", "Unknown method"),
        ("pq:8+sign", "Unknown method"),
        ("mrl:0", "Unknown method"),
        ("pq:5", "do not divide evenly"),
        ("rabitq:9", "Use 1 to 8 per dimension"),
        ("pq:", "Unknown method"),
    ],
)
def test_what_cannot_be_made_is_refused(docs, queries, method, words):
    with pytest.raises(AssayError, match=re.escape(words)):
        measured(docs, queries, method)


def test_few_documents_and_zeros_are_refused(docs, queries):
    with pytest.raises(AssayError, match="256 training vectors"):
        measured(docs[:200], queries, "pq:4")
    docs[3] = 0
    with pytest.raises(AssayError, match="rabitq:1 cannot encode zero vectors"):
        evaluate_codes(docs, queries, methods=["rabitq:1"], zero="last", **FEW)


def test_the_missing_package_is_named(docs, queries, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(AssayError, match=re.escape(install_command("faiss"))):
        measured(docs, queries, "pq:4")
