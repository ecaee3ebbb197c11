"""Real engines as systems: what the bench ranks is what the engine returns when asked directly."""

from __future__ import annotations

import re
import sqlite3
import sys
import types

import pytest

from assay.bench import run_bench
from tests.bench.samples import small
from tests.store.private_postgres import new_database

FTS5 = """select id, bm25(docs) from docs where docs match ? order by bm25(docs), id limit ?"""
TSVECTOR = """
    select id, ts_rank_cd(words, query) as score
    from docs, to_tsquery('simple', %s) as query
    where words @@ query order by score desc, id desc limit %s
"""


def any_word(text, quote, sign):
    return sign.join(quote.format(word) for word in re.findall(r"\w+", text))


@pytest.fixture
def collection():
    return small(n_docs=60, n_queries=20)


@pytest.fixture
def sqlite(collection):
    """SQLite FTS5, of which low scores are best."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.execute("create virtual table docs using fts5(id unindexed, text)")
    rows = zip(collection.doc_ids, collection.doc_texts, strict=True)
    connection.executemany("insert into docs values (?, ?)", rows)

    def retrieve(text, k):
        return connection.execute(FTS5, (any_word(text, '"{}"', " OR "), k)).fetchall()

    yield retrieve
    connection.close()


@pytest.fixture
def postgres(collection, request):
    """PostgreSQL's full text search."""
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(new_database(request.config)) as connection:
        connection.execute("create table docs (id text, words tsvector)")
        rows = list(zip(collection.doc_ids, collection.doc_texts, strict=True))
        cursor = connection.cursor()
        cursor.executemany("insert into docs values (%s, to_tsvector('simple', %s))", rows)

        def retrieve(text, k):
            return connection.execute(TSVECTOR, (any_word(text, "{}", " | "), k)).fetchall()

        yield retrieve


def check_against(engine, collection, sign, monkeypatch):
    """Ask it as `retrieve:` beside a model, and by itself."""
    module = types.ModuleType("my_search_engine")
    module.retrieve = engine
    monkeypatch.setitem(sys.modules, "my_search_engine", module)
    specs = ["bm25", "engine=retrieve:my_search_engine:retrieve"]
    result = run_bench(collection, specs, measures=["nDCG@10", "R@10"], depth=10)
    ranking = result.systems[1].result.ranking
    n_hits = 0
    for query, text in zip(collection.query_ids, collection.query_texts, strict=True):
        direct = [(id, sign * score) for id, score in engine(text, 10)]
        ranked = ranking.row(query)
        assert [score for _, score in ranked] == [score for _, score in direct]
        assert dict(ranked) == dict(direct)
        n_hits += len(direct)
    assert n_hits > 100
    means = result.systems[1].scores.mean()
    assert 0.5 < float(means["nDCG@10"]) <= 1


def test_sqlite_fts5_is_ranked_as_it_answers(sqlite, collection, monkeypatch):
    check_against(sqlite, collection, -1, monkeypatch)


def test_postgresql_is_ranked_as_it_answers(postgres, collection, monkeypatch):
    check_against(postgres, collection, 1, monkeypatch)
