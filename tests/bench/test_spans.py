"""Relevance by spans, against sets of characters and against the program that defined it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import assay.store
from assay.bench import read_spans, run_bench
from assay.bench.plan import PreparedCollection, prepare
from assay.bench.search import rank_units
from assay.bench.spans import SPAN_MEASURES, SpanScorer, merge_spans
from assay.core.conventions import as_conventions
from assay.core.ids import Ids
from assay.errors import AssayError, IdError, MeasureError, UsageError, ValueRangeError
from assay.io.collections import Collection, write_collection
from assay.io.formats import as_judgments
from assay.io.texts import ChunkRule
from assay.measures import parse, parse_many
from assay.tables.table import text_page
from tests.bench.samples import WORDS, small

Passages = list[tuple[str, str, int, int]]


def drawn(seed: int) -> tuple[Collection, Passages]:
    """Documents of made-up words, and passages of one to three spans in one or two of them."""
    rng = random.Random(seed)
    marks = ["", "", ".", "!", " \u00e9\U0001f600", "\r\n"]
    docs = [
        "".join(rng.choice(WORDS) + rng.choice(marks) + " " for _ in range(rng.randint(1, 60)))
        for _ in range(9)
    ]
    passages: Passages = []
    for query in range(20):
        for _ in range(rng.randint(1, 3)):
            doc = rng.randrange(9)
            start = rng.randrange(len(docs[doc]) - 1)
            end = rng.randint(start + 1, min(len(docs[doc]), start + 60))
            passages.append((f"q{query:02}", f"d{doc}", start, end))
    asked = {q: docs[int(d[1:])][start : end + 9] for q, d, start, end in passages}
    queries = [f"{asked[query]} {rng.choice(WORDS)}" for query in sorted(asked)]
    qrels = as_judgments(read_spans(passages).pairs())  # type: ignore[union-attr]
    ids = Ids.of([f"q{i:02}" for i in range(20)])
    return Collection(Ids.of([f"d{i}" for i in range(9)]), docs, ids, queries, qrels), passages


def cut(collection: Collection, rule: str | None) -> PreparedCollection:
    rules = as_conventions("trec_eval")
    return prepare(collection, rules, None if rule is None else ChunkRule.parse(rule))


def brute(
    chunks: list[tuple[str, int, int]],
    every: list[tuple[str, int, int]],
    relevant: set[tuple[str, int]],
    counts: Callable[[set[tuple[str, int]]], int],
) -> tuple[float, float, float, float]:
    """The four measures over sets of places in documents."""

    def places(parts: list[tuple[str, int, int]]) -> set[tuple[str, int]]:
        return {(doc, at) for doc, start, end in parts for at in range(start, end)}

    hit, total = counts(relevant & places(chunks)), counts(relevant)
    size = sum(counts(places([chunk])) for chunk in chunks)
    holding = places([chunk for chunk in every if relevant & places([chunk])])
    if not total:
        return (np.nan,) * 4
    below = (total, size, size + counts(relevant - places(chunks)))
    ratios = [hit / n if n else 0.0 for n in below]
    return (*ratios, counts(relevant & holding) / counts(relevant | holding))  # type: ignore[return-value]


@pytest.mark.parametrize("unit", ["characters", "tokens"])
@pytest.mark.parametrize("rule", ["tokens:8:3", "characters:31:7", "sentences:2:1", None])
def test_measures_are_those_over_sets_of_characters(rule: str | None, unit: str) -> None:
    collection, passages = drawn(len(rule or "") + len(unit))
    suffix = "" if unit == "characters" else "(tokens=true)"
    names = [re.sub(r"^(\w+)", rf"\1{suffix}", name) for name in SPAN_MEASURES]
    spec = "bm25" if rule is None else f"bm25@{rule}"
    system = run_bench(collection, [spec], spans=passages, measures=["RR", *names]).systems[0]
    data, texts = (
        cut(collection, rule),
        dict(zip(collection.doc_ids, collection.doc_texts, strict=True)),
    )
    owner = [str(data.doc_ids[int(doc)]) for doc in data.unit_doc]
    spans = (
        data.spans.tolist() if data.spans is not None else [[0, len(t)] for t in data.unit_texts]
    )
    every = [(doc, *span) for doc, span in zip(owner, spans, strict=True)]
    begins = {
        (doc, m.start()) for doc, text in texts.items() for m in re.finditer(r"\w+|[^\w\s]", text)
    }
    counts = len if unit == "characters" else lambda places: len(places & begins)
    units = system.result.units
    retrieved = 0
    for row, query in enumerate(map(str, system.scores.query_ids)):
        relevant = {(d, at) for q, d, a, b in passages if q == query for at in range(a, b)}
        if units is None:
            chunks = [(doc, 0, len(texts[doc])) for doc, _ in system.ranking.row(query)][:5]
        else:
            inside = slice(*units.offsets[list(map(str, units.query_ids)).index(query) :][:2])
            chunks = [every[unit] for unit in units.docs[inside].tolist()][:5]
        retrieved += len(chunks)
        expected = brute(chunks, every, relevant, counts)
        got = [float(system.scores[name][row]) for name in names]
        assert got == pytest.approx(expected, abs=1e-12, nan_ok=True), query
    assert retrieved > 40
    assert (system.scores[names[0]] > 0).sum() > 5


# Chunks of 300 and of 150 characters, relevant spans of the first document, which chunks were
# retrieved, and what chunking_evaluation (d451fc4) prints for them: recall, precision, IoU and
# precision_omega.
RECORDED = [
    (
        "60:30",
        [(15, 131), (184, 272)],
        [7, 3, 10, 0, 2],
        (0.8627450980392157, 0.5866666666666667, 0.5365853658536586, 0.68),
    ),
    (
        "40:10",
        [(127, 191), (195, 241)],
        [8, 1, 9, 3, 0],
        (0.03636363636363636, 0.021052631578947368, 0.013513513513513514, 0.5789473684210527),
    ),
    (
        "60:30",
        [(94, 111), (144, 209)],
        [12, 6, 2, 1, 10],
        (0.5609756097560976, 0.15333333333333332, 0.13690476190476192, 0.45555555555555555),
    ),
    (
        "60:30",
        [(1, 65), (68, 228)],
        [0, 3, 11, 2, 9],
        (0.6517857142857143, 0.4866666666666667, 0.3862433862433862, 0.8296296296296296),
    ),
    (
        "25:0",
        [(102, 105), (161, 277)],
        [5, 6, 12, 4, 0],
        (0.14285714285714285, 0.136, 0.07488986784140969, 0.68),
    ),
    (
        "40:10",
        [(2, 155), (170, 174)],
        [1, 4, 5, 13, 7],
        (0.5031847133757962, 0.395, 0.2841726618705036, 0.8263157894736842),
    ),
]


@pytest.mark.parametrize(("rule", "spans", "retrieved", "printed"), RECORDED)
def test_numbers_of_the_program_that_defined_them(
    rule: str, spans: list[tuple[int, int]], retrieved: list[int], printed: tuple[float, ...]
) -> None:
    texts, qrels = ["x" * 300, "y" * 150], as_judgments({"q": {"a": 1}})
    collection = Collection(Ids.of(["a", "b"]), texts, Ids.of(["q"]), ["x"], qrels)
    data = prepare(
        collection,
        as_conventions("trec_eval", tiebreak="index"),
        ChunkRule.parse(f"characters:{rule}"),
    )
    order = np.array(retrieved)
    units = rank_units(data, np.array([0, 5]), order, np.arange(5, 0, -1.0))
    system = run_bench(collection, ["bm25"]).systems[0]
    judged = read_spans([("q", "a", start, end) for start, end in spans])
    assert judged is not None
    measures = parse_many(SPAN_MEASURES)
    scores = SpanScorer(collection, judged).add(
        system.scores, measures, replace(system.result, units=units), data
    )
    assert scores.values[:, 0].tolist() == list(printed)


def test_a_chunk_that_only_touches_holds_nothing() -> None:
    """The program counts it among the chunks of precision_omega, we do not."""
    qrels = as_judgments({"q": {"a": 1}})
    collection = Collection(Ids.of(["a"]), ["x" * 20], Ids.of(["q"]), ["x" * 10], qrels)
    result = run_bench(collection, ["bm25@characters:10"], spans=[("q", "a", 0, 10)])
    assert result.systems[0].scores["SpanPOmega"].tolist() == [1.0]


def test_spans_that_overlap_are_merged() -> None:
    assert merge_spans([(3, 5), (0, 3), (9, 10), (4, 6), (4, 5)]) == [(0, 6), (9, 10)]
    collection, _ = drawn(0)
    twice = [("q00", "d0", 0, 4), ("q00", "d0", 0, 4), ("q00", "d0", 2, 6)]
    once = [("q00", "d0", 0, 6)]
    values = [
        run_bench(collection, ["bm25@tokens:5"], spans=s).systems[0].scores for s in (twice, once)
    ]
    assert values[0].values.tobytes() == values[1].values.tobytes()
    assert values[0].signature == values[1].signature
    other = run_bench(collection, ["bm25@tokens:5"], spans=[("q00", "d0", 0, 7)]).systems[0].scores
    assert other.signature != values[0].signature


def test_all_kinds_of_systems_have_them() -> None:
    """Whole documents, fusions, rerankers and an index; queries without a passage have none."""
    collection, passages = drawn(3)
    some = [p for p in passages if p[0] != "q00"]
    result = run_bench(
        collection,
        ["bm25", "a=bm25@tokens:9:2", "b=lsa:4@tokens:9:2", "c=bm25@sentences:2"],
        fusions=["same=rrf:a+b", "mixed=rrf:a+c"],
        reranks=["two=rerank/4:a>py:tests.bench.samples:shared_words"],
        spans=some,
    )
    for system in result.systems:
        values = system.scores.values[-4:]
        assert np.isnan(values[:, 0]).all(), "no passage of q00"
        assert not np.isnan(values[:, 1:]).any()
        assert ((values[:, 1:] >= 0) & (values[:, 1:] <= 1)).all()
        assert values[:3, 1:].sum() > 0, system.name
    omega = [result[name].scores["SpanPOmega"].tobytes() for name in ("a", "b", "same", "two")]
    assert len(set(omega)) == 1, "it is of the chunking"
    # The reranker's first chunks are those that it scores highest.
    units = result["two"].result.units
    assert units is not None
    assert (np.diff(units.scores[: units.lengths[0]]) <= 0).all()


def test_through_the_same_line(tmp_path: Path) -> None:
    collection, passages = drawn(4)
    result = run_bench(collection, ["bm25@tokens:9:2", "bm25@sentences:2"], spans=passages)
    board = result.report(resamples=200)
    low, high = sorted(float(np.mean(s.scores["SpanP@5"])) for s in result.systems)
    first, second = board.standings_on("SpanP@5")
    assert (first.mean.estimate, second.mean.estimate) == pytest.approx((high, low))
    assert first.mean.low <= high <= first.mean.high
    assert "SpanP@5" in board.verdicts
    with assay.store.open(tmp_path / "runs.db") as store:
        stored = store.save_all(result.records())
        again = stored[0].scores()
    assert again["SpanP@5"].tobytes() == result.systems[0].scores["SpanP@5"].tobytes()
    assert again.signature == result.systems[0].scores.signature
    assert "not computed" not in text_page(result.page(board))
    only = run_bench(collection, ["bm25@tokens:9:2"], spans=passages, measures=["SpanR@3"])
    assert [str(m) for m in only.systems[0].scores.measures] == ["SpanR@3"]


def test_measures_need_passages() -> None:
    assert str(parse("span_iou(tokens=true)@5")) == "SpanIoU(tokens=true)@5"
    with pytest.raises(MeasureError, match="SpanR needs relevant passages"):
        run_bench(small(), ["bm25"], measures=["SpanR@5"])
    with pytest.raises(MeasureError, match="SpanR needs relevant passages"):
        assay.evaluate({"q": {"d": 1.0}}, {"q": {"d": 1}}, "SpanR@5")
    with pytest.raises(MeasureError, match="cutoff"):
        parse("SpanR")


def fails(passages: Any, kind: type[AssayError], words: str) -> None:
    collection, _ = drawn(0)
    with pytest.raises(kind, match=words):
        run_bench(collection, ["bm25@tokens:5"], spans=passages)


def test_passages_that_make_no_sense() -> None:
    collection, _ = drawn(0)
    size = len(collection.doc_texts[0])
    fails([("q00", "d0", 0, size + 1)], ValueRangeError, rf"passage 0: .* beyond its {size}")
    fails(
        [("q00", "d0", 0, 3), ("q00", "d0", 5, 5)],
        ValueRangeError,
        "passage 1: .* not a valid span",
    )
    fails([("q00", "d0", 6, 5)], ValueRangeError, "not a valid span")
    fails([("q00", "d0", -1, 5)], ValueRangeError, "not a valid span")
    fails([("q00", "D00", 0, 5)], IdError, r"no document 'D00'")
    fails([("q00", "d0", "x", 5)], ValueRangeError, "start is 'x'")
    fails([("q00", "d0", 0, 2.5)], ValueRangeError, "end is 2.5")
    fails([("q00", "d0", True, 2)], ValueRangeError, "start is True")
    fails([("q00", "d0", 0, float("nan"))], ValueRangeError, "end is nan")
    fails([("q00", "d0", 0)], UsageError, r"\(query, doc, start, end\)")
    for odd in (5, [None], {"q00": 1}, ["q00d"]):
        fails(odd, UsageError, r"\(query, doc, start, end\)")
    fails([("nobody", "d0", 0, 3)], AssayError, "No relevant passage belongs to a query here")
    fails([], AssayError, "no records")
    run_bench(collection, ["bm25@tokens:5"], spans=[("q00", "d0", 0, size)])


HEADS = [
    ("query", "doc", "start", "end"),
    ("query-id", "corpus-id", "start_index", "end_index"),
    ("qid", "docno", "startOffset", "endOffset"),
]


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json"])
def test_files(tmp_path: Path, head: tuple[str, ...], ending: str) -> None:
    _, passages = drawn(1)
    path = tmp_path / f"spans.{ending}"
    if ending in ("csv", "tsv"):
        mark = "," if ending == "csv" else "\t"
        path.write_text("\n".join(mark.join(map(str, row)) for row in [head, *passages]), "utf-8")
    else:
        rows = [dict(zip(head, row, strict=True)) for row in passages]
        lines = "\n".join(map(json.dumps, rows)) if ending == "jsonl" else json.dumps(rows)
        path.write_text(lines, "utf-8")
    read = read_spans(path)
    assert read is not None
    assert [tuple(passage)[:4] for passage in read.passages] == passages


def test_lists_of_references_and_their_texts(tmp_path: Path) -> None:
    """The layout of chunking_evaluation: question, references, corpus_id."""
    path = tmp_path / "questions.csv"
    good = [{"content": "xy", "start_index": 1, "end_index": 3}]
    quoted = json.dumps(good).replace('"', '""')
    path.write_text(f'question,references,corpus_id\nWho?,"{quoted}",a\n', "utf-8")
    read = read_spans(path)
    assert read is not None
    assert read.pairs() == [("Who?", "a", 1.0)]
    qrels = as_judgments({"7": {"a": 1}})
    collection = Collection(Ids.of(["a"]), ["zxyz"], Ids.of(["7"]), ["Who?"], qrels)
    assert read.match(collection) == {"7": {0: [(1, 3)]}}
    other = replace(collection, doc_texts=["z\r\nxyz"], fingerprint="")
    with pytest.raises(ValueRangeError, match=r"line 2: .* not 'xy'; its text begins at 3"):
        read.match(other)
    path.write_text("question,references,corpus_id\nWho?,[3],a\n", "utf-8")
    with pytest.raises(AssayError, match=r"questions\.csv, line 2: 3 lacks start or end"):
        read_spans(path)


def test_other_judgments_are_no_spans(tmp_path: Path) -> None:
    for name, text in {
        "qrels.tsv": "query-id\tcorpus-id\tscore\nq\td\t1\n",
        "qrels.trec": "q 0 d 1\n",
        "qrels.json": '{"q": {"d": 1}}',
        "list.json": '[{"question": "Who?", "relevant_docs": ["d"]}]',
        "start.csv": "query,doc,start\nq,d,1\n",
    }.items():
        (tmp_path / name).write_text(text, "utf-8")
        assert read_spans(tmp_path / name) is None, name
    with pytest.raises(UsageError, match="The spans lack the columns start and end"):
        run_bench(small(), ["bm25"], spans=tmp_path / "qrels.tsv")


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assay: Callable[..., Any]
) -> None:
    collection, passages = drawn(2)
    layout = write_collection(collection, tmp_path / "made")
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{q},{d},{a},{b}\n" for q, d, a, b in passages)
    Path("spans.csv").write_text(f"query,doc,start,end\n{rows}", "utf-8")
    command = ["bench", "--corpus", str(layout.corpus), "--queries", str(layout.queries)]
    command += ["--model", "bm25@tokens:9:2", "--model", "bm25@sentences:2", "--no-cache"]
    done = assay(*command, "-r", "spans.csv", "--json")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    models = ["bm25@tokens:9:2", "bm25@sentences:2"]
    expected = run_bench(collection, models, spans=passages)
    for entry, system in zip(data["systems"], expected.systems, strict=True):
        for name in SPAN_MEASURES:
            mean = float(np.mean(system.scores[name]))
            assert entry["measures"][name]["mean"] == pytest.approx(mean)
    assert set(data["comparison"]["measures"]) >= set(SPAN_MEASURES)
    Path("spans.csv").write_text(f"query,doc,start,end\n{rows}q00,d0,5,99999\n", "utf-8")
    wrong = assay(*command, "-r", "spans.csv")
    assert wrong.code == 3
    assert f"spans.csv, line {len(passages) + 2}" in wrong.err
    both = assay(
        *command[:5],
        "--model",
        "bm25",
        "--chunk",
        "tokens:9",
        "--judged",
        "chunks",
        "-r",
        "spans.csv",
    )
    assert both.code == 2
    assert "judged = chunks and offsets exclude each other" in both.err
