"""Filters of queries: exact search among what passes, passed on to engines, recall of both."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay.bench import run_bench
from assay.bench.filters import Filter, apply_filters, describe_recall, parse_filters, read_fields
from assay.bench.plan import Retriever
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import AssayError, InputError, UsageError
from assay.io.collections import Collection, read_judgments
from assay.io.texts import Texts
from tests.bench.search_servers import DOCS, ENGINES, plain, serve

WORDS = ["red", "blue", "fox", "whale", "jumps", "swims", "fast", "slow", "night", "day"]


def made_collection(n_docs=60, n_queries=12, seed=3):
    """Random texts, tenants and dates; the last query's tenant has no document."""
    random = np.random.default_rng(seed)
    docs = {f"d{n:02}": " ".join(random.choice(WORDS, 5)) for n in range(n_docs)}
    queries = {f"q{n:02}": " ".join(random.choice(WORDS, 2)) for n in range(n_queries)}
    doc_fields = {
        id: {"tenant": str(random.choice(["a", "b", "c"])), "date": f"2025-{month:02}-01"}
        for id, month in zip(docs, random.integers(1, 13, n_docs), strict=True)
    }
    query_fields = {
        id: {"tenant": str(random.choice(["a", "b"])), "since": f"2025-{month:02}-01"}
        for id, month in zip(queries, random.integers(1, 9, n_queries), strict=True)
    }
    query_fields[max(queries)]["tenant"] = "nobody"
    pairs = {query: {str(doc): 1 for doc in random.choice(list(docs), 6)} for query in queries}
    questions = Texts(Ids.of(list(queries)), tuple(queries.values()))
    qrels, _ = read_judgments(pairs, questions)
    texts = Ids.of(list(docs)), tuple(docs.values())
    return Collection(*texts, *questions, qrels, "made"), doc_fields, query_fields


def allowed(rules, query, doc):
    """One pair, decided by itself."""
    tests = {"=": lambda a, b: a == b, ">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b}
    return all(tests[rule.operator](doc[rule.doc], query[rule.query]) for rule in rules)


def ranking_of(collection, model, **how):
    return run_bench(collection, [model], **how).systems[0].result.ranking


@pytest.mark.parametrize(
    ("model", "filters"),
    [
        ("bm25", "tenant"),
        ("bm25", "date>=since"),
        ("tfidf", "tenant,date>=since"),
        ("lsa:4", "tenant"),
        ("lsa:4", "tenant,date>=since"),
        ("lsa:4?codes=int8", "tenant"),
        ("lsa:8?codes=binary", "tenant"),
    ],
)
def test_a_filtered_search_is_the_whole_one_without_what_does_not_pass(model, filters):
    collection, doc_fields, query_fields = made_collection()
    fields = {"doc_fields": doc_fields, "query_fields": query_fields, "filters": filters}
    how = {"measures": ["nDCG@10"], "depth": len(collection.doc_ids)}
    whole = ranking_of(collection, model, **how)
    some = ranking_of(collection, model, **how, **fields)
    first = ranking_of(collection, model, **{**how, "depth": 3}, **fields)
    rules = parse_filters(filters)
    for query in collection.query_ids:
        expected = [
            (doc, score)
            for doc, score in whole.row(query)
            if allowed(rules, query_fields[query], doc_fields[doc])
        ]
        assert some.row(query) == expected
        assert first.row(query) == expected[:3]
    assert some.settings["filter"] == filters
    assert "filter" not in whole.settings
    assert not some.row("q11") or "tenant" not in filters


def test_chunks_are_filtered_by_their_documents():
    collection, doc_fields, query_fields = made_collection()
    how = {"measures": ["nDCG@10"], "depth": 60, "chunk": "tokens:2"}
    fields = {"doc_fields": doc_fields, "query_fields": query_fields}
    whole = run_bench(collection, ["bm25"], **how).systems[0].result.ranking
    some = run_bench(collection, ["bm25"], **how, filters="tenant", **fields).systems[0].result
    for query in collection.query_ids:
        tenant = query_fields[query]["tenant"]
        expected = [pair for pair in whole.row(query) if doc_fields[pair[0]]["tenant"] == tenant]
        assert some.ranking.row(query) == expected


def test_values_are_compared_as_documented():
    def passing(rule, query, *docs):
        ids = [f"d{n}" for n in range(len(docs))]
        fields = {id: {"x": value} for id, value in zip(ids, docs, strict=True)}
        rules, queries = (Filter.parse(rule),), {"q": {"x": query}}
        found = apply_filters(rules, Ids.of(["q"]), Ids.of(ids), queries, fields)
        return found.masks[0].tolist()

    assert passing("x", "7", 7, "7", 7.0, "07", None, "") == [True, True, False] + [False] * 3
    assert passing("x", "a", ["b", "a"], ["b"], [], "a") == [True, False, False, True]
    assert passing("x>=x", 9, 10, "9", 8) == [True, True, False]  # not as text
    assert passing("x>=x", "2025-02-01", "2025-10-01", "2024-12-31") == [True, False]
    assert passing("x<=x", "2025-02-01", "2025-10-01", "2024-12-31") == [False, True]


def test_a_value_that_is_missing_is_named():
    collection, doc_fields, query_fields = made_collection()
    how = {"measures": ["nDCG@10"], "filters": "tenant"}
    with pytest.raises(InputError, match="No document has a value in 'tenant'"):
        run_bench(collection, ["bm25"], **how, query_fields=query_fields)
    del query_fields["q03"]["tenant"]
    with pytest.raises(InputError, match="'q03' has no 'tenant'"):
        run_bench(collection, ["bm25"], **how, query_fields=query_fields, doc_fields=doc_fields)
    with pytest.raises(UsageError, match="Cannot read the filter 'a b'"):
        run_bench(collection, ["bm25"], measures=["RR"], filters="a b")


def test_functions_get_the_fields_and_what_breaks_the_filter_is_counted():
    collection, doc_fields, query_fields = made_collection()
    fields = {"doc_fields": doc_fields, "query_fields": query_fields, "filters": "tenant"}
    seen = {}

    def heeds(text, k, fields):
        seen[text] = fields
        ids = [id for id in doc_fields if doc_fields[id]["tenant"] == fields["tenant"]]
        return ids[:k]

    def ignores(text, k):
        return list(doc_fields)[:k]

    result = run_bench(collection, [], systems=[heeds, ignores], measures=["nDCG@10"], **fields)
    texts = dict(zip(collection.query_texts, collection.query_ids, strict=True))
    assert seen == {text: query_fields[id] for text, id in texts.items()}
    by_name = {system.name: system.result for system in result.systems}
    assert [f.code for f in by_name["heeds"].findings if f.code == "filter"] == []
    (breach,) = [f for f in by_name["ignores"].findings if f.code == "filter"]
    pairs = [(q, d) for q in query_fields for d in doc_fields]
    wrong = [(q, d) for q, d in pairs if query_fields[q]["tenant"] != doc_fields[d]["tenant"]]
    assert (breach.count, breach.total) == (len(wrong), len(pairs))


def test_recall_of_a_filtered_engine_against_exact_search():
    collection, doc_fields, query_fields = made_collection()
    fields = {"doc_fields": doc_fields, "query_fields": query_fields, "filters": "tenant"}
    exact = ranking_of(collection, "bm25", measures=["nDCG@10"], **fields)
    for query in query_fields:
        query_fields[query]["query"] = query

    def engine(text, k, fields):
        """The exact answer without every second document."""
        return exact.row(fields["query"])[::2]

    system = Retriever("engine", "python:engine", {"exact": "bm25"}, target=engine)
    result = run_bench(collection, ["bm25"], systems=[system], measures=["nDCG@5"], **fields)
    (finding,) = [f for f in result.systems[1].result.findings if f.code == "recall"]
    shares = []
    for query in collection.query_ids:
        rows = exact.row(query)
        if rows:
            kth = rows[:5][-1][1]
            good = {doc for doc, score in rows if score >= kth}
            shares.append(min(1, len({doc for doc, _ in rows[::2][:5]} & good) / len(rows[:5])))
    assert finding.message.endswith(f"{sum(shares) / len(shares):.4f}")
    odd = Retriever("engine", "python:engine", {"exact": "tfidf"}, target=engine)
    with pytest.raises(UsageError, match="'engine': exact = 'tfidf' is not a model"):
        run_bench(collection, ["bm25"], systems=[odd], measures=["nDCG@5"], **fields)


def test_recall_counts_ties_alike():
    exact = Ranking.from_lines(
        Ids.of(["q"]),
        Ids.of(["a", "b", "c"]),
        queries=np.zeros(3, np.int32),
        docs=np.arange(3, dtype=np.int32),
        scores=np.array([2.0, 1.0, 1.0]),
    )
    other = exact.select(np.array([True, False, True]))
    assert describe_recall("x", other, "m", exact, 2).message.endswith("1.0000")
    assert describe_recall("x", other, "m", exact, 3).message.endswith("0.6667")


# Files and the command line


@pytest.fixture
def files(tmp_path):
    def write(name, rows):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    write(
        "docs.jsonl",
        [{"_id": id, "text": t, "tenant": n, "date": d} for id, (t, n, d) in DOCS.items()],
    )
    queries = [("q1", "red fox", "a"), ("q2", "whale", "b"), ("q3", "red whale", "a")]
    write("queries.jsonl", [{"_id": id, "text": t, "tenant": n} for id, t, n in queries])
    lines = ["query-id\tcorpus-id\tscore", "q1\td1\t1", "q2\td4\t1", "q3\td5\t1"]
    (tmp_path / "qrels.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


CONFIG = """
corpus = "docs.jsonl"
queries = "queries.jsonl"
qrels = "qrels.tsv"
measures = ["nDCG@10"]
filter = ["tenant"]

[[model]]
spec = "bm25"

[[system]]
name = "engine"
spec = "http:elasticsearch:{url}/docs"
key_env = "SEARCH_KEY"
exact = "bm25"
"""
SECRET = "S3cr3t-of-the-tests-0123456789"


def test_a_config_with_an_engine_and_a_filter(files, monkeypatch, assay):
    monkeypatch.chdir(files)
    monkeypatch.setenv("SEARCH_KEY", SECRET)
    with serve(ENGINES["elasticsearch"]) as server:
        (files / "bench.toml").write_text(CONFIG.format(url=server.url))
        host = server.url.removeprefix("http://")
        refused = assay("bench", "bench.toml", "--no-cache")
        assert refused.code == 2
        assert f"--allow-endpoint {host}=SEARCH_KEY" in refused.err
        assert server.bodies == []
        allow = ("--allow-endpoint", f"{host}=SEARCH_KEY", "--resamples", "200")
        done = assay("bench", "bench.toml", "--no-cache", *allow, "--json", "--save")
        assert done.code == 0, done.err
        assert {h["Authorization"] for h in server.headers} == {f"ApiKey {SECRET}"}
        tenants = [body["query"]["bool"]["filter"][0]["term"]["tenant"] for body in server.bodies]
        assert set(tenants) == {"a", "b"}
    assert SECRET not in done.out + done.err
    for path in files.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    data = json.loads(done.out)
    systems = {system["name"]: system for system in data["systems"]}
    assert systems["engine"]["measures"] == systems["bm25"]["measures"]
    assert "Recall@10 of engine against exact search by bm25: 1.0000" in done.out


def test_an_engine_and_a_filter_on_the_command_line(files, monkeypatch, assay):
    monkeypatch.chdir(files)
    with serve(ENGINES["meilisearch"]) as server:
        done = assay(
            "bench",
            *("--corpus", "docs.jsonl", "--queries", "queries.jsonl", "-r", "qrels.tsv"),
            *("--system", f"meili=http:meilisearch:{server.url}/docs", "--filter", "tenant"),
            *("-m", "nDCG@10", "--no-cache", "--resamples", "200", "--csv"),
        )
    assert done.code == 0, done.err
    assert [line.split(",")[0] for line in done.out.splitlines()][1] == "meili"
    filters = {body["filter"][0] for body in server.bodies}
    assert filters == {'tenant = "a"', 'tenant = "b"'}


def test_an_endpoint_that_fails_for_one_query_names_it(files, monkeypatch, assay):
    monkeypatch.chdir(files)

    def solr(path, body, headers):
        if body["query"] == "whale":
            raise ValueError("no whales")
        return ENGINES["solr"](path, body, headers)

    with serve(solr) as server:
        done = assay(
            "bench",
            *("--corpus", "docs.jsonl", "--queries", "queries.jsonl", "-r", "qrels.tsv"),
            *("--system", f"solr=http:solr:{server.url}/docs", "-m", "nDCG@10", "--no-cache"),
        )
    assert done.code == 5
    assert "First: query 'q2'" in done.err
    assert "400: ValueError: no whales" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("ending", ["csv", "tsv", "json"])
def test_columns_of_any_format_are_read(tmp_path, ending):
    rows = [{"id": "q1", "text": "red", "tenant": "a"}, {"id": "q2", "text": "fox", "tenant": "b"}]
    path = tmp_path / f"queries.{ending}"
    if ending == "json":
        path.write_text(json.dumps(rows))
    else:
        sign = "," if ending == "csv" else "\t"
        path.write_text("\n".join(sign.join(row) for row in [rows[0], *map(dict.values, rows)]))
    assert read_fields(path, ["tenant"], "query") == {"q1": {"tenant": "a"}, "q2": {"tenant": "b"}}
    with pytest.raises(AssayError, match="tenan"):
        read_fields(path, ["tenan"], "query")


def test_another_request_has_another_signature():
    ids, rows = zip(*DOCS.items(), strict=True)
    queries = Texts(Ids.of(["q1", "q2"]), ("red fox", "whale"))
    qrels, _ = read_judgments({"q1": {"d1": 1}, "q2": {"d4": 1}}, queries)
    texts = tuple(row[0] for row in rows)
    collection = Collection(Ids.of(list(ids)), texts, *queries, qrels, "few")
    settings = {"hits": "results", "id": "doc.key", "score": "match"}
    bodies = [{"q": text, "n": "{{k}}"} for text in ("{{query}}", "{{query}} whale", "a|{{query}}")]
    with serve(plain) as server:
        spec = f"http:{server.url}"
        written = [
            Retriever("mine", f"{spec}?body={json.dumps(body)}", settings) for body in bodies
        ]
        systems = [Retriever("mine", spec, {**settings, "body": body}) for body in bodies] + written
        results = [run_bench(collection, [], systems=[s], measures=["nDCG@10"]) for s in systems]
    signatures = {result.systems[0].scores.signature for result in results}
    assert len(signatures) == len(systems)
    assert not any("{{" in signature for signature in signatures)


@pytest.mark.parametrize("chunk", [None, "tokens:2"])
@pytest.mark.parametrize(
    ("index", "how"), [("faiss:Flat", "engine"), ("faiss:HNSW8", "engine"), ("usearch", "after")]
)
def test_an_index_filters_as_exact_search_does(index, how, chunk):
    collection, doc_fields, query_fields = made_collection()
    fields = {"doc_fields": doc_fields, "query_fields": query_fields, "filters": "tenant"}
    result = run_bench(collection, ["lsa:4"], indexes=[index], threads=1, chunk=chunk, **fields)
    exact, indexed = result.systems
    for system in result.systems:
        for query in system.ranking.query_ids:
            for doc, _ in system.ranking.row(query):
                assert doc_fields[str(doc)]["tenant"] == query_fields[str(query)]["tenant"]
    assert indexed.scores.settings["filtered"] == how
    assert indexed.scores.settings["filter"] == "tenant"
    report = indexed.result.index
    if index == "faiss:Flat":
        assert indexed.ranking.docs.tolist() == exact.ranking.docs.tolist()
        assert report.recall == 1
    if chunk is None:
        message = describe_recall("x", indexed.ranking, "y", exact.ranking, 60).message
        assert message.endswith(f"{report.recall:.4f}")


def test_an_index_that_loses_documents_says_so():
    collection, doc_fields, query_fields = made_collection(n_docs=400)
    fields = {"doc_fields": doc_fields, "query_fields": query_fields, "filters": "tenant"}
    indexes = ["faiss:IVF16,Flat?nprobe=1", "faiss:IVF16,Flat?nprobe=16"]
    result = run_bench(collection, ["lsa:4"], indexes=indexes, threads=1, **fields)
    few, every = (system.result.index.recall for system in result.systems[1:])
    assert few < every == 1
