"""Measures of one ranked list per query.

r_1 < r_2 < … are the ranks of the relevant documents that were retrieved, g_i their gains, R the
number of relevant documents. Each function takes a view (`RankView` or `TieView`) and returns one
number per query; a measure that is a weighted sum of ranks needs no second function for ties.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from assay.arrays import Floats, Ints, power
from assay.core.on_demand import OnDemand
from assay.measures import expected, views
from assay.measures.registry import ExpectationError, Param, measure
from assay.measures.views import Pool, RankView, TieView

if TYPE_CHECKING:
    from assay.measures import derivations
else:  # only `explain` derives
    derivations = OnDemand("assay.measures.derivations")

View = RankView | TieView

_MOST_IDEALS = 16  # cutoffs whose ideal is kept with the judgments


def derived_by(derivation: Callable[..., Any]) -> dict[str, Any]:
    """Declare a derivation that works out documents at single ranks and tie groups alike."""
    return {"derivation": derivation, "tied_derivation": derivation}


FLAG_CAP = Param(None, "flag", "divide by min(k, R) instead of R", convention="recall")


def ratio(top: Floats, bottom: Floats | Ints | int) -> Floats:
    """Return top / bottom, and 0 where the bottom is 0."""
    if isinstance(bottom, int) and bottom > 0:
        return top / bottom
    below = np.asarray(bottom)
    if below.min(initial=1) > 0:
        return np.asarray(top / below)
    return np.asarray(np.divide(top, below, out=np.zeros(top.shape), where=below > 0))


@measure(
    "P",
    formula="#(r ≤ k) / k; with trunc, both k become min(k, R)",
    laws={"monotone", "local", "perfect"},
    cutoff="required",
    params={"trunc": Param(False, "flag", "cut at min(k, R) instead of k")},
    aliases=("precision", "label-precision", "label-score", "prec"),
    trec="P_{k}",
    **derived_by(derivations.precision),
)
def precision(at: View, k: int, trunc: bool) -> Floats:
    """Precision: the share of the first k documents that is relevant.

    A list shorter than k still divides by k. Relevant at ranks 1 and 3: P@4 = 2/4.

    >>> from assay import evaluate
    >>> evaluate({"q": {"a": 3, "b": 2, "c": 1}}, {"q": {"a": 1, "c": 1}}, "P@4").mean()["P@4"]
    0.5
    """
    cut = np.minimum(k, at.n_good) if trunc else k
    return ratio(at.count(cut), cut)


@measure(
    "R",
    formula="#(r ≤ k) / R; with cap, / min(k, R)",
    laws={"monotone", "local", "perfect", "single-Success"},
    cutoff="required",
    params={"cap": FLAG_CAP},
    aliases=("recall",),
    trec="recall_{k}",
    **derived_by(derivations.recall),
)
def recall(at: View, k: int, cap: bool) -> Floats:
    """Recall: the share of all relevant documents that is among the first k.

    Relevant at ranks 1 and 3, and one never retrieved: R@2 = 1/3.

    >>> from assay import evaluate
    >>> qrels = {"q": {"a": 1, "c": 1, "z": 1, "y": 1}}
    >>> evaluate({"q": {"a": 3, "b": 2, "c": 1}}, qrels, "R@2").mean()["R@2"]
    0.25
    """
    return ratio(at.count(k), np.minimum(k, at.n_good) if cap else at.n_good)


@measure(
    "Success",
    formula="1 if any r ≤ k, else 0",
    laws={"monotone", "local", "perfect", "single-Success"},
    cutoff="required",
    expected=expected.success,
    aliases=("acc", "accuracy", "hit_rate", "hits", "hr", "hit", "top_k_accuracy"),
    trec="success_{k}",
    **derived_by(derivations.success),
)
def success(at: RankView, k: int) -> Floats:
    """Success: whether any of the first k documents is relevant; its mean is top-k accuracy.

    >>> from assay import evaluate
    >>> evaluate({"q": {"a": 2, "b": 1}}, {"q": {"b": 1}}, "Success@1").mean()["Success@1"]
    0.0
    """
    return np.minimum(at.count(k), 1.0)


@measure(
    "RR",
    formula="1 / r_1, and 0 if no r ≤ k",
    laws={"monotone", "local", "perfect", "single-RR"},
    expected=expected.reciprocal_rank,
    aliases=("mrr", "recip_rank", "reciprocal_rank", "mean_reciprocal_rank"),
    trec="recip_rank",
    **derived_by(derivations.reciprocal_rank),
)
def reciprocal_rank(at: RankView, k: int | None) -> Floats:
    """Reciprocal rank of the first relevant document.

    First relevant document at rank 2: RR = 1/2. Whether it may be averaged: docs/averaging.md.

    >>> from assay import evaluate
    >>> evaluate({"q": {"a": 2, "b": 1}}, {"q": {"b": 1}}, "RR").mean()["RR"]
    0.5
    """
    row, rank = at.row[at.first], at.rank[at.first]
    return at.per_query(row, np.where(rank <= at.cut(k, row), 1.0 / rank, 0.0))


OVER = Param(
    None,
    "choice",
    "what Σ i/r_i is divided by; min is min(k, R), and without a cutoff min and k are R",
    ("R", "min", "hits", "k"),
    convention="ap",
)


def _expected_ap(at: TieView, k: int | None, over: str) -> Floats:
    if over == "hits":
        return expected.average_precision_over_hits(at, k)
    sums = at.per_query(at.row, expected.average_precision_sum(at, k))
    return ratio(sums, _ap_denominator(at, k, over))


def _extreme_ap(at: TieView, k: int | None, over: str) -> tuple[Floats, Floats] | None:
    return expected.extreme_average_precision_over_hits(at, k) if over == "hits" else None


def _ap_denominator(at: View, k: int | None, over: str) -> Ints | Floats:
    if over == "hits":
        return at.count(k)
    if k is None or over == "R":  # without a cutoff there is no k
        return at.n_good
    return np.minimum(k, at.n_good) if over == "min" else np.full(at.n_queries, k)


@measure(
    "AP",
    formula="Σ_i (i / r_i) [r_i ≤ k] / D, D = R, min(k, R), hits or k; without k, R or hits",
    laws={"monotone", "local", "perfect", "single-RR"},
    params={"over": OVER},
    expected=_expected_ap,
    extremes=_extreme_ap,
    aliases=("map", "average_precision", "mean_average_precision", "map_cut", "true_map"),
    trec="map_cut_{k}",
    **derived_by(derivations.average_precision),
)
def average_precision(at: RankView, k: int | None, over: str) -> Floats:
    """Average precision: precision at the rank of each relevant document, averaged over them.

    Relevant at ranks 1 and 3 of R = 2: AP = (1/1 + 2/3) / 2. Its mean over queries is MAP.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 3, "b": 2, "c": 1}}
    >>> round(evaluate(run, {"q": {"a": 1, "c": 1}}, "AP").mean()["AP"], 4)
    0.8333
    """
    inside = at.inside(k)
    row, rank, nth = at.row[inside], at.rank[inside], at.nth[inside]
    return ratio(at.per_query(row, nth / rank), _ap_denominator(at, k, over))


@measure(
    "MAP",
    formula="Σ_i (i / r_i) [r_i ≤ R] / R",
    laws={"monotone", "perfect"},
    cutoff="R",
    expected=lambda at: ratio(
        at.per_query(at.row, expected.average_precision_sum(at, at.n_good)), at.n_good
    ),
    aliases=("map@r",),
    **derived_by(derivations.average_precision_at_r),
)
def average_precision_at_r(at: RankView) -> Floats:
    """MAP@R: average precision cut at R, the measure of metric learning.

    Relevant at ranks 1 and 3 of R = 2: only rank 1 counts, (1/1) / 2.
    Musgrave, Belongie & Lim, ECCV 2020.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 3, "b": 2, "c": 1}}
    >>> evaluate(run, {"q": {"a": 1, "c": 1}}, "MAP@R").mean()["MAP@R"]
    0.5
    """
    inside = at.rank <= at.n_good[at.row]
    sums = at.per_query(at.row[inside], at.nth[inside] / at.rank[inside])
    return ratio(sums, at.n_good)


@measure(
    "GMAP",
    formula="exp(mean of ln max(AP, 0.00001))",
    laws={"monotone", "perfect", "single-RR"},
    cutoff="none",
    expected=lambda at: _expected_ap(at, None, "R"),
    aggregate="geometric",
    aliases=("gm_map",),
    trec="gm_map",
    **derived_by(derivations.geometric_map),
)
def geometric_mean_average_precision(at: RankView) -> Floats:
    """Geometric mean of AP over queries: hard queries weigh more.

    Each query's value is its AP; the mean is taken of logarithms, with AP at least 0.00001.
    Robertson, CIKM 2006.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 1}, "r": {"b": 2, "a": 1}}
    >>> round(evaluate(run, {"q": {"a": 1}, "r": {"a": 1}}, "GMAP").mean()["GMAP"], 4)
    0.7071
    """
    return ratio(at.per_query(at.row, at.nth / at.rank), at.n_good)


GAINS: dict[str, Param] = {
    "gain": Param(
        None, "choice", "gain of a grade: g, or 2^g − 1", ("linear", "exp"), convention="gain"
    ),
    "gains": Param((), "gains", "gain of single grades, e.g. 1:3/2:9"),
}


@measure(
    "DCG",
    formula="Σ g / log2(1 + r) over r ≤ k",
    laws={"monotone", "local", "perfect"},
    gain="graded",
    params=GAINS,
    high=None,
    aliases=("dcg",),
    **derived_by(derivations.dcg),
)
def dcg(at: View, k: int | None) -> Floats:
    """Discounted cumulative gain: nDCG without its denominator, so it has no largest value.

    Gains 1 and 3 at ranks 1 and 2: 1/log2(2) + 3/log2(3). Järvelin & Kekäläinen, TOIS 2002.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 2, "b": 1}}
    >>> round(evaluate(run, {"q": {"a": 1, "b": 3}}, "DCG@10").mean()["DCG@10"], 4)
    2.8928
    """
    return at.weigh(views.discount, k)


@measure(
    "nDCG",
    formula="Σ g / log2(1 + r) over the same sum of the ideal order, both cut at k",
    laws={"monotone", "local", "perfect"},
    gain="graded",
    params={
        **GAINS,
        "ideal": Param(
            None,
            "choice",
            "whose gains make the ideal",
            ("judged", "retrieved"),
            convention="ideal",
        ),
    },
    aliases=("ndcg", "ndcg_cut"),
    trec="ndcg_cut_{k}",
    **derived_by(derivations.ndcg),
)
def ndcg(at: View, k: int | None, ideal: str) -> Floats:
    """Normalised discounted cumulative gain.

    Gains 3 and 1 at ranks 2 and 1: (1/log2(2) + 3/log2(3)) / (3/log2(2) + 1/log2(3)).
    Järvelin & Kekäläinen, TOIS 2002.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 2, "b": 1}}
    >>> round(evaluate(run, {"q": {"a": 1, "b": 3}}, "nDCG@10").mean()["nDCG@10"], 4)
    0.7967
    """
    pool = at.pool if ideal == "judged" else at.retrieved_pool
    best = pool.ideal.get(k)
    if best is None:
        best = ideal_dcg(pool, k)
        if len(pool.ideal) >= _MOST_IDEALS:  # another thread may need one of them just now
            pool.ideal.clear()
        pool.ideal[k] = best
    return np.minimum(ratio(at.weigh(views.discount, k), best), 1.0)


def _best_first(pool: Pool) -> tuple[Ints, Floats, Ints]:
    """Return row, gain and count of what counts, in each row the best first."""
    row, gain, count = pool.row, pool.gain, pool.count
    good = np.flatnonzero(gain > 0)
    if len(good) < len(gain):
        row, gain, count = row[good], gain[good], count[good]
    if ((row[1:] > row[:-1]) | (gain[1:] <= gain[:-1])).all():  # as grades mostly are
        return row, gain, count
    order = np.lexsort((-gain, row))
    return row[order], gain[order], count[order]


def ideal_dcg(pool: Pool, k: int | None) -> Floats:
    """Return the largest Σ g / log2(1 + r) that the judged documents allow, cut at k."""
    row, gain, count = _best_first(pool)
    sums = np.zeros(pool.n_queries)
    if (gain == 1.0).all() and (row[1:] > row[:-1]).all():  # no need to list every document
        sums[row] = views.sums_of_discounts(count if k is None else np.minimum(count, k))
        return sums
    start = views.sum_before_in_row(row, count)
    stop = start + count if k is None else np.minimum(start + count, k)
    some = np.flatnonzero(stop > start)
    length = stop[some] - start[some]
    entry = np.repeat(some, length)
    rank = np.arange(len(entry)) - np.repeat(np.cumsum(length) - length, length) + start[entry] + 1
    terms = gain[entry] * views.weights_at(views.discount, rank)
    return sums + np.bincount(row[entry], terms, minlength=pool.n_queries)


@measure(
    "Rprec",
    formula="#(r ≤ mult·R) / (mult·R)",
    laws={"monotone", "perfect"},
    cutoff="none",
    params={"mult": Param(1, "number", "cut at this multiple of R", low=0.01, high=100)},
    aliases=("r-precision", "r_precision", "rprecision"),
    trec="Rprec",
    **derived_by(derivations.r_precision),
)
def r_precision(at: View, mult: float) -> Floats:
    """R-precision: precision at the rank R.

    Relevant at ranks 1 and 3 of R = 2: one of the first two, 1/2.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 3, "b": 2, "c": 1}}
    >>> evaluate(run, {"q": {"a": 1, "c": 1}}, "Rprec").mean()["Rprec"]
    0.5
    """
    cut = np.floor(mult * at.n_good + 0.9).astype(np.int64)
    return ratio(at.count(cut), cut)


RBP_PATIENCE = Param(0.8, "number", "patience: chance to look at the next document", low=0, high=1)


@measure(
    "RBP",
    formula="(1 − p) Σ p^(r−1); graded: times grade / highest grade of the query, if above 1",
    laws={"monotone", "local", "perfect"},
    gain="relevant or graded",
    params={
        "p": RBP_PATIENCE,
        "graded": Param(False, "flag", "count a document by its grade, as trec_eval does"),
    },
    aliases=("rank_biased_precision",),
    **derived_by(derivations.rank_biased_precision),
)
def rank_biased_precision(at: View, k: int | None, p: float) -> Floats:
    """Rank-biased precision: expected rate of gain of a reader who goes on with probability p.

    Relevant at rank 1 only, p = 0.8: RBP = 0.2. Moffat & Zobel, TOIS 2008.

    >>> from assay import evaluate
    >>> round(evaluate({"q": {"a": 2, "b": 1}}, {"q": {"a": 1}}, "RBP").mean()["RBP"], 4)
    0.2
    """
    top = np.ones(at.n_queries)
    np.maximum.at(top, at.pool.row, at.pool.gain)
    return (1.0 - p) * at.weigh(lambda rank: power(p, rank - 1.0), k) / top


@measure(
    "ERR",
    formula="Σ_r (1/r) s_r Π_{q<r} (1 − s_q), s = (2^g − 1) / 2^gmax",
    laws={"monotone", "local", "perfect"},
    gain="stop",
    params={"gmax": Param(4, "number", "highest grade of the scale", low=1, high=60)},
    expected=expected.expected_reciprocal_rank,
    aliases=("err",),
    **derived_by(derivations.expected_reciprocal_rank),
)
def expected_reciprocal_rank(at: RankView, k: int | None) -> Floats:
    """Expected reciprocal rank: 1/rank of where a reader who is satisfied by gain stops.

    One document of grade 4 at rank 1, gmax = 4: the reader stops there with 15/16. Whether it may
    be averaged: docs/averaging.md.
    Chapelle, Metzler, Zhang & Grinspan, CIKM 2009.

    >>> from assay import evaluate
    >>> evaluate({"q": {"a": 2, "b": 1}}, {"q": {"a": 4}}, "ERR@10").mean()["ERR@10"]
    0.9375
    """
    inside = at.rank <= at.cut(k, at.row)
    row, rank, stop = at.row[inside], at.rank[inside], at.gain[inside]
    alive = _product_before(row, 1.0 - stop)
    return at.per_query(row, alive * stop / rank)


def _product_before(row: Ints, values: Floats) -> Floats:
    """Return for each element the product of the values before it in its row."""
    product = np.ones(len(row))
    lengths = np.bincount(row) if len(row) else np.zeros(0, np.int64)
    nth = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    for step in range(1, int(lengths.max(initial=0))):
        here = np.flatnonzero(nth == step)
        product[here] = product[here - 1] * values[here - 1]
    return product


@measure(
    "bpref",
    formula="(1/R) Σ_r (1 − min(N_r, R) / min(N, R)), N_r judged non-relevant above r, N in all",
    laws={"monotone", "perfect"},
    gain="preference",
    cutoff="none",
    expected=lambda at: ratio(expected.binary_preference(at), at.n_good),
    aliases=("bpref",),
    trec="bpref",
    **derived_by(derivations.binary_preference),
)
def binary_preference(at: RankView) -> Floats:
    """Binary preference: how rarely judged non-relevant documents stand above relevant ones.

    Documents without a judgment are passed over. Buckley & Voorhees, SIGIR 2004.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 3, "b": 2, "c": 1}}
    >>> evaluate(run, {"q": {"a": 1, "b": 0, "c": 1, "d": 0}}, "bpref").mean()["bpref"]
    0.75
    """
    good, bad = at.n_good[at.row], at.n_bad[at.row]
    lost = np.minimum(at.bad_above, good) / np.maximum(np.minimum(bad, good), 1)
    return ratio(at.per_query(at.row, 1.0 - lost), at.n_good)


@measure(
    "Judged",
    formula="#(judged at ranks ≤ k) / min(k, n_ret)",
    laws={"local"},
    gain="judged",
    aliases=("judged",),
    defined="retrieved",
    **derived_by(derivations.judged),
)
def judged(at: View, k: int | None) -> Floats:
    """Share of the first k documents that has a judgment; a short list divides by its length.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 3, "b": 2, "c": 1}}
    >>> evaluate(run, {"q": {"a": 1, "b": 0}}, "Judged@2").mean()["Judged@2"]
    1.0
    """
    return ratio(_judged_count(at, k), _length(at, k))


@measure(
    "Unjudged",
    formula="#(unjudged at ranks ≤ k) / k",
    laws={"local", "holes"},
    gain="judged",
    cutoff="required",
    aliases=("unj",),
    trec="unj_{k}",
    defined="always",
    **derived_by(derivations.unjudged),
)
def unjudged(at: View, k: int) -> Floats:
    """Share of the first k places that holds a document without a judgment.

    Places that a short list leaves empty are not unjudged.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 3, "b": 2, "c": 1}}
    >>> evaluate(run, {"q": {"a": 1, "b": 0}}, "Unjudged@4").mean()["Unjudged@4"]
    0.25
    """
    return (_length(at, k) - _judged_count(at, k)) / k


def _length(at: View, k: int | None) -> Ints:
    return at.n_ret if k is None else np.minimum(at.n_ret, k)


def _judged_count(at: View, k: int | None) -> Floats:
    if at.hits.exhaustive:
        return _length(at, k).astype(np.float64)
    return at.count(k)


@measure(
    "RBPresid",
    formula="1 − (1 − p) Σ p^(r−1) over judged documents; 0 if all retrieved documents are judged",
    laws={"holes"},
    gain="judged",
    cutoff="none",
    params={"p": RBP_PATIENCE},
    aliases=("rbp_residual",),
    defined="always",
)
def rank_biased_residual(at: View, p: float) -> Floats:
    """Residual of RBP: how much the documents that nobody judged could add to it.

    Those beyond the end of the list count too, unless all of the list is judged, as trec_eval 10
    has it (m_rbp_resid.c). Judged at rank 1 of 2, p = 0.8: 1 − 0.2. Moffat & Zobel, TOIS 2008.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 2, "b": 1}}
    >>> round(evaluate(run, {"q": {"a": 1}}, "RBPresid").mean()["RBPresid"], 4)
    0.8
    """
    judged_weight = (1.0 - p) * at.weigh(lambda rank: power(p, rank - 1.0), None)
    return np.where(_judged_count(at, None) < at.n_ret, 1.0 - judged_weight, 0.0)


_EPSILON = 1e-5  # of infAP, as in trec_eval


def _expected_infap(at: TieView) -> Floats:
    return ratio(expected.inferred_precisions(at, _precision_at, "mean"), at.n_good)


def _extreme_infap(at: TieView) -> tuple[Floats, Floats] | None:
    try:
        ends = [expected.inferred_precisions(at, _precision_at, end) for end in ("max", "min")]
    except ExpectationError:  # relevant documents first, or last
        return None
    return ratio(ends[0], at.n_good), ratio(ends[1], at.n_good)


def _precision_at(rank: Any, relevant: Any, judged: Any, pooled: Any) -> Any:
    """Estimate precision at a relevant document from what is known of the documents above it."""
    return (1 + pooled * (relevant + _EPSILON) / (judged + 2 * _EPSILON)) / rank


@measure(
    "infAP",
    formula="(1/R) Σ (1 + s (a + ε) / (j + 2ε)) / r; above r are a relevant, j judged, s in qrels",
    laws={"perfect"},
    gain="preference",
    cutoff="none",
    expected=_expected_infap,
    extremes=_extreme_infap,
    aliases=("inferred_ap", "inf_ap"),
    trec="infAP",
)
def inferred_average_precision(at: RankView) -> Floats:
    """Inferred AP: AP estimated where a random part of the pool was judged.

    A negative grade means: in the pool, not judged. Such documents count as relevant as the judged
    ones above the same rank; those without a line in the qrels as not relevant. ε = 0.00001, as in
    trec_eval 10 (m_infap.c). Yilmaz & Aslam, CIKM 2006.

    >>> from assay import evaluate
    >>> run, qrels = {"q": {"a": 3, "b": 2, "c": 1}}, {"q": {"a": 1, "b": -1, "c": 1}}
    >>> round(evaluate(run, qrels, "infAP").mean()["infAP"], 4)
    1.0
    """
    rest = RankView(at.hits, lambda grade: np.where(at.gain_of(grade) > 0, 1.0, -1.0), at.ties)
    above = at.nth - 1
    terms = _precision_at(at.rank, above, above + at.bad_above, above + rest.bad_above)
    return ratio(at.per_query(at.row, terms), at.n_good)


IPREC_ROUNDING = Param(
    None,
    "choice",
    "how level·R becomes a number of documents",
    ("round", "ceil"),
    convention="iprec",
)


def _interpolated(at: View, levels: tuple[float, ...], iprec: str) -> Floats:
    """Return the largest i / r_i over i ≥ level·R, levels × queries."""
    needed = views.documents_needed(at.n_good, levels, iprec)
    if isinstance(at, TieView):
        return expected.interpolated_precision(at, needed)
    values = np.zeros(needed.shape)
    for level, least in enumerate(needed):
        enough = at.nth >= least[at.row]
        np.maximum.at(values[level], at.row[enough], (at.nth / at.rank)[enough])
    return values


@measure(
    "iprec",
    formula="max of i / r_i over i ≥ x·R, at recall level x",
    laws={"monotone", "perfect"},
    cutoff="level",
    params={"iprec": IPREC_ROUNDING},
    aliases=("iprec_at_recall",),
    trec="iprec_at_recall_{level}",
    expected=lambda at, k, iprec: _interpolated(at, (k,), iprec)[0],
    derivation=derivations.interpolated_precision,
)
def interpolated_precision(at: RankView, k: float, iprec: str) -> Floats:
    """Interpolated precision at a recall level: the best precision at that recall or beyond.

    Relevant at ranks 1 and 3 of R = 2, level 1.0: 2/3.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 3, "b": 2, "c": 1}}
    >>> round(evaluate(run, {"q": {"a": 1, "c": 1}}, "iprec@1").mean()["iprec@1"], 4)
    0.6667
    """
    values: Floats = _interpolated(at, (k,), iprec)[0]
    return values


def _mean_of_levels(values: Floats) -> Floats:
    """Add level by level: np.mean adds in another order where there is a single query."""
    return np.asarray(np.add.accumulate(values, axis=0)[-1] / len(values))


ELEVEN = tuple(step / 10 for step in range(11))


@measure(
    "iAP",
    formula="mean of iprec@x over levels x, by default 0, 0.1, …, 1",
    laws={"monotone", "perfect"},
    cutoff="none",
    params={"levels": Param(ELEVEN, "levels", "the recall levels"), "iprec": IPREC_ROUNDING},
    aliases=("11pt_avg", "11-pt_avg", "11pt"),
    trec="11pt_avg",
    expected=lambda at, levels, iprec: _mean_of_levels(_interpolated(at, levels, iprec)),
    derivation=derivations.eleven_point_average,
)
def eleven_point_average(at: RankView, levels: tuple[float, ...], iprec: str) -> Floats:
    """Interpolated average precision: the mean of interpolated precision over recall levels.

    >>> from assay import evaluate
    >>> run = {"q": {"a": 3, "b": 2, "c": 1}}
    >>> round(evaluate(run, {"q": {"a": 1, "c": 1}}, "iAP").mean()["iAP"], 4)
    0.9091
    """
    average: Floats = _mean_of_levels(_interpolated(at, levels, iprec))
    return average
