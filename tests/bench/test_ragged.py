"""Models of token and of sparse vectors in a bench: ready vectors, codes, stages, filters."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from assay.bench import run_bench
from assay.bench.plan import BenchPlan
from assay.cli.output import as_json
from assay.errors import (
    FormatError,
    IdError,
    InputError,
    MismatchError,
    StorageError,
    UsageError,
    ValueRangeError,
)
from assay.models import EmbeddingCache, Encoder, ragged, text_model, token_codes
from assay.models.encoding import ComputedModel
from assay.models.settings import EncoderSettings
from assay.models.specs import vector_kind
from assay.models.token_codes import cluster_rows, encode_tokens, pool_tokens
from assay.search.engine import SparseVectors, TokenVectors
from tests.bench.samples import WORDS, small
from tests.schemas import flaws

COLLECTION = small(n_docs=40, n_queries=25)
DOC_IDS = [str(id) for id in COLLECTION.doc_ids]
QUERY_IDS = [str(id) for id in COLLECTION.query_ids]
WIDTH = 12


def word_tokens(texts) -> list[np.ndarray]:
    """A vector for each word, with some noise; a text without words has no token."""
    table = np.random.default_rng(5).normal(size=(len(WORDS), WIDTH)).astype(np.float32)
    rows = []
    for text in texts:
        words = text.replace(".", "").split()
        rows.append(np.array([table[WORDS.index(word)] for word in words]).reshape(-1, WIDTH))
    return [row / np.maximum(np.linalg.norm(row, axis=1, keepdims=True), 1e-9) for row in rows]


def word_weights(texts) -> np.ndarray:
    """A weight for each word that a text has."""
    return np.array(
        [
            [
                text.split(".")[0].split().count(word) * (1 + number / 7)
                for number, word in enumerate(WORDS)
            ]
            for text in texts
        ],
        np.float32,
    )


DOCS, QUERIES = word_tokens(COLLECTION.doc_texts), word_tokens(COLLECTION.query_texts)


def maxsim(queries, docs) -> np.ndarray:
    """Brute force; −∞ for what has no token."""
    return np.array(
        [
            [
                (q.astype(float) @ d.astype(float).T).max(axis=1).sum() if len(d) else -np.inf
                for d in docs
            ]
            for q in queries
        ]
    )


def save_tokens(folder: Path, docs=DOCS, queries=QUERIES, ids: bool = True) -> str:
    """Write both sides as npz: tokens, lengths, and ids."""
    for side, rows, names in (("docs", docs, DOC_IDS), ("queries", queries, QUERY_IDS)):
        more: dict[str, Any] = {"ids": np.array(names)} if ids else {}
        lengths = np.array([len(row) for row in rows])
        np.savez(folder / f"{side}.npz", embeddings=np.concatenate(rows), lengths=lengths, **more)
    return f"npy:{folder}/docs.npz,{folder}/queries.npz"


def save_sparse(folder: Path) -> str:
    for side, texts in (("docs", COLLECTION.doc_texts), ("queries", COLLECTION.query_texts)):
        matrix = scipy.sparse.csr_matrix(word_weights(texts))
        scipy.sparse.save_npz(folder / f"{side}-s.npz", matrix)
    return f"npy:{folder}/docs-s.npz,{folder}/queries-s.npz"


def save_terms(folder: Path) -> str:
    """JSON lines with ids, in another order; a query has a term that no document has."""
    for side, texts, ids in (
        ("docs", COLLECTION.doc_texts, DOC_IDS),
        ("queries", COLLECTION.query_texts, QUERY_IDS),
    ):
        lines = []
        for id, row in zip(ids, word_weights(texts).tolist(), strict=True):
            vector = {WORDS[at]: weight for at, weight in enumerate(row) if weight}
            if side == "queries":
                vector["zzz-unknown"] = 2.0
            lines.append(json.dumps({"id": id, "vector": vector}))
        (folder / f"{side}.jsonl").write_text("\n".join(lines[::-1]), "utf-8")
    return f"npy:{folder}/docs.jsonl,{folder}/queries.jsonl"


def check_order(ranking, scores, depth: int = 100, keep=None) -> None:
    """Each query has the best documents of brute force, ties by id."""
    for row, query in enumerate(COLLECTION.query_ids):
        order = sorted(range(len(DOC_IDS)), key=lambda doc: (-scores[row, doc], -doc))
        order = [doc for doc in order if np.isfinite(scores[row, doc])]
        order = [doc for doc in order if keep is None or keep(row, doc)][:depth]
        got = ranking.row(query)
        assert np.allclose([s for _, s in got], scores[row, order], rtol=1e-5, atol=1e-6)
        assert {doc for doc, _ in got} == {DOC_IDS[doc] for doc in order}


def test_ready_tokens_are_searched_by_maxsim(tmp_path):
    spec = save_tokens(tmp_path)
    assert vector_kind(spec) == "tokens"
    result = run_bench(COLLECTION, [f"late={spec}"], depth=15)
    check_order(result["late"].ranking, maxsim(QUERIES, DOCS), 15)
    settings = result["late"].ranking.settings
    assert settings["metric"] == "maxsim"
    assert len(settings["encoder"]) == 8
    assert f"encoder:{settings['encoder']}" in result.sign(result.standing)
    costs = result["late"].result.costs
    size = sum(len(rows) for rows in DOCS) * WIDTH * 4 + 8 * 41
    assert costs.bytes == size
    assert costs.bytes_per_document == size / 40


def test_ready_tokens_as_safetensors_and_by_order(tmp_path):
    from safetensors.numpy import save_file

    with_ids = run_bench(COLLECTION, [f"late={save_tokens(tmp_path)}"])
    for side, rows in (("docs", DOCS), ("queries", QUERIES)):
        lengths = np.array([len(row) for row in rows])
        save_file(
            {"embeddings": np.concatenate(rows), "lengths": lengths},
            tmp_path / f"{side}.safetensors",
        )
    spec = f"npy:{tmp_path}/docs.safetensors,{tmp_path}/queries.safetensors"
    by_order = run_bench(COLLECTION, [f"late={spec}"])
    rankings = [result["late"].ranking for result in (with_ids, by_order)]
    assert rankings[0].scores.tobytes() == rankings[1].scores.tobytes()
    assert rankings[0].docs.tobytes() == rankings[1].docs.tobytes()


@pytest.mark.parametrize("save", [save_sparse, save_terms])
def test_ready_weights_are_searched_by_product(tmp_path, save):
    spec = save(tmp_path)
    assert vector_kind(spec) == "sparse"
    result = run_bench(COLLECTION, [f"splade={spec}"], depth=40)
    scores = (
        word_weights(COLLECTION.query_texts).astype(float) @ word_weights(COLLECTION.doc_texts).T
    )
    check_order(result["splade"].ranking, scores, keep=lambda row, doc: scores[row, doc] > 0)
    assert result["splade"].ranking.settings["metric"] == "sparse-dot"
    assert (result["splade"].ranking.scores > 0).all()


def test_a_model_may_compare_weights_by_cosine(tmp_path):
    from assay.bench.plan import Model

    model = Model("splade", save_terms(tmp_path), metric="cosine")
    result = run_bench(COLLECTION, [model], depth=40)
    docs, queries = word_weights(COLLECTION.doc_texts), word_weights(COLLECTION.query_texts)
    norms = np.sqrt((queries.astype(float) ** 2).sum(axis=1) + 4.0)  # the unknown term counts
    scores = (queries / norms[:, None]) @ (docs / np.linalg.norm(docs, axis=1, keepdims=True)).T
    check_order(result["splade"].ranking, scores, keep=lambda row, doc: scores[row, doc] > 0)
    assert result["splade"].ranking.settings["metric"] == "sparse-cosine"


@pytest.mark.parametrize("metric", ["dot", "cosine"])
def test_a_query_without_weights_finds_nothing_by_any_metric(tmp_path, metric):
    from assay.bench.plan import Model

    spec = save_sparse(tmp_path)
    weights = word_weights(COLLECTION.query_texts)
    weights[2] = 0
    scipy.sparse.save_npz(tmp_path / "queries-s.npz", scipy.sparse.csr_matrix(weights))
    ranking = run_bench(COLLECTION, [Model("splade", spec, metric=metric)])["splade"].ranking
    empty = [str(query) for query in COLLECTION.query_ids if not ranking.row(query)]
    assert empty == [QUERY_IDS[2]]


def decoded(code: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What a code stands for, written out plainly."""
    docs, queries = DOCS, QUERIES
    if code.startswith("pool:"):
        factor, _, code = code.removeprefix("pool:").partition("+")
        pooled = pool_tokens(TokenVectors(np.concatenate(docs), offsets(docs)), int(factor))
        docs = np.split(pooled.values, pooled.offsets[1:-1])
    if code == "float16":
        docs = [rows.astype(np.float16) for rows in docs]
    if code == "int8":
        steps = [np.abs(rows).max(axis=1, keepdims=True) / np.float32(127) for rows in docs]
        docs = [np.rint(rows / step) * step for rows, step in zip(docs, steps, strict=True)]
    if code in ("binary", "asymmetric"):
        docs = [np.where(rows > 0, 1.0, -1.0) for rows in docs]
    if code == "binary":
        queries = [np.where(rows > 0, 1.0, -1.0) for rows in queries]
    return queries, docs


def offsets(rows) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(row) for row in rows])])


@pytest.mark.parametrize(
    ("code", "size"),
    [
        ("float16", 24),
        ("int8", 16),
        ("binary", 2),
        ("asymmetric", 2),
        ("pool:2", 48),
        ("pool:3+int8", 16),
    ],
)
def test_codes_of_tokens(tmp_path, code, size):
    spec = save_tokens(tmp_path)
    result = run_bench(COLLECTION, [f"late={spec}", f"small={spec}?codes={code}"], depth=10)
    queries, docs = decoded(code)
    check_order_of_scores(result["small"].ranking, maxsim(queries, docs))
    assert result["small"].ranking.settings["codes"] == code
    assert result["small"].ranking.settings["metric"] == "maxsim"
    costs = result["small"].result.costs
    assert costs.bytes == sum(len(rows) for rows in docs) * size + 8 * 41
    assert costs.bytes_per_document == costs.bytes / 40
    assert BenchPlan.of([f"late={spec}", f"small={spec}?codes={code}"]).bases == {"small": "late"}
    assert [family.baseline for family in result.variants()] == ["late"]
    data = result.to_dict()
    assert not flaws(json.loads(as_json({"command": "bench", **data})))
    shown = [row["costs"]["bytes_per_document"] for row in data["systems"]]
    assert costs.bytes_per_document in shown
    assert "bytes/document" in result.cost_table().columns


def check_order_of_scores(ranking, scores) -> None:
    """The scores are those of brute force, best first; ties may split either way."""
    for row, query in enumerate(COLLECTION.query_ids):
        got = ranking.row(query)
        best = np.sort(scores[row])[::-1][: len(got)]
        assert np.allclose([score for _, score in got], best, rtol=1e-5)
        for doc, score in got:
            assert np.isclose(scores[row, DOC_IDS.index(doc)], score, rtol=1e-5)


@pytest.mark.parametrize("most_stored", [0, token_codes.MOST_STORED])
def test_clusters_are_wards(monkeypatch, most_stored):
    monkeypatch.setattr(token_codes, "MOST_STORED", most_stored)
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    rng = np.random.default_rng(0)
    for number in range(40):
        rows = rng.normal(size=(int(rng.integers(2, 60)), 9))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        count = int(rng.integers(1, len(rows) + 1))
        distances = np.clip(1 - (rows @ rows.T)[np.triu_indices(len(rows), 1)], 0, 2)
        tree = hierarchy.linkage(distances, "ward")
        theirs = hierarchy.fcluster(tree, count, "maxclust")
        ours = cluster_rows(rows, count)
        pairs = set(zip(ours.tolist(), theirs.tolist(), strict=True))
        assert len(pairs) == len(set(ours)) == len(set(theirs)) == count, number


@pytest.mark.parametrize(("most_stored", "share"), [(0, 0.3), (2000, 1.2)])
def test_memory_of_clusters(monkeypatch, most_stored, share):
    """Distances of all pairs take one table at most, and none where there are many rows."""
    monkeypatch.setattr(token_codes, "MOST_STORED", most_stored)
    rows = np.random.default_rng(0).normal(size=(1000, 8))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    tracemalloc.start()
    cluster_rows(rows, 500)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < share * 8 * len(rows) ** 2


@pytest.mark.parametrize("most_stored", [0, token_codes.MOST_STORED])
def test_clusters_of_equal_rows(monkeypatch, most_stored):
    monkeypatch.setattr(token_codes, "MOST_STORED", most_stored)
    noise = 1e-9 * np.random.default_rng(0).normal(size=(120, 16))
    for rows in (np.ones((120, 16)) / 4, np.ones((120, 16)) / 4 + noise, np.zeros((120, 16))):
        assert len(set(cluster_rows(rows, 40).tolist())) == 40
    five = np.repeat(np.eye(5), 20, axis=0)
    assert (cluster_rows(five, 5) == np.repeat(cluster_rows(five, 5)[::20], 20)).all()


def test_pooling_of_few_and_equal_tokens():
    rows = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 2.0], [0.0, 0.0]], np.float32)
    docs = TokenVectors(np.concatenate([rows, rows[:1]]), [0, 4, 4, 5])
    pooled = pool_tokens(docs, 9)
    assert pooled.lengths.tolist() == [2, 0, 1]
    assert np.isfinite(pooled.values).all()
    assert pool_tokens(TokenVectors(np.ones((7, 3), np.float32), [0, 7]), 2).lengths.tolist() == [4]


@pytest.mark.parametrize("code", ["pool:1", "pool:x", "pool:2+", "pool:2+pq:4", "pool:99999"])
def test_codes_that_tokens_do_not_have(code):
    with pytest.raises(UsageError, match="Token vectors have no code"):
        encode_tokens(code, TokenVectors([[1.0]], [0, 1]))


def test_what_does_not_go_together(tmp_path):
    tokens, sparse = save_tokens(tmp_path), save_sparse(tmp_path)
    for models, more, words in (
        ([f"s={sparse}?codes=int8"], {}, "sparse vectors, which have no codes"),
        ([f"t={tokens}?codes=pq:4"], {}, "Token vectors have no code 'pq:4'"),
        (["w=wordllama?codes=pool:2"], {}, "'pool:2' pools token vectors"),
        (
            [f"s={sparse}"],
            {"indexes": ["faiss:flat"]},
            "vectors, which the index 'faiss:flat' cannot hold",
        ),
        (
            [f"t={tokens}"],
            {"indexes": ["usearch"]},
            "'t' makes token vectors, which the index 'usearch' cannot hold",
        ),
    ):
        with pytest.raises(UsageError, match=words):
            run_bench(COLLECTION, models, **more)
    with pytest.raises(StorageError, match=r"no-such\.npz"):
        run_bench(COLLECTION, [f"t=npy:{tmp_path}/no-such.npz?codes=pool:2"])
    from assay.bench.plan import Model

    with pytest.raises(UsageError, match=r"compared by MaxSim\. Omit its metric"):
        run_bench(COLLECTION, [Model("t", tokens, metric="dot")])
    with pytest.raises(UsageError, match="Replace 'l2'"):
        run_bench(COLLECTION, [Model("s", sparse, metric="l2")])


def test_fusion_and_second_stage(tmp_path):
    tokens, sparse = save_tokens(tmp_path), save_sparse(tmp_path)
    result = run_bench(
        COLLECTION,
        ["bm25", f"late={tokens}", f"splade={sparse}"],
        fusions=["all=rrf:bm25+late+splade"],
        reranks=[f"two=rerank/5:splade>maxsim:{tokens}"],
    )
    scores = maxsim(QUERIES, DOCS)
    for row, query in enumerate(COLLECTION.query_ids):
        first = [doc for doc, _ in result["splade"].ranking.row(query)]
        got = result["two"].ranking.row(query)
        assert [doc for doc, _ in got[5:]] == first[5:]
        assert {doc for doc, _ in got[:5]} == set(first[:5])
        expected = [scores[row, DOC_IDS.index(doc)] for doc, _ in got[:5]]
        assert np.allclose([score for _, score in got[:5]], expected, rtol=1e-6)
        assert [score for _, score in got] == sorted([score for _, score in got], reverse=True)
    costs = result["two"].result.costs
    assert costs.pairs == costs.pairs_computed == 5 * 25
    assert costs.bytes > result["splade"].result.costs.bytes
    assert len(result["all"].ranking) == len(result["late"].ranking)
    assert "maxsim" in result["two"].ranking.settings["rerank"]
    with pytest.raises(UsageError, match="makes sparse vectors"):
        run_bench(COLLECTION, ["bm25"], reranks=[f"bm25>maxsim:{sparse}"])
    with pytest.raises(UsageError, match="Unknown model"):
        run_bench(COLLECTION, ["bm25"], reranks=["bm25>maxsim:nothing"])


def test_a_side_that_is_not_there_is_named(tmp_path):
    """Tokens of the other side are not taken for dense vectors, of which there were too many."""
    save_tokens(tmp_path, ids=False)
    with pytest.raises(StorageError, match=r"gone\.npz"):
        run_bench(COLLECTION, [f"t=npy:{tmp_path}/docs.npz,{tmp_path}/gone.npz"])


@pytest.mark.parametrize(
    ("second", "error", "words"),
    [
        ("maxsim:{sparse}", UsageError, "makes sparse vectors of a text"),
        ("maxsim:wordllama", UsageError, "makes one vector of a text"),
        ("maxsim:nothing", UsageError, "Unknown model"),
        ("maxsim:npy:{folder}/no.npz,{folder}/queries.npz", StorageError, r"no\.npz"),
    ],
)
def test_what_cannot_be_a_second_stage(tmp_path, second, error, words):
    """Specs are refused before the first stage runs; a file that is not there is named."""
    phases = []
    save_tokens(tmp_path)
    spec = second.format(sparse=save_sparse(tmp_path), folder=tmp_path)
    with pytest.raises(error, match=words):
        run_bench(
            COLLECTION,
            ["bm25"],
            reranks=[f"bm25>{spec}"],
            progress=lambda name, phase, *_: phases.append((name, phase)),
        )
    assert error is StorageError or not phases


def test_texts_without_tokens(tmp_path):
    """They are not found, they are counted, and a second stage leaves them behind."""
    docs = [rows if number % 4 else rows[:0] for number, rows in enumerate(DOCS)]
    queries = [rows if number else rows[:0] for number, rows in enumerate(QUERIES)]
    spec = save_tokens(tmp_path, docs, queries)
    result = run_bench(
        COLLECTION, ["bm25", f"late={spec}"], reranks=[f"two=rerank/6:bm25>maxsim:{spec}"], depth=20
    )
    scores = maxsim(queries, docs)
    scores[0] = -np.inf
    check_order(result["late"].ranking, scores, 20)
    assert result["late"].result.n_without == 10
    for query in COLLECTION.query_ids:
        first = [doc for doc, _ in result["bm25"].ranking.row(query)]
        assert {doc for doc, _ in result["two"].ranking.row(query)} == set(first)
        assert all(np.isfinite(score) for _, score in result["two"].ranking.row(query))
    both = [[doc for doc, _ in result[name].ranking.row("q00")] for name in ("two", "bm25")]
    assert both[0] == both[1] != []
    nothing = save_tokens(tmp_path, [rows[:0] for rows in DOCS[:-1]] + [DOCS[-1]])
    assert run_bench(COLLECTION, [nothing])[nothing].result.n_without == 39


def test_filters(tmp_path):
    tokens, sparse = save_tokens(tmp_path), save_sparse(tmp_path)
    doc_fields = {id: {"side": number % 2} for number, id in enumerate(DOC_IDS)}
    query_fields = {id: {"side": number % 2} for number, id in enumerate(QUERY_IDS)}
    result = run_bench(
        COLLECTION,
        [f"late={tokens}", f"splade={sparse}", f"small={tokens}?codes=int8"],
        filters="side",
        doc_fields=doc_fields,
        query_fields=query_fields,
    )
    check_order(
        result["late"].ranking, maxsim(QUERIES, DOCS), keep=lambda row, doc: row % 2 == doc % 2
    )
    scores = (
        word_weights(COLLECTION.query_texts).astype(float) @ word_weights(COLLECTION.doc_texts).T
    )
    check_order(
        result["splade"].ranking,
        scores,
        keep=lambda row, doc: row % 2 == doc % 2 and scores[row, doc] > 0,
    )
    check_order(
        result["small"].ranking, maxsim(*decoded("int8")), keep=lambda row, doc: row % 2 == doc % 2
    )


def tokens_model(cache=None, fail=None) -> ComputedModel:
    """A model of tokens without a package."""

    def encode(texts):
        rows = word_tokens(texts)
        return fail(rows) if fail else rows

    own = {"identity": lambda: {"v": 1}, "repeatable": True, "batch_size": 7}
    return ComputedModel(Encoder("own", encode, kind="tokens", **own), EncoderSettings(), cache)


def test_only_candidates_are_encoded(monkeypatch):
    """A second stage sends the texts of the first one's documents to the model, and no other."""
    from assay.bench import reranking

    texts: list[str] = []

    def note(rows):
        texts.extend([""] * len(rows))
        return rows

    monkeypatch.setattr(reranking, "text_model", lambda *_, **__: tokens_model(fail=note))
    result = run_bench(COLLECTION, ["bm25"], reranks=["two=rerank/1:bm25>maxsim:st:tokens"])
    first = {result["bm25"].ranking.row(query)[0][0] for query in COLLECTION.query_ids}
    assert len(texts) == len(first) + 25 < 40 + 25
    costs = result["two"].result.costs
    assert costs.pairs == 25
    assert costs.n_encoded == result["bm25"].result.costs.n_encoded + len(texts)
    scores = maxsim(QUERIES, DOCS)
    for row, query in enumerate(COLLECTION.query_ids):
        doc, score = result["two"].ranking.row(query)[0]
        assert np.isclose(score, scores[row, DOC_IDS.index(doc)])


def test_chunks_of_tokens(monkeypatch):
    """A document's score is that of its best chunk, by brute force over the chunks."""
    from assay.bench import search

    monkeypatch.setattr(search, "text_model", lambda *_, **__: tokens_model())
    result = run_bench(COLLECTION, ["late=wordllama"], chunk="tokens:4", depth=12)
    from assay.bench.plan import prepare
    from assay.core.conventions import preset
    from assay.io.texts import ChunkRule

    data = prepare(COLLECTION, preset("trec_eval"), ChunkRule.parse("tokens:4"))
    chunks = maxsim(QUERIES, word_tokens(data.unit_texts))
    for row, query in enumerate(COLLECTION.query_ids):
        best = {
            data.doc_ids[doc]: chunks[row, data.unit_doc == doc].max()
            for doc in range(len(data.doc_ids))
        }
        for doc, score in result["late"].ranking.row(query):
            assert np.isclose(best[doc], score, rtol=1e-5)
        got = [score for _, score in result["late"].ranking.row(query)]
        assert np.allclose(got, sorted(best.values(), reverse=True)[:12], rtol=1e-5)


def rows_of_text(tokens: TokenVectors, row: int) -> bytes:
    return tokens.values[tokens.offsets[row] : tokens.offsets[row + 1]].tobytes()


def test_the_cache_takes_rows_of_any_length(tmp_path):
    texts = [*COLLECTION.doc_texts, "", "kaba", "kaba"]
    first = tokens_model(EmbeddingCache(tmp_path)).encode_docs(texts)
    assert first.n_computed == 41
    again = tokens_model(EmbeddingCache(tmp_path)).encode_docs(texts[::-1])
    assert again.n_computed == 0
    assert again.vectors.lengths.tolist() == first.vectors.lengths[::-1].tolist()
    for row in range(len(texts)):
        there = [
            rows_of_text(first.vectors, row),
            rows_of_text(again.vectors, len(texts) - 1 - row),
        ]
        assert there[0] == there[1]
    plain = tokens_model().encode_docs(texts)
    assert plain.vectors.values.tobytes() == first.vectors.values.tobytes()


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        (lambda rows: rows[:-1], "for 7 texts"),
        (
            lambda rows: [*rows[:-1], rows[-1][:, :3]],
            "Return tokens × columns per text, with equal columns",
        ),
        (lambda rows: [*rows[:-1], rows[-1][0]], "tokens × columns"),
        (lambda rows: [*rows[:-1], rows[-1] * np.nan], "NaN or infinite"),
        (lambda rows: [*rows[:-1], rows[-1] * np.inf], "NaN or infinite"),
        (lambda rows: [row.astype("U5") for row in rows], "not numbers"),
        (lambda rows: [row[:0] for row in rows], "'own' returned no token for any text"),
        (lambda rows: 3, "must be a list|list"),
    ],
)
def test_models_that_return_something_else(fail, words):
    with pytest.raises(InputError, match=words):
        tokens_model(fail=fail).encode_docs(COLLECTION.doc_texts[:7])


def test_files_that_lie(tmp_path):
    save_tokens(tmp_path)
    np.savez(tmp_path / "bad.npz", embeddings=np.ones((3, 2)), offsets=[0, 5])
    np.savez(tmp_path / "few.npz", embeddings=np.ones((3, WIDTH)), lengths=[1, 2])
    nan = np.concatenate(DOCS)
    nan[7, 3] = np.nan
    np.savez(tmp_path / "nan.npz", embeddings=nan, lengths=[len(rows) for rows in DOCS])
    queries = f"{tmp_path}/queries.npz"
    for file, error, words in (
        ("bad.npz", InputError, "offsets"),
        ("few.npz", MismatchError, "holds 2 doc vectors for 40 texts"),
        ("nan.npz", ValueRangeError, r"row 0 holds nan in token 7, column 3"),
    ):
        with pytest.raises(error, match=words):
            run_bench(COLLECTION, [f"t=npy:{tmp_path}/{file},{queries}"])
    save_sparse(tmp_path)
    with pytest.raises(UsageError, match="mixes token vectors and sparse vectors"):
        run_bench(COLLECTION, [f"t=npy:{tmp_path}/docs.npz,{tmp_path}/queries-s.npz"])
    with pytest.raises(UsageError, match="token vectors need two files"):
        run_bench(COLLECTION, [f"t=npy:{tmp_path}/docs.npz"])
    names = np.array([*DOC_IDS[:-1], "other"])
    lengths = np.array([len(rows) for rows in DOCS])
    np.savez(tmp_path / "ids.npz", embeddings=np.concatenate(DOCS), lengths=lengths, ids=names)
    with pytest.raises(IdError, match="holds no vector of doc 'd39'"):
        run_bench(COLLECTION, [f"t=npy:{tmp_path}/ids.npz,{queries}"])
    np.savez(tmp_path / "wide.npz", embeddings=np.ones((40, 5)), lengths=[1] * 40)
    with pytest.raises(UsageError, match="'t' makes 5 dimensions for documents and 12 for queries"):
        run_bench(COLLECTION, [f"t=npy:{tmp_path}/wide.npz,{queries}"])
    save_terms(tmp_path)
    (tmp_path / "d.jsonl").write_text('{"id": "d00", "vector": {"a": 1}}\n{"b": 2}\n')
    with pytest.raises(FormatError, match='have no "id"'):
        run_bench(COLLECTION, [f"s=npy:{tmp_path}/d.jsonl,{tmp_path}/queries.jsonl"])


def test_terms_that_nothing_shares(tmp_path):
    (tmp_path / "d.jsonl").write_text("\n".join(['{"a": 1.0}'] * 40))
    (tmp_path / "q.jsonl").write_text("\n".join(['{"b": 1.0}'] * 25))
    with pytest.raises(MismatchError, match="share no term"):
        run_bench(COLLECTION, [f"s=npy:{tmp_path}/d.jsonl,{tmp_path}/q.jsonl"])
    (tmp_path / "q.jsonl").write_text("\n".join(['{"b": 1.0}'] * 24 + ['{"a": 2.0}']))
    result = run_bench(COLLECTION, [f"s=npy:{tmp_path}/d.jsonl,{tmp_path}/q.jsonl"], depth=50)
    assert result.systems[0].ranking.lengths.tolist() == [0] * 24 + [40]  # all tie, and k > n


def test_other_weights_change_the_signature(tmp_path):
    first = run_bench(COLLECTION, [f"late={save_tokens(tmp_path)}"])
    other = run_bench(COLLECTION, [f"late={save_tokens(tmp_path, [2 * rows for rows in DOCS])}"])
    marks = [result["late"].ranking.settings["encoder"] for result in (first, other)]
    assert marks[0] != marks[1]
    assert marks[0] in first.sign(first.standing)


def test_dense_vectors_say_no_bytes_per_document():
    result = run_bench(COLLECTION, ["bm25", "wordllama"])
    costs = [system["costs"] for system in result.to_dict()["systems"]]
    assert not any("bytes_per_document" in cost for cost in costs)
    assert "bytes/document" not in result.cost_table().columns
    assert not any("encoder" in system.ranking.settings for system in result.systems)


def test_packed_rows_keep_their_bits():
    rows = SparseVectors([0, 2, 2, 3], [1_000_000, 7, 3], [0.5, -2.0, 1e-30], 2_000_000)
    packed = ragged.pack_sparse(rows)
    again = ragged.unpack("sparse", packed, "own")
    assert again.columns.tolist() == [7, 1_000_000, 3]
    assert again.weights.tobytes() == rows.weights.astype(np.float32).tobytes()
    assert again.offsets.tolist() == [0, 2, 2, 3]
    assert ragged.have_numbers(rows).tolist() == [True, False, True]


def test_text_models_of_others_are_dense(tmp_path):
    with pytest.raises(UsageError, match="makes token vectors"):
        text_model(save_tokens(tmp_path))
