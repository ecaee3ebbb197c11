"""Further looks at predictions, on request: confidence, metres, new places, predictability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from assay.core.checks import check_lengths
from assay.core.numbers import parse_number
from assay.core.text import did_you_mean
from assay.errors import FormatError, UsageError
from assay.tables.page import Page, Words
from assay.tables.svg import Drawing
from assay.tables.table import Table
from assay.tasks.prediction.confidence import (
    Confidence,
    ConfidenceResult,
    evaluate_confidence,
    reliability_drawing,
)
from assay.tasks.prediction.files import PredictionFile, read_table
from assay.tasks.prediction.places import (
    DistanceResult,
    Predictability,
    distance_errors,
)
from assay.tasks.prediction.result import PredictionResult

__all__ = ["Further", "confidence_of_file", "distances_of", "mark_new_places", "read_coordinates"]

_LATITUDE = ("lat", "latitude")
_LONGITUDE = ("lon", "lng", "long", "longitude")


@dataclass(frozen=True, eq=False)
class Further:
    """What was asked for beside the measures, by model; empty where nothing was."""

    confidence: dict[str, ConfidenceResult] = field(default_factory=dict)
    distances: dict[str, DistanceResult] = field(default_factory=dict)
    predictability: Predictability | None = None

    def page(self) -> Page:
        """Each look with its sentence."""
        page: Page = []
        for name, one in self.confidence.items():
            page += [Words(f"{name}: {one.calibration.verdict}", "verdict"), *one.tables()]
        page += [one.table() for one in self.distances.values()]
        if self.predictability is not None:
            page += [self.predictability.table(), Words(_CAVEAT)]
        return page

    def tables(self) -> list[Table]:
        """The tables alone."""
        return [one for one in self.page() if isinstance(one, Table)]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; only what was asked for."""
        data: dict[str, Any] = {}
        if self.confidence:
            data["confidence"] = {name: one.to_dict() for name, one in self.confidence.items()}
        if self.distances:
            data["distances"] = {name: one.to_dict() for name, one in self.distances.items()}
        if self.predictability is not None:
            data["predictability"] = self.predictability.to_dict()
        return data

    def reliability_picture(self) -> str:
        """The reliability diagrams of all models, one below the other, as SVG."""
        if not self.confidence:
            raise UsageError("A reliability diagram needs scores of all classes, not lists.")
        drawings = [
            reliability_drawing(one.calibration, name) for name, one in self.confidence.items()
        ]
        return Drawing.stack(drawings).to_svg()


_CAVEAT = (
    "The bound is Song et al.'s (2010) for a predictor that knows the sequence of places alone; "
    "short sequences overestimate the entropy, and other knowledge may exceed it."
)


def confidence_of_file(read: PredictionFile, targets: Any, name: str) -> ConfidenceResult:
    """Confidence from the scores of a file, batch by batch where it is read so."""
    if read.candidates:
        raise UsageError(
            f"{read.name} holds lists of candidates, which have no probabilities: --confidence "
            "needs scores or logits of all classes."
        )
    if read.batches is None:
        return evaluate_confidence(read.scores, targets, name=name)
    parts, done = [], 0
    for scores in read.batches():
        parts.append(Confidence.of(scores, targets[done : done + len(scores)]))
        done += len(scores)
    return evaluate_confidence(Confidence.merge(parts), targets, name=name)


def mark_new_places(
    targets: Sequence[Any], train: Sequence[Any], users: Any = None, sample_users: Any = None
) -> list[str]:
    """For each sample whether its true class is in the training, that of its user where known.

    >>> mark_new_places(["home", "gym"], ["home", "work"])
    ['seen', 'new']
    """
    if users is None or sample_users is None:
        known = set(train)
        return ["seen" if target in known else "new" for target in targets]
    check_lengths(train=len(train), train_users=len(users))
    visits = set(zip(users, train, strict=True))
    pairs = zip(sample_users, targets, strict=True)
    return ["seen" if pair in visits else "new" for pair in pairs]


def read_coordinates(path: str) -> dict[str, tuple[float, float]]:
    """{class: (latitude, longitude)} from a table; the first other column names the class."""
    table = {name.strip().lower(): column for name, column in read_table(path).items()}
    lat, lon = (_column(list(table), names, path) for names in (_LATITUDE, _LONGITUDE))
    ids = next((name for name in table if name not in (lat, lon)), None)
    if ids is None:
        raise FormatError(f"{path} needs a column that names the class beside lat and lon.")
    found: dict[str, tuple[float, float]] = {}
    for row, place in enumerate(map(str, table[ids])):
        if place in found:
            raise FormatError(f"{path}, row {row}: {place!r} is there twice.")
        found[place] = (
            _degrees(table[lat][row], f"{path}, row {row}"),
            _degrees(table[lon][row], f"{path}, row {row}"),
        )
    return found


def _column(header: list[str], names: tuple[str, ...], path: str) -> str:
    present = [name for name in header if name in names]
    if len(present) != 1:
        hint = did_you_mean(names[0], header)
        raise FormatError(
            f"{path} needs one column {' or '.join(names)}; it has: {', '.join(header)}.{hint}"
        )
    return present[0]


def _degrees(value: Any, place: str) -> float:
    number = parse_number(str(value))
    if number is None:
        raise FormatError(f"{place}: {value!r:.40} is no number of degrees.")
    return number


def distances_of(
    results: Sequence[PredictionResult], coordinates: dict[str, tuple[float, float]]
) -> dict[str, DistanceResult]:
    """Errors in metres of each result; classes are compared as text, as the file has them."""
    return {
        one.name: distance_errors(
            _as_text(one.predicted), _as_text(one.targets), coordinates, name=one.name
        )
        for one in results
    }


def _as_text(classes: Any) -> list[str | None]:
    return [None if one in (-1, "") else str(one) for one in classes.tolist()]
