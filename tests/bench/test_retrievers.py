"""Systems that Assay does not run itself: functions, retriever objects and runs in a bench."""

from __future__ import annotations

import json
import math
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
from scipy import stats

import assay
from assay.bench import Retriever, make_request, read_config, run_bench
from assay.bench import asking as asking_module
from assay.bench.answers import make_doc_of
from assay.bench.asking import (
    Asking,
    NumberedHits,
    SystemAnswers,
    ask_all,
    quantile_interval,
)
from assay.bench.systems import as_retrieve, read_hits
from assay.errors import (
    EndpointError,
    InputError,
    MismatchError,
    UsageError,
)
from assay.io.checkpoint import Checkpoint
from assay.io.collections import write_collection
from assay.io.writers import write_run
from tests.bench.samples import small
from tests.bench.search_servers import serve
from tests.docs_pages import ROOT, blocks

DATA = small()
TARGETS = dict(
    zip(
        DATA.query_texts,
        [str(DATA.qrels.doc_ids[int(doc)]) for doc in DATA.qrels.docs],
        strict=True,
    )
)
PAUSE = threading.Event()  # never set: to wait for it takes time, as a search does
HOW: dict[str, Any] = {"measures": ["RR", "nDCG@10"], "depth": 10}


def shared_words(text: str, k: int = 10) -> list[tuple[str, float]]:
    """Count the words that a document shares with the query; ties by id, descending."""
    words = set(text.split())
    scored = [
        (str(id), float(len(words & set(doc.rstrip(".").split()))))
        for id, doc in zip(DATA.doc_ids, DATA.doc_texts, strict=True)
    ]
    ranked = sorted(scored, key=lambda hit: (hit[1], hit[0]), reverse=True)
    return [hit for hit in ranked if hit[1] > 0][:k]


def rows_of(result: Any, name: str) -> dict[str, list[tuple[str, float]]]:
    ranking = result[name].ranking
    return {str(query): [(str(d), s) for d, s in ranking.row(query)] for query in ranking.query_ids}


def expected() -> dict[str, list[tuple[str, float]]]:
    ids = map(str, DATA.query_ids)
    return {id: shared_words(text) for id, text in zip(ids, DATA.query_texts, strict=True)}


class TestReading:
    @pytest.mark.parametrize(
        ("answer", "hits"),
        [
            (["a", "b"], (["a", "b"], None)),
            ([7, np.int64(8)], (["7", "8"], None)),
            (np.array([3, 1]), (["3", "1"], None)),
            ((id for id in "xy"), (["x", "y"], None)),
            ([], ([], None)),
            ({}, ([], None)),
            ([("a", 2), ("b", np.float32(1.5))], (["a", "b"], [2.0, 1.5])),
            ([["a", 2.0], ["b", 1.0]], (["a", "b"], [2.0, 1.0])),
            ({"a": 1.0, "b": 3.0}, (["b", "a"], [3.0, 1.0])),
            ([{"id": "a", "score": 1, "text": "t"}], (["a"], [1.0])),
            ([{"_id": "a", "_score": 0.0}], (["a"], [0.0])),
            ({"documents": [SimpleNamespace(id="a", score=0.5)]}, (["a"], [0.5])),
            ([SimpleNamespace(docid="a", score=None)], (["a"], None)),
            (pandas.DataFrame({"docno": ["b", "a"], "score": [2, 1.5]}), (["b", "a"], [2.0, 1.5])),
            (pandas.Series(["b", "a"]), (["b", "a"], None)),
            (np.array(["b", "a"]), (["b", "a"], None)),
            ([SimpleNamespace(node=SimpleNamespace(node_id="n"), score=0.1)], (["n"], [0.1])),
            ([(SimpleNamespace(id="a", page_content="t"), 0.5)], (["a"], [0.5])),
        ],
    )
    def test_shapes(self, answer: Any, hits: tuple[Any, Any]) -> None:
        assert tuple(read_hits(answer)) == hits

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (None, "returned NoneType"),
            ("d1", "returned str"),
            (b"d1", "returned bytes"),
            (7, "returned int"),
            ({"a", "b"}, "returned set"),
            ([None], "hit 1 has no id"),
            (["a", None], "hit 2 has no id"),
            ([True], "hit 1 has the id True"),
            ([1.5], "hit 1 has the id 1.5"),
            ([("a", math.nan)], "score of hit 1 is nan"),
            ([("a", 1.0), ("b", math.inf)], "score of hit 2 is inf"),
            ([("a", "high")], "not a number"),
            ([("a", 1.0), ("b", None)], "score of hit 2 is None"),
            ([("a", 1.0, 2)], "hit 1 has 3 values"),
            ([SimpleNamespace(id=None, metadata={})], "hit 1 has no id"),
            ({"a": None}, "score of a is None"),
            ([("a", 10**400)], "score of hit 1 is inf"),
        ],
    )
    def test_bad_answers(self, answer: Any, words: str) -> None:
        with pytest.raises(InputError, match=words):
            read_hits(answer)

    def test_a_path_names_the_id(self) -> None:
        document = SimpleNamespace(id=None, metadata={"source": "a.md"}, score=1.0)
        assert read_hits([document], id="metadata.source").ids == ["a.md"]
        assert read_hits([(document, 0.5)], id="metadata.source") == (["a.md"], [0.5])
        with pytest.raises(InputError, match=r"hit 1 has no 'metadata\.other'"):
            read_hits([document], id="metadata.other")

    def test_a_coroutine_is_refused(self) -> None:
        async def retrieve(text: str) -> list[str]:
            return [text]

        with pytest.raises(InputError, match="coroutine"):
            read_hits(retrieve("a"))

    def test_endless_answers_are_refused(self) -> None:
        from itertools import count

        with pytest.raises(InputError, match="more than 1,000,000"):
            read_hits(count())


class LangChainRetriever:
    """Has the methods of a LangChain retriever: unknown arguments are dropped in silence."""

    def __init__(self, k: int = 4) -> None:
        self.search_kwargs = {"k": k}

    def _get_relevant_documents(self, text: str) -> Any:
        hits = shared_words(text, self.search_kwargs["k"])
        return [SimpleNamespace(id=id, page_content="", metadata={"source": id}) for id, _ in hits]

    def invoke(self, input: str, config: Any = None, **kwargs: Any) -> Any:
        return self._get_relevant_documents(input)

    def transform(self, *_: Any) -> Any:  # as PyTerrier's have
        raise AssertionError

    def __iter__(self) -> Any:  # as a model of pydantic: fields
        yield "search_kwargs", self.search_kwargs


class LlamaIndexRetriever:
    """Has the methods of a LlamaIndex retriever; its own top k is 2."""

    similarity_top_k = 2

    def retrieve(self, str_or_query_bundle: str) -> Any:
        hits = shared_words(str_or_query_bundle, self.similarity_top_k)
        node = SimpleNamespace
        return [node(node=node(node_id=id, ref_doc_id=f"r{id}"), score=score) for id, score in hits]

    async def aretrieve(self, text: str) -> Any:
        raise AssertionError


class HaystackRetriever:
    """Has the method of a Haystack component."""

    def run(self, query: str, top_k: int = 3, filters: Any = None) -> Any:
        hits = shared_words(query, top_k)
        return {"documents": [SimpleNamespace(id=id, score=score) for id, score in hits]}


class TestObjects:
    def test_langchain(self) -> None:
        result = run_bench(DATA, systems={"chain": LangChainRetriever(10)}, **HOW)
        ids = {q: [id for id, _ in row] for q, row in rows_of(result, "chain").items()}
        assert ids == {q: [id for id, _ in row] for q, row in expected().items()}

    def test_an_iterable_retriever_is_one_system(self) -> None:
        retriever = LangChainRetriever(10)
        assert [system.name for system in run_bench(DATA, retriever, **HOW).systems] == [
            "LangChainRetriever"
        ]

    @pytest.mark.parametrize(
        ("retriever", "k"), [(LangChainRetriever(), 4), (LlamaIndexRetriever(), 2)]
    )
    def test_k_that_is_dropped_is_said(self, retriever: Any, k: int) -> None:
        result = run_bench(DATA, systems={"mine": retriever}, **HOW)
        finding = next(f for f in result.diagnosis.findings if f.code == "few-results")
        assert f"at most {k} documents" in finding.message
        assert finding.severity == "warning"

    def test_no_warning_where_no_measure_looks_further(self) -> None:
        result = run_bench(DATA, [LangChainRetriever(4)], measures="P@4")
        assert "few-results" not in [finding.code for finding in result.diagnosis.findings]

    def test_llamaindex_with_another_id(self) -> None:
        ids = {f"r{id}": str(id) for id in DATA.doc_ids}
        settings = {"id": "node.ref_doc_id", "doc_of": ids}
        system = Retriever("mine", "llama", settings, LlamaIndexRetriever())
        rows = rows_of(run_bench(DATA, [system], **HOW), "mine")
        assert rows == {q: row[:2] for q, row in expected().items()}

    def test_haystack_gets_k(self) -> None:
        rows = rows_of(run_bench(DATA, systems={"mine": HaystackRetriever()}, **HOW), "mine")
        assert rows == expected()

    def test_fields_are_passed_on(self) -> None:
        seen = []

        def tenant_only(text: str, fields: Any) -> list[str]:
            seen.append(fields.get("tenant"))
            return [TARGETS[text]]

        fields = {str(q): {"tenant": f"t{q}"} for q in DATA.query_ids}
        run_bench(DATA, [tenant_only], query_fields=fields, **HOW)
        assert set(seen) == {f"t{q}" for q in DATA.query_ids}

    @pytest.mark.parametrize("target", [object(), 7, int, SimpleNamespace(run=lambda text: [])])
    def test_others_are_refused(self, target: Any) -> None:
        with pytest.raises(UsageError, match="Pass a function, or an object with invoke"):
            as_retrieve(target)

    @pytest.mark.parametrize(
        ("package", "module"), [("langchain_core", "langchain_core.retrievers")]
    )
    def test_real_langchain(self, package: str, module: str) -> None:
        pytest.importorskip(package)
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever

        class Words(BaseRetriever):
            def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
                return [Document(page_content="", id=id) for id, _ in shared_words(query)]

        result = run_bench(DATA, Words(), **HOW)
        assert result.systems[0].scores["RR"].tolist() == reciprocal_ranks()

    def test_real_llamaindex(self) -> None:
        pytest.importorskip("llama_index.core")
        from llama_index.core.retrievers import BaseRetriever
        from llama_index.core.schema import NodeWithScore, TextNode

        class Words(BaseRetriever):
            def _retrieve(self, query_bundle: Any) -> Any:
                hits = shared_words(query_bundle.query_str)
                return [NodeWithScore(node=TextNode(id_=id), score=score) for id, score in hits]

        result = run_bench(DATA, Words(), **HOW)
        assert result.systems[0].scores["RR"].tolist() == reciprocal_ranks()

    def test_real_haystack(self) -> None:
        pytest.importorskip("haystack")
        from haystack import Document, component

        @component
        class Words:
            @component.output_types(documents=list[Document])
            def run(self, query: str, top_k: int = 3) -> dict[str, list[Document]]:
                hits = shared_words(query, top_k)
                return {"documents": [Document(id=id, score=score) for id, score in hits]}

        result = run_bench(DATA, systems={"words": Words()}, **HOW)
        assert result.systems[0].scores["RR"].tolist() == reciprocal_ranks()


def reciprocal_ranks() -> list[float]:
    values = []
    for text in DATA.query_texts:
        ids = [id for id, _ in shared_words(text)]
        values.append(1 / (1 + ids.index(TARGETS[text])) if TARGETS[text] in ids else 0.0)
    return values


def test_the_page_s_examples_of_other_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks that need LangChain or LlamaIndex run on objects with the same methods."""
    chain, llama = LangChainRetriever(10), LlamaIndexRetriever()
    space = {
        "run_bench": run_bench,
        "collection": DATA,
        "store": SimpleNamespace(as_retriever=lambda search_kwargs: chain),
        "index": SimpleNamespace(as_retriever=lambda similarity_top_k: llama),
    }
    examples = blocks(ROOT / "docs" / "own-retriever.md", "py")
    assert len(examples) == 3
    for example in examples:
        exec(example.text, space)
    assert capsys.readouterr().out.count("nDCG@10") >= 3


class TestBench:
    def test_a_function_beside_models_and_fusions(self) -> None:
        result = run_bench(
            DATA,
            ["bm25", shared_words],
            fusions=["rrf:bm25+shared_words"],
            reranks=["two=rerank/5:shared_words>py:tests.bench.samples:shared_words"],
            **HOW,
        )
        assert rows_of(result, "shared_words") == expected()
        assert result["shared_words"].scores["RR"].tolist() == reciprocal_ranks()
        names = [system.name for system in result.systems]
        assert names == ["bm25", "shared_words", "rrf(bm25+shared_words)", "two"]
        assert result.standing.comparison is not None
        assert "6 pairs" in result.standing.comparison.family

    def test_sqlite_equals_asking_it_directly(self) -> None:
        database = sqlite3.connect(":memory:")  # which other threads may not use
        database.execute("create virtual table docs using fts5(id unindexed, text)")
        rows = zip(map(str, DATA.doc_ids), DATA.doc_texts, strict=True)
        database.executemany("insert into docs values (?, ?)", rows)

        def search(text: str, k: int) -> list[tuple[str, float]]:
            words = " OR ".join(f'"{word}"' for word in text.split())
            select = "select id, bm25(docs) as s from docs where docs match ? order by s, id desc"
            return database.execute(f"{select} limit ?", (words, k)).fetchall()

        result = run_bench(DATA, [search], **HOW)
        rows_there = rows_of(result, "search")
        for id, text in zip(map(str, DATA.query_ids), DATA.query_texts, strict=True):
            direct = search(text, 10)
            assert [doc for doc, _ in rows_there[id]] == [doc for doc, _ in direct]
            assert [score for _, score in rows_there[id]] == [-score for _, score in direct]
        database.close()
        codes = [finding.code for finding in result.diagnosis.findings]
        assert "distances" in codes  # bm25() of FTS5 is low where it is good

    def test_ties_follow_the_rule_of_all_systems(self) -> None:
        def equal(text: str) -> list[tuple[str, float]]:
            return [(id, 1.0) for id in ("d03", "d01", "d02")]

        rows = rows_of(run_bench(DATA, [equal], **HOW), "equal")
        assert [id for id, _ in rows["q00"]] == ["d03", "d02", "d01"]
        by_order = Retriever("equal", "f", {"scores": "order"}, equal)
        rows = rows_of(run_bench(DATA, [by_order], **HOW), "equal")
        assert [id for id, _ in rows["q00"]] == ["d03", "d01", "d02"]

    def test_scores_in_no_order_are_refused_or_sorted(self) -> None:
        def unsorted(text: str) -> list[tuple[str, float]]:
            return [("d01", 1.0), ("d02", 3.0), ("d03", 2.0)]

        with pytest.raises(InputError, match="unsorted are not ordered: for query 'q00' rise"):
            run_bench(DATA, ["bm25", unsorted], **HOW)
        for scores, best in {"high": "d02", "low": "d01", "order": "d01"}.items():
            system = Retriever("mine", "f", {"scores": scores}, unsorted)
            assert rows_of(run_bench(DATA, [system], **HOW), "mine")["q07"][0][0] == best

    def test_scores_of_some_queries_only_are_refused(self) -> None:
        def some(text: str) -> Any:
            return ["d01"] if text == DATA.query_texts[3] else [("d01", 1.0)]

        with pytest.raises(InputError, match=r"\(such as 'q00'\) but not for others \('q03'\)"):
            run_bench(DATA, ["bm25", some], **HOW)

    def test_more_than_k_are_cut_by_score(self) -> None:
        def many(text: str) -> list[tuple[str, float]]:
            return [(str(id), -float(n)) for n, id in enumerate(DATA.doc_ids)]

        result = run_bench(DATA, [many], **HOW)
        assert [id for id, _ in rows_of(result, "many")["q05"]] == [f"d{n:02}" for n in range(10)]
        assert "many-results" in [finding.code for finding in result.diagnosis.findings]

    def test_unknown_ids_are_counted_and_named(self) -> None:
        def stranger(text: str) -> list[str]:
            return ["other-1", TARGETS[text]]

        result = run_bench(DATA, ["bm25", stranger], **HOW)
        finding = next(f for f in result.diagnosis.findings if f.code == "unknown-ids")
        assert (finding.count, finding.examples) == (1, ("other-1",))
        assert set(result["stranger"].scores["RR"].tolist()) == {0.5}
        assert result.records()[1].results["q00"].results[0].doc == "other-1"

    def test_only_unknown_ids_are_refused(self) -> None:
        with pytest.raises(MismatchError, match="ids that far returned"):
            run_bench(DATA, systems={"far": lambda text: ["x1", "x2"]}, **HOW)

    def test_near_ids_are_refused(self) -> None:
        def padded(text: str) -> list[str]:
            return [f"d0{id[1:]}" for id, _ in shared_words(text)]

        with pytest.raises(MismatchError, match="zero padding"):
            run_bench(DATA, [padded], **HOW)

    def test_an_id_with_white_space_is_named_with_its_query(self) -> None:
        with pytest.raises(EndpointError, match=r"query 'q00'.*'some text' cannot be an id"):
            run_bench(DATA, systems={"mine": lambda text: ["some text"]}, retries=0, **HOW)

    def test_nothing_retrieved_scores_zero_and_is_said(self) -> None:
        result = run_bench(DATA, systems={"mine": lambda text: []}, **HOW)
        assert result["mine"].scores.values.tolist() == [[0.0] * 25] * 2
        finding = next(f for f in result.diagnosis.findings if f.code == "no-results")
        assert finding.count == 25

    @pytest.mark.parametrize(
        ("setting", "value"),
        [
            *(("concurrency", value) for value in (0, -1, 2.5, "4", True)),
            *(("timeout", value) for value in (0, -1, math.nan, "1")),
            *(("retries", value) for value in (-1, 1.5, True)),
            ("failed", "zero"),
            ("doc_of", 7),
        ],
    )
    def test_wrong_settings(self, setting: str, value: Any) -> None:
        with pytest.raises(UsageError, match=setting):
            run_bench(DATA, [shared_words], **{**HOW, setting: value})

    def test_wrong_directions(self) -> None:
        with pytest.raises(UsageError, match="scores"):
            Retriever("mine", "mine", {"scores": "best"}, shared_words)

    def test_huge_scores_and_long_ids(self) -> None:
        def huge(text: str) -> list[tuple[str, float]]:
            return [("d01", 1e308), ("d02", -1e308), ("x" * 100_000, -1.5e308)]

        result = run_bench(
            DATA, ["bm25"], systems={"mine": Retriever("huge", "f", {}, huge)}, **HOW
        )
        assert [id for id, _ in rows_of(result, "mine")["q00"][:2]] == ["d01", "d02"]
        assert len(repr(result)) < 20_000

    def test_names_must_differ(self) -> None:
        with pytest.raises(UsageError, match="Two systems are named 'bm25'"):
            run_bench(DATA, ["bm25"], systems={"bm25": shared_words})

    def test_json_and_cost_picture(self) -> None:
        result = run_bench(DATA, ["bm25", shared_words], concurrency=2, **HOW)
        data = result.to_dict()["systems"][1]["costs"]
        serving = data["serving"]
        assert serving["concurrency"] == serving["warm_up"] == 2
        latency = serving["latency"]["p50"]
        assert latency["low"] <= latency["seconds"] <= latency["high"]
        assert serving["queries_per_second"] > 0
        page = result.report().to_html()
        assert "search time per query" in page
        json.dumps(result.to_dict())


class TestDocOf:
    def test_chunks_of_one_document_count_once_by_their_best(self) -> None:
        def chunks(text: str) -> list[tuple[str, float]]:
            hits = shared_words(text)
            return [(f"{id}#{n}", score - n / 10) for id, score in hits for n in (0, 1)][:10]

        def in_order(text: str) -> list[tuple[str, float]]:
            return sorted(chunks(text), key=lambda hit: -hit[1])

        result = run_bench(DATA, [in_order], doc_of="(.+)#[0-9]+", **HOW)
        for id, text in zip(map(str, DATA.query_ids), DATA.query_texts, strict=True):
            best: dict[str, float] = {}
            for chunk, score in in_order(text):
                doc = chunk.partition("#")[0]
                best[doc] = max(score, best.get(doc, -1))
            ranked = sorted(best.items(), key=lambda hit: (hit[1], hit[0]), reverse=True)
            assert rows_of(result, "in_order")[id] == ranked
        assert "fold:max" in result["in_order"].scores.signature

    def test_sums_of_chunks_need_scores(self) -> None:
        def scored(text: str) -> list[tuple[str, float]]:
            return [("d01#1", 3.0), ("d02#1", 2.0), ("d02#2", 2.0)]

        how = {**HOW, "doc_of": "(.+)#[0-9]+", "fold": "sum:2"}
        rows = rows_of(run_bench(DATA, [scored], **how), "scored")
        assert rows["q00"] == [("d02", 4.0), ("d01", 3.0)]
        with pytest.raises(UsageError, match="bare has no scores to add for fold sum:2"):
            run_bench(DATA, systems={"bare": lambda text: ["d01#1"]}, **how)

    def test_one_id_twice(self) -> None:
        def repeats(text: str) -> list[str]:
            return ["d01", "d02", "d01"]

        with pytest.raises(EndpointError, match="document 'd01' appears twice, at ranks 1 and 3"):
            run_bench(DATA, [repeats], retries=0, **HOW)
        rows = rows_of(run_bench(DATA, [repeats], doc_of="(.+)", **HOW), "repeats")
        assert [id for id, _ in rows["q00"]] == ["d01", "d02"]

    def test_mappings(self, tmp_path: Path) -> None:
        (tmp_path / "map.csv").write_text("chunk,document\nc1,d01\nc2,d02\n")
        (tmp_path / "map.json").write_text('{"c1": "d01", "c2": "d02"}')
        for rule in ({"c1": "d01"}, tmp_path / "map.csv", str(tmp_path / "map.json")):
            doc_of = make_doc_of(rule)  # type: ignore[arg-type]
            assert doc_of is not None
            assert (doc_of("c1"), doc_of("c9")) == ("d01", "c9")

    @pytest.mark.parametrize(
        ("rule", "words"),
        [("(", r"doc_of '\(' is not a regular expression: missing"), ("a", "0 groups")],
    )
    def test_wrong_expressions(self, rule: str, words: str) -> None:
        with pytest.raises(UsageError, match=words):
            make_doc_of(rule)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without a pause."""
    monkeypatch.setattr(asking_module, "_PAUSE", 0.0)


class Flaky:
    """Raises the first `times` times that it is asked some of the queries."""

    def __init__(self, failing: Callable[[str], bool], times: int = 1) -> None:
        self.failing, self.times, self.calls = failing, times, list[str]()
        self.__name__ = "flaky"

    def __call__(self, text: str, k: int) -> list[tuple[str, float]]:
        self.calls.append(text)
        if self.failing(text) and self.calls.count(text) <= self.times:
            raise ConnectionError("reset by peer")
        return shared_words(text, k)


class Stopped(BaseException):
    """Ends a process, as far as a test can."""


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("concurrency", [1, 4])
class TestFailures:
    def test_retried_and_said(self, concurrency: int) -> None:
        flaky = Flaky(lambda text: text in DATA.query_texts[5:8], times=2)
        result = run_bench(DATA, [flaky], concurrency=concurrency, **HOW)
        assert rows_of(result, "flaky") == expected()
        serving = result["flaky"].result.costs.serving
        assert serving is not None
        assert (serving["errors"], serving["failed"]) == (6, 0)
        assert serving["retries"] == 6
        finding = next(f for f in result.diagnosis.findings if f.code == "retries")
        assert "6 errors and 0 time-outs" in finding.message

    def test_never_scored_as_empty(self, concurrency: int) -> None:
        flaky = Flaky(lambda text: text == DATA.query_texts[4], times=99)
        with pytest.raises(EndpointError, match="A query failed") as caught:
            run_bench(DATA, ["bm25", flaky], concurrency=concurrency, **HOW)
        assert "query 'q04'" in str(caught.value)
        assert "ConnectionError: reset by peer" in str(caught.value)
        assert "--failed skip" in str(caught.value)
        assert flaky.calls.count(DATA.query_texts[4]) == 3  # two retries

    @pytest.mark.parametrize("id", ["a b", "", "\0", "half \ud800".replace(" ", "")])
    def test_an_id_that_no_run_holds_names_its_query(self, id: str, concurrency: int) -> None:
        def odd(text: str) -> list[str]:
            return [id] if text == DATA.query_texts[4] else ["d01"]

        with pytest.raises(EndpointError, match=r"query 'q04' .* cannot be an id"):
            run_bench(DATA, [odd], concurrency=concurrency, **HOW)

    def test_what_is_kept_is_said_truly(self, tmp_path: Path, concurrency: int) -> None:
        how = {**HOW, "concurrency": concurrency, "retries": 0}

        def message(n_failing: int, fingerprint: str | None = "1", **more: Any) -> str:
            flaky = Flaky(lambda text: text in DATA.query_texts[:n_failing], times=99)
            system = Retriever("mine", "mine", {}, flaky, fingerprint=fingerprint)
            with pytest.raises(EndpointError) as caught:
                run_bench(DATA, [system], **how, **more)
            return str(caught.value)

        assert "22 finished queries are stored: run again" in message(3, checkpoint=tmp_path)
        assert "Omit --no-cache to store finished queries," in message(3)
        assert "Set a fingerprint to store finished queries" in message(
            3, None, checkpoint=tmp_path
        )
        for nothing in (message(25, checkpoint=tmp_path / "b"), message(25)):
            assert nothing.endswith("ConnectionError: reset by peer.")

    def test_skipped_for_all_systems(self, concurrency: int) -> None:
        flaky = Flaky(lambda text: text in DATA.query_texts[3:6], times=99)
        how = {**HOW, "concurrency": concurrency, "failed": "skip"}
        result = run_bench(DATA, ["bm25", flaky], **how)
        ids = [f"q{n:02}" for n in range(25) if n not in (3, 4, 5)]
        for system in result.systems:
            assert list(map(str, system.scores.query_ids)) == ids
        assert result["flaky"].scores["RR"].tolist() == [
            value for n, value in enumerate(reciprocal_ranks()) if n not in (3, 4, 5)
        ]
        finding = result.diagnosis.findings[0]
        assert (finding.severity, finding.code) == ("error", "failed-queries")
        assert finding.examples == ("q03", "q04", "q05")

    def test_hopeless_systems_are_given_up(self, concurrency: int) -> None:
        flaky = Flaky(lambda text: not PAUSE.wait(0.005), times=99)
        how = {**HOW, "concurrency": concurrency, "retries": 0}
        many = small(n_docs=500, n_queries=500)
        for failed in ("error", "skip"):
            with pytest.raises(EndpointError, match=r"queries failed; [0-9]+ were skipped"):
                run_bench(many, [flaky], failed=failed, **how)

    def test_bad_answers_are_not_retried(self, concurrency: int) -> None:
        calls = []

        def bad(text: str) -> Any:
            calls.append(text)
            return None if text == DATA.query_texts[20] else shared_words(text)

        with pytest.raises(EndpointError, match=r"query 'q20'.*it returned NoneType"):
            run_bench(DATA, [bad], concurrency=concurrency, **HOW)
        assert calls.count(DATA.query_texts[20]) == 1

    def test_finished_queries_are_kept(self, tmp_path: Path, concurrency: int) -> None:
        flaky = Flaky(lambda text: text == DATA.query_texts[7], times=99)
        system = Retriever("mine", "mine", {}, flaky, fingerprint="1")
        how = {**HOW, "concurrency": concurrency, "checkpoint": tmp_path}
        with pytest.raises(EndpointError, match="24 finished queries are stored: run again"):
            run_bench(DATA, [system], **how)
        flaky.calls.clear()
        flaky.times = 0
        result = run_bench(DATA, [system], **how)
        assert set(flaky.calls) == {DATA.query_texts[7]}
        assert rows_of(result, "mine") == expected()
        assert "resumed" in [finding.code for finding in result.diagnosis.findings]
        flaky.calls.clear()
        run_bench(DATA, [system], **how)  # the bench was complete: all are asked again
        assert len(set(flaky.calls)) == 25

    @pytest.mark.parametrize("scored", [True, False])
    def test_kept_answers_are_those_that_were_given(
        self, tmp_path: Path, concurrency: int, scored: bool
    ) -> None:
        """Resumed answers rank as others do, with documents that are not in the collection."""

        def answer(text: str) -> list[Any]:
            row = DATA.query_texts.index(text)
            hits = [(f"new{row}", 3.5), ("d01", 2.25), ("new", 1.5), (f"new{row + 1}", 0.1)]
            return hits[: row % 5] if scored else [id for id, _ in hits[: row % 5]]

        def fail(text: str) -> list[Any]:
            if text == DATA.query_texts[7]:
                raise ConnectionError
            return answer(text)

        how = {**HOW, "concurrency": concurrency, "retries": 0}
        asked: Any = {"allow_mismatch": True, "checkpoint": tmp_path}
        with pytest.raises(EndpointError, match="24 finished queries are stored: run again"):
            run_bench(DATA, [Retriever("mine", "mine", {}, fail, fingerprint="1")], **how, **asked)
        resumed = Retriever("mine", "mine", {}, answer, fingerprint="1")
        again = run_bench(DATA, [resumed], **how, **asked)["mine"].ranking
        fresh = run_bench(DATA, systems={"mine": answer}, allow_mismatch=True, **how)[
            "mine"
        ].ranking
        assert list(again.doc_ids) == list(fresh.doc_ids)
        for name in ("offsets", "docs", "scores"):
            assert getattr(again, name).tobytes() == getattr(fresh, name).tobytes()
        assert [id for id, _ in again.row("q04")] == ["new4", "d01", "new", "new5"]

    def test_other_ways_of_reading_ask_nothing(self, tmp_path: Path, concurrency: int) -> None:
        def unsorted(text: str) -> list[tuple[str, float]]:
            calls.append(text)
            return [("d01", 1.0), ("d02", 3.0), ("d03", 2.0)]

        calls: list[str] = []
        how = {**HOW, "concurrency": concurrency, "checkpoint": tmp_path}
        with pytest.raises(InputError, match="scores of mine are not ordered: for query 'q00'"):
            run_bench(DATA, [Retriever("mine", "mine", {}, unsorted, fingerprint="1")], **how)
        assert len(set(calls)) == 25
        calls.clear()
        by_order = Retriever("mine", "mine", {"scores": "order"}, unsorted, fingerprint="1")
        rows = rows_of(run_bench(DATA, [by_order], **how), "mine")
        assert ([id for id, _ in rows["q03"]], calls) == (["d01", "d02", "d03"], [])

    def test_a_wrong_doc_of_is_refused_before_anything_is_asked(self, concurrency: int) -> None:
        flaky = Flaky(lambda text: False)
        with pytest.raises(
            UsageError, match=r"doc_of '\(' is not a regular expression: missing \)"
        ):
            run_bench(DATA, [flaky], doc_of="(", concurrency=concurrency, **HOW)
        assert not flaky.calls

    def test_another_fingerprint_asks_again(self, tmp_path: Path, concurrency: int) -> None:
        flaky = Flaky(lambda text: text == DATA.query_texts[7], times=99)
        how = {**HOW, "concurrency": concurrency, "checkpoint": tmp_path}
        for mark in ("1", "2", None):
            flaky.calls.clear()
            with pytest.raises(EndpointError, match="A query failed"):
                run_bench(DATA, [Retriever("mine", "mine", {}, flaky, fingerprint=mark)], **how)
            assert len(set(flaky.calls)) == 25

    def test_an_interruption_keeps_what_is_finished(self, tmp_path: Path, concurrency: int) -> None:
        def tell(name: str, phase: str, done: int, total: int | None) -> None:
            if phase == "asking" and done >= 12:
                finished.append(done)
                raise Stopped

        finished: list[int] = []
        flaky = Flaky(lambda text: PAUSE.wait(0.005))
        system = Retriever("mine", "mine", {}, flaky, fingerprint="1")
        how = {**HOW, "concurrency": concurrency, "checkpoint": tmp_path}
        with pytest.raises(Stopped):
            run_bench(DATA, [system], progress=tell, **how)
        again = Flaky(lambda text: False)
        system = Retriever("mine", "mine", {}, again, fingerprint="1")
        assert rows_of(run_bench(DATA, [system], **how), "mine") == expected()
        assert len(set(again.calls)) == 25 - finished[0]


class TestTimeouts:
    def test_a_late_answer_is_a_timeout_and_is_retried(self, quick: None) -> None:
        late, released = DATA.query_texts[6], threading.Event()
        calls = []

        def slow(text: str) -> list[tuple[str, float]]:
            calls.append(text)
            if text == late and calls.count(late) == 1:
                released.wait(10)
            return shared_words(text)

        result = run_bench(DATA, [slow], timeout=0.5, **HOW)
        released.set()
        assert rows_of(result, "slow") == expected()
        serving = result["slow"].result.costs.serving
        assert serving is not None
        assert serving["timeouts"] >= 1
        assert serving["errors"] == 0

    def test_a_system_that_hangs_is_an_error(self, quick: None) -> None:
        released = threading.Event()
        with pytest.raises(EndpointError, match=r"no answer within 0\.02 seconds"):
            run_bench(
                DATA,
                systems={"hangs": lambda text: released.wait(10)},
                timeout=0.02,
                retries=0,
                concurrency=8,
                **HOW,
            )
        released.set()

    def test_every_reply_comes_once(self) -> None:
        """Answers that come close to the time-out are taken or late, never both and never lost."""

        def close(row: int) -> list[str]:
            PAUSE.wait(0.004 + 0.002 * (row % 3))
            return [str(row)]

        answers: SystemAnswers = ask_all(
            60,
            close,
            lambda ids: NumberedHits(b"", None, ids),
            Asking(6, 0.006, 0, "skip"),
            checkpoint=Checkpoint(None),
            tell=lambda done, total: None,
        )
        assert len(answers.hits) + len(answers.failures) == 60
        assert not set(answers.hits) & set(answers.failures)
        assert all(hits.others == [str(row)] for row, hits in answers.hits.items())


class TestLatency:
    @pytest.mark.parametrize("n", [1, 2, 20, 59, 60, 100, 1000])
    @pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
    def test_ends_by_the_binomial_distribution(self, n: int, share: float) -> None:
        values = np.arange(1.0, n + 1)
        interval = quantile_interval(values, share)
        tail = 0.025 + 1e-12
        lows = [r for r in range(1, n + 1) if stats.binom.cdf(r - 1, n, share) <= tail]
        highs = [r for r in range(1, n + 1) if stats.binom.sf(r - 1, n, share) <= tail]
        assert interval.estimate == np.quantile(values, share, method="inverted_cdf")
        assert interval.low == max(lows) if lows else math.isnan(interval.low)
        assert interval.high == min(highs) if highs else math.isnan(interval.high)

    def test_coverage(self) -> None:
        """Of 2,000 samples of 300 skewed times, at least 95 % of the intervals hold the truth."""
        rng = np.random.default_rng(5)
        samples = np.sort(rng.lognormal(size=(2000, 300)), axis=1)
        for share in (0.5, 0.95):
            truth = stats.lognorm.ppf(share, 1)
            held = np.mean([truth in quantile_interval(row, share) for row in samples])
            assert 0.94 <= held <= 0.985, share

    def test_nothing(self) -> None:
        assert math.isnan(quantile_interval(np.empty(0), 0.5).estimate)


class TestRuns:
    def test_a_file_equals_its_evaluation(self, tmp_path: Path) -> None:
        models = run_bench(DATA, ["bm25"], **HOW)
        write_run(models["bm25"].ranking, tmp_path / "old.run", format="trec")
        result = run_bench(DATA, ["bm25", f"old=run:{tmp_path / 'old.run'}"], **HOW)
        assert result["old"].scores.values.tolist() == models["bm25"].scores.values.tolist()
        direct = assay.evaluate(str(tmp_path / "old.run"), DATA.qrels, ["RR", "nDCG@10"])
        assert result["old"].scores.values.tolist() == direct.values.tolist()
        assert result["old"].seconds_per_query is None
        assert result.to_dict()["systems"][1]["costs"]["search_seconds"] is None

    def test_missing_queries_are_said(self) -> None:
        run = {"q00": {"d01": 1.0}, "q01": {"d02": 1.0}}
        result = run_bench(DATA, ["bm25"], systems={"part": run}, **HOW)
        finding = next(f for f in result.diagnosis.findings if f.code == "missing-queries")
        assert finding.count == 23

    def test_other_queries_are_refused(self) -> None:
        with pytest.raises(MismatchError, match="None of the 25 queries is in the run part"):
            run_bench(DATA, ["bm25"], systems={"part": {"x": {"d01": 1.0}}}, **HOW)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a collection and a module of one's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "runs.db"))
    write_collection(DATA, "data")
    name = f"stack_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(
        "from pathlib import Path\n"
        "def retrieve(text, k):\n"
        "    Path('ran').touch()\n"
        "    from tests.bench.test_retrievers import shared_words\n"
        "    return shared_words(text, k)\n"
        "def worse(text, k):\n"
        "    return [id for id, _ in retrieve(text, k)][::-1]\n"
    )
    (tmp_path / "module").write_text(name)
    return tmp_path


@pytest.fixture
def command(folder: Path, assay: Callable[..., Any]) -> Callable[..., Any]:
    """The command on the collection."""
    return partial(assay, "bench", "--corpus", "data", "-m", "RR")


class TestCommand:
    def test_systems_on_the_command_line(self, folder: Path, command: Any) -> None:
        module = (folder / "module").read_text()
        result = command(
            *("--model", "bm25", "--system", f"mine=retrieve:{module}:retrieve"),
            *("--runs", "out", "--json", "--concurrency", "2"),
        )
        assert result.code == 0, result.err
        data = json.loads(result.out)
        assert [system["name"] for system in data["systems"]] == ["bm25", "mine"]
        again = command("--system", "run:out/mine.run", "--json")
        values = json.loads(again.out)["systems"][0]["per_query"]
        assert values == data["systems"][1]["per_query"]

    def test_a_run_that_is_nowhere_is_named(self, command: Any) -> None:
        for stored in (False, True):
            answer = command("--system", "run:no.run")
            assert answer.code in (2, 5)
            assert "No file or stored run 'no.run'" in answer.err
            assert stored or command("--model", "bm25", "--save").code == 0

    def test_a_stranger_s_config_runs_no_code(self, folder: Path) -> None:
        module = (folder / "module").read_text()
        (folder / "bench.toml").write_text(
            f'corpus = "data"\n[[system]]\nspec = "retrieve:{module}:retrieve"\nname = "mine"\n'
        )
        data = read_config("bench.toml")
        with pytest.raises(UsageError, match="which runs code"):
            make_request(data)
        assert not (folder / "ran").exists()
        result = make_request(data, allow_code=True)
        assert [system.name for system in result.run(result.load()).systems] == ["mine"]

    def test_functions_of_packages_are_refused(self, folder: Path) -> None:
        (folder / "bench.toml").write_text(
            'corpus = "data"\n[[system]]\nspec = "retrieve:os:system"\n'
        )
        with pytest.raises(UsageError, match="functions of your own modules only"):
            make_request(read_config("bench.toml"), allow_code=True)

    def test_paths_are_relative_to_the_config(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pairs = zip(DATA.query_ids, TARGETS.values(), strict=True)
        lines = [f"{q} Q0 {doc}#1 1 1.0 x" for q, doc in pairs]
        (folder / "old.run").write_text("\n".join(lines))
        (folder / "map.csv").write_text(
            "id,doc\n" + "\n".join(f"{doc}#1,{doc}" for doc in TARGETS.values())
        )
        (folder / "bench.toml").write_text(
            'corpus = "data"\n[[system]]\nspec = "run:old.run"\ndoc_of = "map.csv"\n'
        )
        (folder / "elsewhere").mkdir()
        monkeypatch.chdir(folder / "elsewhere")
        request = make_request(read_config("../bench.toml"))
        result = request.run(request.load())
        assert result["run:old.run"].scores.mean()["RR"] == 1.0

    def test_gate_against_a_stored_run(self, folder: Path, command: Any) -> None:
        module = (folder / "module").read_text()
        system = f"mine=retrieve:{module}:retrieve"
        saved = command("--system", system, "--save", "--store", "runs.db")
        assert saved.code == 0, saved.err
        gate = ("-b", "old", "--fail-if-worse", "--json")
        same = command("--system", "old=run:mine", "--system", system, *gate)
        assert same.code == 0, same.err
        systems = json.loads(same.out)["systems"]
        assert systems[0]["per_query"] == systems[1]["per_query"]
        worse = f"mine=retrieve:{module}:worse"
        lost = command("--system", "old=run:1", "--system", worse, *gate)
        assert lost.code == 1, lost.err
        other = command("--system", "old=run:1", "-m", "AP", "--system", system, *gate)
        assert other.code == 2
        assert "AP is not among the measures" in other.err

    def test_settings_without_systems_are_refused(self, folder: Path, command: Any) -> None:
        result = command("--model", "bm25", "--concurrency", "4")
        assert result.code == 2
        assert "concurrency requires a system" in result.err

    @pytest.mark.parametrize(
        ("spec", "words"),
        [
            ("retrieve:", "Write retrieve:MODULE:FUNCTION"),
            ("retrieve:nowhere:f", "cannot be imported"),
            ("bm25", "Unknown system 'bm25'"),
            ("run:", "Write run:FILE"),
        ],
    )
    def test_wrong_specs(self, command: Any, spec: str, words: str) -> None:
        result = command("--system", spec)
        assert result.code == 2
        assert words in result.err

    def test_a_run_that_is_nowhere(self, folder: Path, command: Any) -> None:
        result = command("--system", "run:nowhere.run")
        assert result.code != 0
        assert "nowhere.run" in result.err


class TestSignatures:
    """All that changes the answers of a system, or how they are read, stands in its signature."""

    COLLECTION = small()

    def sign(self, system: Any, **how: Any) -> str:
        result = run_bench(self.COLLECTION, systems=[system], measures="nDCG@10", **how)
        return result.systems[0].scores.signature

    def test_every_option_of_a_function(self, tmp_path: Path) -> None:
        docs = [str(id) for id in self.COLLECTION.doc_ids]

        def retrieve(text: str, k: int) -> list[dict[str, Any]]:
            return [{"id": d, "other": d, "score": -n} for n, d in enumerate(docs[:k])]

        table = tmp_path / "ids.tsv"
        table.write_text("chunk\tdoc\na\te\n")
        first = self.sign(Retriever("x", "python:x", {"doc_of": str(table)}, retrieve))
        table.write_text("chunk\tdoc\na\tf\n")
        settings: list[dict[str, Any]] = [
            *({}, {"id": "other"}, {"scores": "high"}, {"scores": "low"}, {"scores": "order"}),
            *({"doc_of": "(.+)#.*"}, {"doc_of": {"a": "b"}}, {"doc_of": {"a": "c"}}),
            {"doc_of": str(table)},
        ]
        signs = [self.sign(Retriever("x", "python:x", each, retrieve)) for each in settings]
        signs.append(self.sign(Retriever("x", "python:x", {}, retrieve, "version 2")))
        signs.append(self.sign(Retriever("x", "python:y", {}, retrieve)))
        signs.append(self.sign(Retriever("x", "python:x", settings[5], retrieve), fold="sum:2"))
        signs.append(self.sign(Retriever("x", "python:x", {}, retrieve), depth=7))
        fields: dict[str, Any] = {
            "query_fields": {str(id): {"tenant": "a"} for id in self.COLLECTION.query_ids},
            "doc_fields": {id: {"tenant": "a"} for id in docs},
        }
        signs.append(
            self.sign(Retriever("x", "python:x", {}, retrieve), filters="tenant", **fields)
        )
        assert len({*signs, first}) == len(signs) + 1
        assert signs[0] == self.sign(Retriever("x", "python:x", {}, retrieve), concurrency=3)

    def test_every_option_of_an_endpoint(self) -> None:
        docs = [str(id) for id in self.COLLECTION.doc_ids][:5]
        hits = [{"id": d, "key": d, "score": 9 - n, "low": n} for n, d in enumerate(docs)]
        with serve(lambda path, body, headers: {"hits": hits, "others": hits}) as server:
            usual: dict[str, Any] = {"hits": "hits", "id": "id", "score": "score"}
            usual["body"] = {"q": "{{query}}", "n": "{{k}}"}
            changes: list[dict[str, Any]] = [
                *({}, {"body": {"q": "{{query}}", "size": "{{k}}"}}, {"hits": "others"}),
                *({"id": "key"}, {"score": "low"}, {"scores": "order"}, {"scores": "high"}),
                *(
                    {"method": "GET"},
                    {"headers": {"X-Tenant": "a"}},
                    {"most": 3},
                    {"doc_of": "(.)x"},
                ),
            ]
            specs = [f"http:{server.url}/search", f"http:{server.url}/other"]
            signs = [self.sign(Retriever("x", specs[0], {**usual, **each})) for each in changes]
            signs.append(self.sign(Retriever("x", specs[1], usual)))
            preset = f"http:elasticsearch:{server.url}/docs?hits=hits&id=id&score=score"
            signs += [self.sign(Retriever("x", preset + more)) for more in ("", "&field=title")]
            assert len(set(signs)) == len(signs)
            for same in ({"timeout": 9.0}, {"timeout": 8.0}):  # which changes no answer
                assert self.sign(Retriever("x", specs[0], {**usual, **same})) == signs[0]

    @pytest.mark.parametrize("in_address", [False, True])
    def test_low_scores_of_an_endpoint_are_turned_round_once(self, in_address: bool) -> None:
        docs = [str(id) for id in self.COLLECTION.doc_ids][:3]
        hits = [{"id": d, "distance": n} for n, d in enumerate(docs)]
        with serve(lambda path, body, headers: {"hits": hits[::-1]}) as server:
            how: dict[str, Any] = {"hits": "hits", "id": "id", "score": "distance"}
            how["body"] = {"q": "{{query}}", "n": "{{k}}"}
            more = "?scores=low" if in_address else ""
            how |= {} if in_address else {"scores": "low"}
            system = Retriever("x", f"http:{server.url}/search{more}", how)
            result = run_bench(self.COLLECTION, systems=[system], measures="nDCG@10")
        ranking = result.systems[0].ranking
        assert [doc for doc, _ in ranking.row(ranking.query_ids[0])] == docs


KILLED = """
import os, pathlib, threading
folder = pathlib.Path(__file__).parent
def retrieve(text, k):
    with open(folder / "calls", "a") as file:
        file.write(text + "\\n")
    threading.Event().wait(0.05)
    if (folder / "fatal").exists() and len((folder / "calls").read_text().splitlines()) > 18:
        os.kill(os.getpid(), 9)
    return [f"d{n:02}" for n in range(k)]
"""


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_killed_bench_asks_only_the_others(tmp_path: Path, concurrency: int) -> None:
    write_collection(small(), tmp_path / "made")
    (tmp_path / "killed.py").write_text(KILLED)
    (tmp_path / "fatal").touch()
    script = (
        "from assay.bench import asking, run_bench\n"
        "from assay.io.collections import load_collection\n"
        "asking._SAVED_EVERY = 0.2\n"
        f"how = {{'concurrency': {concurrency}, 'checkpoint': 'parts'}}\n"
        "r = run_bench(load_collection('made'), systems=['retrieve:killed:retrieve'], **how)\n"
        "system = r.systems[0]\n"
        "print(system.scores.values.tolist(), system.result.costs.serving['resumed'])\n"
    )
    run = partial(subprocess.run, [sys.executable, "-c", script], cwd=tmp_path, text=True)
    assert run(capture_output=True).returncode == -signal.SIGKILL
    asked = (tmp_path / "calls").read_text().splitlines()
    (tmp_path / "fatal").unlink()
    (tmp_path / "calls").unlink()
    done = run(capture_output=True)
    assert done.returncode == 0, done.stderr
    values, resumed = done.stdout.rsplit(" ", 1)
    again = (tmp_path / "calls").read_text().splitlines()
    assert 0 < int(resumed) < len(asked)
    assert len(again) == 25 - int(resumed) + concurrency  # and the warm-up
    assert not list((tmp_path / "parts").rglob("*.part"))
    assert run(capture_output=True).stdout.rsplit(" ", 1)[0] == values


def test_tables_of_costs_fit_80_columns(assay: Any, tmp_path: Path, monkeypatch: Any) -> None:
    write_collection(small(), tmp_path / "made")
    (tmp_path / "mine.py").write_text(
        "def search(text, k):\n    return [f'd{n:02}' for n in range(k)]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    done = assay(
        *("bench", "--corpus", "made", "--model", "bm25@sentences:1", "--no-cache"),
        *("--model", "lsa:8", "--system", "mine=retrieve:mine:search", "--resamples", "200"),
    )
    lines = done.out.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("model") and "memory" in line)
    stop = next(n for n, line in enumerate(lines) if line.startswith("signature") or "⚠" in line)
    assert max(map(len, lines[start:stop])) <= 80, done.out
    assert sum(line.startswith("mine  ") for line in lines[start:stop]) == 4
    assert any("tokens/chunk" in line for line in lines[start:stop])
