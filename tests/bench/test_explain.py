"""What is shown of each query, against the ranking and the judgments themselves."""

from __future__ import annotations

import numpy as np
import pytest

from assay.bench.explain import SnippetBuilder, snippet
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.core.ranking import Ranking
from assay.io.collections import Collection


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
        assert SnippetBuilder(collection).build(ranking, query) == one


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
