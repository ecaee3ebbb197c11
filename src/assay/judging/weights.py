"""Measures that are linear in the labels, and the weight that each gives a document.

A measure is linear if a query's value is Σ over its documents of weight × gain, where the weight
depends on the rank alone and the gain on the label alone: P@k, DCG@k and RBP. nDCG, R and AP are
not: their denominators depend on labels that nobody made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.conventions import Conventions, as_conventions
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import MeasureError
from assay.measures import Measure, parse
from assay.measures.views import discount
from assay.scoring.evaluate import call_of

RULES: Final = as_conventions("trec_eval")
LINEAR: Final = "P@k, DCG@k and RBP"
WEIGHED: Final = ("P", "DCG", "RBP", "nDCG")  # by rank; nDCG then divides by its ideal


def weigh_ranks(measure: Measure, rules: Conventions = RULES) -> Callable[[Floats], Floats]:
    """Return the function from ranks to weights of P, DCG, nDCG or RBP, whatever the cut-off."""
    arguments = call_of(measure, rules)[0]
    k, p = arguments.get("k"), arguments.get("p", 0.0)
    return {
        "P": lambda rank: np.full(rank.shape, 1.0 / (k or 1)),
        "RBP": lambda rank: (1.0 - p) * np.power(p, rank - 1.0),
    }.get(measure.name, discount)


def is_plain(measure: Measure) -> bool:
    """Tell whether a measure is a weighted sum of gains, over an ideal for nDCG."""
    params = dict(measure.params)
    return measure.name in WEIGHED and not params.get("trunc") and not params.get("graded")


@dataclass(frozen=True)
class LinearMeasure:
    """A measure that is a weighted sum of gains: P@k, DCG@k or RBP."""

    measure: Measure

    def __str__(self) -> str:
        """Return the canonical name."""
        return str(self.measure)

    @property
    def cutoff(self) -> Any:
        """The last rank that counts; None for all."""
        return self.measure.cutoff

    def weights(self, ranks: Ints) -> Floats:
        """Return the weight of a document at each rank, which counts from 1."""
        weights = weigh_ranks(self.measure)(ranks.astype(np.float64))
        return weights if self.cutoff is None else np.where(ranks <= self.cutoff, weights, 0.0)

    def gains(self, grades: Any) -> Floats:
        """Return the gain of each grade; negative grades gain nothing."""
        grades = np.maximum(np.asarray(grades, np.float64), 0.0)
        return np.asarray(call_of(self.measure, RULES)[1](grades), np.float64)


def parse_linear(name: str | Measure | LinearMeasure, rel: float | None = None) -> LinearMeasure:
    """Read the name of a measure that is linear in the labels.

    Args:
        name: P@k, DCG@k, DCG(gain=exp)@k or RBP(p=0.8), in any case.
        rel: The smallest relevant grade, where the name says none. [1]

    Returns:
        The measure.

    Raises:
        MeasureError: The measure is not linear, or not known.

    Example:
        >>> parse_linear("dcg@10").weights(np.array([1, 3, 11])).tolist()
        [1.0, 0.5, 0.0]
    """
    if isinstance(name, LinearMeasure):
        return name
    measure = parse(name)
    if not is_plain(measure) or measure.name == "nDCG":
        raise MeasureError(
            f"{measure} cannot be estimated from some of the labels: what it divides by depends on "
            f"labels that nobody made. Use {LINEAR}, which are weighted sums of labels."
        )
    return LinearMeasure(set_threshold(measure, rel))


def set_threshold(measure: Measure, rel: float | None) -> Measure:
    """Set the smallest relevant grade of a measure that takes one and names none."""
    if rel is None or "rel" not in measure.definition.params or "rel" in dict(measure.params):
        return measure
    return measure(rel=int(rel) if float(rel).is_integer() else rel)


class Coefficients(NamedTuple):
    """Weights of systems on pairs: row i of `weights` is pair (queries[i], docs[i])."""

    query_ids: Ids
    doc_ids: Ids
    queries: Ints
    docs: Ints
    weights: Floats  # pairs × systems


def merge_ids(parts: Sequence[Ids]) -> tuple[Ids, list[Ints]]:
    """Return all distinct ids, and for each part the places of its ids among them.

    >>> ids, places = merge_ids([Ids.of(["a", "b"]), Ids.of(["c", "b"])])
    >>> ids.to_list(), [part.tolist() for part in places]
    (['a', 'b', 'c'], [[0, 1], [2, 1]])
    """
    every, places = parts[0], [np.arange(len(parts[0]))]
    for ids in parts[1:]:
        at = np.array(ids.match(every))
        new = np.flatnonzero(at < 0)
        if len(new):
            at[new] = len(every) + np.arange(len(new))
            every = Ids.concat([every, ids.take(new)])
        places.append(at)
    return every, places


def weigh_systems(
    rankings: Sequence[Ranking], measure: LinearMeasure, depth: int | None = None
) -> Coefficients:
    """Return the weight of every pair that any system retrieves, for each of the systems.

    Args:
        rankings: The systems.
        measure: Its weights are those of ranks.
        depth: Pairs down to this rank have a weight, if the measure has no cut-off.
    """
    cut = measure.cutoff or depth
    rankings = [ranking.first(cut) if cut else ranking for ranking in rankings]
    query_ids, query_places = merge_ids([r.query_ids.as_text() for r in rankings])
    used = [np.flatnonzero(np.bincount(ranking.docs)) for ranking in rankings]
    names = [r.doc_ids.as_text().take(u) for r, u in zip(rankings, used, strict=True)]
    doc_ids, doc_places = merge_ids(names)
    keys = []
    for ranking, mine, rows, docs in zip(rankings, used, query_places, doc_places, strict=True):
        queries = np.repeat(rows, ranking.lengths)
        keys.append(queries * len(doc_ids) + docs[np.searchsorted(mine, ranking.docs)])
    pairs = np.unique(np.concatenate(keys))
    weights = np.zeros((len(pairs), len(rankings)))
    for column, (ranking, key) in enumerate(zip(rankings, keys, strict=True)):
        ranks = np.arange(len(key)) - np.repeat(ranking.offsets[:-1], ranking.lengths) + 1
        weights[np.searchsorted(pairs, key), column] = measure.weights(ranks)
    queries, docs = np.divmod(pairs, max(len(doc_ids), 1))
    return Coefficients(query_ids, doc_ids, queries, docs, weights)
