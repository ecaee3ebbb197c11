"""Systems beyond models: codes of vectors, tuned fusions, rerankers; tokens and prices."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.bench import BenchResult, Fusion, Model, make_request, read_config, run_bench
from assay.comparison.standings import COLUMNS, Column, standings_table
from assay.errors import AssayError, InputError, UsageError
from assay.io.collections import Collection
from assay.io.formats import as_judgments
from tests.bench import samples
from tests.bench.samples import WORDS, letters, small
from tests.models import fake_endpoint
from tests.models.onnx_model import write_cross_encoder

LETTERS = "py:tests.bench.samples:letters"
SHORT = "short=py:tests.bench.samples:shouting"


def rows_of(result: BenchResult, name: str) -> dict[str, list[str]]:
    return {
        str(q): [str(doc) for doc, _ in result[name].ranking.row(q)]
        for q in result.collection.query_ids
    }


class TestCodes:
    def test_int8_and_bits_against_plain_loops(self) -> None:
        data = small()
        specs = [f"{kind}={LETTERS}?codes={kind}" for kind in ("int8", "binary")]
        result = run_bench(data, [f"float={LETTERS}", *specs], measures="nDCG@10", depth=40)
        docs, queries = letters(data.doc_texts), letters(data.query_texts)  # type: ignore[arg-type]
        ids = [str(one) for one in data.doc_ids]

        def int8(rows: Any) -> Any:
            top = np.abs(rows).max(axis=1, keepdims=True)
            return np.rint(rows / top * 127)

        def cosine(a: Any, b: Any) -> Any:
            norms = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)
            return np.round(a @ b.T / norms, 12)

        bits = docs.astype(np.float32) > 0, queries.astype(np.float32) > 0
        scores = {
            "float": cosine(queries.astype(np.float32), docs.astype(np.float32)),
            "int8": cosine(int8(queries.astype(np.float32)), int8(docs.astype(np.float32))),
            "binary": -(bits[1][:, None] != bits[0]).sum(axis=2).astype(float),
        }
        for name, found in scores.items():
            for query, row in zip(data.query_ids, found, strict=True):
                by_id = sorted(zip(ids, row, strict=True), reverse=True)
                wanted = [doc for doc, _ in sorted(by_id, key=lambda pair: -pair[1])]
                got = [str(doc) for doc, _ in result[name].ranking.row(query)]
                places = {doc: at for at, doc in enumerate(got)}
                values = dict(zip(ids, row, strict=True))
                assert [values[doc] for doc in got] == pytest.approx([values[d] for d in wanted])
                assert len(places) == len(ids)
                if name == "binary":  # whole numbers, so that ties are ties
                    assert got == wanted

    def test_bytes_and_quality_stand_in_one_table(self) -> None:
        specs = [f"{kind}={LETTERS}?codes={kind}" for kind in ("int8", "binary", "mrl:8+sign")]
        named = [spec.replace("mrl:8+sign=", "cut=") for spec in specs]
        result = run_bench(small(), [f"float={LETTERS}", "bm25", *named])
        table = result.cost_table()
        assert "bytes/vector" in table.columns
        at = table.columns.index("bytes/vector")
        sizes = {row[0].value: row[at].value for row in table.rows}
        assert sizes == {"float": 104, "bm25": None, "int8": 26, "binary": 4, "cut": 1}
        costs = result["binary"].result.costs
        assert costs.bytes == 4 * 40
        assert costs.to_dict()["bytes_per_vector"] == 4
        assert "bytes_per_vector" not in result["float"].result.costs.to_dict()
        assert "codes:binary" in result["binary"].scores.signature
        assert "codes:" not in result["float"].scores.signature
        plain = run_bench(small(), [LETTERS])
        assert "bytes/vector" not in plain.cost_table().columns

    def test_vectors_are_made_once_for_all_codes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[int] = []

        def counted(texts: list[str]) -> Any:
            calls.append(len(texts))
            return letters(texts)

        monkeypatch.setattr(samples, "counted", counted, raising=False)
        spec = "py:tests.bench.samples:counted"
        run_bench(small(), [spec])
        once = sum(calls)
        run_bench(small(), [spec, f"{spec}?codes=int8", f"{spec}?codes=binary"])
        assert sum(calls) == 2 * once

    def test_queries_without_a_vector_retrieve_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def zeros(texts: list[str]) -> Any:
            made = letters(texts)
            made[["k" not in text for text in texts]] = 0
            return made

        monkeypatch.setattr(samples, "zeros", zeros, raising=False)
        spec = "py:tests.bench.samples:zeros"
        result = run_bench(small(), [f"a={spec}", f"b={spec}?codes=binary"])
        lengths = [result[name].hits.n_ret for name in "ab"]
        assert (lengths[0] == 0).any()
        assert np.array_equal(lengths[0], lengths[1])

    def test_chunks_and_metrics(self) -> None:
        for metric in ("cosine", "dot", "l2"):
            models = [Model("a", LETTERS), Model("b", LETTERS, codes="int8", metric=metric)]  # type: ignore[arg-type]
            result = run_bench(small(), models, chunk="tokens:4:1", metric=metric)  # type: ignore[arg-type]
            means = [one.scores.mean()["nDCG@10"] for one in result.systems]
            assert means[1] == pytest.approx(means[0], abs=0.08)

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("bm25?codes=int8", r"The model 'bm25\?codes=int8' has no vectors"),
            (f"{LETTERS}?codes=int9", "Unknown code 'int9'. Did you mean int8"),
            (f"{LETTERS}?codes=itq", "Unknown code 'itq'"),
        ],
    )
    def test_codes_that_make_no_sense(self, spec: str, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            run_bench(small(), [spec])


class TestTunedFusion:
    def test_weights_and_what_flatters_are_shown(self) -> None:
        fusions = ["plain=combsum:bm25+short", "tuned=combsum:bm25+short?tune=4&seed=3"]
        result = run_bench(small(), ["bm25", SHORT], fusions=fusions, measures="nDCG@10")
        tuning = result["tuned"].result.tuning
        assert tuning is not None
        assert result["tuned"].scores.mean()["nDCG@10"] == pytest.approx(tuning.held_out)
        assert tuning.in_sample >= max(tuning.held_out, result["plain"].scores.mean()["nDCG@10"])
        text = str(result)
        assert "tuned: weights by 4-fold cross-validation on nDCG@10 (seed 3)" in text
        assert f"by weights of the other folds: {tuning.held_out:.4f}" in text
        signature = result["tuned"].scores.signature
        assert "tune=4-fold,measure=nDCG@10,seed=3" in signature
        data = {one["name"]: one for one in result.to_dict()["systems"]}
        assert data["tuned"]["tuning"]["members"] == ["bm25", "short"]
        assert len(data["tuned"]["tuning"]["weights"]) == 4
        assert "tuning" not in data["plain"]

    def test_it_is_written_in_a_file_as_well(self) -> None:
        config = {
            "corpus": "made",
            "model": [{"spec": "bm25"}, {"spec": "tfidf"}],
            "fusion": [{"of": ["bm25", "tfidf"], "method": "combsum", "tune": 4, "seed": 3}],
        }
        (fusion,) = make_request(config).plan.fusions
        typed = Fusion.parse(["combsum(bm25+tfidf)", "combsum:bm25+tfidf?tune=4&seed=3"][1])
        assert fusion.spec == typed.spec
        with pytest.raises(UsageError, match=r"The fusion 'tuned combsum\(0\.3\*bm25\+tfidf\)'"):
            Fusion.parse("combsum:0.3*bm25+tfidf?tune")


def write_words(folder: Path) -> str:
    """A cross-encoder that likes the first of the made-up words."""
    write_cross_encoder(folder, WORDS, [float(len(WORDS) - at) for at in range(len(WORDS))])
    return f"onnx:{folder}"


class TestTwoStages:
    def test_onnx_at_a_depth(self, tmp_path: Path) -> None:
        pytest.importorskip("onnxruntime")
        spec = write_words(tmp_path / "model")
        data = small()
        result = run_bench(data, ["bm25", f"two=rerank/6:bm25>{spec}"])
        texts = dict(zip(map(str, data.doc_ids), data.doc_texts, strict=True))
        weight = {word: len(WORDS) - at for at, word in enumerate(WORDS)}
        for query, before in rows_of(result, "bm25").items():
            scores = {d: sum(weight.get(w.strip("."), 0) for w in texts[d].split()) for d in before}
            head = sorted(sorted(before[:6], reverse=True), key=lambda doc: -scores[doc])
            assert rows_of(result, "two")[query] == [*head, *before[6:]]
        text = str(result)
        assert "Gain over bm25: " in text
        assert "two reranks the first 6 documents of each query: 150 pairs, in" in text

    def test_written_as_a_model_or_a_reranker_it_is_the_same(self) -> None:
        words = "py:tests.bench.samples:shared_words"
        as_model = run_bench(small(), ["bm25", f"two=rerank/5:bm25>{words}"])
        as_rerank = run_bench(small(), ["bm25"], reranks=[f"two=rerank/5:bm25>{words}"])
        assert as_model["two"].scores.signature == as_rerank["two"].scores.signature
        assert as_model["two"].first == "bm25"
        request = make_request({"corpus": "made"}, model=("bm25", f"two=rerank/5:bm25>{words}"))
        assert [one.name for one in request.plan.reranks] == ["two"]

    def test_in_a_file_it_needs_the_same_consent(self, tmp_path: Path) -> None:
        path = tmp_path / "bench.toml"
        path.write_text(
            'corpus = "made"\n[[model]]\nspec = "bm25"\n[[model]]\nname = "two"\n'
            'spec = "rerank/7:bm25>rerank:https://far.example/v1?model=m&key_env=K"\nprice = 2\n'
        )
        config = read_config(path)
        with pytest.raises(UsageError, match=r"--allow-endpoint far\.example=K"):
            make_request(config)
        (two,) = make_request(config, allow_endpoints=["far.example=K"]).plan.reranks
        assert (two.name, two.first, two.depth, two.price) == ("two", "bm25", 7, 2)
        config["model"][1]["query_prefix"] = "x"
        with pytest.raises(AssayError, match="query_prefix"):
            make_request(config, allow_endpoints=["far.example=K"])


class TestTokensAndPrices:
    @pytest.fixture
    def result(self, monkeypatch: pytest.MonkeyPatch) -> BenchResult:
        """An encoder and a reranker of one endpoint, which counts a token for each letter."""
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)

        class Counting(fake_endpoint.Fake):
            def answer(self, handler: Any, texts: list[str]) -> None:
                n_tokens = sum(map(len, texts))
                found = [
                    {"index": at, "embedding": letters([one])[0].tolist(), "relevance_score": at}
                    for at, one in enumerate(texts)
                ]
                key = "data" if "input" in self.bodies[-1] else "results"
                answer = {key: found, "usage": {"total_tokens": n_tokens}}
                fake_endpoint.send(handler, 200, answer)

        monkeypatch.setattr(fake_endpoint, "Fake", Counting)
        with fake_endpoint.endpoint() as fake:
            request = make_request(
                {"corpus": "made"},
                model=("bm25", "ada=openai:m", f"two=rerank/3:ada>rerank:{fake.url}?model=r"),
                fusion=("both=rrf:bm25+ada",),
                base_url=fake.url,
                price=("ada=2.5", "two=10"),
            )
            return request.run(small())

    def test_tokens_are_those_that_the_endpoint_counted(self, result: BenchResult) -> None:
        data = result.collection
        letters_in = sum(map(len, data.doc_texts)) + sum(map(len, data.query_texts))
        assert result["ada"].result.costs.tokens == letters_in
        texts = dict(zip(map(str, data.doc_ids), data.doc_texts, strict=True))
        again = sum(len(texts[d]) for row in rows_of(result, "ada").values() for d in row[:3])
        first = {d for row in rows_of(result, "ada").values() for d in row[:3]}
        assert first
        assert result["two"].result.costs.tokens == again, "and no text to warm up"
        assert result.tokens_of("two") == letters_in + again
        assert result.tokens_of("both") == letters_in
        assert result.tokens_of("bm25") is None
        assert result.price_of("ada") == pytest.approx(letters_in * 2.5e-6)
        assert result.price_of("two") == pytest.approx(letters_in * 2.5e-6 + again * 1e-5)
        assert result.price_of("both") == result.price_of("ada")
        assert result.price_of("bm25") is None

    def test_they_are_shown(self, result: BenchResult) -> None:
        table = result.cost_table()
        assert table.columns[-2:] == ("tokens", "price")
        data = {one["name"]: one["costs"] for one in result.to_dict()["systems"]}
        assert data["two"]["price"] == result.price_of("two")
        assert "price" not in data["bm25"]
        records = {one.name: one for one in result.records()}
        assert records["ada"].config["costs"]["tokens"] == result["ada"].result.costs.tokens
        json.dumps(result.to_dict(per_query=True))

    @pytest.mark.parametrize(
        ("price", "message"),
        [
            ("ada", "Write NAME=AMOUNT, of a million tokens"),
            ("bm25=cheap", "Write NAME=AMOUNT, of a million tokens"),
            ("bm25=-1", "Write NAME=AMOUNT, of a million tokens"),
            ("bm52=1", "price of 'bm52', not one of the models and rerankers"),
        ],
    )
    def test_prices_that_make_no_sense(self, price: str, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            make_request({"corpus": "made"}, model=("bm25",), price=(price,))


def test_a_column_of_the_standings_is_one_of_the_leaderboard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    width = Column("half width", lambda standing: standing.mean.half_width, "fraction")
    table = partial(standings_table, columns=(*COLUMNS[:2], width, *COLUMNS[2:]))
    monkeypatch.setattr("assay.bench.result.standings_table", table)
    result = run_bench(small(), [LETTERS, SHORT], measures=["nDCG@10", "RR"], depth=40)
    board = result.leaderboard()
    assert board.columns[:4] == ("model", "half width", "nDCG@10", "95 % CI")
    assert [cell.text for cell in board.rows[-1]][:2] == ["chance", ""]
    first = result.standing.standings_on("nDCG@10")[0]
    assert board.rows[0][1].value == first.mean.half_width


def test_a_system_that_the_collection_forbids_is_left_out() -> None:
    """Forty documents: too few for 256 centroids and 100 lists; 25 words span 25 dimensions."""
    pytest.importorskip("faiss")
    letters = "py:tests.bench.samples:letters"
    result = run_bench(
        small(),
        ["bm25", "lsa:200", f"letters={letters}", f"pq={letters}?codes=pq:2"],
        fusions=["tuned=combsum:bm25+letters?tune=26", "rrf:bm25+pq"],
        indexes=["faiss:IVF100,Flat"],
        reranks=["two=tuned>py:tests.bench.samples:shared_words"],
    )
    assert [system.name for system in result.systems] == ["bm25", "lsa:200", "letters"]
    reasons = result.left_out
    assert set(reasons) == {
        "pq",
        "tuned",
        "rrf(bm25+pq)",
        "letters @ faiss:IVF100,Flat",
        "lsa:200 @ faiss:IVF100,Flat",
        "two",
    }
    assert reasons["pq"].startswith("pq:2 needs 256 training vectors, found 40")
    assert reasons["rrf(bm25+pq)"] == "it needs pq"
    assert reasons["two"] == "it needs tuned"
    finding = result.diagnosis["left-out"]
    assert (finding.count, finding.total, finding.severity) == (6, 9, "error")
    assert "lsa:200: 40 documents with 25 different words span 25 dimensions" in str(result)
    assert "dimension:" in result["lsa:200"].scores.signature
    with pytest.raises(InputError, match="The baseline 'pq' cannot run: pq:2 needs"):
        result.report(baseline="pq")


def test_where_no_system_can_run_the_bench_ends() -> None:
    letters = Collection(["a", "b"], ["x", "y"], ["q"], ["z"], as_judgments({"q": ["a"]}))
    with pytest.raises(InputError, match="No system can run on this collection: All documents"):
        run_bench(letters, ["bm25", "tfidf"])
