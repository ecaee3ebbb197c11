"""Predictions of one class for each sample: the next place, the next item, the right label.

Scores or logits (samples × classes) with the true class of each sample give ranks over the whole
vocabulary; lists of candidates give ranks down to their end. Both lead to a `PredictionResult`.
A list may name a class again: the first mention counts, and the later one still takes its place.

Whether scores are logits, probabilities or similarities is decided once for a whole input.
Probabilities are not negative and sum to 1 in every row, within the precision of the numbers: a
softmax in float16 misses 1 by a thousandth. Logits lie beyond ±1. Anything else, such as cosines,
sigmoids, small logits or probabilities with a few odd rows, is for the caller to state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Flags, Floats, Ints
from assay.core import checks
from assay.core.conventions import Conventions
from assay.core.hits import judge_ranks
from assay.core.mismatches import check_labels_match
from assay.errors import MismatchError, ShapeError, UsageError, ValueRangeError
from assay.io.mapped import steady_files
from assay.measures import Measure
from assay.measures.classes import Confusion
from assay.prediction.plugin import SCORE_KINDS
from assay.prediction.result import PredictionResult, make_result, name_targets
from assay.search.engine.score_ranks import (
    masked_targets,
    ranks_and_best,
    score_matrix,
    target_columns,
)
from assay.search.engine.target_search import TargetRanks
from assay.search.engine.workers import Progress

Measures = str | Measure | Iterable[str | Measure]
KS = (1, 3, 5, 10)
FULL_MEASURES = (*(f"Success@{k}" for k in KS), "RR", "nDCG@10")
_UNUSED = -1
_FEW = 10  # of so few classes, lists may well name none


def evaluate_predictions(
    scores: Any,
    targets: Any,
    *,
    measures: Measures | None = None,
    name: str = "model",
    class_names: Any = None,
    query_ids: Any = None,
    groups: Mapping[str, Any] | None = None,
    conventions: str | Conventions = "next_location",
    threads: int | None = None,
    progress: Progress | None = None,
) -> PredictionResult:
    """Evaluate scores or logits, samples × classes, against the true class of each sample.

    Numpy arrays, memory maps and torch tensors will do. A target of −1 is a sample without one; it
    is counted and left out. A score of −inf marks a class that was ruled out: it ranks last, also
    where it is the true one. Without `measures`: Success@1, 3, 5, 10, RR over all classes, nDCG@10.

    >>> result = evaluate_predictions([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1]], [2, 0])
    >>> result.mean()["Acc@1"], result.mean()["MRR"], round(result.confusion.f1("macro"), 4)
    (0.5, 0.75, 0.3333)
    """
    batches = Accumulator(threads=threads, progress=progress)
    batches.add(scores, targets, query_ids=query_ids)
    return batches.result(
        measures=measures,
        name=name,
        class_names=class_names,
        groups=groups,
        conventions=conventions,
    )


def evaluate_candidates(
    candidates: Any,
    targets: Any,
    *,
    measures: Measures | None = None,
    name: str = "model",
    n_classes: int | None = None,
    query_ids: Any = None,
    groups: Mapping[str, Any] | None = None,
    conventions: str | Conventions = "next_location",
    allow_mismatch: bool = False,
) -> PredictionResult:
    """Evaluate lists of candidates, best first, against the true class of each sample.

    Classes are text or integers. Where a list names a class again, the first mention counts and the
    later one still takes its place. A target beyond the list is not found; so the reciprocal rank
    ends with the list and is called RR@10 for lists of ten. The result's `remarks` tell how many
    targets no list names at all, how many lists are empty, and how many places repeat a class.
    `n_classes` is needed for chance only. Classes that lists and targets write differently, as `1`
    and `01`, are refused unless `allow_mismatch`.

    >>> result = evaluate_candidates([["home", "work"], ["gym", "gym", "home"]], ["work", "home"])
    >>> result.mean()["RR@3"], result.repeated
    (0.41666666666666663, 1)
    """
    lists = _candidate_rows(as_array(candidates))
    labels = checks.as_list(as_array(targets), "targets")
    checks.check_lengths(candidates=len(lists), targets=len(labels))
    names, codes, true = _number_classes(lists, labels)
    depth = codes.shape[1]
    if not depth:
        raise ShapeError("All candidate lists are empty: there is nothing to evaluate.")
    has_target = true >= 0
    true_classes = np.unique(true[has_target])
    remarks = check_labels_match(
        names[true_classes].tolist(),
        names[np.unique(codes[codes != _UNUSED])].tolist(),
        "true classes",
        "the candidate lists",
        allow=allow_mismatch,
        none=len(true_classes) >= _FEW,
    )
    matches = (codes == true[:, None]) & has_target[:, None]
    hits = judge_ranks(
        np.where(matches.any(axis=1), matches.argmax(axis=1) + 1, 0),
        n_docs=_vocabulary(n_classes, len(names)),
        has_target=has_target,
        query_ids=query_ids,
    )
    # An empty list is a miss, but −1 is no class.
    counts = Confusion.count(true[has_target], codes[has_target, 0])
    return make_result(
        replace(hits, remarks=(*hits.remarks, *remarks)),
        rename_classes(counts, names, counts.classes != _UNUSED),
        targets=name_targets(true, names),
        predicted=name_targets(codes[:, 0], names),
        query_ids=query_ids,
        measures=list_measures(depth) if measures is None else measures,
        name=name,
        groups=groups,
        conventions=conventions,
        depth=depth,
        repeated=_repeats(codes),
        unlisted=int((has_target & ~np.isin(true, codes)).sum()),
        empty=int((has_target & (codes == _UNUSED).all(axis=1)).sum()),
    )


def list_measures(depth: int) -> tuple[str, ...]:
    """Return the default measures of lists, with cut-offs inside the longest."""
    cuts = [k for k in KS if k <= depth] or [depth]
    return (*(f"Success@{k}" for k in cuts), f"RR@{depth}", f"nDCG@{min(10, depth)}")


class Accumulator:
    """Collects batches of scores and targets; the result has the same bytes as in one go.

    >>> batches = Accumulator()
    >>> for scores, target in (([[0.1, 0.9]], [1]), ([[0.3, 0.2]], [1])):
    ...     batches.add(scores, target)
    >>> batches.result().mean()["MRR"]
    0.75
    """

    def __init__(self, *, threads: int | None = None, progress: Progress | None = None) -> None:
        self._threads, self._progress = threads, progress
        self._ranks: list[TargetRanks] = []
        self._targets: list[Ints] = []
        self._best: list[Ints] = []
        self._ids: list[Any] = []
        self._masked = 0

    def add(self, scores: Any, targets: Any, *, query_ids: Any = None) -> None:
        """Count the ranks of one batch; the scores themselves are not stored."""
        matrix = score_matrix(as_array(scores))
        columns = target_columns(as_array(targets), *matrix.shape)
        ranks, best = ranks_and_best(
            matrix, columns, threads=self._threads, progress=self._progress
        )
        ids = None if query_ids is None else checks.as_list(query_ids, "query_ids")
        if ids is not None:
            checks.check_lengths(scores=len(ranks), query_ids=len(ids))
        self._check_batch(ranks, ids)
        self._ranks.append(ranks)
        self._targets.append(columns)
        self._best.append(best)
        self._ids.append(ids)
        with steady_files(matrix):
            self._masked += int(masked_targets(matrix, columns).sum())

    def _check_batch(self, ranks: TargetRanks, ids: list[Any] | None) -> None:
        if self._ranks and ranks.n_docs != self._ranks[0].n_docs:
            raise MismatchError(
                f"This batch has {ranks.n_docs} classes, those before have "
                f"{self._ranks[0].n_docs}. All batches must have the same classes."
            )
        if self._ids and (ids is None) != (self._ids[0] is None):
            raise MismatchError("Some batches have query_ids and some do not. Give all or none.")

    def merge(self, *others: Accumulator) -> Accumulator:
        """Return a new one with all batches of this one, then of the others."""
        whole = Accumulator(threads=self._threads, progress=self._progress)
        for part in (self, *others):
            checks.require(part, Accumulator, "every part", "an Accumulator")
            for ranks, ids in zip(part._ranks, part._ids, strict=True):
                whole._check_batch(ranks, ids)
            whole._ranks += part._ranks
            whole._targets += part._targets
            whole._best += part._best
            whole._ids += part._ids
            whole._masked += part._masked
        return whole

    def result(
        self,
        *,
        measures: Measures | None = None,
        name: str = "model",
        class_names: Any = None,
        groups: Mapping[str, Any] | None = None,
        conventions: str | Conventions = "next_location",
    ) -> PredictionResult:
        """Return the result of all batches; without ids samples are numbered."""
        if not self._ranks:
            raise UsageError("Nothing was added to this Accumulator yet.")
        n_classes = self._ranks[0].n_docs
        above, tied, before = (
            np.concatenate([getattr(part, key) for part in self._ranks])
            for key in ("above", "tied", "before")
        )
        whole = TargetRanks(above, tied, before, n_classes)
        ids = (
            None
            if self._ids[0] is None
            else [sample_id for part in self._ids for sample_id in part]
        )
        true, best = np.concatenate(self._targets), np.concatenate(self._best)
        has_target = true >= 0
        confusion = Confusion.count(true[has_target], best[has_target])
        if class_names is not None:
            names = _distinct_names(class_names, n_classes)
            order = np.argsort(names[confusion.classes])
            confusion = rename_classes(confusion, names, order)
            true, best = name_targets(true, names), name_targets(best, names)
        return make_result(
            whole.hits(ids),
            confusion,
            targets=true,
            predicted=best,
            query_ids=ids,
            measures=FULL_MEASURES if measures is None else measures,
            name=name,
            groups=groups,
            conventions=conventions,
            masked=self._masked,
        )


def _distinct_names(names: Any, n_classes: int) -> NDArray[Any]:
    labels = checks.check_labels(names, "class_names")
    checks.check_lengths(class_names=len(labels), classes=n_classes)
    distinct, counts = np.unique(labels, return_counts=True)
    if len(distinct) < len(labels):
        twice = distinct[counts > 1][0]
        raise MismatchError(f"class_names holds {twice!r} twice; each class needs its own name.")
    return labels


def rename_classes(counts: Confusion, names: NDArray[Any], rows: Any = slice(None)) -> Confusion:
    """Return the counts of some or all classes under their names."""
    return Confusion(
        names[counts.classes[rows]], counts.right[rows], counts.predicted[rows], counts.actual[rows]
    )


def as_array(values: Any) -> Any:
    """Return what numpy can read: a torch tensor is brought to main memory.

    Numpy has no bfloat16, so such a tensor is widened to float32, which holds it exactly.
    """
    if not (hasattr(values, "detach") and hasattr(values, "cpu")):
        return values
    tensor = values.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def _repeats(codes: Ints) -> int:
    """How many places name a class that their list has named before."""
    ordered = np.sort(codes, axis=1)
    again = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != _UNUSED)
    return int(again.sum())


def _candidate_rows(candidates: Any) -> list[list[Any]]:
    rows = checks.as_list(candidates, "candidates")
    if not rows:
        raise ShapeError("candidates hold no samples.")
    lists = []
    for number, row in enumerate(rows):
        if isinstance(row, str | bytes) or not hasattr(row, "__iter__"):
            raise ShapeError(
                f"candidates must be a list for each sample; row {number} is {row!r}. "
                "For scores of all classes use evaluate_predictions."
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
        raise ValueRangeError("No sample has a target: there is nothing to evaluate.")
    names, codes = np.unique(
        np.concatenate([listed, true_labels]) if len(listed) else true_labels, return_inverse=True
    )
    matrix = np.full((len(lists), int(lengths.max(initial=0))), _UNUSED, np.int64)
    matrix[np.arange(matrix.shape[1]) < lengths[:, None]] = codes[: len(listed)]
    true = np.full(len(targets), _UNUSED, np.int64)
    true[has] = codes[len(listed) :]
    return names, matrix, true


def _vocabulary(n_classes: int | None, n_named: int) -> int | None:
    if n_classes is None:
        return None
    size = checks.check_cutoff(n_classes, "n_classes")
    if size < n_named:
        raise ValueRangeError(
            f"n_classes is {size}, but lists and targets name {n_named} different classes."
        )
    return size


_SHARE: Final = 0.1  # of rows: fewer of another look are accidents of logits
_ROUNDINGS: Final = 4  # of the exponential, their sum, the quotient, and one to spare
_LEAST_TOLERANCE: Final = 1e-4  # float32 sums of many classes, in any order
# Relative spacing and smallest number, the coarsest format first.
_FORMATS: Final = {"bfloat16": (2.0**-7, 2.0**-133), "float16": (2.0**-10, 2.0**-24)}


@dataclass(frozen=True)
class ScoreKind:
    """What the scores of an input are, and why they were read so.

    `tolerance` is how far the sum of probabilities may lie from 1 by rounding alone.
    """

    name: str
    stated: bool = False
    reason: str = ""
    tolerance: float = _LEAST_TOLERANCE
    remarks: tuple[str, ...] = ()


def check_score_kind(name: str | None) -> str | None:
    """Return a name of `SCORE_KINDS`, or None; refuse other names."""
    if name is not None and name not in SCORE_KINDS:
        raise UsageError(f"Scores are {', '.join(SCORE_KINDS)}, not {name!r:.40}.")
    return name


@dataclass
class RowLooks:
    """Lowest value, highest value and sum of every row, collected block by block."""

    lows: list[Floats] = field(default_factory=list)
    highs: list[Floats] = field(default_factory=list)
    sums: list[Floats] = field(default_factory=list)
    masked: list[Flags] = field(default_factory=list)
    formats: set[str] = field(default_factory=lambda: set(_FORMATS))
    n_classes: int = 0

    def add(self, scores: Floats) -> None:
        """Look at more rows, without NaN or +inf; a class at -inf was ruled out."""
        masked = scores == -np.inf
        plain = np.where(masked, 0.0, scores)
        self.lows.append(np.where(masked, np.inf, scores).min(axis=1))
        self.highs.append(scores.max(axis=1))
        self.sums.append(plain.sum(axis=1))
        self.masked.append(masked.any(axis=1))
        self.formats -= {name for name in self.formats if not _is_exact(plain, name)}
        self.n_classes = scores.shape[1]

    def decide(self, stated: str | None, place: str) -> ScoreKind:
        """Return the kind of all rows, the stated one if it is possible.

        Raises:
            UsageError: The rows are neither clearly logits nor clearly probabilities.
            ValueRangeError: Stated probabilities are negative or sum to 0.
        """
        lows, highs, sums = (np.concatenate(part) for part in (self.lows, self.highs, self.sums))
        masked, tolerance = np.concatenate(self.masked), self._tolerance()
        like_shares = (lows >= -tolerance) & (np.abs(sums - 1) <= tolerance)
        if stated == "probabilities":
            _check_shares(lows, sums, masked, place)
            remarks = _normalised(sums, ~like_shares)
            return ScoreKind(stated, True, "stated", tolerance, remarks)
        shares_in_all = bool((like_shares & (lows >= 0) & ~masked).all())
        if stated is not None:
            doubt = shares_in_all and stated == "logits"
            remarks = (f"every row sums to 1, as probabilities do, but {_STATED}",) if doubt else ()
            return ScoreKind(stated, True, "stated", tolerance, remarks)
        if shares_in_all:
            reason = f"every row sums to 1 within {tolerance:.2g}"
            return ScoreKind("probabilities", False, reason, tolerance)
        beyond = (lows < -1 - tolerance) | (highs > 1 + tolerance)
        if like_shares.mean() < _SHARE <= beyond.mean():
            reason = f"{np.floor(100 * beyond.mean()):.0f} % of rows have values beyond ±1"
            return ScoreKind("logits", False, reason, tolerance)
        raise UsageError(
            f"Cannot tell whether the scores of {place} are logits, probabilities or similarities: "
            f"{_describe(like_shares, lows, highs, sums)}. "
            f"State it with --scores {'|'.join(SCORE_KINDS)} (kind=...)."
        )

    def _tolerance(self) -> float:
        """Return what rounding may do to a sum, in the coarsest format that holds every value."""
        coarsest = next((name for name in _FORMATS if name in self.formats), None)
        if coarsest is None:
            return _LEAST_TOLERANCE
        spacing, smallest = _FORMATS[coarsest]
        return max(_LEAST_TOLERANCE, _ROUNDINGS * spacing + self.n_classes * smallest)


_STATED: Final = "they are taken as logits, as stated"


def _is_exact(values: Floats, name: str) -> bool:
    """Return whether a narrow format holds all values, also after they were widened."""
    with np.errstate(over="ignore"):
        if name == "float16":
            return bool((values.astype(np.float16) == values).all())
        single = values.astype(np.float32)
    bits: NDArray[np.uint32] = single.view(np.uint32)
    return bool((single == values).all() and not (bits & 0xFFFF).any())


def _check_shares(lows: Floats, sums: Floats, masked: Flags, place: str) -> None:
    """Refuse probabilities below 0, and rows without any."""
    for wrong, words in (
        ((lows < 0) | masked, "has a value below 0"),
        (sums <= 0, "sums to 0"),
    ):
        if wrong.any():
            raise ValueRangeError(
                f"{place}: row {int(wrong.argmax())} {words}, so the scores are not probabilities. "
                "Pass --scores logits or similarities, or correct the rows."
            )


def _normalised(sums: Floats, off: Flags) -> tuple[str, ...]:
    if not off.any():
        return ()
    low, high = sums[off].min(), sums[off].max()
    return (
        f"{int(off.sum()):,} of {len(sums):,} rows of probabilities do not sum to 1 (sums from "
        f"{low:.5g} to {high:.5g}): each was divided by its sum",
    )


def _describe(like_shares: Flags, lows: Floats, highs: Floats, sums: Floats) -> str:
    """Say what does not fit, with the first row that shows it."""
    extent = f"values lie between {lows.min():.4g} and {highs.max():.4g}"
    if not like_shares.any():
        return f"{extent}, and no row sums to 1"
    odd = np.flatnonzero(~like_shares)
    if not len(odd):
        return f"{extent}, and every row sums to 1"
    return (
        f"{int(like_shares.sum()):,} of {len(sums):,} rows sum to 1, but row {odd[0]} to "
        f"{sums[odd[0]]:.5g}"
    )
