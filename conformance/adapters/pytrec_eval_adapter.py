"""pytrec_eval (pytrec_eval-terrier): trec_eval 9 as a Python module, from dictionaries."""

from __future__ import annotations

from typing import Any

import pytrec_eval
from conformance_run import TREC_EVAL, UnsupportedError

OWN = {**TREC_EVAL, "missing": "skip"}
NAMES = {
    "P": "P_{k}",
    "R": "recall_{k}",
    "Success": "success_{k}",
    "RR": "recip_rank",
    "AP": "map",
    "Rprec": "Rprec",
    "nDCG": "ndcg",
    "bpref": "bpref",
    "iprec": "iprec_at_recall_{recall:.2f}",
    "SetP": "set_P",
    "SetR": "set_recall",
    "SetF": "set_F",
}
CUT = {"AP": "map_cut_{k}", "nDCG": "ndcg_cut_{k}"}


def check(case: dict[str, Any], own: dict[str, Any]) -> None:
    """Refuse conventions that the program does not have, where they could matter."""
    judged_and_found = all(query in case["run"] for query in case["qrels"])
    for name, wanted in case["conventions"].items():
        free = name == "missing" and judged_and_found
        free |= name == "empty" and all(
            any(g > 0 for g in o.values()) for o in case["qrels"].values()
        )
        if wanted != own[name] and not free:
            raise UnsupportedError(f"{name}: {wanted}")
    if any(len({doc for doc, _ in rows}) < len(rows) for rows in case["run"].values()):
        raise UnsupportedError("a dictionary holds a document once")


def evaluate(case: dict[str, Any]) -> dict[str, Any]:
    """Values and mean of a case."""
    check(case, OWN)
    measure = case["measure"]
    known = CUT if "k" in measure and measure["name"] in CUT else NAMES
    if measure["name"] not in known or ("k" in measure and "{k}" not in known[measure["name"]]):
        raise UnsupportedError(f"no such measure: {measure}")
    name = known[measure["name"]].format(**measure)
    run = {query: dict(map(tuple, rows)) for query, rows in case["run"].items()}
    wanted = {name.rpartition("_")[0] + f".{measure['k']}"} if "k" in measure else {name}
    if measure["name"] == "iprec":
        wanted = {f"iprec_at_recall.{measure['recall']}"}
    level = measure.get("rel", 1)
    found = pytrec_eval.RelevanceEvaluator(case["qrels"], wanted, relevance_level=level).evaluate(
        run
    )
    per_query = {query: values[name] for query, values in found.items()}
    mean = sum(per_query.values()) / len(per_query) if per_query else None
    return {"per_query": per_query, "mean": mean}
