"""A scorer of scikit-learn: rankings of the rows of each group, in grid searches and validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from assay.arrays import Floats
from assay.core.conventions import Conventions, as_conventions
from assay.core.hits import Hits, judge
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.core.ranking import Ranking
from assay.errors import ShapeError, UsageError, ValueRangeError, need
from assay.measures import Measure, parse
from assay.scoring.evaluate import score

_RESPONSES: Final = ("decision_function", "predict_proba", "predict")
_MISSING: Final = ("None", "nan", "NaT", "<NA>")


def judge_rows(scores: Floats, grades: Floats, queries: Any, rules: Conventions) -> Hits:
    """Judge the rows of each query, ranked by score; each row is a document of its own."""
    names, rows = np.unique(queries, return_inverse=True)
    query_ids, doc_ids = Ids.of(names.tolist(), "query"), Ids.count(len(rows))
    docs = np.arange(len(rows), dtype=np.int32)
    lines: Any = {"queries": rows.astype(np.int32), "docs": docs}
    lines["scores"] = np.ascontiguousarray(scores, np.float64)
    order: Any = {"tiebreak": rules.tiebreak, "precision": rules.scores}
    ranking = Ranking.from_lines(query_ids, doc_ids, **lines, **order)
    judgments = Judgments.from_pairs(query_ids, doc_ids, rows, docs, grades)
    # The arguments say which are grades: whole scores of fractional ones are no swap.
    return judge(ranking, judgments, conventions=rules, allow_mismatch=True)


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

    Returns:
        The mean over the queries.

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
        raise ShapeError(f"Grades, scores and groups have shapes {shapes}. Align them.")
    for row, name in enumerate(names):  # rows of no query would be one together
        if not isinstance(name, str) and str(name) in _MISSING:
            raise ValueRangeError(f"groups: row {row} has no query. Drop it, or name its query.")
    rules = as_conventions(conventions)
    parsed = measure if isinstance(measure, Measure) else parse(measure)
    hits = judge_rows(scores, grades, names.astype(np.str_), rules)
    return float(score(hits, parsed, conventions=rules).mean()[parsed])


def ranking_scorer(
    measure: str | Measure = "nDCG@10",
    *,
    groups: str | int | Callable[[Any], Any] | None = None,
    conventions: str | Conventions = "trec_eval",
) -> Any:
    """Return a scorer for `cross_val_score`, `GridSearchCV` and their like; greater is better.

    Rows are ranked by decision_function, else predict_proba (of the last class), else predict.

    Args:
        measure: Measure, or its name.
        groups: Column of X with the query of each row, or a function of X. Without it the groups
            come by metadata routing: `cross_val_score(…, params={"groups": queries})`.
        conventions: Conventions, or their name.

    Returns:
        The scorer, a function of an estimator, X and y.

    Example:
        cross_val_score(model, X, y, scoring=ranking_scorer("nDCG@10", groups="query"))
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
        how: Any = {"measure": self._measure, "conventions": self._rules}
        scores = _respond(estimator, X)
        groups = self._groups(X) if callable(self._groups) else _column(X, self._groups)
        return ranking_score(y, scores, groups=groups, **how)

    def __repr__(self) -> str:
        return f"ranking_scorer({str(self._measure)!r}, groups={self._groups!r})"


def _respond(estimator: Any, X: Any) -> Floats:
    name = next((method for method in _RESPONSES if hasattr(estimator, method)), None)
    if name is None:
        raise UsageError(f"{type(estimator).__name__} lacks {', '.join(_RESPONSES)}. Use another.")
    response = np.asarray(getattr(estimator, name)(X), np.float64)
    if response.ndim == 2:
        if response.shape[1] > 2:
            raise ShapeError(
                f"{name} has {response.shape[1]} numbers per row; ranking needs one. Use a "
                "regressor or a binary classifier."
            )
        response = response[:, -1]
    return response


def _column(X: Any, name: str | int) -> Any:
    if hasattr(X, "columns"):
        if name not in list(X.columns):
            raise UsageError(f"X lacks column {name!r}. Known: {', '.join(map(str, X.columns))}.")
        return X[name]
    if not isinstance(name, int):
        raise UsageError(f"X is an array. Pass groups as a column number, not {name!r}.")
    return np.asarray(X)[:, name]
