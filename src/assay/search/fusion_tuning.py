"""tune_fusion: weights by cross-validation, each query scored by weights of other queries.

Queries are dealt into folds at random, by a seed. The weights of a fold are those of a grid that
score best on the queries of the other folds, and its own queries are ranked by them, so that no
query has a say in the weights that it is scored with. Weights that score alike are chosen nearest
to equal ones: what cannot be told apart is not tuned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from assay.arrays import Floats, Ints, offsets_of
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.hits import judge
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.core.mismatches import describe_near
from assay.core.ranking import Ranking
from assay.errors import MismatchError, UsageError
from assay.measures import Measure
from assay.scoring.evaluate import score
from assay.search.fusion import JoinedLists, Method, Normalization
from assay.stats.samples import check_seed

_STEPS_OF_TWO, _STEPS = 20, 10  # of a weight between 0 and 1: two lists, more lists
_MOST_LISTS = 5
_DIGITS = 10  # sums that agree so far are equal: the last bits are the machine's


@dataclass(frozen=True)
class Tuning:
    """The weights of each fold, and those of all queries, each adding up to 1.

    `held_out` is the mean by the weights of other folds' queries, which is what counts;
    `in_sample` the mean by weights that were fitted to the same queries, which flatters.
    """

    measure: str
    folds: int
    seed: int
    weights: tuple[tuple[float, ...], ...]
    overall: tuple[float, ...]
    held_out: float
    in_sample: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)


def tune_fusion(
    rankings: Sequence[Ranking],
    judgments: Judgments,
    measure: str | Measure,
    *,
    method: Method = "combsum",
    normalize: Normalization | None = "minmax",
    rrf_k: int = 60,
    depth: int | None = None,
    folds: int = 5,
    seed: int = 0,
    conventions: str | Conventions = "trec_eval",
    clusters: Mapping[Any, Any] | None = None,
) -> tuple[Ranking, Tuning]:
    """A fusion whose weights come for each query from the queries of other folds.

    The other settings are those of `fuse`. Queries without judgments get the weights of all.
    `clusters` is {query: group}: queries of one group, which may know of each other, share a fold.
    """
    joined = JoinedLists(rankings, method, normalize, rrf_k)
    grid = _grid(len(joined.lists))
    rows = []
    for weights in grid:
        fused = joined.fuse(weights, depth)
        hits = judge(fused, judgments, conventions=conventions, allow_mismatch=True)
        scores = score(hits, measure, conventions=conventions)
        rows.append(scores.values[0])
    values = np.nan_to_num(np.array(rows))  # undefined for a query whatever the weights
    unit = _units(scores.query_ids, clusters)
    fold = _deal(unit, folds, seed, "queries" if clusters is None else "groups of queries")
    best = [_best(values[:, fold != number]) for number in range(folds)]
    overall = _best(values)
    best_rows = np.array([*best, overall])  # the last: queries without judgments
    place = fused.query_ids.match(scores.query_ids)
    numbers = best_rows[np.where(place < 0, folds, fold[place])]
    named = {"tune": f"{folds}-fold", "measure": str(measure), "seed": seed}
    named |= {} if clusters is None else {"groups": int(unit.max()) + 1}
    rerun = {number: joined.fuse(grid[number], depth, **named) for number in set(numbers.tolist())}
    defined = ~np.isnan(rows[0])
    held_out = values[best_rows[fold], np.arange(values.shape[1])][defined]
    return _pick_rows(rerun, numbers), Tuning(
        str(scores.measures[0]),
        folds,
        seed,
        tuple(grid[number] for number in best),
        grid[overall],
        float(held_out.mean()) if len(held_out) else float("nan"),
        float(values[overall][defined].mean()) if len(held_out) else float("nan"),
    )


def _grid(n_lists: int) -> list[tuple[float, ...]]:
    """Weights above 0 that add up to 1, the nearest to equal ones first.

    >>> _grid(2)[:3]
    [(0.5, 0.5), (0.45, 0.55), (0.55, 0.45)]
    """
    if not 2 <= n_lists <= _MOST_LISTS:
        raise UsageError(f"Weights are tuned for 2 to {_MOST_LISTS} lists, found {n_lists}.")
    steps = _STEPS_OF_TWO if n_lists == 2 else _STEPS
    rows = []
    for cuts in combinations(range(1, steps), n_lists - 1):
        parts = np.diff([0, *cuts, steps]).tolist()
        uneven = sum((n_lists * part - steps) ** 2 for part in parts)
        rows.append((uneven, tuple(part / steps for part in parts)))
    return [weights for _, weights in sorted(rows)]


def _units(query_ids: Ids, clusters: Mapping[Any, Any] | None) -> Ints:
    """What is dealt together, by number: each query, or each group, in the order of names."""
    unit = np.empty(len(query_ids), np.int64)
    unit[np.asarray(query_ids.order())] = np.arange(len(query_ids))
    if clusters is None:
        return unit
    absent = [query for query in query_ids if query not in clusters]
    if absent:
        raise MismatchError(
            f"clusters has no group for the queries {checks.name_few(absent)}."
            f"{describe_near(absent, clusters)}"
        )
    return np.unique([str(clusters[key]) for key in query_ids], return_inverse=True)[1]


def _deal(unit: Ints, folds: int, seed: int, what: str) -> Ints:
    """The fold of each query; it depends on the ids and the seed, not on the order of lines."""
    n_units = int(unit.max(initial=-1)) + 1
    number = checks.check_cutoff(folds, "folds")
    if not 2 <= number <= n_units:
        raise UsageError(
            f"Weights are tuned by 2 folds or more, and no more than there are {what} with "
            f"judgments: found {number} folds of {n_units} {what}."
        )
    fold = np.empty(n_units, np.int64)
    fold[np.random.default_rng(check_seed(seed)).permutation(n_units)] = np.arange(n_units) % number
    return fold[unit]


def _best(values: Floats) -> int:
    """The weights with the highest sum over the queries; the first of those that are equal."""
    return int(np.argmax(np.round(values.sum(axis=1), _DIGITS)))


def _pick_rows(fused: dict[int, Ranking], numbers: Ints) -> Ranking:
    """Each query as the ranking that is wanted for it has it."""
    rankings = [fused[number] for number in numbers.tolist()]
    bounds = [slice(*each.offsets[row : row + 2].tolist()) for row, each in enumerate(rankings)]
    docs = [each.docs[part] for each, part in zip(rankings, bounds, strict=True)]
    scores = [each.scores[part] for each, part in zip(rankings, bounds, strict=True)]
    first = rankings[0]
    split = None
    if first.tie_split is not None:
        split = np.array([each.tie_split[row] for row, each in enumerate(rankings)])  # type: ignore[index]
    return replace(
        first,
        offsets=offsets_of(np.array([len(part) for part in docs])),
        given_docs=np.concatenate(docs),
        given_scores=np.concatenate(scores),
        in_order=True,
        tie_split=split,
    )
