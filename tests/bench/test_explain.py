"""What is shown of each query, against the ranking and the judgments themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import assay.store
from assay.bench import run_bench
from assay.bench.explain import (
    SnippetBuilder,
    explain_bench,
    explain_rankings,
    explain_runs,
    snippet,
)
from assay.bench.plan import PreparedCollection
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.core.ranking import Ranking
from assay.io.collections import Collection
from assay.io.formats import as_judgments
from assay.io.texts import ChunkRule, chunk_text
from assay.tables.table import text_page
from tests.bench.samples import shared_words, small


def graded(seed: int) -> tuple[Collection, Ranking]:
    """Many grades, some documents judged but absent, some queries that found nothing."""
    rng = np.random.default_rng(seed)
    docs = [f"d{i}" for i in range(30)]
    queries = [f"q{i}" for i in range(8)]
    judged_ids = [*docs[:25], "gone1", "gone2"]
    grades = rng.integers(-1, 4, (8, 27))
    rows, columns = np.nonzero(rng.random((8, 27)) < 0.5)
    qrels = Judgments.from_pairs(
        Ids.of(queries), Ids.of(judged_ids), rows, columns, grades[rows, columns]
    )
    texts = [f"text of {doc}\n twice" for doc in docs]
    collection = Collection(docs, texts, queries, [f"ask {q}" for q in queries], qrels, "made")
    scores = rng.integers(0, 9, (8, 30)).astype(float)
    ranking = Ranking.from_scores(scores, query_ids=queries, doc_ids=docs).first(20)
    return collection, ranking


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_results_agree_with_ranking_and_judgments(seed: int) -> None:
    collection, ranking = graded(seed)
    shown = SnippetBuilder(collection).build_all(ranking)
    qrels = collection.qrels
    for row, query in enumerate(qrels.query_ids):
        inside = slice(qrels.offsets[row], qrels.offsets[row + 1])
        grades = {
            qrels.doc_ids[int(doc)]: grade
            for doc, grade in zip(qrels.docs[inside], qrels.grades[inside], strict=True)
        }
        listed = ranking.row(query)
        one = shown[query]
        assert one.text == f"ask {query}"
        assert [(doc.doc, doc.score) for doc in one.results] == listed[:10]
        assert [doc.grade for doc in one.results] == [grades.get(doc) for doc, _ in listed[:10]]
        first = {doc for doc, _ in listed[:10]}
        wanted = {doc: grade for doc, grade in grades.items() if grade > 0 and doc not in first}
        assert len(one.missed) == min(len(wanted), 10)
        found = [doc.grade for doc in one.missed]
        assert found == sorted(found, reverse=True)
        deeper = dict(listed)
        for doc in one.missed:
            assert doc.grade == wanted[doc.doc]
            assert doc.score == deeper.get(doc.doc)
            assert doc.snippet == ("" if doc.doc.startswith("gone") else f"text of {doc.doc} twice")
        alone = SnippetBuilder(collection).build(ranking, query)
        assert {doc.doc for doc in alone.missed} == wanted.keys(), "a store has ten of them"
        assert replace(alone, missed=alone.missed[:10]) == one


def test_a_query_without_results_misses_everything() -> None:
    collection, _ = graded(0)
    part = Ranking.from_arrays([[0]], query_ids=["q1"], doc_ids=["d0"])
    one = SnippetBuilder(collection).build(part, "q3")
    assert not one.results
    assert one.missed


def test_a_run_may_hold_documents_that_the_collection_does_not() -> None:
    collection, _ = graded(0)
    strange = Ranking.from_arrays([[1, 0]], query_ids=["q1"], doc_ids=["d0", "else"])
    one = SnippetBuilder(collection).build(strange, "q1")
    assert [(doc.doc, doc.snippet) for doc in one.results] == [
        ("else", ""),
        ("d0", "text of d0 twice"),
    ]


def test_snippets_are_cut_between_words() -> None:
    assert snippet("a\n\n b") == "a b"
    assert len(snippet("word " * 1000)) <= 240
    assert snippet("") == ""


CHUNK = ChunkRule("tokens", 4, 1)


@pytest.mark.parametrize("system", ["bm25", "tfidf", "letters", "both", "two"])
def test_the_chunk_that_matched_is_shown_with_its_place(system: str) -> None:
    """Its text is that of the document there, and no other chunk of the document scores higher."""
    collection = small()
    result = run_bench(
        collection,
        ["bm25", "tfidf", "letters=py:tests.bench.samples:letters"],
        fusions=["both=rrf:bm25+letters"],
        reranks=["two=rerank/5:both>py:tests.bench.samples:shared_words"],
        chunk=CHUNK,
    )
    data, ranking = result.data, result[system].ranking
    assert data is not None
    texts = dict(zip(collection.doc_ids, collection.doc_texts, strict=True))
    single = [run_bench_of_chunks(name, data) for name in ("bm25", "letters")]
    later = 0
    for query, words in zip(collection.query_ids, collection.query_texts, strict=True):
        shown = explain_bench(result, query, places=15).by_system[system].results
        assert [doc.doc for doc in shown] == [doc for doc, _ in ranking.row(query)[:15]]
        for rank, doc in enumerate(shown):
            assert doc.chunk is not None
            number, start, end = doc.chunk
            piece = texts[doc.doc][start:end]
            assert chunk_text(texts[doc.doc], CHUNK)[number - 1] == piece == doc.snippet
            later += number > 1
            if system in ("bm25", "letters"):
                scores = single[system == "letters"][query]
                others = [scores.get(f"{doc.doc}#{i + 1}", -9.0) for i in range(99)]
                assert scores[f"{doc.doc}#{number}"] == max(others)
                assert doc.score == pytest.approx(max(others))
            if system == "two" and rank < 5:
                assert doc.score == max(shared_words(words, chunk_text(texts[doc.doc], CHUNK)))
                assert shared_words(words, [piece]) == [doc.score]
    assert later, "not all are the beginning"


def run_bench_of_chunks(name: str, data: PreparedCollection) -> dict[str, dict[str, float]]:
    """Scores of chunks by query, as a collection of their own."""
    chunks = [
        f"{data.doc_ids[int(doc)]}#{at - int(data.bounds[doc]) + 1}"
        for at, doc in enumerate(data.unit_doc)
    ]
    qrels = as_judgments({str(query): {chunks[0]: 1} for query in data.query_ids})
    queries = list(map(str, data.query_ids))
    whole = Collection(chunks, data.unit_texts, queries, data.query_texts, qrels)
    spec = name if name == "bm25" else f"{name}=py:tests.bench.samples:{name}"
    ranking = run_bench(whole, [spec], depth=len(chunks))[name].ranking
    return {query: dict(ranking.row(query)) for query in queries}


def test_whole_documents_are_shown_from_their_beginning() -> None:
    shown = explain_bench(run_bench(small(), ["bm25"]), "q01").by_system["bm25"].results[0]
    assert shown.chunk is None
    assert shown.shown == shown.snippet


def test_stored_results_have_the_chunk(tmp_path: Path) -> None:
    result = run_bench(small(), ["bm25"], chunk=CHUNK)
    with assay.store.open(tmp_path / "runs.db") as store:
        (run,) = store.save_all(result.records())
        answers = explain_runs([run], "q03")
    alike = explain_bench(result, "q03")
    assert answers.by_system["bm25"].results == alike.by_system["bm25"].results
    assert "[chunk " in text_page(answers.page())


def test_places_of_stored_runs_are_counted() -> None:
    collection, ranking = graded(0)
    whole = SnippetBuilder(collection).build_all(ranking)
    query = "q1"
    run = SimpleNamespace(id=1, name="made", results=whole.get, scores=lambda: EMPTY)
    for places in (1, 3, 10, 12):
        (shown,) = explain_runs([run], query, places=places).by_system.values()
        direct = SnippetBuilder(collection).build(ranking, query, places=min(places, 10))
        assert shown.results == direct.results
        for doc in direct.missed:
            assert doc in shown.missed or len(whole[query].missed) == 10


EMPTY = SimpleNamespace(query_ids=[], measures=[], values=np.empty((0, 0)))


def test_a_rank_is_not_denied_where_it_is_not_known() -> None:
    """Thirty relevant documents: a store has ten of those that were missed."""
    docs = [f"d{i:02}" for i in range(60)]
    qrels = as_judgments({"q": dict.fromkeys(docs[:30], 1)})
    collection = Collection(docs, docs, ["q"], ["ask"], qrels)
    rising = Ranking.from_scores([np.arange(60.0)], query_ids=["q"], doc_ids=docs)
    falling = Ranking.from_scores([-np.arange(60.0)], query_ids=["q"], doc_ids=docs)
    rankings = {"up": rising, "down": falling}
    exact = explain_rankings(collection, rankings, "q").relevant_table()
    assert {row[2].text for row in exact.rows} == {"> 10"}, "all were retrieved below the first 10"
    runs = [
        SimpleNamespace(
            id=1,
            name=name,
            results=SnippetBuilder(collection).build_all(one).get,
            scores=lambda: EMPTY,
        )
        for name, one in rankings.items()
    ]
    stored = {row[2].text for row in explain_runs(runs, "q").relevant_table().rows}
    assert stored <= {"> 10", "> 10 or –"}
