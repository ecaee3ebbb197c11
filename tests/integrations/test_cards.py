"""Model cards of Hugging Face: written from records and runs, and read whoever wrote them."""

from __future__ import annotations

import pytest
import yaml

from assay import evaluate
from assay.errors import FormatError, UsageError
from assay.integrations import model_card, read_model_card
from assay.runs.record import RunRecord
from assay.runs.results import Aggregate

QRELS = {f"q{i}": {"a": 1} for i in range(30)}
RUN = {query: {"a": 2.0 if i % 3 else 0.5, "b": 1.0} for i, query in enumerate(QRELS)}


def record(name: str = "mine", **about: object) -> RunRecord:
    return RunRecord(name, evaluate(RUN, QRELS, ["nDCG@10", "RR"]), task="retrieval", **about)


def test_what_is_written_is_read(tmp_path):
    one = record(dataset="cranfield")
    card = tmp_path / "README.md"
    card.write_text(model_card([one], split="test", revision="1a") + "\n# A model\n", "utf-8")
    ndcg, rr = read_model_card(card)
    assert (ndcg.model, ndcg.task, ndcg.dataset, ndcg.split) == (
        "mine",
        "retrieval",
        "cranfield",
        "test",
    )
    assert (ndcg.metric, ndcg.metric_name, ndcg.revision) == ("ndcg_at_10", "nDCG@10", "1a")
    assert ndcg.value == one.means["nDCG@10"]
    assert rr.value == one.means["RR"]
    assert ndcg.args["low"] < ndcg.value < ndcg.args["high"]
    assert ndcg.args["queries"] == 30
    assert ndcg.signature == one.scored().signature


def test_the_index_has_the_shape_that_the_hub_reads():
    text = model_card([record(dataset="a"), record("other", model="mine", dataset="b")])
    (model,) = yaml.safe_load(text.strip().strip("-"))["model-index"]
    assert model["name"] == "mine"
    assert [one["dataset"]["name"] for one in model["results"]] == ["a", "b"]
    for result in model["results"]:
        assert set(result) == {"task", "dataset", "metrics"}
        assert {"type", "name"} <= set(result["dataset"])
        assert all({"type", "name", "value", "args"} == set(one) for one in result["metrics"])


def test_huggingface_hub_reads_it(tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    (tmp_path / "README.md").write_text(model_card([record(dataset="a")]), "utf-8")
    data = hub.ModelCard.load(tmp_path / "README.md").data
    assert data.model_name == "mine"
    assert [one.metric_type for one in data.eval_results] == ["ndcg_at_10", "rr"]
    assert data.eval_results[0].metric_value == record().means["nDCG@10"]


def test_cards_of_others_are_read(tmp_path):
    card = tmp_path / "README.md"
    card.write_text(
        "---\nlicense: mit\ndate: 2024-01-01\nmodel-index:\n- name: e5\n  results:\n"
        "  - task:\n      type: Retrieval\n    dataset:\n      type: mteb/scifact\n"
        "      name: MTEB SciFact\n      config: default\n    metrics:\n"
        "    - type: ndcg_at_10\n      value: 67.5\n---\n# e5\n"
    )
    (found,) = read_model_card(card)
    assert (found.model, found.dataset, found.value, found.config) == (
        "e5",
        "mteb/scifact",
        67.5,
        "default",
    )
    card.write_text("---\nlicense: mit\n---\n")
    assert read_model_card(card) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# no head\n", "is not a model card"),
        ("---\na: 1\n", "Add a second ---"),
        ("---\nmodel-index:\n- name: x\n---\n", "incomplete model-index: KeyError"),
        ("---\nmodel-index: 3\n---\n", "incomplete model-index: TypeError"),
        ("---\na: [1\n---\n", "not YAML"),
    ],
)
def test_what_is_no_card_is_refused(tmp_path, text, message):
    (tmp_path / "README.md").write_text(text)
    with pytest.raises(FormatError, match=message):
        read_model_card(tmp_path / "README.md")


def test_a_second_average_of_a_measure_is_named_with_it():
    own = Aggregate("RR", 0.25, average="macro")
    found = yaml.safe_load(model_card([record(aggregates=[own])]).strip().strip("-"))
    metrics = found["model-index"][0]["results"][0]["metrics"]
    assert [(one["name"], one["type"]) for one in metrics[1:]] == [
        ("RR", "rr"),
        ("RR macro", "rr_macro"),
    ]
    assert metrics[2]["value"] == 0.25


def test_a_card_is_of_one_model():
    with pytest.raises(UsageError, match="found mine, other"):
        model_card([record(), record("other")])
    with pytest.raises(UsageError, match="found none"):
        model_card([])
    assert "name: both" in model_card([record(), record("other")], model="both")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open("bm25.run", "w") as run, open("test.qrels", "w") as qrels:
        for query in QRELS:
            print(query, 0, "a", 1, file=qrels)
            for rank, (doc, score) in enumerate(RUN[query].items(), 1):
                print(query, "Q0", doc, rank, score, "bm25", file=run)


@pytest.mark.usefixtures("files")
def test_eval_writes_a_card(assay):
    done = assay(
        *("eval", "bm25.run", "-r", "test.qrels", "-m", "nDCG@10", "--format", "model-card"),
        *("-o", "README.md"),
    )
    assert done.code == 0
    (found,) = read_model_card("README.md")
    assert (found.model, found.dataset, found.value) == (
        "bm25",
        "test.qrels",
        record().means["nDCG@10"],
    )
    refused = assay("eval", "bm25.run", "bm25.run", "-r", "test.qrels", "--format", "model-card")
    assert refused.code == 2
    assert "the means of one run" in refused.err


@pytest.mark.usefixtures("files")
def test_stored_runs_become_a_card(assay):
    pytest.importorskip("sqlalchemy")
    saved = assay("eval", "bm25.run", "-r", "test.qrels", "-m", "RR", "--save", "--dataset", "cran")
    assert saved.code == 0
    done = assay("runs", "export", "1", "-o", "card.md", "--format", "model-card")
    assert done.code == 0
    (found,) = read_model_card("card.md")
    assert (found.model, found.dataset, found.metric_name) == ("bm25", "cran", "RR")
    assert found.value == record().means["RR"]
