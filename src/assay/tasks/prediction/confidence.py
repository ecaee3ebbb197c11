"""How far a classifier's own confidence can be trusted: calibration, and samples without an answer.

Calibration: ECE with equal bins as Guo et al. ("On calibration of modern neural networks", ICML
2017) define it, the Brier score of all classes, and the negative log likelihood. A calibrated model
has an ECE above 0 on any finite sample, so what such a model would have, with the same confidences,
stands beside it (Bröcker and Smith, "Increasing the reliability of reliability diagrams", 2007).

Detection: samples whose target is none should score low. The top probability (Hendrycks and
Gimpel, ICLR 2017), the margin between the two best, and the energy (Liu et al., NeurIPS 2020)
are judged by AUROC, AUPR and FPR@95.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from assay.arrays import Flags, Floats, Ints, numbers_or_none
from assay.core import checks
from assay.errors import UsageError, ValueRangeError
from assay.search.engine.score_ranks import score_matrix, target_columns
from assay.stats import Interval, interval
from assay.stats.samples import check_seed
from assay.stats.separation import (
    auroc,
    auroc_interval,
    false_positive_rate,
    grouped_ap,
)
from assay.tables.svg import BLUE, GREY, Drawing, Scale, circle, line, rect, svg_text, vertical_text
from assay.tables.table import Cell, Table
from assay.tasks.prediction.evaluate import as_array

__all__ = [
    "Calibration",
    "Confidence",
    "ConfidenceResult",
    "Detection",
    "evaluate_confidence",
    "reliability_drawing",
]

BINS: Final = 15  # as Guo et al. have it
_DRAWS: Final = 1000
_ROWS: Final = 4096
_SIGNALS: Final = ("probability", "margin", "energy")


@dataclass(frozen=True, eq=False)
class Confidence:
    """What the scores of each sample say of themselves, and the true class; −1 is none.

    `probability` is the softmax of the top class, `margin` what it has over the second, `energy`
    the log of the sum of all exponentials. `log_likelihood` and `brier` are NaN without a target.
    """

    probability: Floats
    margin: Floats
    energy: Floats
    right: Flags
    has_target: Flags
    log_likelihood: Floats
    brier: Floats

    @classmethod
    def of(cls, scores: Any, targets: Any) -> Confidence:
        """From scores of all classes, block by block: logits, or probabilities that add up to 1."""
        matrix = score_matrix(as_array(scores))
        wanted = target_columns(as_array(targets), *matrix.shape)
        parts = []
        for start in range(0, len(wanted), _ROWS):
            block = np.asarray(matrix[start : start + _ROWS], np.float64)
            _refuse_odd(block, start)
            parts.append(_block(block, wanted[start : start + _ROWS]))
        return cls.merge(cls(*columns) for columns in parts)

    @classmethod
    def merge(cls, parts: Iterable[Confidence]) -> Confidence:
        """All samples of several batches."""
        rows = [tuple(vars(part).values()) for part in parts]
        return cls(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def _refuse_odd(scores: Floats, start: int) -> None:
    """NaN and +inf have no softmax, nor has a row in which every class was ruled out."""
    odd = ~(scores < np.inf)
    if odd.any():
        row, column = (int(place[0]) for place in np.nonzero(odd))
        raise ValueRangeError(
            f"scores: row {start + row}, column {column} is {scores[row, column]}; "
            "give finite scores, or -inf for a class that was ruled out."
        )
    nothing = (scores == -np.inf).all(axis=1)
    if nothing.any():
        raise ValueRangeError(
            f"scores: row {start + int(nothing.argmax())} is -inf for every class, so that no "
            "class has a probability."
        )


def _block(scores: Floats, wanted: Ints) -> tuple[Any, ...]:
    logits = _as_logits(scores)
    top = logits.max(axis=1, keepdims=True)
    energy = top[:, 0] + np.log(np.exp(logits - top).sum(axis=1))
    shares = np.exp(logits - energy[:, None])
    rows, has = np.arange(len(wanted)), wanted >= 0
    best = shares.argmax(axis=1)
    second = np.partition(shares, -2, axis=1)[:, -2] if shares.shape[1] > 1 else 0.0
    own = np.where(has, shares[rows, np.maximum(wanted, 0)], np.nan)
    with np.errstate(divide="ignore"):
        likelihood = np.where(has, logits[rows, np.maximum(wanted, 0)] - energy, np.nan)
    brier = (shares**2).sum(axis=1) - 2 * own + 1
    return (
        shares[rows, best],
        shares[rows, best] - second,
        energy,
        has & (best == wanted),
        has,
        likelihood,
        brier,
    )


def _as_logits(scores: Floats) -> Floats:
    """Rows that are probabilities already, as their logarithms."""
    if (scores < 0).any() or not np.allclose(scores.sum(axis=1), 1, atol=1e-4):
        return scores
    with np.errstate(divide="ignore"):
        return np.log(scores)


@dataclass(frozen=True)
class ReliabilityBin:
    """Samples whose confidence lies between two bounds: how sure the model is, how often right."""

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
        """One sentence."""
        way = "over" if self.mean_confidence > self.accuracy.estimate else "under"
        told = f"ECE {self.ece:.4f}; a calibrated model would have {self.expected_ece:.4f}"
        if self.p > 0.05:
            return f"no sign of miscalibration (p = {self.p:.3f}): {told}"
        return f"{way}confident (p = {self.p:.4f}): {told}"


def calibrate(found: Confidence, *, bins: int = BINS, seed: int = 0) -> Calibration:
    """Calibration of the samples that have a target."""
    has = found.has_target
    sure, right = found.probability[has], found.right[has].astype(np.float64)
    if not len(sure):
        raise UsageError("No sample has a target: there is nothing to be sure of.")
    place = np.minimum((sure * bins).astype(np.int64), bins - 1)
    drawn = _calibrated_eces(sure, place, bins, seed)
    ece = _ece(sure, right, place, bins)
    counts = np.bincount(place, minlength=bins)
    means = [np.bincount(place, column, bins) / np.maximum(counts, 1) for column in (sure, right)]
    table = [
        ReliabilityBin(
            i / bins, (i + 1) / bins, int(counts[i]), float(means[0][i]), float(means[1][i])
        )
        for i in np.flatnonzero(counts).tolist()
    ]
    return Calibration(
        ece,
        float(drawn.mean()),
        float((1 + (drawn >= ece - 1e-12).sum()) / (1 + len(drawn))),
        float(sure.mean()),
        interval(right, seed=seed),
        interval(found.brier[has], seed=seed, bounds=(0.0, 2.0)),
        interval(-found.log_likelihood[has], seed=seed),
        tuple(table),
    )


def _ece(sure: Floats, right: Floats, place: Ints, bins: int) -> float:
    return float(np.abs(np.bincount(place, right - sure, bins)).sum() / len(sure))


def _calibrated_eces(sure: Floats, place: Ints, bins: int, seed: int) -> Floats:
    """The ECE of models that are right exactly as often as they are sure."""
    rng = np.random.default_rng(check_seed(seed))
    return np.array(
        [
            _ece(sure, (rng.random(len(sure)) < sure).astype(float), place, bins)
            for _ in range(_DRAWS)
        ]
    )


@dataclass(frozen=True)
class Detection:
    """How well a signal tells samples without an answer from the others.

    `auroc` is the share of pairs in which the sample with an answer scores higher (half of a tie
    counts), `aupr` the average precision of finding those without one, `fpr95` the share of these
    that pass where 95 % of the others do.
    """

    signal: str
    auroc: float
    auroc_low: float
    auroc_high: float
    aupr: float
    fpr95: float


def detect_unanswerable(found: Confidence) -> list[Detection]:
    """Each signal on samples with and without a target; none where all have one."""
    inside, outside = found.has_target, ~found.has_target
    if not inside.any() or not outside.any():
        return []
    results = []
    for name in _SIGNALS:
        values = getattr(found, name)
        low, high = auroc_interval(values[inside], values[outside])
        results.append(
            Detection(
                name,
                auroc(values[inside], values[outside]),
                low,
                high,
                grouped_ap(values, outside),
                false_positive_rate(values[inside], values[outside], 0.95),
            )
        )
    return results


@dataclass(frozen=True, eq=False)
class ConfidenceResult:
    """Calibration of one model, and detection where some samples have no target."""

    name: str
    calibration: Calibration
    detection: list[Detection]
    n_without_target: int
    n_samples: int

    def tables(self) -> list[Table]:
        """Calibration, its bins, and detection with what chance would give."""
        one = self.calibration
        rows = [
            (
                Cell("ECE"),
                Cell(one.ece, "fraction"),
                *(Cell(None),) * 2,
                Cell(one.expected_ece, "fraction"),
            ),
            *(
                (
                    Cell(name),
                    *(Cell(value, "fraction") for value in (x.estimate, x.low, x.high)),
                    Cell(None),
                )
                for name, x in (("Brier", one.brier), ("NLL", one.nll), ("Accuracy", one.accuracy))
            ),
        ]
        found = [Table(("calibration", self.name, "95 % from", "to", "if calibrated"), tuple(rows))]
        return found + ([self._detection_table()] if self.detection else [])

    def _detection_table(self) -> Table:
        share = self.n_without_target / self.n_samples
        rows = [
            (Cell(one.signal), *(Cell(value, "fraction") for value in list(vars(one).values())[1:]))
            for one in self.detection
        ]
        guess = (0.5, None, None, share, 0.95)
        rows.append((Cell("chance"), *(Cell(value, "fraction") for value in guess)))
        columns = ("signal", "AUROC", "95 % from", "to", "AUPR", "FPR@95")
        return Table(columns, tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        one = self.calibration
        plain: Mapping[str, float] = {
            "ece": one.ece,
            "expected_ece": one.expected_ece,
            "p": one.p,
            "mean_confidence": one.mean_confidence,
            "brier": one.brier.estimate,
            "brier_low": one.brier.low,
            "brier_high": one.brier.high,
            "nll": one.nll.estimate,
            "nll_low": one.nll.low,
            "nll_high": one.nll.high,
        }
        return {
            "calibration": {**numbers_or_none(plain), "bins": [asdict(each) for each in one.bins]},
            "detection": [
                {
                    "signal": each.signal,
                    **numbers_or_none({k: v for k, v in asdict(each).items() if k != "signal"}),
                }
                for each in self.detection
            ],
            "without_target": self.n_without_target,
        }

    def picture(self) -> str:
        """The reliability diagram: accuracy over confidence, and how many samples are so sure."""
        return reliability_drawing(self.calibration, self.name).to_svg()


def evaluate_confidence(
    scores: Any, targets: Any, *, name: str = "model", bins: int = BINS, seed: int = 0
) -> ConfidenceResult:
    """Calibration and detection from scores (samples × classes) and true classes, −1 for none.

    >>> found = evaluate_confidence([[2.0, 0.0], [0.0, 2.0], [0.1, 0.0]], [0, 0, -1])
    >>> round(found.calibration.ece, 4), found.detection[0].auroc
    (0.3808, 1.0)
    """
    found = scores if isinstance(scores, Confidence) else Confidence.of(scores, targets)
    return ConfidenceResult(
        name,
        calibrate(found, bins=checks.check_cutoff(bins, "bins"), seed=seed),
        detect_unanswerable(found),
        int((~found.has_target).sum()),
        len(found.has_target),
    )


_SIDE, _LEFT, _TOP, _BELOW = 300, 46, 34, 40


def reliability_drawing(found: Calibration, title: str) -> Drawing:
    """Bars of accuracy by confidence against the diagonal, dots of the mean confidence."""
    x = Scale(0.0, 1.0, start=_LEFT, end=_LEFT + _SIDE)
    y = Scale(0.0, 1.0, start=_TOP + _SIDE, end=_TOP)
    most = max(one.samples for one in found.bins)
    marks = [
        svg_text(_LEFT, 16, f"{title}: ECE {found.ece:.4f}; {found.expected_ece:.4f} if calibrated")
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        marks.append(line(_LEFT, y.at(tick), _LEFT + _SIDE, y.at(tick), stroke="#e4e4e4"))
        marks.append(svg_text(_LEFT - 6, y.at(tick) + 4, f"{tick:g}", text_anchor="end"))
        marks.append(svg_text(x.at(tick), _TOP + _SIDE + 16, f"{tick:g}", text_anchor="middle"))
    for one in found.bins:
        left, width = x.at(one.low), x.at(one.high) - x.at(one.low)
        opacity = 0.25 + 0.75 * one.samples / most
        marks.append(
            rect(
                left + 1,
                y.at(one.accuracy),
                width - 2,
                y.at(0) - y.at(one.accuracy),
                fill=BLUE,
                opacity=f"{opacity:.2f}",
            )
        )
        marks.append(circle(x.at(one.confidence), y.at(one.accuracy), 3, fill="#222222"))
    marks.append(line(x.at(0), y.at(0), x.at(1), y.at(1), stroke=GREY))
    marks.append(svg_text(_LEFT + _SIDE / 2, _TOP + _SIDE + 34, "confidence", text_anchor="middle"))
    marks.append(vertical_text(12, _TOP + _SIDE / 2, "accuracy", text_anchor="middle"))
    return Drawing(_LEFT + _SIDE + 20, _TOP + _SIDE + _BELOW, "\n".join(marks))
