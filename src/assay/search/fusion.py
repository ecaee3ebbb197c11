"""Fuse several rankings of the same queries into one, and tune the weights of the rankings.

Every document gets from each list a part, and the parts are added. A document that a list does
not hold gets nothing from it. Parts are computed and added in doubled precision and rounded once,
so that the order of the lists changes no bit and sums that are equal tie.

Weights are tuned by cross-validation. Queries are dealt into folds at random, by a seed. The
weights of a fold are those of a grid that score best on the queries of the other folds, so that no
query has a say in the weights that it is scored with. Of weights that score alike the nearest to
equal ones are taken: what cannot be told apart is not tuned.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, Final, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, offsets_of, rows_of
from assay.core import checks
from assay.core.conventions import Conventions, as_settings, join_settings, preset
from assay.core.hits import judge
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.core.mismatches import check_match, describe_near
from assay.core.ranking import Ranking
from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.io.formats import RunLike, as_ranking
from assay.measures import Measure
from assay.scoring.evaluate import score
from assay.stats.samples import check_seed

Method = Literal["rrf", "combsum", "combmnz"]
Normalization = Literal["minmax", "zscore"]

METHODS: Final[tuple[Method, ...]] = get_args(Method)
NORMALIZATIONS: Final[tuple[Normalization, ...]] = get_args(Normalization)

_STEPS_OF_TWO, _STEPS = 20, 10  # of a weight between 0 and 1: two lists, more lists
_MOST_LISTS = 5
_DIGITS = 10  # sums that agree so far are equal: the last bits are the machine's


class _Doubled(NamedTuple):
    """Hold numbers as the sum of a float64 and its rounding error."""

    high: Floats
    low: Floats


def fuse(
    rankings: Sequence[RunLike],
    *,
    method: Method = "rrf",
    normalize: Normalization | None = "minmax",
    weights: Sequence[float] | None = None,
    rrf_k: int = 60,
    depth: int | None = None,
    allow_mismatch: bool = False,
) -> Ranking:
    """Fuse several rankings into one: ranks or scores are added.

    - `rrf`: Σ w / (rrf_k + rank), by the place that each list's own tie rule gives; scores and
      `normalize` play no part (Cormack, Clarke and Büttcher 2009).
    - `combsum`: Σ w · score; `combmnz`: the same times the number of lists that hold the
      document (Fox and Shaw 1994).

    Scores are normalised within each list's row: "minmax" is (s - min) / (max - min); "zscore" is
    (s - min) / σ, the z-score counted from the lowest, so that a document a list does not hold
    (0) is never above one it holds; where all scores of a row are equal each becomes 1. With None
    scores count as they are and must not be negative.

    Ties follow the lists' rule; lists with different rules, or numbered documents that differ,
    tie by id descending. Queries are those of any list.

    Args:
        rankings: Runs as `evaluate` takes them.
        method: How parts of a document are computed.
        normalize: How scores of a list are brought to one scale.
        weights: A weight for each list, by default 1.
        rrf_k: Constant of `rrf`, added to ranks.
        depth: Number of documents to keep for each query.
        allow_mismatch: Accept lists whose ids differ in case or zero padding.

    Returns:
        The fused ranking, with the settings of the fusion.

    Raises:
        AssayError: Lists, weights or settings do not fit.

    Example:
        >>> a = Ranking.from_arrays([[0, 1, 2]], n_docs=4)
        >>> b = Ranking.from_arrays([[2, 3]], n_docs=4)
        >>> [doc for doc, _ in fuse([a, b]).row(0)]
        [2, 0, 1, 3]
    """
    joined = JoinedLists(rankings, method, normalize, rrf_k, allow_mismatch)
    return joined.fuse(weights, depth, weights=weights)


class JoinedLists:
    """Join the queries and documents of rankings once, to fuse them with any weights."""

    def __init__(
        self,
        rankings: Sequence[RunLike],
        method: Method,
        normalize: Normalization | None,
        rrf_k: int,
        allow_mismatch: bool = False,
    ) -> None:
        self.lists = lists = _check(rankings, method, normalize)
        _check_ids(lists, allow_mismatch)
        self._method = method
        if method == "rrf":
            offset = _whole(rrf_k, "rrf_k")
            self._values = [_places(ranking) + (1 + offset) for ranking in lists]
        else:
            self._values = [_normalize(ranking, normalize) for ranking in lists]
        self.how: dict[str, Any] = (
            {"k": rrf_k} if method == "rrf" else {"normalize": normalize or "none"}
        )
        self._query_ids = _merge_ids([ranking.query_ids for ranking in lists])
        self._doc_ids = _merge_ids([ranking.doc_ids for ranking in lists])
        keys = [_pair_keys(ranking, self._query_ids, self._doc_ids) for ranking in lists]
        self._pairs, place = np.unique(np.concatenate(keys), return_inverse=True)
        self._at = np.split(place, np.cumsum([len(ranking) for ranking in keys])[:-1])

    def fuse(self, shares: Sequence[float] | None, depth: int | None, **settings: Any) -> Ranking:
        """Add the parts of each (query, document) by these weights.

        `settings` are what the signature says beside the method.
        """
        checked = _weights(shares, len(self.lists))
        high, low = np.zeros((2, len(self._pairs), len(self.lists)))
        held = np.zeros(len(self._pairs), np.int64)
        for column, (values, at, weight) in enumerate(
            zip(self._values, self._at, checked, strict=True)
        ):
            if self._method == "rrf":  # weight / (offset + rank), else weight · score
                part = _quotient(np.float64(weight), values)
            else:
                part = _two_product(values, np.float64(weight))
            high[at, column], low[at, column] = part
            held[at] += 1
        times = held.astype(np.float64) if self._method == "combmnz" else None
        queries, docs = np.divmod(self._pairs, max(len(self._doc_ids), 1))
        fused = _as_ranking(
            self.lists,
            self._query_ids,
            self._doc_ids,
            queries,
            docs.astype(np.int32),
            _total(high, low, times),
            self._method,
        )
        cut = fused if depth is None else fused.first(depth)
        named = as_settings(**self.how, **settings, depth=depth)
        how = ",".join(f"{key}={value}" for key, value in named.items())
        shared = join_settings(ranking.settings for ranking in self.lists)
        return replace(cut, settings={**shared, "fusion": f"{self._method}({how})"})


def _check(rankings: Any, method: str, normalize: str | None) -> list[Ranking]:
    if isinstance(rankings, str | os.PathLike | Ranking):
        rankings = [rankings]
    if not isinstance(rankings, Sequence):
        raise UsageError(f"fuse takes a list of runs, found {type(rankings).__name__}.")
    if not rankings:
        raise UsageError("Nothing to fuse. Pass at least one ranking.")
    checks.check_choice(method, tuple(METHODS), "method")
    if normalize is not None:
        checks.check_choice(normalize, tuple(NORMALIZATIONS), "normalize")
    return [as_ranking(ranking, preset("trec_eval")) for ranking in rankings]


def _check_ids(lists: list[Ranking], allow: bool) -> None:
    """Refuse lists whose ids are not alike; they may well be of other queries and documents."""
    first, *following = lists
    for number, other in enumerate(following, 2):
        for what, ids, rest in (
            ("queries", first.query_ids, other.query_ids),
            ("documents", first.doc_ids, other.doc_ids),
        ):
            about = f"{what} of the first list"
            place = f"list {number}"
            check_match(ids, rest, about, place, allow=allow, none=False, prefixes=False)


def _weights(weights: Sequence[float] | None, n_lists: int) -> list[float]:
    if weights is None:
        return [1.0] * n_lists
    values = checks.as_list(weights, "weights")
    checks.check_lengths(weights=len(values), rankings=n_lists)
    for place, value in enumerate(values):
        if not checks.is_real(value) or not math.isfinite(value) or value <= 0:
            raise ValueRangeError(
                f"Weight {place} is {value!r}. Pass a number above 0, or omit the list."
            )
    return [float(value) for value in values]


def _whole(value: Any, name: str) -> int:
    zero = checks.is_real(value) and value == 0
    return 0 if zero else checks.check_cutoff(value, name)


def _places(ranking: Ranking) -> Floats:
    """Return the place of each result in its row, from 0."""
    place = np.arange(len(ranking.docs)) - np.repeat(ranking.offsets[:-1], ranking.lengths)
    return place.astype(np.float64)


def _normalize(ranking: Ranking, normalize: str | None) -> Floats:
    """Bring the scores of each row of a list to one scale."""
    if normalize is None:
        _refuse_negative(ranking)
        return ranking.scores
    unit = _from_lowest_to_highest(ranking)
    return unit if normalize == "minmax" else _in_deviations(ranking, unit)


def _refuse_negative(ranking: Ranking) -> None:
    if len(ranking.scores) and ranking.scores.min() < 0:
        at = int(np.argmin(ranking.scores))
        query = ranking.query_ids[int(rows_of(ranking.offsets)[at])]
        raise ValueRangeError(
            f"Query {query!r} has the score {ranking.scores[at]:g}, below the 0 of documents "
            "missing from a list. Pass normalize='minmax' or 'zscore'."
        )


def _from_lowest_to_highest(ranking: Ranking) -> Floats:
    """Compute (s - min) / (max - min) in each row; 1 where all are equal."""
    scores, some = ranking.scores * 0.5, ranking.lengths > 0  # halves never overflow
    lengths = ranking.lengths[some]
    highest = scores[ranking.offsets[:-1][some]]
    lowest = scores[ranking.offsets[1:][some] - 1]
    span = np.repeat(highest - lowest, lengths)
    above = scores - np.repeat(lowest, lengths)
    return np.divide(above, span, out=np.ones_like(scores), where=span > 0)


def _in_deviations(ranking: Ranking, unit: Floats) -> Floats:
    """Divide each row by its standard deviation, which is the same for any order of the sum."""
    scaled = unit.copy()
    for start, stop in zip(
        ranking.offsets[:-1].tolist(), ranking.offsets[1:].tolist(), strict=True
    ):
        row = unit[start:stop]
        if stop > start and row[-1] < row[0]:
            mean = math.fsum(row.tolist()) / len(row)
            variance = math.fsum(((row - mean) ** 2).tolist()) / len(row)
            scaled[start:stop] = row / math.sqrt(variance)
    return scaled


def _merge_ids(sides: list[Ids]) -> Ids:
    """Merge the ids of all lists: as they are where they agree, else each once, sorted."""
    if all(ids == sides[0] for ids in sides[1:]):
        return sides[0]
    union = sides[0]
    for ids in sides[1:]:
        union = Ids.concat([union, ids.take(np.flatnonzero(ids.match(union) < 0))])
    return union.take(union.order())


def _pair_keys(ranking: Ranking, query_ids: Ids, doc_ids: Ids) -> Ints:
    """Return a number for each (query, document) of a list."""
    query = ranking.query_ids.match(query_ids)[rows_of(ranking.offsets)]
    return query * len(doc_ids) + ranking.doc_ids.match(doc_ids)[ranking.docs]


def _as_ranking(
    lists: list[Ranking],
    query_ids: Ids,
    doc_ids: Ids,
    queries: Ints,
    docs: NDArray[np.int32],
    scores: Floats,
    name: str,
) -> Ranking:
    if not np.isfinite(scores).all():
        raise ValueRangeError("A fused score exceeds float64. Scale scores or weights.")
    tiebreak = _tiebreak(lists)
    if tiebreak != "index":
        lines: dict[str, Any] = {
            "queries": queries.astype(np.int32),
            "docs": docs,
            "scores": scores,
        }
        return Ranking.from_lines(query_ids, doc_ids, **lines, tiebreak=tiebreak, name=name)
    sizes = {ranking.n_docs for ranking in lists}
    return Ranking(
        query_ids,
        doc_ids,
        np.searchsorted(queries, np.arange(len(query_ids) + 1)).astype(np.int64),
        docs,
        scores,
        in_order=False,
        n_docs=sizes.pop() if len(sizes) == 1 else 0,
        name=name,
        has_ids=all(ranking.has_ids for ranking in lists),
    )


def _tiebreak(lists: list[Ranking]) -> str:
    """Return the rule that all lists share; rows of different collections have none."""
    rules = {ranking.tiebreak for ranking in lists}
    first = lists[0]
    numbered = all(ranking.doc_ids == first.doc_ids and not ranking.by_line for ranking in lists)
    if len(rules) > 1 or (rules == {"index"} and not numbered):
        return "id-descending"
    return first.tiebreak


def _total(high: Floats, low: Floats, factor: Floats | None) -> Floats:
    """Add up each row in doubled precision, times a factor, rounded once.

    Each row is sorted first, so that the order of its columns does not matter.
    """
    high, low = np.sort(high, axis=1), np.sort(low, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        total, error = high[:, 0], low[:, 0]
        for column in range(1, high.shape[1]):
            total, lost = _two_sum(total, high[:, column])
            error = error + (lost + low[:, column])
        if factor is None:
            return total + error
        total, error = _two_sum(total, error)
        product, lost = _two_product(total, factor)
        return product + (lost + error * factor)


def _two_sum(a: Floats, b: Floats) -> _Doubled:
    """Return a + b and its rounding error (Knuth)."""
    total = a + b
    back = total - a
    return _Doubled(total, (a - (total - back)) + (b - back))


def _two_product(a: Floats, b: Floats | np.float64) -> _Doubled:
    """Return a · b and its rounding error (Dekker)."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = a * b
        (a1, a2), (b1, b2) = _halves(a), _halves(b)
        return _Doubled(product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2)


def _halves(a: Any) -> tuple[Any, Any]:
    """Split each number into its upper and lower 26 bits (Veltkamp)."""
    shifted = a * 134217729.0
    upper = shifted - (shifted - a)
    return upper, a - upper


def _quotient(a: np.float64, b: Floats) -> _Doubled:
    """Return a / b and its rounding error."""
    quotient = a / b
    product, error = _two_product(quotient, b)
    return _Doubled(quotient, ((a - product) - error) / b)


@dataclass(frozen=True)
class Tuning:
    """Hold the weights of each fold, and those of all queries, each adding up to 1.

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
        """Return plain data for JSON."""
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
    """Fuse with weights that come for each query from the queries of other folds.

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
    """List weights above 0 that add up to 1, the nearest to equal ones first.

    >>> _grid(2)[:3]
    [(0.5, 0.5), (0.45, 0.55), (0.55, 0.45)]
    """
    if not 2 <= n_lists <= _MOST_LISTS:
        raise UsageError(f"Tuning needs 2 to {_MOST_LISTS} models, found {n_lists}. Name others.")
    steps = _STEPS_OF_TWO if n_lists == 2 else _STEPS
    rows = []
    for cuts in combinations(range(1, steps), n_lists - 1):
        parts = np.diff([0, *cuts, steps]).tolist()
        uneven = sum((n_lists * part - steps) ** 2 for part in parts)
        rows.append((uneven, tuple(part / steps for part in parts)))
    return [weights for _, weights in sorted(rows)]


def _units(query_ids: Ids, clusters: Mapping[Any, Any] | None) -> Ints:
    """Assign a number to each query, or each group, in the order of names."""
    unit = np.empty(len(query_ids), np.int64)
    unit[np.asarray(query_ids.order())] = np.arange(len(query_ids))
    if clusters is None:
        return unit
    absent = [query for query in query_ids if query not in clusters]
    if absent:
        raise MismatchError(
            "clusters lacks the queries "
            f"{checks.name_few(absent)}.{describe_near(absent, clusters)}"
        )
    return np.unique([str(clusters[key]) for key in query_ids], return_inverse=True)[1]


def _deal(unit: Ints, folds: int, seed: int, what: str) -> Ints:
    """Deal queries into folds by ids and seed, whatever the order of lines."""
    n_units = int(unit.max(initial=-1)) + 1
    number = checks.check_cutoff(folds, "folds")
    if not 2 <= number <= n_units:
        raise UsageError(
            f"Tuning needs 2 to {n_units} folds ({what} with judgments); found {number}. "
            "Change folds."
        )
    fold = np.empty(n_units, np.int64)
    fold[np.random.default_rng(check_seed(seed)).permutation(n_units)] = np.arange(n_units) % number
    return fold[unit]


def _best(values: Floats) -> int:
    """Find the weights with the highest sum over the queries; the first of equal ones."""
    return int(np.argmax(np.round(values.sum(axis=1), _DIGITS)))


def _pick_rows(fused: dict[int, Ranking], numbers: Ints) -> Ranking:
    """Take each query's row from the ranking of its weights."""
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
