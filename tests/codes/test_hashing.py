"""mAP of learning to hash and what lies within a Hamming radius: against brute force."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import assay
from assay.codes import HASHING, evaluate_codes, search
from assay.errors import AssayError

FEW = {"methods": [], "k": [3], "resamples": 200}


@pytest.fixture
def made() -> dict[str, np.ndarray]:
    """Codes of 4 bits, so that nearly everything ties, with one or several labels."""
    rng = np.random.default_rng(3)
    return {
        "docs": rng.normal(size=(40, 4)),
        "queries": rng.normal(size=(9, 4)),
        "labels": rng.integers(0, 3, 40),
        "query_labels": rng.integers(0, 4, 9),  # label 3 has no document
        "classes": rng.random((40, 5)) < 0.3,
        "query_classes": rng.random((9, 5)) < 0.3,
    }


def distances(made) -> np.ndarray:
    return ((made["queries"] > 0)[:, None] != (made["docs"] > 0)[None]).sum(axis=2)


def shared(made, kind: str) -> np.ndarray:
    if kind == "labels":
        return made["query_labels"][:, None] == made["labels"][None]
    return (made["query_classes"].astype(int) @ made["classes"].T.astype(int)) > 0


def field_map(near, relevant, cut) -> float:
    """The rule of the field's public code, with a stable order; no hit counts 0."""
    total = 0.0
    for row, good in zip(near, relevant, strict=True):
        ranks = 1 + np.flatnonzero(good[np.argsort(row, kind="stable")][:cut])
        total += np.mean(np.arange(1, len(ranks) + 1) / ranks) if len(ranks) else 0.0
    return total / len(near)


def arguments(made, kind: str) -> dict:
    if kind == "labels":
        return {"labels": made["labels"], "query_labels": made["query_labels"]}
    return {"labels": made["classes"].astype(int), "query_labels": made["query_classes"]}


def evaluated(made, kind: str = "labels", **more):
    codes = {"mine": (made["docs"] > 0, made["queries"] > 0)}
    given = {**FEW, "hashing": "all", "codes": codes, **arguments(made, kind), **more}
    return evaluate_codes(made["docs"], made["queries"], **given)


@pytest.mark.parametrize("kind", ["labels", "classes"])
@pytest.mark.parametrize("cells", [1 << 23, 80])  # all queries at once, and two at a time
@pytest.mark.parametrize(("name", "cut"), [("all", None), ("small", 7)])
def test_map_is_the_fields_rule_in_the_order_of_rows(made, monkeypatch, kind, cells, name, cut):
    monkeypatch.setitem(HASHING, "small", 7)
    monkeypatch.setattr(search, "BLOCK_CELLS", cells)
    report = evaluated(made, kind, hashing=name, ties="order")
    measure = "AP" if cut is None else f"AP@{cut}"
    want = field_map(distances(made), shared(made, kind), cut)
    assert report["mine"].judged.mean()[measure] == pytest.approx(want, abs=1e-12)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (made["queries"], made["docs"])]
    want = field_map(-(unit[0] @ unit[1].T), shared(made, kind), cut)
    assert report["float"].judged.mean()[measure] == pytest.approx(want, abs=1e-12)
    assert "preset:hashing" in report["mine"].judged.signature
    assert "ap:hits" in report.signature


def test_the_default_is_the_mean_over_all_orders_of_ties(made, monkeypatch):
    monkeypatch.setitem(HASHING, "small", 3)
    six = {name: part[:6] if len(part) == 40 else part for name, part in made.items()}
    for part in ("docs", "queries"):
        six[part] = six[part][:, :1]  # two distances only
    near, relevant = distances(six), shared(six, "labels")
    orders = [np.array(order) for order in permutations(range(6))]
    want = np.mean([field_map(near[:, o], relevant[:, o], 3) for o in orders])
    report = evaluated(six, hashing="small")
    assert report["mine"].judged.mean()["AP@3"] == pytest.approx(want, abs=1e-12)
    assert report["mine"].judged.mean().counts["AP@3"].tied > 0


@pytest.mark.parametrize("kind", ["labels", "classes"])
@pytest.mark.parametrize("cells", [1 << 23, 80])
def test_precision_and_recall_by_radius_are_counted_as_by_hand(made, monkeypatch, kind, cells):
    monkeypatch.setattr(search, "BLOCK_CELLS", cells)
    report = evaluated(made, kind)
    near, relevant = distances(made), shared(made, kind)
    curve = report["mine"].curve
    for radius in range(5):
        ball = near <= radius
        good = (ball & relevant).sum(axis=1)
        precision = good / np.maximum(ball.sum(axis=1), 1)  # an empty ball counts 0
        recall = good / np.maximum(relevant.sum(axis=1), 1)
        assert curve.precision[radius] == pytest.approx(precision.mean(), abs=1e-12)
        assert curve.recall[radius] == pytest.approx(recall.mean(), abs=1e-12)
        assert curve.filled[radius] == pytest.approx(ball.any(axis=1).mean())
        if radius == 2:
            assert report.radius_intervals["mine"].estimate == pytest.approx(precision.mean())
    assert curve.filled[0] < 1  # some balls are empty
    assert report["float"].curve is None


def test_qrels_give_the_numbers_of_the_same_labels(made, monkeypatch):
    monkeypatch.setattr(search, "BLOCK_CELLS", 80)
    names = {"doc_ids": [f"d{i}" for i in range(40)], "query_ids": [f"q{i}" for i in range(9)]}
    pairs = np.argwhere(shared(made, "classes"))
    qrels = [(f"q{q}", f"d{d}", 1) for q, d in pairs]
    by_labels = evaluated(made, "classes", **names)
    codes = {"mine": (made["docs"] > 0, made["queries"] > 0)}
    by_pairs = evaluate_codes(
        made["docs"], made["queries"], qrels=qrels, hashing="all", codes=codes, **FEW, **names
    )
    left, right = by_labels["mine"], by_pairs["mine"]
    judged = right.judged.query_ids.match(left.judged.query_ids)
    assert left.judged["AP"][judged].tolist() == right.judged["AP"].tolist()
    empty = np.setdiff1d(np.arange(9), judged)
    assert np.isnan(left.judged["AP"][empty]).all()  # a query without labels counts 0
    assert left.curve.near[judged].tolist() == right.curve.near.tolist()


def test_chance_where_judged_documents_have_no_vector(made):
    names = {"doc_ids": [f"d{i}" for i in range(40)], "query_ids": [f"q{i}" for i in range(9)]}
    qrels = [(f"q{q}", doc, 1) for q in range(9) for doc in (f"d{q}", "x0", "x1", "x2")]
    codes = {"mine": (made["docs"] > 0, made["queries"] > 0)}
    report = evaluate_codes(
        made["docs"],
        made["queries"],
        qrels=qrels,
        hashing="all",
        codes=codes,
        allow_mismatch=True,
        **FEW,
        **names,
    )
    # The preset divides by what is found, which is one document wherever it stands.
    assert report.chance_map == pytest.approx(sum(1 / r for r in range(1, 41)) / 40)


def test_documents_as_queries_are_not_their_own_neighbours(made):
    bits, labels = made["docs"] > 0, made["labels"]
    report = evaluate_codes(
        made["docs"], labels=labels, hashing="all", codes={"mine": bits}, ties="order", **FEW
    )
    near = (bits[:, None] != bits[None]).sum(axis=2).astype(float)
    np.fill_diagonal(near, np.inf)
    relevant = labels[:, None] == labels[None]
    np.fill_diagonal(relevant, False)
    want = field_map(near, relevant, None)
    assert report["mine"].judged.mean()["AP"] == pytest.approx(want, abs=1e-12)


def test_labels_alone_score_recall_and_ndcg_also_after_reranking(made):
    report = evaluated(made, "classes", hashing=None, rerank=40)
    assert [str(one) for one in report["mine"].judged.measures] == ["R@3", "nDCG@3"]
    exact = report["float"].judged["nDCG@3"]
    np.testing.assert_array_equal(report["mine"].judged["nDCG@3"], exact)
    assert report["mine"].curve is None


def test_chance_is_the_mean_over_all_orders(made, monkeypatch):
    monkeypatch.setitem(HASHING, "small", 3)
    monkeypatch.setattr(search, "BLOCK_CELLS", 12)
    six = {name: part[:6] if len(part) == 40 else part for name, part in made.items()}
    relevant = shared(six, "labels")
    flat = np.tile(np.arange(6), (9, 1))
    want = np.mean([field_map(flat[:, list(o)], relevant, 3) for o in permutations(range(6))])
    assert evaluated(six, hashing="small").chance_map == pytest.approx(want, abs=1e-12)


def test_the_tables_name_the_rule(made):
    text = str(evaluated(made, hashing="nuswide"))
    for words in ("mAP@5000", "P@radius 2", "4 bits", "AP over the relevant"):
        assert words in text
    data = evaluated(made).to_dict()["codes"][1]
    assert data["radius"]["R@radius 4"]["mean"] == pytest.approx(
        (shared(made, "labels").any(axis=1)).mean()
    )
    assert evaluated(made).svg().count("By Hamming radius") == 1


def test_records_hold_map_and_precision_at_the_radius(made):
    report = evaluated(made)
    float_record, record = report.records()
    assert "AP" in map(str, record.scores.measures)
    kept = {one.measure: one for one in record.aggregates}
    assert kept["P@radius 2"].value == report.radius_intervals["mine"].estimate
    assert "P@radius 2" not in {one.measure for one in float_record.aggregates}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"query_labels": None}, "Labels are missing"),
        ({"labels": None}, "Labels are missing"),
        ({"labels": [1, 2]}, "labels"),
        ({"labels": np.full((40, 2), 3), "query_labels": np.ones((9, 2))}, "0 or 1"),
        ({"labels": np.ones((40, 2)), "query_labels": np.ones((9, 3))}, "same classes"),
        ({"labels": [[1, 0], [1]]}, "different lengths"),
        ({"qrels": {"0": {"1": 1}}}, "labels and qrels exclude each other"),
        ({"hashing": "nuswid"}, "nuswide"),
        ({"rerank": 10}, "hashing excludes rerank and oversample"),
        ({"labels": None, "query_labels": None}, "labels or qrels"),
    ],
)
def test_what_does_not_fit_is_refused(made, change, words):
    with pytest.raises(AssayError, match=words):
        evaluated(made, **change)


def test_the_preset_divides_by_the_hits():
    run = {"q": {"a": 3, "b": 2, "c": 1}, "r": {"x": 1}}
    qrels = {"q": {"b": 1, "z": 1}, "r": {"a": 1}}
    assert assay.evaluate(run, qrels, "AP@2", conventions="hashing").mean()["AP@2"] == 0.25
