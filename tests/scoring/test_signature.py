"""Whatever door the numbers come through, their signature says what made them."""

from __future__ import annotations

import numpy as np
import pytest

import assay
from assay import Ranking, evaluate, fuse, rank
from assay.core.judgments import Judgments
from assay.crossmodal import label_retrieval
from assay.prediction import evaluate_predictions
from assay.scoring.output import disclosures
from assay.scoring.scores import Scores, signature_of
from assay.search.engine import rank_codes, rerank, target_ranks
from assay.search.indexes import build_index

RNG = np.random.default_rng(3)
DOCS = RNG.integers(-2, 3, (30, 4)).astype(np.float32)
DOCS[~DOCS.any(axis=1)] = 1
QUERIES = DOCS[:8] + RNG.normal(size=(8, 4)).astype(np.float32)
QRELS = {q: dict.fromkeys(range(q, 30, 7), 1) for q in range(8)}
BITS = (DOCS > 0).astype(np.uint8)


def _scored(ranking: Ranking) -> Scores:
    return evaluate(ranking, QRELS, ["AP", "RR"], conventions="model_bench")


SEARCHES = {
    "cosine": lambda **how: rank(QUERIES, DOCS, 20, **how),
    "dot": lambda **how: rank(QUERIES, DOCS, 20, metric="dot", **how),
    "l2": lambda **how: rank(QUERIES, DOCS, 20, metric="l2", **how),
    "k": lambda **how: rank(QUERIES, DOCS, 7, **how),
    "ties": lambda **how: rank(DOCS[:8], DOCS, 2, keep_ties=True, **how),
    "no ties": lambda **how: rank(DOCS[:8], DOCS, 2, **how),
    "self": lambda **how: rank(
        QUERIES, DOCS, 20, exclude="self", query_ids=range(8), doc_ids=range(30), **how
    ),
    "pairs": lambda **how: rank(QUERIES, DOCS, 20, exclude=[(0, 7)], **how),
    "bits": lambda **how: rank_codes(BITS[:8], BITS, 20, **how),
}


def test_searches_with_other_numbers_have_other_signatures():
    found = {name: _scored(search()) for name, search in SEARCHES.items()}
    by_signature: dict[str, tuple[str, bytes]] = {}
    for name, scores in found.items():
        other = by_signature.setdefault(scores.signature, (name, scores.values.tobytes()))
        assert other[1] == scores.values.tobytes(), (name, other[0])
    assert len(by_signature) == len(found)


def _all_differ(made: list[Scores]) -> bool:
    """Whether all values and all signatures are different."""
    return len(made) == len({one.values.tobytes() for one in made}) and len(made) == len(
        {one.signature for one in made}
    )


@pytest.mark.parametrize("search", [rank, rank_codes])
def test_other_excluded_pairs(search):
    left, right = (QUERIES, DOCS) if search is rank else (BITS[:8], BITS)
    pairs = [[(0, 0)], [(1, 1)], [(0, 0), (1, 1)]]
    assert _all_differ([_scored(search(left, right, 20, exclude=one)) for one in pairs])
    again = np.array([[1, 1], [0, 0], [1, 1]])
    same = [_scored(search(left, right, 20, exclude=one)).signature for one in (pairs[2], again)]
    assert same[0] == same[1]


def test_excluded_pairs_of_ids():
    names = {"query_ids": list("abcdefgh"), "doc_ids": [f"d{i}" for i in range(30)]}
    qrels = {q: dict.fromkeys(names["doc_ids"][n::7], 1) for n, q in enumerate("abcdefgh")}
    pairs = [[("a", "d0")], [("b", "d1")], [("a", "d0"), ("b", "d1")]]
    found = [rank(QUERIES, DOCS, 20, exclude=one, **names) for one in pairs]
    assert _all_differ([evaluate(one, qrels, "AP") for one in found])


def test_rankings_that_are_cut_by_hand():
    found = rank(QUERIES, DOCS, 20)
    assert _all_differ([_scored(one) for one in (found, found.first(9), found.first(4))])
    fused = fuse([found, rank(QUERIES, DOCS, 9, metric="l2")])
    assert _all_differ([_scored(one) for one in (fused, fused.first(9), fused.first(4))])


def test_rankings_put_under_other_conventions_by_hand():
    found = rank(QUERIES, DOCS, 20, query_ids=range(8), doc_ids=range(30))
    rules = assay.preset("model_bench")
    ways = (rules, rules.replace(self_match="exclude"), rules.replace(depth=3))
    assert _all_differ([_scored(found.under(one)) for one in ways])


@pytest.mark.parametrize("name", SEARCHES)
def test_threads_and_engines_do_not_show_beyond_their_own_parts(name):
    one, two = (_scored(SEARCHES[name](threads=n, engine=e)) for n, e in ((1, "numpy"), (2, None)))
    assert one.settings == two.settings
    assert one.query_set == two.query_set
    assert one.values.tobytes() == two.values.tobytes()


def test_rows_of_zeros_are_in_the_settings_and_counted():
    docs, queries = DOCS.copy(), QUERIES.copy()
    docs[[2, 5]], queries[1] = 0, 0
    dropped, last = (rank(queries, docs, 30, zero=policy) for policy in ("drop", "last"))
    assert (dropped.zero_rows, last.zero_rows) == ((1, 2), (1, 2))
    assert _scored(dropped).signature != _scored(last).signature
    assert "zero" not in rank(queries, docs, 30, metric="dot", zero="drop").settings


def test_fusions_say_how():
    lists = [rank(QUERIES, DOCS, 9), rank(QUERIES, DOCS, 9, metric="l2")]
    ways = [{}, {"rrf_k": 1}, {"weights": [1, 3]}, {"method": "combsum"}, {"method": "combmnz"}]
    ways += [{"method": "combsum", "normalize": "zscore"}, {"depth": 3}]
    signatures = [_scored(fuse(lists, **how)).signature for how in ways]
    assert len(set(signatures)) == len(ways)
    assert "metric:cosine;l2" in signatures[0]


def test_targets_indexes_and_reranking_say_the_metric():
    signatures = set()
    for metric in ("cosine", "dot", "l2"):
        ranks = target_ranks(QUERIES, DOCS, list(range(8)), metric=metric)
        signatures.add(assay.score(ranks.hits(), "RR").signature)
        with build_index("exact", DOCS, metric=metric) as index:
            signatures.add(_scored(index.rank(QUERIES, 5)).signature)
        again = rerank(
            Ranking.from_arrays([[1, 2]] * 8, n_docs=30), QUERIES, docs=DOCS, metric=metric
        )
        signatures.add(_scored(again).signature)
    assert len(signatures) == 9


def test_other_queries_are_another_set():
    whole = _scored(rank(QUERIES, DOCS, 9))
    some = evaluate(rank(QUERIES, DOCS, 9), {q: QRELS[q] for q in range(5)}, ["AP", "RR"])
    assert whole.query_set.startswith("8-")
    assert some.query_set.startswith("5-")
    few = evaluate(rank(QUERIES[:3], DOCS, 9), QRELS, "AP")
    assert few.query_set.startswith("8-")
    assert "/3-" in few.query_set
    assert few.mean(missing="skip")["AP"] != few.mean()["AP"]


def test_parts_that_are_merged_keep_their_settings():
    left = evaluate(rank(QUERIES[:4], DOCS, 9), {q: QRELS[q] for q in range(4)}, "AP")
    right = evaluate(
        rank(QUERIES[4:], DOCS, 9, metric="dot", query_ids=[4, 5, 6, 7], doc_ids=range(30)),
        {q: QRELS[q] for q in range(4, 8)},
        "AP",
    )
    assert Scores.merge(left, right).settings["metric"] == "cosine;dot"


def test_a_comparison_says_how_it_was_made():
    one, two = _scored(rank(QUERIES, DOCS, 20)), _scored(rank(QUERIES, DOCS, 20, metric="dot"))
    first = assay.compare(one, two, resamples=200)
    other = assay.compare(one, two, resamples=200, seed=1)
    assert first.signature != other.signature
    assert "metric:cosine;dot" in first.signature
    assert signature_of([one]) == one.signature


def test_a_cut_beyond_the_collection_and_certain_chance_are_remarked_on():
    scores = evaluate(rank(QUERIES, DOCS, 30), QRELS, ["P@50", "P@5"], conventions="model_bench")
    assert any("P@50: the cutoff exceeds the 30" in remark for remark in disclosures(scores))
    assert not any("P@5:" in remark for remark in disclosures(scores))
    remarks = list(disclosures(scores, {"P@5": 1.0, "P@50": 0.3}))
    assert any("always 1 in a complete ranking: P@5" in remark for remark in remarks)


def test_labels_of_one_class_are_remarked_on():
    found = label_retrieval({"x": DOCS}, ["a"] * 30, k_values=[3])
    assert any("(chance 100 %)" in remark for remark in found.remarks)
    result = evaluate_predictions([[0.5], [0.1]], [0, 0])
    assert any("(chance 100 %)" in remark for remark in result.remarks)


def test_labels_are_judged_with_settings_too():
    judged = Judgments.from_labels(list("aabbaabb"), ["a", "b"] * 15)
    scores = evaluate(rank(QUERIES, DOCS, 5), judged, "P@5", conventions="label_retrieval")
    assert scores.settings["metric"] == "cosine"
    assert scores.to_dict()["settings"] == dict(scores.settings)
