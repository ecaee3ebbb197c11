"""A scorer of scikit-learn: rankings of the rows of each group, in grid searches and validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats
from assay.core.conventions import Conventions, as_conventions
from assay.errors import ShapeError, UsageError, ValueRangeError, need
from assay.integrations.rows import judge_rows
from assay.measures import Measure, parse
from assay.scoring.evaluate import score

_RESPONSES: Final = ("decision_function", "predict_proba", "predict")
_MISSING: Final = ("None", "nan", "NaT", "<NA>")


def ranking_score(
    y_true: Any,
    y_score: Any,
    *,
    groups: Any,
    measure: str | Measure = "nDCG@10",
    conventions: str | Conventions = "trec_eval",
) -> float:
    """Return the mean of a measure over groups (queries) of rows.

    Args:
        y_true: Grade of each row.
        y_score: Score of each row.
        groups: Query of each row.
        measure: Measure, or its name.
        conventions: Conventions, or their name.

    Raises:
        ShapeError: There is not one number a row.
        ValueRangeError: A row has no query.

    >>> ranking_score([1, 0, 0, 1], [0.9, 0.1, 0.8, 0.2], groups=["a", "a", "b", "b"], measure="RR")
    0.75
    """
    grades, scores = (np.asarray(values, np.float64) for values in (y_true, y_score))
    names = np.asarray(groups, object).reshape(-1)
    if not len(grades) == len(scores) == len(names) or grades.ndim != 1 or scores.ndim != 1:
        shapes = f"{grades.shape}, {scores.shape} and {names.shape}"
        raise ShapeError(f"Grades, scores and groups are one number a row each; found {shapes}.")
    _refuse_missing(names)
    rules = as_conventions(conventions)
    parsed = measure if isinstance(measure, Measure) else parse(measure)
    hits = judge_rows(scores, grades, names.astype(np.str_), rules)
    return float(score(hits, parsed, conventions=rules).mean()[parsed])


def _refuse_missing(names: NDArray[np.object_]) -> None:
    """Refuse rows of no query, which would be one together."""
    for row, name in enumerate(names):
        if not isinstance(name, str) and str(name) in _MISSING:
            raise ValueRangeError(
                f"groups: row {row} has no query. Drop the row or name its query."
            )


def ranking_scorer(
    measure: str | Measure = "nDCG@10",
    *,
    groups: str | int | Callable[[Any], Any] | None = None,
    conventions: str | Conventions = "trec_eval",
) -> Any:
    """Return a scorer for `cross_val_score`, `GridSearchCV` and their like; greater is better.

    `groups` names the column of X with the query of each row, or is a function of X. Without it
    the groups come by metadata routing: `cross_val_score(…, params={"groups": queries})`. Rows are
    ranked by decision_function, else predict_proba (of the last class), else predict.
    """
    parsed = measure if isinstance(measure, Measure) else parse(measure)
    if groups is not None:
        return _ColumnScorer(parsed, groups, as_conventions(conventions))
    metrics = need("sklearn.metrics", "a scorer of scikit-learn", "sklearn")
    settings = {"measure": parsed, "conventions": as_conventions(conventions)}
    scorer = metrics.make_scorer(ranking_score, response_method=list(_RESPONSES), **settings)
    return scorer.set_score_request(groups=True)


class _ColumnScorer:
    """Scores an estimator on rows that say themselves which query they belong to."""

    def __init__(self, measure: Measure, groups: Any, conventions: Conventions) -> None:
        self._measure, self._groups, self._rules = measure, groups, conventions

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        return ranking_score(
            y,
            _respond(estimator, X),
            groups=self._groups(X) if callable(self._groups) else _column(X, self._groups),
            measure=self._measure,
            conventions=self._rules,
        )

    def __repr__(self) -> str:
        return f"ranking_scorer({str(self._measure)!r}, groups={self._groups!r})"


def _respond(estimator: Any, X: Any) -> Floats:
    name = next((method for method in _RESPONSES if hasattr(estimator, method)), None)
    if name is None:
        raise UsageError(f"{type(estimator).__name__} has none of {', '.join(_RESPONSES)}.")
    response = np.asarray(getattr(estimator, name)(X), np.float64)
    if response.ndim == 2:
        if response.shape[1] > 2:
            raise ShapeError(
                f"{name} has {response.shape[1]} numbers a row, and rows are ranked by one. Use a "
                "regressor, or a classifier of two classes."
            )
        response = response[:, -1]
    return response


def _column(X: Any, name: str | int) -> Any:
    if hasattr(X, "columns"):
        if name not in list(X.columns):
            raise UsageError(f"X has no column {name!r}; it has {', '.join(map(str, X.columns))}.")
        return X[name]
    if not isinstance(name, int):
        raise UsageError(f"X is an array: groups={name!r} has to be the number of a column.")
    return np.asarray(X)[:, name]
