"""Tables of records: by measure, by run, by query, by group."""

from __future__ import annotations

import pytest

from assay import evaluate
from assay.runs import RunRecord
from assay.runs.record import group_table, measure_table, query_table, run_table, title
from assay.tables.table import Table

QRELS = {"q1": {"a": 1}, "q2": {"b": 1}}


def make_record(name: str, first: str, **fields: object) -> RunRecord:
    run = {query: {doc: 2.0 if doc == first else 1.0 for doc in "ab"} for query in QRELS}
    scores = evaluate(run, QRELS, ["RR", "P@1", "NumRel"])
    return RunRecord(name, scores.with_groups(kind={"q1": "x", "q2": "y"}), **fields)  # type: ignore[arg-type]


def cells(table: Table) -> list[list[object]]:
    return [[cell.value for cell in row] for row in table.rows]


def test_one_run_has_a_row_for_each_measure() -> None:
    table = measure_table(
        make_record("r", "a", chance={"RR": 0.6, "P@1": 0.5, "num_rel": 1}), False
    )
    assert table.columns == ("measure", "value", "chance", "average", "queries")
    assert cells(table)[0][:4] == ["RR", 0.75, 0.6, "micro"]
    assert [row[3] for row in cells(table)] == ["micro", "micro", "sum"]


def test_several_runs_have_a_row_each_and_the_best_is_marked() -> None:
    good = evaluate({"q1": {"a": 1.0}, "q2": {"b": 1.0}}, QRELS, ["RR", "P@1", "NumRel"])
    records = [make_record("r", "a"), RunRecord("good", good)]
    table = run_table(records, False)
    assert [row[0] for row in cells(table)] == ["r", "good"]
    assert [[cell.best for cell in row] for row in table.rows] == [
        [False, False, False, False],
        [False, True, True, False],  # counts have no best
    ]


@pytest.mark.parametrize(("percent", "kind"), [(True, "percent"), (False, "fraction")])
def test_percent_is_for_fractions_only(percent: bool, kind: str) -> None:
    row = run_table([make_record("r", "a")], percent).rows[0]
    assert [cell.kind for cell in row[1:]] == [kind, kind, "count"]
    unit = ", values in percent" if percent else ""
    assert title([make_record("r", "a")], percent) == f"r, 2 judged queries{unit}"


def test_queries_and_groups_have_their_means_beside_them() -> None:
    records = [make_record("r", "a"), make_record("s", "b")]
    queries = cells(query_table(records, False))
    assert [row[:3] for row in queries[:3]] == [
        ["r", "q1", 1.0],
        ["r", "q2", 0.5],
        ["r", "all (micro)", 0.75],
    ]
    groups = cells(group_table(records[:1], "kind", False))
    assert [row[:3] for row in groups] == [
        ["micro (over queries)", 2, 0.75],
        ["macro (over groups)", 2, 0.75],
        ["x", 1, 1.0],
        ["y", 1, 0.5],
    ]
