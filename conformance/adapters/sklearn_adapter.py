"""scikit-learn: ndcg_score (expectation over ties) and average_precision_score.

It has no pool: relevant documents that were not retrieved cannot be told, and a list of one
document is refused.
"""

from __future__ import annotations

from typing import Any

from conformance_run import UnsupportedError
from sklearn.metrics import average_precision_score, ndcg_score


def evaluate(case: dict[str, Any]) -> dict[str, Any]:
    """Values and mean of a case."""
    rules, measure = case["conventions"], case["measure"]
    tied = any(len({score for _, score in rows}) < len(rows) for rows in case["run"].values())
    wanted = {"nDCG": ("order",) if not tied else (), "AP": ("order",) if not tied else ()}
    allowed = (
        *wanted.get(measure["name"], ()),
        *(["expected"] if measure["name"] == "nDCG" else []),
    )
    plain = (
        rules["depth"] == 0 and rules["self"] == "keep" and set(case["run"]) == set(case["qrels"])
    )
    if measure["name"] not in wanted or rules["ties"] not in allowed or not plain:
        raise UnsupportedError("not expressed by ndcg_score or average_precision_score")
    if measure["name"] == "AP" and ("k" in measure or rules["ap"] != "R"):
        raise UnsupportedError("average_precision_score has no cut-off")
    values = {query: _value(case, query) for query in case["qrels"]}
    return {"per_query": values, "mean": sum(values.values()) / len(values)}


def _value(case: dict[str, Any], query: str) -> float:
    grades, rows = case["qrels"][query], case["run"][query]
    if {doc for doc, grade in grades.items() if grade > 0} - {doc for doc, _ in rows}:
        raise UnsupportedError("a relevant document is not retrieved")
    if any(grade < 0 for grade in grades.values()) or len({doc for doc, _ in rows}) < len(rows):
        raise UnsupportedError("negative grades or repeated documents")
    if len(rows) < 2 or not any(grade > 0 for grade in grades.values()):
        raise UnsupportedError("one document, or none that is relevant")
    truth, scores = [grades.get(doc, 0) for doc, _ in rows], [score for _, score in rows]
    if case["measure"]["name"] == "AP":
        smallest = case["measure"].get("rel", 1)
        return float(average_precision_score([grade >= smallest for grade in truth], scores))
    if case["conventions"]["gain"] == "exp":
        truth = [2**grade - 1 for grade in truth]
    return float(ndcg_score([truth], [scores], k=case["measure"].get("k")))
