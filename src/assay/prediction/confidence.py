"""Calibration of a classifier's confidence, and detection of samples without an answer.

Calibration: ECE with equal bins as Guo et al. ("On calibration of modern neural networks", ICML
2017) define it, the Brier score of all classes, and the negative log likelihood. A calibrated model
has an ECE above 0 on any finite sample, so what such a model would have, with the same confidences,
stands beside it (Bröcker and Smith, "Increasing the reliability of reliability diagrams", 2007).

Detection: samples whose target is none should score low. The top probability (Hendrycks and
Gimpel, ICLR 2017), the top score (Hendrycks et al., ICML 2022), the margin between the two best,
and the energy (Liu et al., NeurIPS 2020) are judged by AUROC, AUPR-In, AUPR-Out and FPR@95.

What can be computed depends on what the scores are: calibration needs probabilities or logits, the
energy logits. Similarities, such as cosines, have neither; their top and margin detect.

Whether scores are logits, probabilities or similarities is decided once for a whole input.
Probabilities are not negative and sum to 1 in every row, within the precision of the numbers: a
softmax in float16 misses 1 by a thousandth. Logits lie beyond ±1. Anything else, such as cosines,
sigmoids, small logits or probabilities with a few odd rows, is for the caller to state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Array, Flags, Floats, Ints, as_array, exp, log, numbers_or_none
from assay.core import checks
from assay.core.text import describe_p
from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.io.mapped import steady_files
from assay.prediction.plugin import SCORE_KINDS
from assay.search.engine.targets import score_matrix, target_columns
from assay.stats import Interval, interval
from assay.stats.confidence import jackknife_interval
from assay.stats.effects import auroc, auroc_interval, false_positive_rate, grouped_ap
from assay.stats.samples import check_seed
from assay.tables.svg import BLUE, GREY, Drawing, Scale, circle, line, rect, svg_text, vertical_text
from assay.tables.table import Page, Shown, Table, Words, table_of

BINS: Final = 15  # as Guo et al. have it
_DRAWS: Final = 1000
_LOSSES: Final = ("Brier", "NLL", "Accuracy")
BLOCK_ROWS: Final = 4096
_SHARE: Final = 0.1  # of rows: fewer of another look are accidents of logits
_ROUNDINGS: Final = 4  # of the exponential, their sum, the quotient, and one to spare
_LEAST_TOLERANCE: Final = 1e-4  # float32 sums of many classes, in any order
# Relative spacing and smallest number, the coarsest format first.
_FORMATS: Final = {"bfloat16": (2.0**-7, 2.0**-133), "float16": (2.0**-10, 2.0**-24)}
_SIGNALS: Final = {
    "logits": ("probability", "score", "margin", "energy"),
    "probabilities": ("probability", "margin"),
    "similarities": ("score", "margin"),
}


@dataclass(frozen=True)
class ScoreKind:
    """Kind of scores of an input, and the reason.

    `tolerance` is how far the sum of probabilities may lie from 1 by rounding alone.
    """

    name: str
    stated: bool = False
    reason: str = ""
    tolerance: float = _LEAST_TOLERANCE
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Confidence:
    """Scores of each sample in a few numbers, with its true class; −1 means none.

    `probability` is the softmax of the top class, `score` its raw score, `margin` what it has over
    the second, `energy` the log of the sum of all exponentials; a signal that the `kind` of scores
    does not have is NaN. `log_likelihood` and `brier` are NaN without a target.
    """

    probability: Floats
    score: Floats
    margin: Floats
    energy: Floats
    right: Flags
    has_target: Flags
    log_likelihood: Floats
    brier: Floats
    kind: ScoreKind

    @classmethod
    def of(cls, scores: Any, targets: Any, *, kind: str | ScoreKind | None = None) -> Confidence:
        """Read scores of all classes, block by block.

        Without `kind` (logits, probabilities or similarities) it is decided once, from all rows.
        """
        matrix = score_matrix(as_array(scores))
        columns = target_columns(as_array(targets), *matrix.shape)
        if not isinstance(kind, ScoreKind):
            kind = decide_score_kind([matrix], kind)
        parts = []
        for start in range(0, len(columns), BLOCK_ROWS):
            block = np.asarray(matrix[start : start + BLOCK_ROWS], np.float64)
            parts.append(_read_block(block, columns[start : start + BLOCK_ROWS], kind))
        return cls.merge(parts)

    @classmethod
    def merge(cls, parts: Iterable[Confidence]) -> Confidence:
        """Join the samples of several batches, whose scores are of one kind."""
        batches = list(parts)
        kinds = {part.kind.name: part.kind for part in batches}
        if len(kinds) > 1:
            names = " and some as ".join(kinds)
            raise MismatchError(f"Batches disagree on the kind of scores: {names}. Pass kind=.")
        rows = [tuple(vars(part).values())[:-1] for part in batches]
        columns: list[Any] = [np.concatenate(column) for column in zip(*rows, strict=True)]
        remarks = tuple(dict.fromkeys(text for part in batches for text in part.kind.remarks))
        columns.append(replace(batches[0].kind, remarks=remarks))
        return cls(*columns)

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals that these scores have."""
        # The logarithm of a probability orders samples as the probability does.
        return _SIGNALS["probabilities" if self.has_log_shares else self.kind.name]

    @property
    def has_log_shares(self) -> bool:
        """Whether logits are logarithms of probabilities: the energy is 0 but for rounding."""
        near_0 = np.abs(self.energy) <= 2 * self.kind.tolerance
        return self.kind.name == "logits" and bool(near_0.all())

    @property
    def absent(self) -> dict[str, str]:
        """What cannot be computed from such scores, and why."""
        if self.kind.name == "similarities":
            lack = "similarities have no probabilities"
            return {"calibration": lack, "energy": lack}
        if self.kind.name == "probabilities":
            return {"energy": "energy needs logits, not probabilities"}
        if self.has_log_shares:
            return {"energy": "the logits are log-probabilities"}
        return {}


def decide_score_kind(
    batches: Iterable[Any], stated: str | None = None, *, place: str = "this input"
) -> ScoreKind:
    """Decide the kind of scores from all rows; check a `stated` kind.

    Raises:
        UsageError: The rows are neither clearly logits nor clearly probabilities.
        ValueRangeError: Stated probabilities are negative or sum to 0.

    >>> decide_score_kind([[[0.9, 0.1]], [[0.3, 0.7]]]).name
    'probabilities'
    """
    if stated is not None:
        checks.check_choice(stated, SCORE_KINDS, "kind")
    lows, highs, sums, masked, tolerance = _look_at_rows(batches)
    like_shares = (lows >= -tolerance) & (np.abs(sums - 1) <= tolerance)
    shares_in_all = bool((like_shares & (lows >= 0) & ~masked).all())
    if stated is not None:
        remarks: tuple[str, ...] = ()
        if stated == "probabilities":
            _check_shares(lows, sums, masked, place)
            remarks = _describe_rescaled(sums, ~like_shares)
        elif stated == "logits" and shares_in_all:
            remarks = (
                "every row sums to 1 like probabilities, but was read as logits as requested",
            )
        return ScoreKind(stated, True, "stated", tolerance, remarks)
    if shares_in_all:
        reason = f"every row sums to 1 within {tolerance:.2g}"
        return ScoreKind("probabilities", False, reason, tolerance)
    beyond = (lows < -1 - tolerance) | (highs > 1 + tolerance)
    if like_shares.mean() < _SHARE <= beyond.mean():
        reason = f"{np.floor(100 * beyond.mean()):.0f} % of rows have values beyond ±1"
        return ScoreKind("logits", False, reason, tolerance)
    raise UsageError(
        f"Cannot tell whether the scores of {place} are logits, probabilities or "
        f"similarities: {_describe_rows(like_shares, lows, highs, sums)}. Pass --scores "
        f"{'|'.join(SCORE_KINDS)} (kind=...)."
    )


def _look_at_rows(batches: Iterable[Any]) -> tuple[Floats, Floats, Floats, Flags, float]:
    """Return lowest value, highest value and sum of every row, whether a class was ruled out.

    A class at -inf was ruled out. Last comes what rounding may do to a sum, in the coarsest format
    that holds every value.
    """
    parts, formats, done, n_classes = [], dict(_FORMATS), 0, 0
    for batch in batches:
        matrix = score_matrix(as_array(batch))
        for start in range(0, len(matrix), BLOCK_ROWS):
            scores = np.asarray(matrix[start : start + BLOCK_ROWS], np.float64)
            _check_softmax(scores, done + start)
            ruled_out = scores == -np.inf
            plain = np.where(ruled_out, 0.0, scores)
            lows = np.where(ruled_out, np.inf, scores).min(axis=1)
            parts.append((lows, scores.max(axis=1), plain.sum(axis=1), ruled_out.any(axis=1)))
            formats = {name: size for name, size in formats.items() if _is_exact(plain, name)}
        done += len(matrix)
        n_classes = matrix.shape[1]
    tolerance = _LEAST_TOLERANCE
    if formats:
        spacing, smallest = next(iter(formats.values()))
        tolerance = max(tolerance, _ROUNDINGS * spacing + n_classes * smallest)
    lows, highs, sums, masked = (np.concatenate(column) for column in zip(*parts, strict=True))
    return lows, highs, sums, masked, tolerance


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
    problems = {"has a value below 0": (lows < 0) | masked, "sums to 0": sums <= 0}
    for words, wrong in problems.items():
        if wrong.any():
            raise ValueRangeError(
                f"{place}: row {int(wrong.argmax())} {words}: not probabilities. Pass "
                "--scores logits or similarities, or correct the rows."
            )


def _describe_rescaled(sums: Floats, off: Flags) -> tuple[str, ...]:
    if not off.any():
        return ()
    low, high = sums[off].min(), sums[off].max()
    return (
        f"{int(off.sum()):,} of {len(sums):,} rows of probabilities do not sum to 1 (sums "
        f"from {low:.5g} to {high:.5g}): divided by their sums",
    )


def _describe_rows(like_shares: Flags, lows: Floats, highs: Floats, sums: Floats) -> str:
    """Describe the contradiction, with its first row."""
    odd = np.flatnonzero(~like_shares)
    if 0 < len(odd) < len(sums):
        return (
            f"{int(like_shares.sum()):,} of {len(sums):,} rows sum to 1, but row {odd[0]} to "
            f"{sums[odd[0]]:.5g}"
        )
    which = "no" if len(odd) else "every"
    extent = f"values lie between {lows.min():.4g} and {highs.max():.4g}"
    return f"{extent}, and {which} row sums to 1"


def _check_softmax(scores: Floats, start: int) -> None:
    """Refuse NaN, +inf and rows in which every class was ruled out: no softmax."""
    odd = ~(scores < np.inf)
    if odd.any():
        row, column = (int(place[0]) for place in np.nonzero(odd))
        raise ValueRangeError(
            f"scores: row {start + row}, column {column} is {scores[row, column]}. Use finite "
            "scores, or -inf for excluded classes."
        )
    nothing = (scores == -np.inf).all(axis=1)
    if nothing.any():
        raise ValueRangeError(
            f"scores: row {start + int(nothing.argmax())} is -inf for every class. Leave at "
            "least one class."
        )


@np.errstate(divide="ignore", over="ignore")  # -inf is right where a class has no share
def _read_block(scores: Floats, targets: Ints, kind: ScoreKind) -> Confidence:
    rows, has = np.arange(len(targets)), targets >= 0
    unknown = np.full(len(targets), np.nan)
    if kind.name == "similarities":
        best = scores.argmax(axis=1)
        top = scores[rows, best]
        right = has & (best == targets)
        margin = top - _take_second(scores)
        return Confidence(unknown, top, margin, unknown, right, has, unknown, unknown, kind)
    logits = log(scores) if kind.name == "probabilities" else scores
    highest = logits.max(axis=1, keepdims=True)
    energy = highest[:, 0] + log(exp(logits - highest).sum(axis=1))
    shares = exp(logits - energy[:, None])
    best = shares.argmax(axis=1)
    true_share = np.where(has, shares[rows, np.maximum(targets, 0)], np.nan)
    likelihood = np.where(has, logits[rows, np.maximum(targets, 0)] - energy, np.nan)
    top = shares[rows, best]
    raw = scores[rows, best] if kind.name == "logits" else unknown
    signals = (top, raw, top - _take_second(shares))
    brier = (shares**2).sum(axis=1) - 2 * true_share + 1
    known_energy = energy if kind.name == "logits" else unknown
    return Confidence(*signals, known_energy, has & (best == targets), has, likelihood, brier, kind)


def _take_second(values: Floats) -> Any:
    """Return the second highest value of each row; 0 where there is one class."""
    return np.partition(values, -2, axis=1)[:, -2] if values.shape[1] > 1 else 0.0


@dataclass(frozen=True)
class ReliabilityBin:
    """Mean confidence and accuracy of the samples in one confidence bin."""

    low: float
    high: float
    samples: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """ECE, what a calibrated model would have, and proper scores with intervals.

    `p` is the share of draws of a calibrated model whose ECE is as large.
    """

    ece: float
    expected_ece: float
    p: float
    mean_confidence: float
    accuracy: Interval
    brier: Interval
    nll: Interval
    bins: tuple[ReliabilityBin, ...]

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        way = "over" if self.mean_confidence > self.accuracy.estimate else "under"
        numbers = f"ECE {self.ece:.4f}, {self.expected_ece:.4f} if calibrated"
        verdict = "no significant miscalibration" if self.p > 0.05 else f"{way}confident"
        return f"{verdict}: {numbers} ({describe_p(self.p)})"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        names = ("ece", "expected_ece", "p", "mean_confidence")
        plain = {name: getattr(self, name) for name in names}
        for name, loss in (("brier", self.brier), ("nll", self.nll)):
            plain[name] = loss.estimate if np.isfinite(loss.estimate) else np.nan
            plain |= {f"{name}_low": loss.low, f"{name}_high": loss.high}
        return {**numbers_or_none(plain), "bins": [vars(group) for group in self.bins]}


def calibrate(
    confidence: Confidence, *, bins: int = BINS, seed: int = 0, users: Array | None = None
) -> Calibration:
    """Measure the calibration on samples that have a target; intervals draw whole users."""
    if "calibration" in confidence.absent:
        raise UsageError("Calibration needs probabilities or logits, not similarities.")
    has = confidence.has_target
    sure, right = confidence.probability[has], confidence.right[has].astype(np.float64)
    if not len(sure):
        raise UsageError("Calibration needs at least one sample with a target.")
    place = np.minimum((sure * bins).astype(np.int64), bins - 1)
    ece = _measure_ece(sure, right, place, bins)
    # The ECE of models that are right exactly as often as they are sure.
    rng = np.random.default_rng(check_seed(seed))
    draws = (rng.random(len(sure)) < sure for _ in range(_DRAWS))
    drawn = np.array([_measure_ece(sure, hits.astype(float), place, bins) for hits in draws])
    counts = np.bincount(place, minlength=bins)
    means = [np.bincount(place, column, bins) / np.maximum(counts, 1) for column in (sure, right)]
    resampling: dict[str, Any] = {"seed": seed, "clusters": None if users is None else users[has]}
    table = []
    for i in np.flatnonzero(counts).tolist():
        values = (float(mean[i]) for mean in means)
        table.append(ReliabilityBin(i / bins, (i + 1) / bins, int(counts[i]), *values))
    p = float((1 + (drawn >= ece - 1e-12).sum()) / (1 + len(drawn)))
    accuracy = interval(right, **resampling)
    brier = interval(confidence.brier[has], bounds=(0.0, 2.0), **resampling)
    nll = _average_losses(-confidence.log_likelihood[has], **resampling)
    chances = (ece, float(drawn.mean()), p, float(sure.mean()))
    return Calibration(*chances, accuracy, brier, nll, tuple(table))


def _average_losses(losses: Floats, **resampling: Any) -> Interval:
    """Return the mean loss; a true class without any probability makes it infinite."""
    if np.isfinite(losses).all():
        return interval(losses, **resampling)
    count = int((~np.isfinite(losses)).sum())
    note = f"{count:,} of {len(losses):,} samples give their true class probability 0"
    return Interval(np.inf, np.nan, np.nan, 0.95, "none", len(losses), note=note)


def _measure_ece(sure: Floats, right: Floats, place: Ints, bins: int) -> float:
    return float(np.abs(np.bincount(place, right - sure, bins)).sum() / len(sure))


@dataclass(frozen=True)
class Detection:
    """Separation of samples with and without an answer by one signal.

    `auroc` is the share of pairs in which the sample with an answer scores higher (half of a tie
    counts), `aupr_in` the average precision of finding those with one by high signals, `aupr_out`
    that of finding those without by low ones (Hendrycks & Gimpel, ICLR 2017), `fpr95` the share of
    these that pass where 95 % of the others do.
    """

    signal: str
    auroc: float
    auroc_low: float
    auroc_high: float
    aupr_in: float
    aupr_out: float
    fpr95: float


def detect_unanswerable(confidence: Confidence, users: Array | None = None) -> list[Detection]:
    """Judge each signal by samples with and without a target.

    The interval of the AUROC is DeLong's; with `users` it is a jackknife over them.
    """
    inside, outside = confidence.has_target, ~confidence.has_target
    if not inside.any() or not outside.any():
        return []
    results = []
    for name in confidence.signals:
        values = getattr(confidence, name)
        sides = values[inside], values[outside]
        areas = grouped_ap(-values, inside), grouped_ap(values, outside)
        jackknifed = None if users is None else _jackknife_auroc(values, inside, users)
        ends, fpr95 = jackknifed or auroc_interval(*sides), false_positive_rate(*sides, 0.95)
        results.append(Detection(name, auroc(*sides), *ends, *areas, fpr95))
    return results


def _jackknife_auroc(values: Floats, inside: Flags, users: Array) -> tuple[float, float]:
    """Return the ends of the AUROC's interval, with each user left out in turn."""
    left_out = [
        auroc(values[rest & inside], values[rest & ~inside])
        for rest in (users != user for user in np.unique(users))
        if (rest & inside).any() and (rest & ~inside).any()
    ]
    area = jackknife_interval(auroc(values[inside], values[~inside]), np.array(left_out))
    return area.low, area.high


@dataclass(frozen=True, eq=False, repr=False)
class ConfidenceResult(Shown):
    """Calibration of one model, and detection where some samples have no target.

    `kind` says what the scores were read as, `absent` what such scores do not have, and why.
    """

    name: str
    calibration: Calibration | None
    detection: list[Detection]
    n_without_target: int
    n_samples: int
    kind: ScoreKind
    absent: dict[str, str]

    @property
    def decision(self) -> str:
        """Kind of scores, in words."""
        return f"scores read as {self.kind.name} ({self.kind.reason})"

    @property
    def remarks(self) -> Iterator[str]:
        """Return the warnings."""
        yield from self.kind.remarks
        if self.calibration is not None and np.isinf(self.calibration.nll.estimate):
            yield f"the NLL is infinite: {self.calibration.nll.note}"
        for name, reason in self.absent.items():
            if name == "calibration" or self.detection:
                yield f"no {name}: {reason}"

    def page(self) -> Page:
        """Return tables, then remarks."""
        return [*self.tables(), *(Words(remark, "remark") for remark in self.remarks)]

    def tables(self) -> list[Table]:
        """Return tables of calibration and of detection."""
        tables, low = [], f"{Interval.heading()} low"
        if self.calibration is not None:
            losses = {name: getattr(self.calibration, name.lower()) for name in _LOSSES}
            rows: list[tuple[Any, ...]] = [
                ("ECE", self.calibration.ece, None, None, self.calibration.expected_ece),
                *((name, x.estimate, x.low, x.high, None) for name, x in losses.items()),
            ]
            head = ("calibration", self.name, low, "high", "if calibrated")
            tables.append(table_of(head, rows))
        if self.detection:
            rows = [
                (f"top {signal}" if signal in ("probability", "score") else signal, *numbers)
                for signal, *numbers in (vars(detection).values() for detection in self.detection)
            ]
            outside = self.n_without_target / self.n_samples
            rows.append(("chance", 0.5, None, None, 1 - outside, outside, 0.95))
            columns = ("signal", "AUROC", low, "high", "AUPR-In", "AUPR-Out", "FPR@95")
            tables.append(table_of(columns, rows))
        return tables

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        kind = self.kind
        return {
            "scores": {"kind": kind.name, "stated": kind.stated, "reason": kind.reason},
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
            "detection": [
                dict([signal, *numbers_or_none(dict(numbers)).items()])
                for signal, *numbers in (vars(detection).items() for detection in self.detection)
            ],
            "without_target": self.n_without_target,
            "absent": self.absent,
        }

    def picture(self) -> str:
        """Return the reliability diagram as SVG: accuracy over confidence."""
        return self.drawing().to_svg()

    def drawing(self) -> Drawing:
        """Return the reliability diagram; similarities have none."""
        if self.calibration is None:
            raise UsageError(
                f"Cannot draw the reliability of {self.name}: it needs probabilities or logits, "
                "not similarities."
            )
        return reliability_drawing(self.calibration, self.name)


def evaluate_confidence(
    scores: Any,
    targets: Any,
    *,
    kind: str | None = None,
    name: str = "model",
    bins: int = BINS,
    seed: int = 0,
    users: Any = None,
) -> ConfidenceResult:
    """Measure calibration, and detection of samples without a target.

    Similarities have no calibration, and only logits have an energy.

    Args:
        scores: Samples × classes.
        targets: True classes; −1 for none.
        kind: "logits", "probabilities" or "similarities". Without it, all rows decide:
            probabilities are not negative and sum to 1, logits lie beyond ±1.
        name: Name of the model.
        bins: Number of bins of the ECE.
        seed: Random seed of intervals and of the simulated models.
        users: The user of each sample; intervals then draw whole users. The p-value of the ECE
            takes samples for independent in any case.

    Returns:
        Calibration, where there is one, and detection, where some samples have no target.

    Raises:
        UsageError: The scores are neither clearly logits nor clearly probabilities.
        ValueRangeError: A score is NaN or +inf, or a row is −inf for every class.

    >>> result = evaluate_confidence([[2.0, 0.0], [0.0, 2.0], [0.1, 0.0]], [0, 0, -1])
    >>> round(result.calibration.ece, 4), result.detection[0].auroc, result.kind.name
    (0.3808, 1.0, 'logits')
    """
    with steady_files(scores):
        read = isinstance(scores, Confidence)
        confidence = scores if read else Confidence.of(scores, targets, kind=kind)
    bins, has = checks.check_cutoff(bins, "bins"), confidence.has_target
    owners = None if users is None else checks.check_labels(users, "users")
    if owners is not None:
        checks.check_lengths(users=len(owners), samples=len(has))
    calibration = None
    if "calibration" not in confidence.absent:
        calibration = calibrate(confidence, bins=bins, seed=seed, users=owners)
    sizes, detection = (int((~has).sum()), len(has)), detect_unanswerable(confidence, owners)
    facts = confidence.kind, confidence.absent
    return ConfidenceResult(name, calibration, detection, *sizes, *facts)


_SIDE, _LEFT, _TOP, _BELOW = 300, 46, 34, 40


def reliability_drawing(calibration: Calibration, title: str) -> Drawing:
    """Draw bars of accuracy by confidence against the diagonal."""
    x = Scale(0.0, 1.0, start=_LEFT, end=_LEFT + _SIDE)
    y = Scale(0.0, 1.0, start=_TOP + _SIDE, end=_TOP)
    most = max(group.samples for group in calibration.bins)
    title += f": ECE {calibration.ece:.4f}; {calibration.expected_ece:.4f} if calibrated"
    marks = [svg_text(_LEFT, 16, title)]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        marks.append(line(_LEFT, y.at(tick), _LEFT + _SIDE, y.at(tick), stroke="#e4e4e4"))
        marks.append(svg_text(_LEFT - 6, y.at(tick) + 4, f"{tick:g}", text_anchor="end"))
        marks.append(svg_text(x.at(tick), _TOP + _SIDE + 16, f"{tick:g}", text_anchor="middle"))
    for group in calibration.bins:
        left, width = x.at(group.low) + 1, x.at(group.high) - x.at(group.low) - 2
        top, opacity = y.at(group.accuracy), f"{0.25 + 0.75 * group.samples / most:.2f}"
        marks.append(rect(left, top, width, y.at(0) - top, fill=BLUE, opacity=opacity))
        marks.append(circle(x.at(group.confidence), y.at(group.accuracy), 3, fill="#222222"))
    marks.append(line(x.at(0), y.at(0), x.at(1), y.at(1), stroke=GREY))
    marks.append(svg_text(_LEFT + _SIDE / 2, _TOP + _SIDE + 34, "confidence", text_anchor="middle"))
    marks.append(vertical_text(12, _TOP + _SIDE / 2, "accuracy", text_anchor="middle"))
    return Drawing(_LEFT + _SIDE + 20, _TOP + _SIDE + _BELOW, "\n".join(marks))
