"""Measures of what was retrieved, whatever the order, and plain counts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.on_demand import OnDemand
from assay.measures.ranked import FLAG_CAP, View, derived_by, ratio
from assay.measures.registry import Param, measure

if TYPE_CHECKING:
    from assay.measures import derivations
else:  # only `explain` derives
    derivations = OnDemand("assay.measures.derivations")


@measure(
    "SetP",
    formula="#relevant retrieved / #retrieved",
    laws={"order-free"},
    cutoff="none",
    aliases=("set_p", "set_precision"),
    trec="set_P",
    derivation=derivations.set_precision,
)
def set_precision(at: View) -> Floats:
    """Precision of the whole retrieved set.

    >>> from assay import evaluate
    >>> evaluate({"q": {"a": 2, "b": 1}}, {"q": {"a": 1}}, "SetP").mean()["SetP"]
    0.5
    """
    return ratio(at.count(None), at.n_ret)


@measure(
    "SetR",
    formula="#relevant retrieved / R; with cap, / min(#retrieved, R)",
    laws={"order-free"},
    cutoff="none",
    params={"cap": FLAG_CAP},
    aliases=("set_recall", "set_r"),
    trec="set_recall",
    derivation=derivations.set_recall,
)
def set_recall(at: View, cap: bool) -> Floats:
    """Recall of the whole retrieved set.

    >>> from assay import evaluate
    >>> evaluate({"q": {"a": 2, "b": 1}}, {"q": {"a": 1, "c": 1}}, "SetR").mean()["SetR"]
    0.5
    """
    return ratio(at.count(None), np.minimum(at.n_ret, at.n_good) if cap else at.n_good)


@measure(
    "SetF",
    formula="(1 + β²) P R / (β² P + R) with P = SetP, R = SetR",
    laws={"order-free"},
    cutoff="none",
    params={"beta": Param(1, "number", "weight of recall against precision", low=0, high=1000)},
    aliases=("set_f", "set_f1"),
    trec="set_F",
    derivation=derivations.set_f,
)
def set_f(at: View, beta: float) -> Floats:
    """F measure of the whole retrieved set.

    >>> from assay import evaluate
    >>> round(evaluate({"q": {"a": 2, "b": 1}}, {"q": {"a": 1}}, "SetF").mean()["SetF"], 4)
    0.6667
    """
    p, r = set_precision(at), set_recall(at, cap=False)
    return ratio((1 + beta**2) * p * r, beta**2 * p + r)


def _as_floats(counts: Ints) -> Floats:
    return counts.astype(np.float64)


# Counts are added up over queries, not averaged.
count = partial(measure, high=None, aggregate="sum", defined="always")


@count(
    "num_ret",
    formula="number of documents retrieved",
    laws={"order-free", "size-only"},
    gain="judged",  # all documents count alike, so there is no rel
    cutoff="none",
    aliases=("numret",),
    trec="num_ret",
    derivation=derivations.number_retrieved,
)
def number_retrieved(at: View) -> Floats:
    """Number of documents retrieved; added up over queries, not averaged.

    >>> from assay import evaluate
    >>> evaluate({"q": {"a": 2, "b": 1}}, {"q": {"a": 1}}, "num_ret").mean()["num_ret"]
    2.0
    """
    return _as_floats(at.n_ret)


@count(
    "num_rel",
    formula="R",
    laws={"order-free", "size-only"},
    cutoff="none",
    aliases=("numrel",),
    trec="num_rel",
    derivation=derivations.number_relevant,
)
def number_relevant(at: View) -> Floats:
    """Number of relevant documents; added up over queries, not averaged.

    >>> from assay import evaluate
    >>> evaluate({"q": {"a": 2}}, {"q": {"a": 1, "b": 1}}, "num_rel").mean()["num_rel"]
    2.0
    """
    return _as_floats(at.n_good)


@count(
    "num_rel_ret",
    formula="#(r ≤ k)",
    laws={"order-free", "local"},
    aliases=("numrelret",),
    trec="num_rel_ret",
    **derived_by(derivations.number_relevant_retrieved),
)
def number_relevant_retrieved(at: View, k: int | None) -> Floats:
    """Number of relevant documents retrieved; added up over queries, not averaged.

    >>> from assay import evaluate
    >>> evaluate({"q": {"a": 2}}, {"q": {"a": 1, "b": 1}}, "num_rel_ret").mean()["num_rel_ret"]
    1.0
    """
    return at.count(k)


@count(
    "num_nonrel_judged_ret",
    formula="number of documents retrieved that were judged and are not relevant",
    laws={"order-free"},
    gain="preference",
    cutoff="none",
    trec="num_nonrel_judged_ret",
    derivation=derivations.number_nonrelevant_judged,
)
def number_nonrelevant_judged(at: View) -> Floats:
    """Number of judged non-relevant documents retrieved; added up over queries.

    >>> from assay import evaluate
    >>> name = "num_nonrel_judged_ret"
    >>> evaluate({"q": {"a": 2, "b": 1}}, {"q": {"a": 1, "b": 0}}, name).mean()[name]
    1.0
    """
    return at.bad_retrieved
