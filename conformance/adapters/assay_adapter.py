"""Assay, through its public functions; every convention of the vectors is one of its own."""

from __future__ import annotations

import math
from typing import Any

import assay

_PARAMETERS = ("rel", "p", "gmax")


def evaluate(case: dict[str, Any]) -> dict[str, Any]:
    """Values and mean of a case."""
    rules = {"self_match" if k == "self" else k: v for k, v in case["conventions"].items()}
    run = [(query, doc, score) for query, rows in case["run"].items() for doc, score in rows]
    name = _name(case["measure"])
    scores = assay.evaluate(
        run, case["qrels"], name, conventions=assay.Conventions(**rules), allow_mismatch=True
    )
    values = map(_or_none, scores.values[0].tolist())
    per_query = dict(zip(scores.query_ids, values, strict=True))
    return {"per_query": per_query, "mean": _or_none(scores.mean()[name])}


def _name(measure: dict[str, Any]) -> str:
    given = ",".join(f"{key}={measure[key]}" for key in _PARAMETERS if key in measure)
    cutoff = measure.get("k", measure.get("recall"))
    place = "" if cutoff is None else f"@{cutoff}"
    return str(assay.parse(measure["name"] + (f"({given})" if given else "") + place))


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
