"""Every result has a short repr and a clean table for notebooks; typical mistakes get a hint."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

import assay as library
from assay.bench import run_bench
from assay.codes import evaluate_codes
from assay.core.ids import Ids
from assay.crossmodal import label_retrieval, paired_retrieval
from assay.errors import IdError, UsageError
from assay.io.collections import Collection
from assay.io.demo_collection import write_files
from assay.io.formats import as_judgments
from assay.io.texts import read_texts
from assay.judging import estimate_from_labels, measure_agreement, read_labels, read_pool
from assay.models import encoder
from assay.models.specs import find_kind
from assay.prediction import (
    PredictionRequest,
    compare_seed_means,
    evaluate_confidence,
    evaluate_files,
    evaluate_predictions,
)
from assay.report import make_report
from assay.runs import rank_records
from assay.tables.table import Page, Shown, Table, Words, table_of
from assay.tasks import compare_tasks
from assay.vision import match_images, read_experiment, run_experiment

EVIL = "<script>alert(1)</script>"
RNG = np.random.default_rng(7)
QUERIES = [f"q{i}" for i in range(30)]
QRELS = {q: {f"d{j}": int(j % 3 == 0) for j in range(40)} for q in QUERIES}


def run() -> dict[str, dict[str, float]]:
    return {q: {f"d{j}": float(RNG.random()) for j in range(40)} for q in QUERIES}


def scores(measures: str | list[str] = "default") -> library.Scores:
    return library.evaluate(run(), QRELS, measures)


def compared() -> object:
    measures = [f"P@{k}" for k in range(1, 12)]
    systems = {name: scores(measures) for name in (EVIL, *"bcdefgh")}
    return library.compare(systems, resamples=199)


def crossmodal() -> object:
    labels = np.repeat([EVIL, *(f"label {i}" for i in range(29))], 2)
    vectors = {name: RNG.random((60, 8)) for name in ("image", "text")}
    return label_retrieval(vectors, {"fine": labels, "coarse": labels})


def bench() -> object:
    texts = [f"word{i} shared other{i % 7}" for i in range(30)]
    pairs = as_judgments({f"q{i}": {f"d{i}": 1} for i in range(12)})
    ids = [f"d{i}" for i in range(30)]
    queries = [f"q{i}" for i in range(12)]
    data = Collection(Ids.of(ids), texts, Ids.of(queries), texts[:12], pairs, EVIL)
    return run_bench(data, ["bm25", "tfidf"])


def codes() -> object:
    docs, queries = RNG.random((60, 16)), RNG.random((20, 16))
    return evaluate_codes(docs, queries, k=(3, 5), bits=(8, 16))


def seeds() -> object:
    names = [EVIL, *"abcdefg"]
    return compare_seed_means(
        {n: {"RR": list(RNG.random(3)), "AP": list(RNG.random(3))} for n in names}
    )


def tasks() -> object:
    rows = [
        {"system": system, "task": f"t{task}", "query": str(query), "value": RNG.random()}
        for system in (EVIL, "b", "c")
        for task in range(12)
        for query in range(6)
    ]
    return compare_tasks(rows, resamples=199)


def paired() -> object:
    return paired_retrieval({EVIL: RNG.random((60, 8)), "text": RNG.random((60, 8))})


def agreement() -> object:
    files = {name: read_labels(f"{name}.labels.jsonl") for name in ("pool", "machine")}
    by_pair = {name: next(iter(read.by_labeller().values())) for name, read in files.items()}
    return measure_agreement(by_pair)


def estimates() -> object:
    runs = {name: f"{name}.run" for name in ("dense", "lexical")}
    return estimate_from_labels(runs, read_pool("pool.tsv"), read_labels("pool.labels.jsonl"))


def stored() -> object:
    with library.store.open("runs.db") as store:
        store.save(scores("P@5"), name=EVIL)
        return store.runs()


RESULTS = {
    "Scores": lambda: scores([f"P@{k}" for k in range(1, 60)]),
    "Comparison": compared,
    "QueryDifferences": lambda: library.compare(
        {EVIL: scores("P@5"), "b": scores("P@5")}, resamples=199
    ).differences("P@5"),
    "CheckReport": lambda: library.check({EVIL: {"d": 1.0}} | run(), QRELS | {EVIL: {"e": 1}}),
    "Explanation": lambda: library.explain(
        {"q": {EVIL: 99.0} | {f"d{i}": float(i) for i in range(50)}},
        {"q": {f"d{i}": 1 for i in range(40)}},
        query="q",
        measure="AP",
    ),
    "CrossmodalResult": crossmodal,
    "DirectionResult": lambda: crossmodal().directions[0],
    "Report": lambda: make_report({EVIL: scores(), "b": scores(), "c": scores()}),
    "BenchResult": bench,
    "CodesReport": codes,
    "PredictionResult": lambda: evaluate_predictions(
        RNG.random((50, 9)), RNG.integers(0, 9, 50), name=EVIL
    ),
    "SeedReport": seeds,
    "RunDiff": lambda: library.diff(run(), run(), names=(EVIL, "new")),
    "TaskComparison": tasks,
    "CrossmodalResult of pairs": paired,
    "DirectionResult of pairs": lambda: paired().directions[0],
    "Leaderboard": lambda: rank_records({EVIL: scores(), "b": scores()}),
    "ConfidenceResult": lambda: evaluate_confidence(
        RNG.normal(size=(90, 9)), RNG.integers(0, 9, 90), kind="logits", name=EVIL
    ),
    "ModelResults": lambda: evaluate_files(PredictionRequest(("logits.npy",), "labels.npy")),
    "AgreementReport": agreement,
    "LabelEstimates": estimates,
    "ExperimentResult": lambda: run_experiment(read_experiment("experiment.yaml")),
    "MatchingReport": lambda: match_images(read_experiment("experiment.yaml")),
    "RunList": stored,
    "Run": lambda: stored()[0],
}
NEEDED = {
    "ExperimentResult": "cv2",
    "MatchingReport": "cv2",
    "RunList": "sqlalchemy",
    "Run": "sqlalchemy",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    write_files(folder)
    return folder


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_short_as_text_and_clean_in_a_notebook(name, demo, monkeypatch):
    monkeypatch.chdir(demo)
    if name in NEEDED:
        pytest.importorskip(NEEDED[name])
    result = RESULTS[name]()
    assert type(result).__name__ == name.partition(" ")[0]
    text = repr(result)
    assert text.count("\n") < 20
    assert 0 < len(text) <= 1600
    page = result._repr_html_()
    assert "<table" in page or "<p" in page
    assert "<script" not in page


def test_values_that_hold_many_rows_tell_their_size(demo):
    labels = read_labels(demo / "pool.labels.jsonl")
    assert repr(labels) == f"LabelSet({len(labels)} labels of {len(labels.by_pair())} pairs)"
    sampled = library.judging.queries_from_log(demo / "searches.csv", 10)
    assert repr(sampled) == str(sampled)
    assert repr(sampled).startswith(f"{len(sampled.queries)} queries")


def test_the_classes_whose_results_are_long_to_make_share_the_same_repr():
    from assay.bench import Answers, SweepCurve
    from assay.vision.patches import PatchReport
    from assay.vision.report import ExperimentReport

    for kind in (Answers, SweepCurve, PatchReport, ExperimentReport):
        assert kind.__repr__ is Shown.__repr__, kind
        assert kind._repr_html_ is Shown._repr_html_, kind
        assert callable(kind.page)


@dataclass(frozen=True, repr=False)
class Rows(Shown):
    n: int
    width: int = 5

    def page(self) -> Page:
        return [Words(EVIL, "verdict"), table_of(("x",), [("y" * self.width,)] * self.n)]


def test_a_repr_is_whole_where_it_fits_and_says_where_it_was_cut():
    assert repr(Rows(17)) == str(Rows(17))  # a verdict, an empty line, a heading
    cut = repr(Rows(18)).splitlines()
    assert (len(cut), cut[-1]) == (20, "… print() shows all")
    assert cut[:-1] == str(Rows(18)).splitlines()[:19]
    wide = repr(Rows(10, 1000))
    assert len(wide) <= 1600
    assert wide.endswith("print() shows all")
    assert len(str(Rows(10, 1000))) > 10_000
    assert "&lt;script&gt;" in Rows(1)._repr_html_()
    assert isinstance(Rows(1).page()[1], Table)


# Hints


def test_compare_takes_paths_and_says_that_these_need_judgments(demo, monkeypatch):
    monkeypatch.chdir(demo)
    paths = ["dense.run", "lexical.run"]
    assert library.compare(paths, "qrels.txt", resamples=199).names == ("dense", "lexical")
    with pytest.raises(UsageError, match=r"Run files need judgments: compare\(\["):
        library.compare(*paths)


def test_labels_that_are_missing(assay, demo, monkeypatch):
    monkeypatch.chdir(demo)
    vectors = {"image": RNG.random((6, 8)), "text": RNG.random((6, 8))}
    with pytest.raises(UsageError, match=r"No labels\. .*paired_retrieval"):
        label_retrieval(vectors)
    files = "--modality image=images.npy --modality text=texts.npy"
    answer = assay("crossmodal", *files.split())
    assert answer.code == 2
    assert "Missing option '--labels'" in answer.err
    assert "pass --protocol pairs" in answer.err


def test_hints_stand_in_the_messages_of_commands(assay, demo, monkeypatch):
    monkeypatch.chdir(demo)
    model = "sentence-transformers/all-MiniLM-L6-v2"
    lines = {
        f"bench --corpus notes --qrels questions.csv --model {model}": f"Write st:{model}",
        "bench --corpus nothere --qrels questions.csv --model bm25": "nothere does not exist.",
    }
    for line, hint in lines.items():
        answer = assay(*line.split())
        assert (answer.code, hint in answer.err) == (2, True), answer.err
    answer = assay("explain", "dense.run", "-r", "qrels.txt", "--query", "how do wings lift?")
    assert "Pass the id of a query, not its text." in answer.err


@pytest.mark.parametrize(
    "spec", ["sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2", "bge-small-en-v1.5"]
)
def test_a_model_of_a_hub_is_told_its_prefix(spec):
    for look_up in (find_kind, encoder):
        with pytest.raises(UsageError, match=f"Write st:{spec} for sentence-transformers. Known"):
            look_up(spec)


def test_a_misspelt_model_or_attribute_is_told_the_nearest():
    with pytest.raises(UsageError) as caught:
        find_kind("bm26")
    assert "st:bm26" not in str(caught.value)
    with pytest.raises(AttributeError, match=r"no attribute 'evalute'\. Did you mean evaluate"):
        library.evalute  # noqa: B018


def test_a_corpus_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"nothere does not exist\. Check the path"):
        read_texts(tmp_path / "nothere", "doc")
    (tmp_path / "there.xyz").write_text("x")
    with pytest.raises(UsageError, match=r"Cannot read texts from .*there\.xyz\. Convert it"):
        read_texts(tmp_path / "there.xyz", "doc")


def test_a_question_where_an_id_is_expected(tmp_path):
    question = {"_id": "q7", "text": "How do  wings lift?"}
    (tmp_path / "queries.jsonl").write_text(json.dumps(question) + "\n")
    inputs = {"q7": {"a": 1.0}}, {"q7": {"a": 1}}
    asked = "How do wings lift?"
    with pytest.raises(IdError, match=r"It is the text of query 'q7'\. Pass the id\."):
        library.explain(*inputs, query=asked, queries=tmp_path / "queries.jsonl")
    with pytest.raises(IdError, match=r"Pass the id of a query, not its text\."):
        library.explain(*inputs, query=asked)
    with pytest.raises(IdError) as caught:
        library.explain(*inputs, query="q8")
    assert "Pass" not in str(caught.value)
