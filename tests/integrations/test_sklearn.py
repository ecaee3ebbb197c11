"""The scorer of scikit-learn in cross validation and grid search, against `evaluate`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from assay import evaluate
from assay.errors import MeasureError, ShapeError, UsageError, ValueRangeError
from assay.integrations import ranking_score, ranking_scorer

RNG = np.random.default_rng(8)
N, PER = 20, 6
GROUPS = np.repeat([f"q{i:02}" for i in range(N)], PER)
FEATURES = RNG.normal(size=(N * PER, 3))
GRADES = (FEATURES @ [1.0, 0.5, 0.0] + RNG.normal(size=N * PER) > 0.5).astype(int)
FRAME = pd.DataFrame(FEATURES, columns=["a", "b", "c"]).assign(query=GROUPS)


def drop_query(X):
    return X[["a", "b", "c"]]


def pipeline(model):
    return make_pipeline(FunctionTransformer(drop_query), model)


def by_evaluate(scores: np.ndarray, measure: str, rows: np.ndarray) -> float:
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for row, value in zip(rows, scores, strict=True):
        run.setdefault(GROUPS[row], {})[f"{row:04}"] = float(value)
        qrels.setdefault(GROUPS[row], {})[f"{row:04}"] = int(GRADES[row])
    return evaluate(run, qrels, measure).mean()[measure]


def test_cross_validation_gives_the_numbers_of_evaluate():
    folds = list(GroupKFold(4).split(FRAME, GRADES, GROUPS))
    scorer = ranking_scorer("nDCG@3", groups="query")
    found = cross_val_score(pipeline(Ridge()), FRAME, GRADES, scoring=scorer, cv=folds)
    for value, (train, test) in zip(found, folds, strict=True):
        model = pipeline(Ridge()).fit(FRAME.iloc[train], GRADES[train])
        assert value == by_evaluate(model.predict(FRAME.iloc[test]), "nDCG@3", test)


def test_grid_search_takes_it():
    search = GridSearchCV(
        pipeline(LogisticRegression()),
        {"logisticregression__C": [0.01, 1.0]},
        scoring={
            "rr": ranking_scorer("RR", groups="query"),
            "ap": ranking_scorer("AP", groups="query"),
        },
        refit="rr",
        cv=GroupKFold(3),
    )
    search.fit(FRAME, GRADES, groups=GROUPS)
    assert 0.5 < search.best_score_ <= 1.0
    assert {"mean_test_rr", "mean_test_ap"} <= set(search.cv_results_)


def test_groups_by_metadata_routing():
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_val_score(
            LinearRegression(),
            FEATURES,
            GRADES,
            scoring=ranking_scorer("RR"),
            cv=GroupKFold(4),
            params={"groups": GROUPS},
        )
    column = cross_val_score(
        pipeline(LinearRegression()),
        FRAME,
        GRADES,
        scoring=ranking_scorer("RR", groups="query"),
        cv=GroupKFold(4),
        groups=GROUPS,
    )
    assert found.tolist() == column.tolist()


def test_groups_by_number_of_a_column_and_by_function():
    numbers = np.repeat(np.arange(N), PER)
    table = np.column_stack([FEATURES, numbers])
    model = LinearRegression().fit(table, GRADES)
    by_number = ranking_scorer("AP", groups=3)(model, table, GRADES)
    by_function = ranking_scorer("AP", groups=lambda X: X[:, 3])(model, table, GRADES)
    assert by_number == by_function
    assert by_number == ranking_score(GRADES, model.predict(table), groups=numbers, measure="AP")


def test_classifiers_are_ranked_by_what_they_have():
    forest = RandomForestClassifier(5, random_state=0).fit(FEATURES, GRADES)
    logistic = LogisticRegression().fit(FEATURES, GRADES)
    scorer = ranking_scorer("AP", groups=lambda X: GROUPS)
    assert scorer(forest, FEATURES, GRADES) == by_evaluate(
        forest.predict_proba(FEATURES)[:, 1], "AP", np.arange(N * PER)
    )
    assert scorer(logistic, FEATURES, GRADES) == by_evaluate(
        logistic.decision_function(FEATURES), "AP", np.arange(N * PER)
    )


def test_what_cannot_be_ranked_is_refused():
    many = RandomForestClassifier(3).fit(FEATURES, np.arange(N * PER) % 3)
    with pytest.raises(ShapeError, match="predict_proba has 3 numbers per row"):
        ranking_scorer("AP", groups=lambda X: GROUPS)(many, FEATURES, GRADES)
    with pytest.raises(UsageError, match="X lacks column 'topic'"):
        ranking_scorer("AP", groups="topic")(pipeline(Ridge()).fit(FRAME, GRADES), FRAME, GRADES)
    with pytest.raises(UsageError, match="Pass groups as a column number, not 'topic'"):
        ranking_scorer("AP", groups="topic")(Ridge().fit(FEATURES, GRADES), FEATURES, GRADES)
    with pytest.raises(UsageError, match="lacks decision_function"):
        ranking_scorer("AP", groups=0)(object(), FEATURES, GRADES)
    with pytest.raises(ShapeError, match="have shapes"):
        ranking_score([1, 0], [0.5], groups=["a", "a"])
    with pytest.raises(MeasureError):
        ranking_scorer("nDGC@3", groups="query")


def test_its_name_is_its_call():
    assert repr(ranking_scorer("ndcg_cut_3", groups="query")) == (
        "ranking_scorer('nDCG@3', groups='query')"
    )


def test_a_model_that_predicts_a_whole_number_for_fractional_grades_is_scored():
    """Which argument holds the grades is known here: nothing can be swapped."""
    grades, queries = np.linspace(0.95, 0.05, 12), np.repeat(np.arange(3), 4)
    for constant in (0.0, 1.0):
        found = ranking_score(grades, np.full(12, constant), groups=queries, measure="nDCG@10")
        assert 0 < found < 1


@pytest.mark.parametrize(
    "groups", [["a", None, "a"], ["a", np.nan, "a"], np.array([1, np.nan, 1]), pd.array([1, pd.NA])]
)
def test_a_row_without_a_query_is_refused(groups):
    rows = np.arange(len(groups))
    with pytest.raises(ValueRangeError, match="row 1 has no query"):
        ranking_score(rows, rows, groups=groups, measure="AP")
