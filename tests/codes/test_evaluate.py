"""What codes lose: against brute force on small collections."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from assay.codes import evaluate_codes, search
from assay.comparison.standings import COLUMNS, Column, standings_table
from assay.errors import AssayError, InputError, MismatchError, UsageError
from assay.search.engine import pack_codes
from assay.tables.table import Table

FEW = {"bits": [16], "methods": ["gaussian"], "k": [3, 5], "resamples": 200}


@pytest.fixture
def docs() -> np.ndarray:
    return np.random.default_rng(11).normal(size=(60, 8)).astype(np.float32)


@pytest.fixture
def queries() -> np.ndarray:
    return np.random.default_rng(12).normal(size=(20, 8)).astype(np.float32)


def cosines(queries, docs) -> np.ndarray:
    left, right = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (queries, docs))
    return left.astype(float) @ right.astype(float).T


def distances(queries, docs) -> np.ndarray:
    return (queries[:, None, :] != docs[None, :, :]).sum(axis=2)


def top(scores, k) -> np.ndarray:
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def mean_overlap(left, right, k) -> float:
    pairs = zip(top(left, k), top(right, k), strict=True)
    return float(np.mean([len(set(a) & set(b)) / k for a, b in pairs]))


def test_overlap_with_float_is_counted_as_by_hand(docs, queries):
    bits = docs > 0, queries > 0
    report = evaluate_codes(docs, queries, codes={"mine": bits}, **{**FEW, "methods": ["sign"]})
    want = mean_overlap(cosines(queries, docs), -distances(bits[1], bits[0]), 3)
    for name in ("mine", "sign"):
        found = report[name].similarity.overlap[3]
        assert found["order"].mean() == pytest.approx(want)
        assert (found["worst"] <= found["expected"]).all()
        assert (found["expected"] <= found["best"]).all()
        assert report.intervals[name]["Overlap@3"].estimate == found["expected"].mean()
        assert report.intervals[name]["R@5"].estimate >= report.intervals[name]["R@3"].estimate
    assert report["sign"].similarity.tied(3).any()
    float_values = report.intervals["float"].values()
    assert all(found.estimate == 1.0 for found in float_values)
    assert report.chance(3) == 3 / 60


def test_recall_and_ndcg_against_float_take_its_first_documents_as_relevant(docs, queries):
    report = evaluate_codes(docs, queries, ties="order", **FEW)
    code = unpacked(docs, queries)
    want, got = top(cosines(queries, docs), 3), top(-distances(*code[::-1]), 5)
    recall = np.mean([len(set(a) & set(b)) / 3 for a, b in zip(want, got, strict=True)])
    assert report.intervals["gaussian-16"]["R@5"].estimate == pytest.approx(recall)
    ideal = sum(1 / math.log2(rank + 1) for rank in (1, 2, 3))
    gains = [
        sum(1 / math.log2(rank + 1) for rank, doc in enumerate(b, 1) if doc in a) / ideal
        for a, b in zip(want, got, strict=True)
    ]
    assert report.intervals["gaussian-16"]["nDCG@5"].estimate == pytest.approx(np.mean(gains))


def unpacked(docs, queries) -> tuple[np.ndarray, np.ndarray]:
    directions = np.random.default_rng(0).standard_normal((16, 8)).T
    return docs.astype(float) @ directions > 0, queries.astype(float) @ directions > 0


def test_documents_as_their_own_queries_never_find_themselves(docs):
    twice = np.concatenate([docs[:30], docs[:30]])  # every document has an equal twin
    report = evaluate_codes(twice, **FEW)
    assert (report.n_queries, report.n_docs) == (60, 59)
    assert report.settings.exclude_self
    code = unpacked(twice, twice)[0]
    left, right = cosines(twice, twice).round(12), -distances(code, code).astype(float)
    for table in (left, right):
        np.fill_diagonal(table, -np.inf)
    want = mean_overlap(left, right, 3)
    assert report["gaussian-16"].similarity.overlap[3]["order"].mean() == pytest.approx(want)
    kept = evaluate_codes(twice, exclude_self=False, **FEW)
    assert kept.n_docs == 60


def test_self_is_excluded_by_id(docs):
    ids = [f"d{i:02}" for i in range(60)]
    turned = np.random.default_rng(1).permutation(60)
    by_id = evaluate_codes(
        docs,
        docs[turned],
        doc_ids=ids,
        query_ids=[ids[i] for i in turned],
        exclude_self=True,
        **FEW,
    )
    own = evaluate_codes(docs, **FEW)
    left, right = (r["gaussian-16"].similarity.overlap[3]["order"] for r in (by_id, own))
    assert left.tolist() == right.tolist()  # values are in the order of ids
    left, right = by_id["gaussian-16"].kendall, own["gaussian-16"].kendall
    np.testing.assert_allclose(left, right, atol=1e-12)


def test_correlations_are_scipys_over_all_documents(docs, queries):
    from scipy import stats

    report = evaluate_codes(docs, queries, **FEW)
    code = unpacked(docs, queries)
    far, near = distances(*code[::-1]), cosines(queries, docs)
    for values, test in (
        (report["gaussian-16"].kendall, stats.kendalltau),
        (report["gaussian-16"].spearman, stats.spearmanr),
    ):
        want = [test(x, -y).statistic for x, y in zip(near, far, strict=True)]
        np.testing.assert_allclose(values, want, atol=1e-12)
    assert not any("drawn at random" in remark for remark in report.remarks)


def test_correlations_leave_self_out(docs):
    from scipy import stats

    report = evaluate_codes(docs, **FEW)
    code = unpacked(docs, docs)[0]
    far, near = distances(code, code), cosines(docs, docs)
    others = ~np.eye(60, dtype=bool)
    want = [stats.kendalltau(near[q, others[q]], -far[q, others[q]]).statistic for q in range(60)]
    np.testing.assert_allclose(report["gaussian-16"].kendall, want, atol=1e-12)


def test_correlations_of_many_documents_are_of_a_sample(docs, monkeypatch):
    monkeypatch.setattr(search, "SAMPLE_DOCS", 30)
    monkeypatch.setattr(search, "SAMPLE_QUERIES", 20)
    report = evaluate_codes(docs, **FEW)
    assert len(report["gaussian-16"].kendall) == 20
    assert "Kendall and Spearman are of 30 documents drawn at random for 20 queries" in (
        report.remarks
    )
    assert report.intervals["float"]["Kendall"].estimate == 1.0
    assert report.to_dict() is not None


def test_reranking_restores_the_float_order_of_what_was_found(docs, queries):
    whole = evaluate_codes(docs, queries, rerank=60, **FEW)
    assert whole.intervals["gaussian-16"]["Overlap@5"].estimate == 1.0
    some = evaluate_codes(docs, queries, rerank=12, ties="order", **FEW)
    first = top(-distances(*unpacked(docs, queries)[::-1]), 12)
    near = cosines(queries, docs)
    best = [set(row[np.argsort(-near[q, row])][:5]) for q, row in enumerate(first)]
    want = np.mean([len(a & set(b)) / 5 for a, b in zip(best, top(near, 5), strict=True)])
    assert some.intervals["gaussian-16"]["Overlap@5"].estimate == pytest.approx(want)
    with pytest.raises(UsageError, match="rerank is 4 and the largest k is 5"):
        evaluate_codes(docs, queries, rerank=4, **FEW)


def test_judgments_are_compared_with_float(docs, queries):
    relevant = top(cosines(queries, docs), 2)
    qrels = {q: {int(doc): 1 for doc in row} for q, row in enumerate(relevant)}
    report = evaluate_codes(docs, queries, qrels=qrels, **FEW)
    comparison = report.comparison
    assert comparison.baseline == "float"
    assert [str(m) for m in comparison.measures] == ["R@3", "R@5", "nDCG@3", "nDCG@5"]
    assert report["float"].judged.mean()["R@3"] == 1.0
    pair = comparison.pair("gaussian-16", "float", measure="R@3")
    assert pair.winner == "float"
    data = report.to_dict()
    assert data["codes"][1]["judgments"]["R@3"]["difference"] == pair.difference
    assert "float is better than gaussian-16 on R@3" in str(report)
    assert evaluate_codes(docs, queries, **FEW).comparison is None


def test_judgments_of_others_are_refused_and_of_some_are_named(docs, queries):
    with pytest.raises(MismatchError, match="by ids such as 'q', but the vectors have"):
        evaluate_codes(docs, queries, qrels={"q": {"d": 1}}, **FEW)
    with pytest.raises(MismatchError, match="None of the 1 judged queries"):
        evaluate_codes(docs, queries, qrels={999: {0: 1}}, **FEW)
    with pytest.raises(MismatchError, match="None of the 1 judged documents"):
        evaluate_codes(docs, queries, qrels={0: {999: 1}}, **FEW)
    report = evaluate_codes(docs, queries, qrels={0: {0: 1, 999: 1}, 777: {1: 1}}, **FEW)
    assert any("1 of 2 judged queries have no vector: 777" in one for one in report.remarks)
    assert any("1 of 3 judged documents have no vector: 999" in one for one in report.remarks)


@pytest.mark.parametrize("packed", [False, True])
def test_ready_codes_are_taken_as_they_are(docs, queries, packed):
    bits = (docs > 0).astype(np.uint8), (queries > 0).astype(np.uint8)
    given = tuple(map(pack_codes, bits)) if packed else bits
    report = evaluate_codes(docs, queries, codes={"mine": given}, **{**FEW, "methods": []})
    assert [one.name for one in report.codes] == ["float", "mine"]
    assert report["mine"].cost.bits == 8
    assert report["mine"].cost.bytes_per_vector == 1
    plus = (2 * bits[0].astype(int) - 1, 2 * bits[1].astype(int) - 1)
    same = evaluate_codes(docs, queries, codes={"mine": plus}, **{**FEW, "methods": []})
    left, right = (r["mine"].similarity.overlap[3]["expected"] for r in (report, same))
    assert left.tolist() == right.tolist()
    own = evaluate_codes(docs, codes={"mine": given[0]}, **{**FEW, "methods": []})
    assert own.n_queries == 60


def test_ready_codes_that_do_not_fit_are_refused(docs, queries):
    bits = docs > 0, queries > 0
    cases = [
        ({"mine": (bits[0][:5], bits[1])}, "5.*60"),
        ({"mine": (bits[0], bits[1][:5])}, "5.*20"),
        ({"mine": (bits[0], bits[1][:, :7])}, "8.*7|7.*8"),
        ({"mine": (bits[0] * 3, bits[1])}, "3"),
        ({"mine": bits[0]}, "two parts"),
        ({"float": bits}, "is not a valid name of codes"),
        ({"": bits}, "is not a valid name of codes"),
        ([bits], "found list"),
    ]
    for codes, words in cases:
        with pytest.raises(AssayError, match=words):
            evaluate_codes(docs, queries, codes=codes, **{**FEW, "methods": []})


def test_codes_that_cannot_be_made_are_remarked(docs):
    report = evaluate_codes(docs.astype(np.float16), bits=[4, 16], methods=["itq", "float16"], k=3)
    assert [one.name for one in report.codes] == ["float", "itq-4"]
    assert "itq makes at most one bit per dimension, 8: left out 16" in report.remarks
    assert "float16 is what the vectors already are: left out" in report.remarks
    assert report["float"].method == "float16"
    assert report["float"].cost.bytes_per_vector == 16


@pytest.mark.parametrize("metric", ["dot", "l2"])
def test_other_metrics_rank_float_and_int8_by_them(docs, queries, metric):
    report = evaluate_codes(docs, queries, metric=metric, methods=["int8", "float16"], k=5)
    assert report.intervals["int8"]["Overlap@5"].estimate > 0.9
    assert report.intervals["float16"]["Overlap@5"].estimate > 0.95


def test_judgments_of_self_do_not_count(docs):
    """A query's own document is excluded, so it can neither be found nor be missing."""
    near = cosines(docs, docs)
    np.fill_diagonal(near, -np.inf)
    nearest = near.argmax(axis=1)
    qrels = {q: {q: 1, int(doc): 1} for q, doc in enumerate(nearest)}
    report = evaluate_codes(docs, qrels=qrels, **FEW)
    assert report["float"].judged.mean()["R@3"] == 1.0
    assert "self:exclude" in report.signature


def test_vectors_come_as_arrays_of_any_type_or_as_files(docs, queries, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    np.save(tmp_path / "docs.npy", docs)
    whole = evaluate_codes(docs, queries, **FEW).intervals["gaussian-16"]
    mapped = evaluate_codes(tmp_path / "docs.npy", queries, **FEW).intervals["gaussian-16"]
    listed = evaluate_codes(docs.tolist(), queries.tolist(), **FEW).intervals["gaussian-16"]
    assert whole == mapped == listed
    for kind in (ml_dtypes.bfloat16, np.float64, np.int8):
        found = evaluate_codes((10 * docs).astype(kind), (10 * queries).astype(kind), **FEW)
        assert found["float"].method == np.dtype(kind).name
    for layout in (np.asfortranarray, lambda a: a.astype(">f4"), lambda a: np.repeat(a, 2, 0)[::2]):
        found = evaluate_codes(layout(docs), layout(queries), **FEW)
        assert found.intervals["gaussian-16"] == whole


def test_same_input_same_numbers(docs, queries):
    def numbers(**more):
        data = evaluate_codes(docs, queries, methods=["gaussian", "itq"], bits=[8], k=3, **more)
        made = data.to_dict()
        for one in made["codes"]:
            del one["encode_seconds"], one["search_seconds"]
        return made

    assert numbers() == numbers() == numbers(threads=1)
    assert numbers(seed=1)["codes"][1] != numbers()["codes"][1]


def test_a_constant_code_never_looks_good(docs, queries):
    constant = np.zeros((60, 4), int), np.zeros((20, 4), int)
    found = evaluate_codes(docs, queries, codes={"same": constant}, **{**FEW, "methods": []})
    assert found.intervals["same"]["Overlap@3"].estimate == pytest.approx(found.chance(3))
    assert found.intervals["same"]["R@3"].estimate == pytest.approx(3 / 60)
    assert found["same"].similarity.tied(3).all()
    assert np.isnan(found["same"].kendall).all()
    assert found.to_dict()["codes"][1]["float_ranking"]["Kendall"]["mean"] is None
    assert "–" in str(found)


@pytest.mark.parametrize("n_queries", [1, 2])
def test_few_queries_have_means_but_no_intervals(docs, queries, n_queries):
    qrels = {q: {0: 1} for q in range(n_queries)}
    report = evaluate_codes(docs, queries[:n_queries], qrels=qrels, **FEW)
    data = report.to_dict()["codes"][1]
    assert data["float_ranking"]["Overlap@3"]["low"] is None
    assert data["judgments"]["R@3"]["p"] is None
    assert f"Too few queries ({n_queries}) to compare" in str(report)


def test_progress_names_each_step(docs, queries):
    steps = []
    evaluate_codes(
        docs, queries, progress=lambda step, done, total: steps.append((step, done <= total)), **FEW
    )
    assert ("gaussian-16", True) in steps
    assert all(sound for _, sound in steps)


def test_invalid_settings_are_refused(docs, queries):
    cases = [
        ({"k": []}, "No k"),
        ({"k": [0]}, "whole number"),
        ({"k": 61}, "k is 61, but queries have 60 candidates"),
        ({"bits": [0]}, "bits must be"),
        ({"methods": ["pq"]}, "Unknown method 'pq'"),
        ({"methods": []}, "Nothing to compare"),
        ({"metric": "l1"}, "metric must be one of"),
        ({"ties": "random"}, "ties must be"),
        ({"p": 1.5}, "between 0 and 1"),
        ({"doc_ids": range(60)}, "both query_ids and doc_ids"),
        ({"exclude_self": True}, "differ in number"),
        ({"doc_ids": range(59), "query_ids": range(20)}, "59.*60"),
        ({"doc_ids": [0] * 60, "query_ids": range(20)}, "appears twice"),
    ]
    for change, words in cases:
        with pytest.raises(AssayError, match=words):
            evaluate_codes(docs, queries, **{**FEW, **change})
    with pytest.raises(UsageError, match="Two codes are named 'gaussian-16'"):
        evaluate_codes(docs, queries, codes={"gaussian-16": (docs > 0, queries > 0)}, **FEW)
    with pytest.raises(UsageError, match="k is 5, but queries have 4 candidates"):
        evaluate_codes(docs[:5], **FEW)
    with pytest.raises(UsageError, match="query_ids need queries"):
        evaluate_codes(docs, query_ids=range(60), **FEW)
    with pytest.raises(UsageError, match="Unknown code 'x'"):
        evaluate_codes(docs, queries, **FEW)["x"]
    wrong = docs.copy()
    wrong[7, 2] = np.nan
    with pytest.raises(InputError, match="7"):
        evaluate_codes(wrong, queries, **FEW)


def test_the_curve_names_every_code_and_nothing_runs(docs, queries):
    name = '<script>alert("1")</script>'
    report = evaluate_codes(docs, queries, codes={name: (docs > 0, queries > 0)}, **FEW)
    drawn = report.svg()
    assert drawn.startswith("<svg")
    assert "<script" not in drawn
    assert "&lt;script&gt;" in drawn
    assert "gaussian-16: " in drawn
    from xml.dom.minidom import parseString

    parseString(drawn)


def rescored(near, far, n) -> np.ndarray:
    """Float scores of the first n documents of the code; the others are not there."""
    kept = np.full(near.shape, -np.inf)
    rows = np.arange(len(near))[:, None]
    first = top(-far, n)
    kept[rows, first] = near[rows, first]
    return kept


def test_oversampling_reranks_the_first_documents_by_float(docs, queries):
    report = evaluate_codes(
        docs, queries, **{**FEW, "methods": ["gaussian", "int4"]}, oversample=[2, 4, 100]
    )
    names = [one.name for one in report.codes]
    assert names[2:5] == ["gaussian-16 ×2", "gaussian-16 ×4", "gaussian-16 ×100"]
    assert names[6:] == ["int4 ×2", "int4 ×4", "int4 ×100"]
    near, far = cosines(queries, docs), distances(*unpacked(docs, queries)[::-1])
    for factor in (2, 4, 100):
        one = report[f"gaussian-16 ×{factor}"]
        want = mean_overlap(near, rescored(near, far, min(5 * factor, 60)), 3)
        assert one.similarity.overlap[3]["order"].mean() == pytest.approx(want)
        assert one.cost.bytes_per_vector == 2
        assert f"rerank:{min(5 * factor, 60)}|" in one.near.signature + "|"
    assert report["int4 ×100"].similarity.overlap[3]["order"].mean() == 1.0
    assert report.to_dict()["settings"]["oversample"] == [2, 4, 100]
    assert report.to_dict()["codes"][2]["oversample"] == 2
    assert "that many times 5 documents" in str(report)
    picture = report.svg()
    assert picture.count("re-ranked ×") == 3
    assert "gaussian-16 ×4: " in picture


def test_oversampling_and_reranking_are_not_asked_for_together(docs, queries):
    with pytest.raises(UsageError, match="Pass one"):
        evaluate_codes(docs, queries, **FEW, oversample=[2], rerank=10)
    with pytest.raises(UsageError, match="oversample"):
        evaluate_codes(docs, queries, **FEW, oversample=[0])
    bits = docs > 0, queries > 0
    with pytest.raises(UsageError, match="Two codes are named 'gaussian-16 ×2'"):
        evaluate_codes(docs, queries, **FEW, oversample=[2], codes={"gaussian-16 ×2": bits})


def test_a_column_of_the_standings_is_one_of_the_judged_codes(docs, queries, monkeypatch):
    width = Column("half width", lambda standing: standing.mean.half_width, "fraction")
    table = partial(standings_table, columns=(*COLUMNS, width))
    monkeypatch.setattr("assay.codes.tables.standings_table", table)
    labels = {"labels": np.arange(60) % 4, "query_labels": np.arange(20) % 4}
    report = evaluate_codes(docs, queries, **labels, **FEW)
    judged = [item for item in report.page() if isinstance(item, Table) and "p" in item.columns]
    assert judged[0].columns[:4] == ("code", "R@3", "95 % CI", "half width")
    assert judged[0].columns[4:] == ("− float", "95 % CI", "p")
    mean = report.comparison.standings_on("R@3")
    assert judged[0].rows[0][3].value == next(s for s in mean if s.name == "float").mean.half_width
