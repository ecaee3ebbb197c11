"""RunRecord: what it takes, what it refuses, and how several become comparable."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from assay import Scores, evaluate
from assay.errors import MeasureError, UsageError
from assay.runs import Aggregate, QueryResults, RunRecord
from assay.runs.record import as_records, fingerprint_files, only_measures, shared_measures
from assay.runs.results import aggregates_of

QRELS = {"q1": {"a": 1}, "q2": {"b": 1}, "q3": {"a": 1, "b": 1}}


def make_scores(measures: list[str], seed: int = 0) -> Scores:
    rng = np.random.default_rng(seed)
    run = {query: {doc: float(rng.random()) for doc in "abcd"} for query in QRELS}
    return evaluate(run, QRELS, measures)


def test_only_a_name_is_needed() -> None:
    record = RunRecord("bm25")
    assert (record.scores, record.tags, record.files, record.aggregates) == (None, (), (), ())
    assert record.query_set == ""
    with pytest.raises(UsageError, match="'bm25' has no per-query values"):
        record.scored()


def test_lists_become_tuples_and_absent_files_are_left_out() -> None:
    given = iter(["b", "a", "b"])
    record = RunRecord("x", tags=given, command=["eval", "x"], files=["f", None, "", "f", "g"])
    assert record.tags == ("a", "b")
    assert record.command == ("eval", "x")
    assert record.files == ("f", "g")
    assert RunRecord("x", config=None).config == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": ""}, "name of a run must be a text"),
        ({"name": 3}, "name of a run must be a text"),
        ({"name": "x" * 501}, "501 characters, more than 500"),
        ({"task": None}, "task of a run must be a text"),
        ({"notes": 3}, "notes of a run must be a text"),
        ({"clusters": 3}, "clusters must be the name of one group column"),
        ({"config": [1]}, "config of a run must be a dictionary"),
        ({"results": 3}, "results of a run must be a dictionary"),
        ({"scores": 0.5}, "scores must be a Scores"),
        ({"aggregates": [0.5]}, "every aggregate must be an Aggregate"),
        ({"tags": "one"}, "tags must be a list of texts"),
    ],
)
def test_what_cannot_be_stored_is_refused_at_once(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RunRecord(**{"name": "x", **given})


def test_an_unknown_field_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no 'datset'\. Did you mean dataset\?"):
        RunRecord.of(name="x", datset="d")


def test_but_changes_some_fields_only() -> None:
    scores = make_scores(["RR"])
    record = RunRecord("x", scores, task="t", config={"query_set": "abc"})
    other = record.replace(name="y", dataset="d")
    assert (other.name, other.dataset, other.task, other.scores) == ("y", "d", "t", scores)
    assert (record.name, record.dataset) == ("x", "")
    assert (record.query_set, record.record()) == ("abc", record)


def test_chance_is_given_as_scores_or_as_means() -> None:
    scores = make_scores(["RR", "AP"])
    assert RunRecord("x").chance_means() is None
    assert RunRecord("x", chance={"RR": 0.1}).chance_means() == {"RR": 0.1}
    assert dict(RunRecord("x", ceiling=scores).ceiling_means() or {}) == dict(scores.mean())


def test_files_are_fingerprinted_once_and_what_is_no_file_is_left_out(tmp_path: Any) -> None:
    file = tmp_path / "f"
    file.write_text("abc")
    known = {"g": {"sha256": "x"}}
    one, other = fingerprint_files(
        [RunRecord("a", files=[str(file), "column"], data=known), RunRecord("b")]
    )
    assert one.data[str(file)]["bytes"] == 3
    assert (list(one.data), other.data) == ([str(file), "g"], {})


@dataclass
class Stored:
    """A run of a store, as far as records are concerned."""

    id: int
    name: str
    scores: Scores

    def record(self) -> RunRecord:
        return RunRecord(self.name, self.scores)


def test_stored_runs_of_one_name_get_their_number() -> None:
    scores = make_scores(["RR"])
    runs = [RunRecord("a", scores), Stored(4, "a", scores), Stored(5, "b", scores)]
    assert [one.name for one in as_records(runs)] == ["a", "a #4", "b"]
    names = [one.name for one in as_records([*runs, Stored(6, "b", scores)])]
    assert names == ["a", "a #4", "b #5", "b #6"]


def test_stored_runs_keep_the_measures_that_all_have() -> None:
    left, right = make_scores(["RR", "AP", "P@1"]), make_scores(["P@1", "RR"], 1)
    records = as_records([Stored(1, "a", left), Stored(2, "b", right)])
    assert [list(map(str, one.scored().measures)) for one in records] == [["RR", "P@1"]] * 2
    assert records[1].means == {"RR": right.mean()["RR"], "P@1": right.mean()["P@1"]}
    with pytest.raises(UsageError, match="no measure in common: RR and AP"):
        shared_measures([make_scores(["RR"]), make_scores(["AP"])])
    with pytest.raises(MeasureError, match=r"AP is not among the measures\. Name one of RR"):
        only_measures(make_scores(["RR"]), make_scores(["AP"]).measures)
    with pytest.raises(UsageError, match="every run must be a RunRecord"):
        as_records([scores_instead_of_a_run()])  # type: ignore[list-item]


def scores_instead_of_a_run() -> Scores:
    return make_scores(["RR"])


def test_every_field_of_a_record_is_documented() -> None:
    text = RunRecord.__doc__ or ""
    assert [one.name for one in fields(RunRecord) if f"`{one.name}`" not in text] == ["name"]


def test_clusters_of_an_aggregate_are_a_field() -> None:
    scores = make_scores(["RR"]).with_groups(scene={"q1": "s", "q2": "t", "q3": "t"})
    mean, by_scene = aggregates_of(scores, clusters="scene")
    assert (mean.clusters, mean.method) == ("scene", "score")
    assert (by_scene.clusters, by_scene.by_column) == ("", "scene")
    assert mean.is_overall
    assert not by_scene.is_overall
    plain = aggregates_of(scores)[0]
    assert (plain.clusters, plain.to_dict()["method"]) == ("", "wilson")
    assert mean.to_dict() == {**plain.to_dict(), **ends(mean), "method": "score by scene"}


def ends(one: Aggregate) -> dict[str, Any]:
    return {"low": one.low, "high": one.high, "note": one.note}


@pytest.mark.parametrize(
    "given", [{"value": "x"}, {"n": -1}, {"n": True}, {"clusters": None}, {"method": 3}]
)
def test_an_aggregate_holds_what_a_column_can(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="of an aggregate must be a"):
        Aggregate(**{"measure": "AP", "value": 0.5, **given})


def test_results_of_queries_are_taken_as_they_are() -> None:
    results = {"q1": QueryResults("text", ())}
    assert RunRecord("x", results=results).results is results
