"""Whether rules change the outcome: what is said on runs made so that one rule matters."""

from __future__ import annotations

import pytest

from assay import compare, parse
from assay.comparison.sensitivity import Sensitivity, other_rules, sensitivity
from assay.core.conventions import as_conventions
from assay.errors import AssayError
from tests.comparison.made_scores import scores_of

QUERIES = [f"q{number:02}" for number in range(12)]
QRELS = {query: {"x": 1} for query in QUERIES}
TIES = {"best": as_conventions("trec_eval").replace(ties="best")}


def run(*documents):
    """Documents with their scores, for each query the same; `x` is the relevant one."""
    return {query: dict(documents) for query in QUERIES}


FIRST = run(("x", 2), ("y", 1))
SECOND = run(("x", 1), ("y", 2))
THIRD = run(("x", 1), ("y", 2), ("z", 3))
TIED = run(("x", 1), ("y", 1))  # second as given, for y is later in the alphabet; first at best


def test_a_winner_under_all_rules() -> None:
    found = sensitivity({"a": FIRST, "b": SECOND}, QRELS, "RR", rules=TIES)
    assert found.verdict == "a is first on RR under all 2 rules."
    assert found.unchanged == ("best",)
    assert [row[0].value for row in found.table().rows] == ["as given"]
    assert found.table().columns == ("rule", "a", "b", "first", "p (1st, 2nd)")
    assert [cell.value for cell in found.table().rows[0]][1:4] == [1.0, 0.5, "a"]
    assert repr(found).startswith(found.verdict)


def test_a_lead_that_is_clear_only_under_some_rules() -> None:
    mixed = {query: (FIRST if query < "q02" else TIED)[query] for query in QUERIES}
    found = sensitivity({"a": TIED, "b": SECOND}, QRELS, "RR", rules=TIES)
    assert found.verdict == ("The winner depends on the conventions: a (best).")
    assert found.winner_changes
    assert found.firsts() == {"as given": ("a", "b"), "best": ("a",)}
    lead = sensitivity({"a": mixed, "b": SECOND}, QRELS, "RR", rules=TIES)
    assert lead.verdict == (
        "a is first on RR under all 2 rules. Its lead is significant only under best."
    )
    assert [one["separable"] for one in lead.to_dict()["rules"]] == [False, True]


def test_the_outcome_against_a_baseline() -> None:
    mixed = {query: (FIRST if query < "q02" else TIED)[query] for query in QUERIES}
    runs = {"a": FIRST, "b": mixed, "old": SECOND}
    found = sensitivity(runs, QRELS, "RR", rules=TIES, baseline="old")
    rows = {row[0].value: row[-1].value for row in found.table().rows}
    assert rows == {"as given": "a", "best": "a, b"}
    assert found.table().columns[-1] == "better than old"
    assert "winner" in found.verdict
    same = sensitivity({"b": mixed, "old": SECOND}, QRELS, "RR", rules=TIES, baseline="old")
    assert same.verdict == (
        "b is first on RR under all 2 rules. The outcome against old depends on the rule for b."
    )
    turned = sensitivity({"b": SECOND, "old": FIRST}, QRELS, "RR", rules=TIES, baseline="old")
    assert turned.table().rows[0][-1].value is None
    assert [one["separable"] for one in turned.to_dict()["rules"]] == [True, True]


def test_the_order_behind_the_first_may_change() -> None:
    given = {"worst": as_conventions("trec_eval").replace(ties="worst")}
    falling = run(("x", 1), ("y", 1), ("w", 1), ("v", 1))  # second as given, fourth at worst
    runs = {"a": FIRST, "b": THIRD, "c": falling}
    found = sensitivity(runs, QRELS, "RR", rules=given)
    assert found.verdict == (
        "a is first on RR under all 2 rules. The order of the others changes under worst."
    )


def test_rules_under_which_runs_cannot_be_compared_are_named() -> None:
    half = {query: FIRST[query] for query in QUERIES[:5]}
    rules = {"skip": as_conventions("trec_eval").replace(missing="skip")}
    found = sensitivity({"a": FIRST, "b": half}, QRELS, "RR", rules=rules)
    assert found.verdict.endswith("They cannot be compared under skip.")
    assert list(found.to_dict()["refused"]) == ["skip"]
    assert "Only 5 queries" in found.refused["skip"]
    with pytest.raises(AssayError, match="Only 5 queries"):
        sensitivity({"a": FIRST, "b": half}, QRELS, "RR", conventions=rules["skip"])


def test_a_mean_of_no_query_is_none_and_shared() -> None:
    rules = {"skip": as_conventions("trec_eval").replace(empty="skip")}
    unjudged = {query: {"x": 0} for query in QUERIES}
    found = sensitivity({"a": FIRST, "b": SECOND}, unjudged, "RR", rules=rules)
    assert found.firsts() == {"as given": ("a", "b"), "skip": ("a", "b")}
    given, skipped = (rule["means"] for rule in found.to_dict()["rules"])
    assert (given, skipped) == ({"a": 0.0, "b": 0.0}, {"a": None, "b": None})
    assert found.unchanged == ()


def test_a_negative_mean_is_a_number() -> None:
    scores = [scores_of([-0.5] * 8), scores_of([-0.25] * 8)]
    found = Sensitivity(parse("RR"), {"as given": compare(*scores, names=["a", "b"])})
    assert found.to_dict()["rules"][0]["means"] == {"a": -0.5, "b": -0.25}
    assert found.firsts() == {"as given": ("b",)}


def test_the_last_resort_for_ties_is_a_rule_only_where_ties_are_ordered() -> None:
    for ties in ("order", "expected"):
        names = other_rules(parse("RR"), as_conventions("trec_eval").replace(ties=ties))
        assert f"ties: {ties}" not in names
        assert {name.partition(":")[0] for name in names} == {
            *("ties", "scores", "empty", "missing", "self", "unjudged"),
            *(["tiebreak"] if ties == "order" else []),
        }


def test_many_systems_have_no_columns() -> None:
    for n, columns in ((6, 9), (7, 3)):
        runs = {f"s{number}": FIRST if number else SECOND for number in range(n)}
        table = sensitivity(runs, QRELS, "RR", rules={}, resamples=100).table()
        assert len(table.columns) == len(table.rows[0]) == columns
