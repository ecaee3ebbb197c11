"""Measures that are linear in the labels, and the weight that each gives a document.

A measure is linear if a query's value is Σ over its documents of weight × gain, where the weight
depends on the rank alone and the gain on the label alone: P@k, DCG@k and RBP. nDCG, R and AP are
not: their denominators depend on labels that nobody made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from assay.arrays import Floats, Ints
from assay.core.conventions import CHOICES
from assay.core.ids import Ids
from assay.core.ranking import Ranking
from assay.errors import MeasureError
from assay.measures import parse

_DCG: Final = re.compile(r"DCG(?:\(gain=(linear|exp)\))?(?:@([1-9]\d{0,8}))?", re.IGNORECASE)
_BOUNDS: Final = " Bounds: 'assay label POOL --export FILE', then 'eval -r FILE --unjudged bounds'."
LINEAR: Final = "P@k, DCG@k and RBP"


@dataclass(frozen=True)
class LinearMeasure:
    """A measure that is a weighted sum of gains.

    Args:
        name: Its canonical name, such as `DCG@10`.
        kind: P, DCG or RBP.
        cutoff: The last rank that counts; None for all.
        patience: That of RBP.
        exponential: Whether the gain of a grade g is 2^g − 1, not g.
        rel: The smallest grade that is relevant, for P and RBP.
    """

    name: str
    kind: str
    cutoff: int | None = None
    patience: float = 0.8
    exponential: bool = False
    rel: float = 1

    def weights(self, ranks: Ints) -> Floats:
        """Return the weight of a document at each rank, which counts from 1."""
        if self.kind == "P":
            weights = np.full(len(ranks), 1.0 / (self.cutoff or 1))
        elif self.kind == "DCG":
            weights = 1.0 / np.log2(ranks + 1.0)
        else:
            weights = (1.0 - self.patience) * np.power(self.patience, ranks - 1.0)
        return weights if self.cutoff is None else np.where(ranks <= self.cutoff, weights, 0.0)

    def gains(self, grades: Any) -> Floats:
        """Return the gain of each grade; negative grades gain nothing."""
        grade = np.maximum(np.asarray(grades, np.float64), 0.0)
        if self.kind != "DCG":
            return (grade >= self.rel).astype(np.float64)
        return np.exp2(grade) - 1.0 if self.exponential else grade


def parse_linear(name: str | LinearMeasure, rel: float | None = None) -> LinearMeasure:
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
    dcg = _DCG.fullmatch(str(name).strip())
    if dcg:
        exponential, cutoff = (dcg[1] or "").lower() == "exp", dcg[2] and int(dcg[2])
        canonical = "DCG" + "(gain=exp)" * exponential + (f"@{cutoff}" if cutoff else "")
        return LinearMeasure(canonical, "DCG", cutoff or None, exponential=exponential)
    measure = parse(name)
    params: dict[str, Any] = dict(measure.params)
    if measure.name not in ("P", "RBP") or params.get("trunc") or params.get("graded"):
        bounds = _BOUNDS * ("unjudged" in CHOICES)
        raise MeasureError(
            f"{measure} cannot be estimated from some of the labels: what it divides by depends on "
            f"labels that nobody made. Use {LINEAR}, which are weighted sums of labels.{bounds}"
        )
    if rel is not None and "rel" not in params:
        measure = measure(rel=int(rel) if float(rel).is_integer() else rel)
        params = dict(measure.params)
    cutoff = None if measure.cutoff is None else int(measure.cutoff)
    patience, least = float(params.get("p", 0.8)), float(params.get("rel", 1))
    return LinearMeasure(str(measure), measure.name, cutoff, patience, rel=least)


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
    # With counts numpy sorts; its hash table takes up to fifty times as long.
    pairs = np.unique(np.concatenate(keys), return_counts=True)[0]
    weights = np.zeros((len(pairs), len(rankings)))
    for column, (ranking, key) in enumerate(zip(rankings, keys, strict=True)):
        ranks = np.arange(len(key)) - np.repeat(ranking.offsets[:-1], ranking.lengths) + 1
        weights[np.searchsorted(pairs, key), column] = measure.weights(ranks)
    queries, docs = np.divmod(pairs, max(len(doc_ids), 1))
    return Coefficients(query_ids, doc_ids, queries, docs, weights)
