"""Evaluate predictions of one class per sample: next place, next item, label.

Scores or logits (samples × classes) with the true class of each sample give ranks over the whole
vocabulary; lists of candidates give ranks down to their end. Both lead to a `PredictionResult`.
A list may name a class again: the first mention counts, and the later one still takes its place.

Where classes are places, `distance_errors` measures how far the predicted one lies from the true
one: great-circle distances by the haversine formula on a sphere of the Earth's mean radius (IUGG),
at most 0.6 % off the ellipsoid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, arcsin, as_array, cos, sin
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.hits import Hits, judge_ranks
from assay.core.ids import Ids
from assay.core.mismatches import check_labels_match
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.io.mapped import steady_files
from assay.measures import Measure
from assay.prediction.classes import Confusion
from assay.prediction.result import ClusterSize, PredictionResult
from assay.scoring.evaluate import score
from assay.search.engine.targets import (
    TargetRanks,
    masked_targets,
    ranks_and_best,
    score_matrix,
    target_columns,
)
from assay.search.engine.workers import Progress
from assay.stats import Interval, interval
from assay.tables.table import Cell, Table

Measures = str | Measure | Iterable[str | Measure]
KS = (1, 3, 5, 10)
FULL_MEASURES = (*(f"Success@{k}" for k in KS), "RR", "nDCG@10")
_UNUSED = -1
_FEW = 10  # of so few classes, lists may well name none
RADIUS: Final = 6_371_008.8  # metres
LIMITS: Final = (100.0, 500.0, 1000.0, 5000.0)
_Z: Final = 1.959964


class Scoring(TypedDict, total=False):
    """How a result is scored and named; the arguments that all evaluations share."""

    measures: Measures | None
    name: str
    groups: Mapping[str, Any] | None
    conventions: str | Conventions
    clusters: str


def evaluate_predictions(
    scores: Any,
    targets: Any,
    *,
    class_names: Any = None,
    query_ids: Any = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **scoring: Unpack[Scoring],
) -> PredictionResult:
    """Evaluate scores or logits, samples × classes, against the true class of each sample.

    Numpy arrays, memory maps and torch tensors will do.

    Args:
        scores: Samples × classes. −inf marks a class that was ruled out: it ranks last, also where
            it is the true one.
        targets: True classes; −1 is a sample without one, which is counted and left out.
        measures: Measures; by default Success@1, 3, 5, 10, RR over all classes, and nDCG@10.
        name: Name of the model.
        class_names: Names of the classes, one a column.
        query_ids: Ids of the samples; without them samples are numbered.
        groups: {column: {sample id: group}}.
        conventions: Conventions of the measures.
        clusters: The column of groups whose samples are not independent, such as users: intervals
            and comparisons draw whole groups.
        threads: Number of threads.
        progress: Called with the number of samples done, and of all.

    Returns:
        Scores of every sample, ranks, and counts of every class.

    Raises:
        MismatchError: Scores, targets, ids or names have different lengths.
        ValueRangeError: A score is NaN, or a target is no class.

    >>> result = evaluate_predictions([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1]], [2, 0])
    >>> result.mean()["Acc@1"], result.mean()["MRR"], round(result.confusion.f1("macro"), 4)
    (0.5, 0.75, 0.3333)
    """
    batches = Accumulator(threads=threads, progress=progress)
    batches.add(scores, targets, query_ids=query_ids)
    return batches.result(class_names=class_names, **scoring)


def evaluate_candidates(
    candidates: Any,
    targets: Any,
    *,
    n_classes: int | None = None,
    query_ids: Any = None,
    allow_mismatch: bool = False,
    **scoring: Unpack[Scoring],
) -> PredictionResult:
    """Evaluate lists of candidates, best first, against the true class of each sample.

    Where a list names a class again, the first mention counts and the later one still takes its
    place. A target beyond the list is not found; so the reciprocal rank ends with the list and is
    called RR@10 for lists of ten. The result's `remarks` tell how many targets no list names at
    all, how many lists are empty, and how many places repeat a class.

    Args:
        candidates: A list of classes, text or integers, for each sample; best first.
        targets: True classes; None or −1 is a sample without one.
        measures: Measures with a cutoff inside the lists; by default Success@k, RR and nDCG.
        name: Name of the model.
        n_classes: Size of the vocabulary, needed for chance only.
        query_ids: Ids of the samples; without them samples are numbered.
        groups: {column: {sample id: group}}.
        conventions: Conventions of the measures.
        clusters: The column of groups whose samples are not independent, such as users.
        allow_mismatch: Accept classes that lists and targets write differently, as `1` and `01`.

    Returns:
        Scores of every sample, ranks, and counts of every class.

    Raises:
        MismatchError: Lists and targets write classes differently, or differ in number.
        ShapeError: There is no list, or all lists are empty.
        UsageError: A measure looks beyond the end of the lists.
        ValueRangeError: No sample has a target.

    >>> result = evaluate_candidates([["home", "work"], ["gym", "gym", "home"]], ["work", "home"])
    >>> result.mean()["RR@3"], result.repeated
    (0.41666666666666663, 1)
    """
    lists = _read_lists(as_array(candidates))
    labels = checks.as_list(targets, "targets")
    checks.check_lengths(candidates=len(lists), targets=len(labels))
    names, codes, true = _number_classes(lists, labels)
    depth = codes.shape[1]
    if not depth:
        raise ShapeError("All candidate lists are empty. Pass at least one candidate.")
    has_target = true >= 0
    classes, listed = (names[np.bincount(at[at >= 0]).nonzero()].tolist() for at in (true, codes))
    places, few = ("true classes", "the candidate lists"), len(classes) < _FEW
    remarks = check_labels_match(classes, listed, *places, allow=allow_mismatch, none=not few)
    size = None if n_classes is None else checks.check_cutoff(n_classes, "n_classes")
    if size is not None and size < len(names):
        raise ValueRangeError(f"n_classes is {size}. At least {len(names)} classes occur.")
    matches = (codes == true[:, None]) & has_target[:, None]
    ranks = np.where(matches.any(axis=1), matches.argmax(axis=1) + 1, 0)
    hits = judge_ranks(ranks, n_docs=size, has_target=has_target, query_ids=query_ids)
    ordered = np.sort(codes, axis=1)  # equal neighbours: a class that its list names again
    return make_result(
        replace(hits, remarks=(*hits.remarks, *remarks)),
        *(true, codes[:, 0], names, query_ids),
        usual=list_measures(depth),
        depth=depth,
        repeated=int(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != _UNUSED)).sum()),
        unlisted=int((has_target & ~np.isin(true, codes)).sum()),
        empty=int((has_target & (codes == _UNUSED).all(axis=1)).sum()),
        **scoring,
    )


def list_measures(depth: int) -> tuple[str, ...]:
    """Return the default measures of lists, with cutoffs inside the longest."""
    cuts = [k for k in KS if k <= depth] or [depth]
    return (*(f"Success@{k}" for k in cuts), f"RR@{depth}", f"nDCG@{min(10, depth)}")


class _Batch(NamedTuple):
    ranks: TargetRanks
    targets: Ints
    best: Ints
    ids: list[Any] | None
    masked: int


class Accumulator:
    """Collect batches of scores and targets; the result equals one evaluation's bytes.

    Args:
        threads: Number of threads.
        progress: Called with the number of samples of a batch done, and of all.

    >>> batches = Accumulator()
    >>> for scores, target in (([[0.1, 0.9]], [1]), ([[0.3, 0.2]], [1])):
    ...     batches.add(scores, target)
    >>> batches.result().mean()["MRR"]
    0.75
    """

    def __init__(self, *, threads: int | None = None, progress: Progress | None = None) -> None:
        self._threads, self._progress = threads, progress
        self._batches: list[_Batch] = []

    def add(self, scores: Any, targets: Any, *, query_ids: Any = None) -> None:
        """Count the ranks of one batch; the scores themselves are not stored."""
        matrix = score_matrix(as_array(scores))
        columns = target_columns(as_array(targets), *matrix.shape)
        work: Any = {"threads": self._threads, "progress": self._progress}
        ranks, best = ranks_and_best(matrix, columns, **work)
        ids = None if query_ids is None else checks.as_list(query_ids, "query_ids")
        if ids is not None:
            checks.check_lengths(scores=len(ranks), query_ids=len(ids))
        with steady_files(matrix):
            masked = int(masked_targets(matrix, columns).sum())
        self._append(_Batch(ranks, columns, best, ids, masked))

    def _append(self, batch: _Batch) -> None:
        first = self._batches[0] if self._batches else batch
        if batch.ranks.n_docs != first.ranks.n_docs:
            raise MismatchError(
                f"This batch has {batch.ranks.n_docs} classes, earlier ones "
                f"{first.ranks.n_docs}. Use the same classes."
            )
        if (batch.ids is None) != (first.ids is None):
            raise MismatchError("Some batches lack query_ids. Pass them for all batches or none.")
        self._batches.append(batch)

    def merge(self, *others: Accumulator) -> Accumulator:
        """Return a new one with all batches of this one, then of the others."""
        whole = Accumulator(threads=self._threads, progress=self._progress)
        for part in (self, *others):
            checks.require(part, Accumulator, "every part", "an Accumulator")
            for batch in part._batches:
                whole._append(batch)
        return whole

    def result(self, *, class_names: Any = None, **scoring: Unpack[Scoring]) -> PredictionResult:
        """Return the result of all batches; without ids samples are numbered."""
        if not self._batches:
            raise UsageError("Empty Accumulator. Call add() first.")
        ranks, targets, tops, id_lists, masked = zip(*self._batches, strict=True)
        n_classes = ranks[0].n_docs
        columns = ([getattr(part, key) for part in ranks] for key in ("above", "tied", "before"))
        above, tied, before = map(np.concatenate, columns)
        whole = TargetRanks(above, tied, before, n_classes)
        ids = None if id_lists[0] is None else list(chain.from_iterable(id_lists))
        names = None if class_names is None else checks.check_labels(class_names, "class_names")
        if names is not None:
            checks.check_lengths(class_names=len(names), classes=n_classes)
            distinct, counts = np.unique(names, return_counts=True)
            if len(distinct) < len(names):
                twice = distinct[counts > 1][0]
                raise MismatchError(f"class_names holds {twice!r} twice. Use distinct names.")
        samples = (np.concatenate(targets), np.concatenate(tops), names, ids)
        return make_result(whole.hits(ids), *samples, masked=sum(masked), **scoring)


def _read_lists(candidates: Any) -> list[list[Any]]:
    rows = checks.as_list(candidates, "candidates")
    if not rows:
        raise ShapeError("candidates hold no samples. Pass at least one.")
    lists = []
    for number, row in enumerate(rows):
        if isinstance(row, str | bytes) or not hasattr(row, "__iter__"):
            raise ShapeError(
                f"candidates, row {number}: {row!r} is not a list. See evaluate_predictions."
            )
        lists.append([item for item in row if not _is_none(item)])
    return lists


def _is_none(label: Any) -> bool:
    return label is None or (isinstance(label, int | np.integer) and label == _UNUSED)


def _number_classes(lists: list[list[Any]], targets: list[Any]) -> tuple[NDArray[Any], Ints, Ints]:
    """Return class names, the lists as a matrix of their numbers, and the targets."""
    lengths = np.array([len(row) for row in lists])
    has = np.array([not _is_none(target) for target in targets], bool)
    listed = checks.check_labels(list(chain.from_iterable(lists)), "candidates")
    true_labels = checks.check_labels(
        [target for target in targets if not _is_none(target)], "targets"
    )
    if len(listed) and len(true_labels):
        checks.check_one_kind_of_label(true_labels, listed)
    elif not len(true_labels):
        raise ValueRangeError("No sample has a target. Pass at least one.")
    names, codes = np.unique(
        np.concatenate([listed, true_labels]) if len(listed) else true_labels, return_inverse=True
    )
    matrix = np.full((len(lists), int(lengths.max(initial=0))), _UNUSED, np.int64)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = codes[: len(listed)]
    true = np.full(len(targets), _UNUSED, np.int64)
    true[has] = codes[len(listed) :]
    return names, matrix, true


def _name_classes(numbers: Ints, names: NDArray[Any]) -> NDArray[Any]:
    """Return class numbers as names; −1, which is none, becomes −1 or an empty text."""
    none = -1 if names.dtype.kind in "iu" else ""
    labels: NDArray[Any] = np.where(numbers >= 0, names[np.maximum(numbers, 0)], none)
    return labels


def make_result(
    hits: Hits,
    true: Ints,
    best: Ints,
    names: NDArray[Any] | None,
    query_ids: Any,
    *,
    usual: Measures = FULL_MEASURES,
    measures: Measures | None = None,
    name: str = "model",
    groups: Mapping[str, Any] | None = None,
    conventions: str | Conventions = "next_location",
    clusters: str = "",
    depth: int = 0,
    **counts: Any,
) -> PredictionResult:
    """Score the hits; `true` and `best` are class numbers in the order of `query_ids`.

    Results have the `names` of the classes, where there are any, in rising order.
    Groups are {column: {sample id: group}}, or lists where samples have no id; `clusters` is the
    column of those whose samples are not independent.
    A rank beyond the end of a list is not known, so a cutoff must not lie there. `counts` are
    those of `PredictionResult`: repeated, masked, unlisted, empty.
    """
    measures = usual if measures is None else measures
    scores = score(hits, measures, conventions=conventions).but_settings(
        n_docs=int(hits.n_docs.max(initial=0)) or None, list_length=depth or None
    )
    for measure in scores.measures:
        cutoff = measure.cutoff
        if depth and not (isinstance(cutoff, int) and cutoff <= depth):
            raise UsageError(
                f"{measure} exceeds the {depth} candidates per list. Use "
                f"{measure.name}@{depth} or a smaller cutoff, or give scores of all classes."
            )
    if groups is not None:
        checks.require(groups, Mapping, "groups", "{column: {sample id: group}}")
        scores = scores.with_groups(**groups)
    size = ClusterSize.of(scores, clusters)
    scores = scores.but_settings(clusters=size and str(size))
    confusion = Confusion.count(true[true >= 0], best[true >= 0])
    targets, predicted = true, best
    if names is not None:
        rows = np.flatnonzero(confusion.classes >= 0)  # −1, an empty list, is no class
        rows = rows[np.argsort(names[confusion.classes[rows]])]
        classes, *counts_by_class = (part[rows] for part in vars(confusion).values())
        confusion = Confusion(names[classes], *counts_by_class)
        targets, predicted = _name_classes(true, names), _name_classes(best, names)
    ids = Ids.count(len(true)) if query_ids is None else Ids.of(query_ids, what="query")
    order = ids.order()  # as hits are
    tops = (targets[order], predicted[order], confusion)
    return PredictionResult(name, hits, scores, *tops, size, depth, **counts)


def haversine(a: Any, b: Any) -> Floats:
    """Return metres between places, rows of latitude and longitude in degrees.

    >>> float(haversine([48.8566, 2.3522], [51.5074, -0.1278]).round(-3))
    344000.0
    """
    (lat_a, lon_a), (lat_b, lon_b) = (np.radians(np.asarray(x, np.float64).T) for x in (a, b))
    half = sin((lat_b - lat_a) / 2) ** 2
    half = half + cos(lat_a) * cos(lat_b) * sin((lon_b - lon_a) / 2) ** 2
    metres: Floats = 2 * RADIUS * arcsin(np.sqrt(np.minimum(half, 1.0)))
    return metres


@dataclass(frozen=True, eq=False)
class DistanceResult:
    """Distances between predicted and true places, for samples that have both.

    `within` has, by metres, the share of samples that are as near; `absent` are the places without
    coordinates, which leave out `n_absent` samples.
    """

    name: str
    metres: Floats
    median: Interval
    mean: Interval
    within: dict[float, Interval]
    n_without: int
    n_absent: int = 0
    absent: tuple[str, ...] = ()

    @property
    def remarks(self) -> Iterator[str]:
        """Return the warnings."""
        if self.absent:
            places = checks.name_few(self.absent)
            yield (
                f"distances omit {self.n_absent:,} samples whose places lack coordinates: {places}"
            )

    @property
    def intervals(self) -> dict[str, Interval]:
        """Median and mean in metres, and the share within each limit."""
        shares = {
            f"Acc@{limit:g}m" if limit < 1000 else f"Acc@{limit / 1000:g}km": share
            for limit, share in self.within.items()
        }
        return {"median": self.median, "mean": self.mean, **shares}

    def table(self) -> Table:
        """Return median, mean and the shares, with 95 % intervals."""
        rows = []
        for name, value in self.intervals.items():
            in_metres = not name.startswith("Acc@")
            ends = (value.estimate, value.low, value.high)
            cells = [Cell(end, "fraction") for end in ends]
            if in_metres:
                cells = [Cell(None if math.isnan(end) else f"{end:,.0f}", "figure") for end in ends]
            rows.append((Cell(f"{name} error (m)" if in_metres else name), *cells))
        return Table(("distance", self.name, "95 % low", "95 % high"), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        ends = {name: value.to_dict("value") for name, value in self.intervals.items()}
        data = {"metres": ends, "samples": len(self.metres), "without_place": self.n_without}
        absent = {"without_coordinates": self.n_absent, "places_without": list(self.absent)}
        return data | (absent if self.absent else {})


def distance_errors(
    predicted: Any,
    targets: Any,
    coordinates: Mapping[Any, Sequence[float]],
    *,
    limits: Sequence[float] = LIMITS,
    name: str = "model",
    seed: int = 0,
    users: Any = None,
    allow_mismatch: bool = False,
) -> DistanceResult:
    """Measure the distances between predicted and true classes in metres.

    Samples whose predicted or true place has no coordinates are left out, counted and named.

    Args:
        predicted: The first class of each sample; None, −1 or "" is left out and counted.
        targets: The true class of each sample, likewise.
        coordinates: {class: (latitude, longitude)} in degrees.
        limits: Metres within which a prediction counts as right.
        name: Name of the model.
        seed: Random seed of the intervals.
        users: The user of each sample; intervals then draw whole users.
        allow_mismatch: Accept classes that the coordinates write differently, as `1` and `01`.

    Returns:
        Median and mean error, and the share within each limit, with intervals.

    Raises:
        MismatchError: Classes are written differently, or none has coordinates.
        UsageError: No sample has both a prediction and a target.
        ValueRangeError: A coordinate is not a latitude and longitude.

    >>> places = {"a": (0, 0), "b": (0, 1)}
    >>> errors = distance_errors(["b", "a"], ["a", "a"], places, limits=[1000])
    >>> errors.metres.round().tolist(), errors.within[1000].estimate
    ([111195.0, 0.0], 0.5)
    """
    places = _check_coordinates(coordinates)
    first, true = checks.as_list(predicted, "predicted"), checks.as_list(targets, "targets")
    checks.check_lengths(predicted=len(first), targets=len(true))
    rows = list(zip(first, true, strict=True))
    whole = [at for at, row in enumerate(rows) if not any(x is None or x in (-1, "") for x in row)]
    if not whole:
        raise UsageError("No sample has both prediction and target. Distances need both.")
    named = dict.fromkeys(place for at in whole for place in rows[at])
    check_labels_match(named, places, "places", "the coordinates", allow=allow_mismatch)
    complete = [at for at in whole if rows[at][0] in places and rows[at][1] in places]
    absent = tuple(sorted(str(place) for place in named if place not in places))
    if not complete:
        raise MismatchError(
            f"No sample has coordinates of both places. Missing: {checks.name_few(absent)}. "
            "Add them."
        )
    metres = haversine(*([places[rows[at][end]] for at in complete] for end in (0, 1)))
    drawn: dict[str, Any] = {"seed": seed}
    if users is not None:
        owners = checks.check_labels(users, "users")
        checks.check_lengths(users=len(owners), targets=len(true))
        drawn["clusters"] = owners[complete]
    means = median_interval(metres, **drawn), interval(metres, **drawn)
    within = {float(limit): interval(metres <= limit, **drawn) for limit in sorted(limits)}
    n_without, n_absent = len(rows) - len(whole), len(whole) - len(complete)
    return DistanceResult(name, metres, *means, within, n_without, n_absent, absent)


def _check_coordinates(
    coordinates: Mapping[Any, Sequence[float]],
) -> dict[Any, tuple[float, float]]:
    checks.require(coordinates, Mapping, "coordinates", "{class: (latitude, longitude)}")
    places = {}
    for place, pair in coordinates.items():
        try:
            lat, lon = map(float, pair)
        except (TypeError, ValueError):
            lat = lon = math.nan
        if not (abs(lat) <= 90 and abs(lon) <= 360):
            raise ValueRangeError(
                f"coordinates of {place!r}: {pair!r:.60} is not (latitude −90 to 90, "
                "longitude). Write decimal degrees, latitude first."
            )
        places[place] = (lat, lon)
    return places


def median_interval(values: Any, *, clusters: Any = None, seed: int = 0) -> Interval:
    """Return the median with an interval between two of the values.

    Their ranks leave at most 2.5 % of a binomial distribution on either side, as the normal
    distribution has it. With `clusters`, one for each value, the ends are the quantiles at the
    ends of an interval for the share of values up to the median (Woodruff 1952, JASA 47), which
    draws whole groups.
    """
    array = np.asarray(values, np.float64)
    ordered, middle, n = np.sort(array), float(np.median(array)), len(array)
    low, high, note, method = math.nan, math.nan, "too few values", "order statistics"
    if clusters is not None:
        share = interval(array <= middle, clusters=clusters, seed=seed)
        method, note = share.method, share.note
        if not note:
            ends = [0.5 + end - share.estimate for end in (share.low, share.high)]
            low, high = np.quantile(
                ordered, np.clip(ends, 0, 1), method="closest_observation"
            ).tolist()
    elif (below := math.floor((n - _Z * math.sqrt(n)) / 2)) >= 1:
        low, high, note = float(ordered[below - 1]), float(ordered[n - below]), ""
    return Interval(middle, low, high, 0.95, method, n, note=note)
