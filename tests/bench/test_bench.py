"""The bench against brute force, and what it must not depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from assay import evaluate
from assay.bench import Fusion, Model, run_bench
from assay.bench import search as bench_search
from assay.core.ids import Ids
from assay.errors import InputError, UsageError
from assay.io.collections import Collection
from assay.models import EmbeddingCache
from tests.bench.samples import letters, small

LETTERS = "letters=py:tests.bench.samples:letters"
SHORT = "short=py:tests.bench.samples:shouting"


def by_hand(collection: Collection, k: int) -> dict[str, list[str]]:
    """Cosine of letter counts, best first; ties by id descending."""
    docs, queries = letters(list(collection.doc_texts)), letters(list(collection.query_texts))
    docs, queries = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (docs, queries))
    ids = collection.doc_ids.to_list()
    found = {}
    for query, row in zip(collection.query_ids, queries @ docs.T, strict=True):
        order = sorted(range(len(ids)), key=lambda i: (round(-row[i], 9), -i))
        found[query] = [ids[i] for i in order[:k]]
    return found


def test_exact_search_is_what_brute_force_finds() -> None:
    collection = small()
    result = run_bench(collection, [LETTERS], measures="nDCG@10")
    wanted = by_hand(collection, 10)
    found = {
        query: [doc for doc, _ in result["letters"].ranking.row(query)[:10]] for query in wanted
    }
    assert found == wanted
    again = evaluate(wanted, collection.qrels, "nDCG@10")
    assert result["letters"].scores.mean()["nDCG@10"] == again.mean()["nDCG@10"]


def shuffled(collection: Collection, seed: int) -> Collection:
    rng = np.random.default_rng(seed)
    docs, queries = (
        rng.permutation(len(collection.doc_ids)),
        rng.permutation(len(collection.query_ids)),
    )
    return replace(
        collection,
        doc_ids=collection.doc_ids.take(docs),
        doc_texts=[collection.doc_texts[i] for i in docs],
        query_ids=collection.query_ids.take(queries),
        query_texts=[collection.query_texts[i] for i in queries],
    )


@pytest.mark.parametrize("chunk", [None, "tokens:4:1"])
def test_order_of_lines_changes_nothing(chunk: str | None) -> None:
    collection = small()
    models, fusion = ["bm25", "tfidf", LETTERS], ["rrf:bm25+letters"]
    first = run_bench(collection, models, fusions=fusion, chunk=chunk)
    second = run_bench(shuffled(collection, 1), models, fusions=fusion, chunk=chunk)
    for one, other in zip(first.systems, second.systems, strict=True):
        assert np.array_equal(one.scores.values, other.scores.values), one.name
        assert np.array_equal(one.ranking.docs, other.ranking.docs)


def test_empty_documents_are_never_retrieved_and_are_reported() -> None:
    collection = small(empty=3)
    result = run_bench(collection, ["bm25", LETTERS])
    gone = set(collection.empty_docs)
    assert len(gone) == 3
    for one in result.systems:
        assert not gone & {
            doc for query in collection.query_ids for doc, _ in one.ranking.row(query)
        }
        assert one.ranking.n_docs == len(collection.doc_ids)
    assert result.diagnosis["empty-docs"].count == 3


def test_an_empty_query_scores_zero_and_is_reported() -> None:
    collection = small()
    texts = ["  ", *collection.query_texts[1:]]
    result = run_bench(replace(collection, query_texts=texts), ["bm25"])
    scores = result["bm25"].scores
    assert scores.n_queries == len(collection.query_ids)
    assert scores["nDCG@10"][0] == 0
    assert result.diagnosis["empty-queries"].examples == ("q00",)


def test_unjudged_queries_are_not_run() -> None:
    collection = small()
    more = replace(
        collection,
        query_ids=Ids.concat([collection.query_ids, Ids.of(["x"])]),
        query_texts=[*collection.query_texts, "extra"],
    )
    result = run_bench(more, ["bm25"])
    assert len(result["bm25"].ranking) == len(collection.query_ids)
    assert result.diagnosis["unjudged-queries"].count == 1


@pytest.mark.parametrize("fold", ["max", "sum:2"])
def test_chunk_aggregation_is_exact(fold: str) -> None:
    from assay.io.texts import ChunkRule, chunk_text

    collection = small(n_docs=30, n_queries=10)
    result = run_bench(collection, [LETTERS], chunk="tokens:4:1", fold=fold, depth=5)
    rule, best = ChunkRule("tokens", 4, 1), 1 if fold == "max" else 2
    asked = letters(list(collection.query_texts))
    asked /= np.linalg.norm(asked, axis=1, keepdims=True)
    for query, vector in zip(collection.query_ids, asked, strict=True):
        worth = {}
        for doc, text in zip(collection.doc_ids, collection.doc_texts, strict=True):
            rows = letters(chunk_text(text, rule))
            cosines = np.sort(rows @ vector / np.linalg.norm(rows, axis=1))[::-1]
            worth[doc] = cosines[:best].sum()
        found = result["letters"].ranking.row(query)
        assert len(found) == 5
        top = sorted(worth.values(), reverse=True)[:5]
        assert [score for _, score in found] == pytest.approx(top, abs=1e-6)
        assert [worth[doc] for doc, _ in found] == pytest.approx(top, abs=1e-6)


def test_few_long_documents_still_fill_deep_lists() -> None:
    """Many chunks of one document must not crowd out the others."""
    collection = small(n_docs=6, n_queries=3)
    texts = [collection.doc_texts[0] * 30, *collection.doc_texts[1:]]
    result = run_bench(
        replace(collection, doc_texts=texts), [LETTERS], chunk="characters:10", depth=6
    )
    assert set(result["letters"].ranking.lengths.tolist()) == {6}


def test_fusions_and_indexes_are_systems_with_names() -> None:
    result = run_bench(small(), ["bm25", "b2=bm25", LETTERS], fusions=["rrf:bm25+letters"])
    assert [one.name for one in result.systems] == [
        "bm25",
        "b2",
        "letters",
        "rrf(bm25+letters)",
    ]
    assert result.standing.comparison is not None
    outcome = result.standing.comparison.pair("bm25", "b2", measure="nDCG@10").outcome
    assert outcome == "identical"


def test_an_index_is_compared_with_its_own_exact_search_only() -> None:
    pytest.importorskip("faiss")
    settings = {"measures": ["nDCG@10", "RR"], "threads": 1}
    plain = run_bench(small(), ["bm25", LETTERS], **settings)
    indexed = run_bench(small(), ["bm25", LETTERS], indexes=["exact", "faiss:Flat"], **settings)
    assert [one.exact for one in indexed.systems] == ["", "", "letters", "letters"]
    old, new = plain.standing.comparison, indexed.standing.comparison
    assert old is not None
    assert new is not None
    assert new.names == ("bm25", "letters")
    assert [pair.p for pair in new.pairs] == [pair.p for pair in old.pairs]
    assert new.verdicts == old.verdicts
    (found,) = indexed.variants()
    assert found.family == "2 systems against letters"
    assert found.names == ("letters", "letters @ exact", "letters @ faiss:Flat")
    assert {pair.outcome for pair in found.pairs} == {"identical"}
    data = indexed.to_dict()
    assert data["comparison"]["family"] == "one pair"
    assert data["variants"][0]["family"] == "2 systems against letters"
    assert [one.get("variant_of") for one in data["systems"]] == [None, None, "letters", "letters"]
    assert "variants" not in plain.to_dict()
    table = indexed.table()
    assert [row[0].value for row in table.rows][2:] == ["letters @ exact", "letters @ faiss:Flat"]
    assert "Variants of letters form a separate family: 2 systems against letters." in str(indexed)
    report = indexed.report(resamples=200)
    assert report.names == ("bm25", "letters")
    saved = [one for one in indexed.records() if one.name in report.names]
    for run, record in zip(report.runs, saved, strict=True):  # costs, texts and documents
        assert run.config["costs"] == record.config["costs"]
        assert dict(run.results) == dict(record.results) != {}
    assert any("letters @ exact" in remark for remark in report.remarks)
    assert [one.config.get("variant_of") for one in indexed.records()][2:] == ["letters", "letters"]
    with pytest.raises(UsageError, match="Name 'letters'"):
        indexed.report(baseline="letters @ exact")


def test_one_model_behind_indexes_stands_alone() -> None:
    result = run_bench(small(), [LETTERS], indexes=["exact"], measures="RR")
    assert result.standing.comparison is None
    assert result.standing.verdicts["RR"].startswith("letters scores ")
    assert "letters @ exact" in str(result)


@pytest.mark.parametrize(
    ("models", "fusions", "words"),
    [
        ([], [], "No model"),
        (["bm25", "bm25"], [], "Two systems are named 'bm25'"),
        (["bm25", "tfidf"], ["rrf:bm25+tfdif"], "Did you mean tfidf"),
        (["bm25", "tfidf"], ["rrf:bm25"], "two different models"),
        (["bm25", "tfidf"], ["sum:bm25+tfidf"], "Methods: rrf"),
        (["bm25", "tfidf"], ["bm25+tfidf"], "METHOD:A"),
    ],
)
def test_contradictory_plans_are_refused(models: list[str], fusions: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run_bench(small(), models, fusions=fusions)


def test_collections_without_texts_are_refused() -> None:
    collection = small()
    blank = [""] * len(collection.doc_ids)
    with pytest.raises(InputError, match="All documents are empty"):
        run_bench(replace(collection, doc_texts=blank), ["bm25"])
    with pytest.raises(InputError, match="No judged query has a text"):
        run_bench(replace(collection, query_texts=[""] * len(collection.query_ids)), ["bm25"])


def test_a_second_run_computes_nothing(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path)
    first = run_bench(small(), ["wordllama"], cache=cache)
    second = run_bench(small(), ["wordllama"], cache=cache)
    assert first["wordllama"].result.costs.n_encoded > 0
    assert second["wordllama"].result.costs.n_encoded == 0
    assert second["wordllama"].result.costs.texts_per_second is None
    assert np.array_equal(first["wordllama"].scores.values, second["wordllama"].scores.values)


def test_depth_follows_the_measures() -> None:
    assert run_bench(small(), ["bm25"], measures=["nDCG@10", "R@20"]).depth == 100
    assert run_bench(small(), ["bm25"], measures=["nDCG@500"]).depth == 500
    assert run_bench(small(), ["bm25"], measures=["RR"]).depth == 1000
    assert run_bench(small(), ["bm25"], measures=["RR"], depth=7).depth == 7


def test_specs_of_models_and_fusions_are_parsed() -> None:
    assert Model.parse("a=st:x=y") == Model("a", "st:x=y")
    assert Model.parse("py:m:f") == Model("py:m:f", "py:m:f")
    fused = Fusion.parse("h=combsum/zscore:0.3*bm25+mini")
    assert (fused.members, fused.weights) == (("bm25", "mini"), (0.3, 1.0))


def test_indexes_share_one_exact_search(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("faiss")
    calls = []
    exact = bench_search.rank
    monkeypatch.setattr(
        bench_search, "rank", lambda *a, **k: calls.append(len(a[0])) or exact(*a, **k)
    )
    monkeypatch.setattr("assay.search.indexes.index.rank", None)  # nobody else searches
    result = run_bench(small(), [LETTERS], indexes=["faiss:Flat", "faiss:HNSW32"])
    assert [one.result.index.recall for one in result.systems if one.result.index] == [1.0, 1.0]
    assert calls == [1, 25, 25], "a query to warm up, that of the model, one for the indexes"


@pytest.mark.parametrize("spec", ["bm25?engine=bm25s", "tfidf", "lsa:5"])
def test_imports_are_not_among_the_costs(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    from assay.errors import need

    now, imported = [0.0], set()

    def slow_need(module: str, purpose: str, extra: str) -> object:
        now[0] += 0 if module in imported else 100
        imported.add(module)
        return need(module, purpose, extra)

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    monkeypatch.setattr("assay.models.lexical.need", slow_need)
    costs = run_bench(small(), [spec])[spec].result.costs
    assert imported
    assert (costs.encode_seconds, costs.search_seconds) == (0, 0)


def test_a_model_that_finds_none_of_the_words_of_a_warm_up_runs() -> None:
    model = Model("tfidf", "tfidf", {"pattern": r"k[a-z]+"})
    assert run_bench(small(), [model])["tfidf"].scores.mean()["nDCG@10"] > 0.1


def test_a_model_may_have_a_metric_of_its_own() -> None:
    spec = LETTERS.partition("=")[2]
    models = [Model("cosine", spec), Model("dot", spec, metric="dot")]
    result = run_bench(small(), models)
    alone = run_bench(small(), [LETTERS], metric="dot")["letters"]
    assert np.array_equal(result["dot"].scores.values, alone.scores.values)
    assert not np.array_equal(result["cosine"].scores.values, alone.scores.values)
    assert "metric:dot" in result["dot"].scores.signature
    assert "metric:cosine" in result["cosine"].scores.signature
    assert "vectors by cosine, dot by dot." in str(result)


def test_a_metric_of_a_model_is_checked() -> None:
    with pytest.raises(UsageError, match="Known: cosine, dot, l2"):
        Model("a", "wordllama", metric="hamming")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="The model 'a' is lexical"):
        Model("a", "bm25", metric="dot")


def test_a_config_gives_a_model_its_metric() -> None:
    from assay.bench import make_request

    config = {"corpus": "made", "model": [{"spec": "wordllama", "metric": "l2"}]}
    (model,) = make_request(config, dimensions=8).plan.models
    assert (model.metric, model.settings) == ("l2", {"dimensions": 8})


def test_a_config_names_a_collection_of_ir_datasets(tmp_path: Path) -> None:
    from assay.bench import make_request, read_config

    text = 'corpus = "ir:beir/scifact/test"\n[[model]]\nspec = "bm25"\n'
    (tmp_path / "bench.toml").write_text(text, "utf-8")
    config = read_config(tmp_path / "bench.toml")
    request = make_request(config, allow_endpoints=["ir_datasets"])
    assert (request.corpus, request.files) == ("ir:beir/scifact/test", [])
