"""Look further at predictions: confidence, errors in metres, new places, predictability.

Distances are great-circle distances by the haversine formula on a sphere of the Earth's mean radius
(IUGG), at most 0.6 % off the ellipsoid.

Predictability is the bound of Song, Qu, Blumm and Barabási ("Limits of predictability in human
mobility", Science 327, 2010): the entropy rate of a user's visits, estimated by Lempel and Ziv's
matches (Kontoyiannis et al. 1998), put into Fano's inequality. Known caveats: the estimate needs
long sequences (it is too high for short ones); it depends on how visits are cut out of tracks; and
models that know more than the sequence (the hour, say) may exceed it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, Ints, numbers_or_none
from assay.core import checks
from assay.core.checks import check_lengths, name_few
from assay.core.mismatches import describe_near
from assay.core.text import did_you_mean, parse_number
from assay.errors import FormatError, MismatchError, UsageError, ValueRangeError
from assay.prediction.baselines import check_places_match, check_users_match
from assay.prediction.confidence import (
    Confidence,
    ConfidenceResult,
    decide_score_kind,
    evaluate_confidence,
)
from assay.prediction.files import PredictionFile, read_table
from assay.prediction.result import PredictionResult
from assay.stats import Interval, interval
from assay.tables.svg import Drawing
from assay.tables.table import Cell, Page, Table, Words

RADIUS: Final = 6_371_008.8  # metres
LIMITS: Final = (100.0, 500.0, 1000.0, 5000.0)
_Z: Final = 1.959964


def haversine(a: Any, b: Any) -> Floats:
    """Return metres between places, rows of latitude and longitude in degrees.

    >>> float(haversine([48.8566, 2.3522], [51.5074, -0.1278]).round(-3))
    344000.0
    """
    (lat_a, lon_a), (lat_b, lon_b) = (np.radians(np.asarray(x, np.float64).T) for x in (a, b))
    half = np.sin((lat_b - lat_a) / 2) ** 2
    half = half + np.cos(lat_a) * np.cos(lat_b) * np.sin((lon_b - lon_a) / 2) ** 2
    metres: Floats = 2 * RADIUS * np.arcsin(np.sqrt(np.minimum(half, 1.0)))
    return metres


@dataclass(frozen=True, eq=False)
class DistanceResult:
    """How far the predicted place lies from the true one, for each sample that has both.

    `within` has, by metres, the share of samples that are as near.
    """

    name: str
    metres: Floats
    median: Interval
    mean: Interval
    within: dict[float, Interval]
    n_without: int

    @property
    def intervals(self) -> dict[str, Interval]:
        """Median and mean in metres, and the share within each limit."""
        shares = {f"Acc@{_spell(limit)}": share for limit, share in self.within.items()}
        return {"median": self.median, "mean": self.mean, **shares}

    def table(self) -> Table:
        """Return median, mean and the shares, with 95 % intervals."""
        rows = []
        for name, value in self.intervals.items():
            ends = (value.estimate, value.low, value.high)
            cells = (
                [Cell(end, "fraction") for end in ends]
                if name.startswith("Acc@")
                else [_metres(end) for end in ends]
            )
            rows.append((Cell(name if name.startswith("Acc@") else f"{name} error (m)"), *cells))
        return Table(("distance", self.name, "95 % from", "to"), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        ends = {
            name: numbers_or_none({"value": value.estimate, "low": value.low, "high": value.high})
            for name, value in self.intervals.items()
        }
        return {"metres": ends, "samples": len(self.metres), "without_place": self.n_without}


def _metres(value: float) -> Cell:
    return Cell(value, "fraction") if math.isnan(value) else Cell(f"{value:,.0f}", "figure")


def _spell(limit: float) -> str:
    """Write metres as people do.

    >>> _spell(500.0), _spell(1500.0)
    ('500m', '1.5km')
    """
    return f"{limit:g}m" if limit < 1000 else f"{limit / 1000:g}km"


def distance_errors(
    predicted: Any,
    targets: Any,
    coordinates: Mapping[Any, Sequence[float]],
    *,
    limits: Sequence[float] = LIMITS,
    name: str = "model",
    seed: int = 0,
) -> DistanceResult:
    """Measure the distances between predicted and true classes in metres.

    Args:
        predicted: The first class of each sample; None, −1 or "" is left out and counted.
        targets: The true class of each sample, likewise.
        coordinates: {class: (latitude, longitude)} in degrees.
        limits: Metres within which a prediction counts as right.
        name: Name of the model.
        seed: Random seed of the intervals.

    Returns:
        Median and mean error, and the share within each limit, with intervals.

    Raises:
        MismatchError: A class has no coordinates.
        UsageError: No sample has both a prediction and a target.
        ValueRangeError: A coordinate is no latitude and longitude.

    >>> found = distance_errors(["b", "a"], ["a", "a"], {"a": (0, 0), "b": (0, 1)}, limits=[1000])
    >>> found.metres.round().tolist(), found.within[1000].estimate
    ([111195.0, 0.0], 0.5)
    """
    places = _check_coordinates(coordinates)
    first, true = checks.as_list(predicted, "predicted"), checks.as_list(targets, "targets")
    checks.check_lengths(predicted=len(first), targets=len(true))
    complete = [
        row
        for row in zip(first, true, strict=True)
        if not any(place is None or place in (-1, "") for place in row)
    ]
    absent = sorted({str(place) for row in complete for place in row if place not in places})
    if absent:
        near = describe_near(absent, places)
        raise MismatchError(f"Classes without coordinates: {name_few(absent)}.{near} Add them.")
    if not complete:
        raise UsageError("No sample has both a prediction and a target: there is no distance.")
    metres = haversine([places[a] for a, _ in complete], [places[b] for _, b in complete])
    return DistanceResult(
        name,
        metres,
        median_interval(metres),
        interval(metres, seed=seed),
        {float(limit): interval(metres <= limit, seed=seed) for limit in sorted(limits)},
        len(first) - len(complete),
    )


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
                f"coordinates of {place!r}: {pair!r:.60} is no latitude (−90 to 90) and longitude."
            )
        places[place] = (lat, lon)
    return places


def median_interval(values: Any) -> Interval:
    """Return the median with an interval between two of the values.

    Their ranks leave at most 2.5 % of a binomial distribution on either side, as the normal
    distribution has it.
    """
    ordered = np.sort(np.asarray(values, np.float64))
    n = len(ordered)
    below = math.floor((n - _Z * math.sqrt(n)) / 2)
    low, high, note = math.nan, math.nan, "too few values"
    if below >= 1:
        low, high, note = float(ordered[below - 1]), float(ordered[n - below]), ""
    return Interval(float(np.median(ordered)), low, high, 0.95, "order statistics", n, note=note)


@dataclass(frozen=True, eq=False)
class Predictability:
    """Entropies of each user's visits in bits, and the share that a best predictor may reach.

    `random` counts places only, `frequency` how often each is visited, `sequence` their order.
    `bound` has the same names: the bound of Fano's inequality for each entropy.
    """

    users: tuple[Any, ...]
    visits: Ints
    places: Ints
    entropy: dict[str, Floats]
    bound: dict[str, Floats]

    def table(self) -> Table:
        """Return means over users with 95 % intervals."""
        rows = []
        for name in self.entropy:
            bits, share = (
                interval(self.entropy[name]),
                interval(self.bound[name], bounds=(0.0, 1.0)),
            )
            ends = (share.estimate, share.low, share.high)
            rows.append(
                (Cell(name), Cell(bits.estimate, "fraction"), *(Cell(x, "fraction") for x in ends))
            )
        return Table(("knowing", "bits", "at most right", "95 % from", "to"), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "users": [str(user) for user in self.users],
            "visits": self.visits.tolist(),
            "places": self.places.tolist(),
            "bits": {name: values.tolist() for name, values in self.entropy.items()},
            "bound": {name: values.tolist() for name, values in self.bound.items()},
        }


def measure_predictability(labels: Any, users: Any = None) -> Predictability:
    """Bound the share of visits that a best predictor may get right.

    Args:
        labels: Places in order of time.
        users: Whose visits they are; without it, those of one user.

    Returns:
        Entropies in bits and bounds, for each user with at least two visits.

    Raises:
        UsageError: No user has two visits.

    >>> found = measure_predictability(["home", "work"] * 50)
    >>> found.bound["frequency"].tolist(), float(found.bound["sequence"][0]) > 0.9
    ([0.5], True)
    """
    names = checks.check_labels(labels, "labels")
    owners = (
        np.zeros(len(names), np.int64) if users is None else checks.check_labels(users, "users")
    )
    checks.check_lengths(labels=len(names), users=len(owners))
    _, codes = np.unique(names, return_inverse=True)
    names_of_users, owner = np.unique(owners, return_inverse=True)
    each = [codes[owner == number] for number in range(len(names_of_users))]
    long = [number for number, visits in enumerate(each) if len(visits) > 1]
    if not long:
        raise UsageError("No user has two visits: there is nothing to predict.")
    entropies = [_entropies(each[number]) for number in long]
    sizes = np.array([len(np.unique(each[number])) for number in long])
    entropy = {
        name: np.array([user_entropies[name] for user_entropies in entropies])
        for name in entropies[0]
    }
    return Predictability(
        tuple(names_of_users[long].tolist()),
        np.array([len(each[number]) for number in long]),
        sizes,
        entropy,
        {
            name: np.array(
                [fano_bound(*pair) for pair in zip(bits.tolist(), sizes.tolist(), strict=True)]
            )
            for name, bits in entropy.items()
        },
    )


def _entropies(visits: Ints) -> dict[str, float]:
    shares = np.unique(visits, return_counts=True)[1] / len(visits)
    return {
        "random": math.log2(len(shares)),
        "frequency": float(-(shares * np.log2(shares)).sum()) + 0.0,
        "sequence": entropy_rate(visits),
    }


def entropy_rate(visits: Ints) -> float:
    """Estimate bits per visit by Lempel and Ziv: n log2 n over the sum of Λ_i.

    Λ_i is the length of the shortest run from visit i on that did not occur before visit i; a run
    that reaches the end counts one more.
    """
    n = len(visits)
    text = "".join(chr(code if code < 0xD800 else code + 0x800) for code in visits.tolist())
    total, length = 0, 0
    for start in range(n):
        length = max(length - 1, 0)  # what follows the first of a known run is known, too
        while start + length < n and text[start : start + length + 1] in text[:start]:
            length += 1
        total += length + 1
    return n * math.log2(n) / total


def fano_bound(bits: float, places: int) -> float:
    """Return the largest Π with H(Π) + (1 − Π) log2(places − 1) = bits."""
    if places < 2 or bits <= 0:
        return 1.0
    low, high = 1 / places, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if _fano(middle, places) > bits:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _fano(share: float, places: int) -> float:
    rest = 1 - share
    plain = sum(-x * math.log2(x) for x in (share, rest) if x > 0)
    return plain + rest * math.log2(max(places - 1, 1))


_LATITUDE = ("lat", "latitude")
_LONGITUDE = ("lon", "lng", "long", "longitude")


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """What was asked for beside the measures, by model; empty where nothing was."""

    confidence: dict[str, ConfidenceResult] = field(default_factory=dict)
    distances: dict[str, DistanceResult] = field(default_factory=dict)
    predictability: Predictability | None = None

    def page(self) -> Page:
        """Return each diagnostic with its sentence."""
        page: Page = []
        for name, result in self.confidence.items():
            if result.calibration is not None:
                page.append(Words(f"{name}: {result.calibration.verdict}", "verdict"))
            page += [Words(f"{name}: {result.decision}"), *result.tables()]
        page += [result.table() for result in self.distances.values()]
        if self.predictability is not None:
            page += [self.predictability.table(), Words(_CAVEAT)]
        return page

    def tables(self) -> list[Table]:
        """Return the tables alone."""
        return [part for part in self.page() if isinstance(part, Table)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; only what was asked for."""
        data: dict[str, Any] = {
            "confidence": {name: result.to_dict() for name, result in self.confidence.items()},
            "distances": {name: result.to_dict() for name, result in self.distances.items()},
            "predictability": self.predictability and self.predictability.to_dict(),
        }
        return {name: values for name, values in data.items() if values}

    def reliability_picture(self) -> str:
        """Return the reliability diagrams of all models as one SVG."""
        if not self.confidence:
            raise UsageError("A reliability diagram needs scores of all classes, not lists.")
        return Drawing.stack([result.drawing() for result in self.confidence.values()]).to_svg()

    @property
    def score_kinds(self) -> str | None:
        """What the scores of all models were read as; each in turn where they differ."""
        kinds = [result.kind.name for result in self.confidence.values()]
        return ";".join(kinds if len(set(kinds)) > 1 else kinds[:1]) or None

    @property
    def remarks(self) -> Iterator[str]:
        """What a reader of the confidences should know, a line each."""
        for name, result in self.confidence.items():
            yield from (f"{name}: {remark}" for remark in result.remarks)


_CAVEAT = (
    "The bound is Song et al.'s (2010) for a predictor that knows the sequence of places alone; "
    "short sequences overestimate the entropy, and other knowledge may exceed it."
)


def confidence_of_file(
    read: PredictionFile, targets: Any, name: str, kind: str | None = None
) -> ConfidenceResult:
    """Evaluate the confidence of a file's scores, batch by batch where it is read so.

    Batches are read twice, because all rows decide what the scores are unless `kind` states it.
    """
    if read.candidates:
        raise UsageError(
            f"{read.name} holds lists of candidates, which have no probabilities: --confidence "
            "needs scores or logits of all classes."
        )
    batches = read.batches or (lambda: [read.scores])
    decision = decide_score_kind(batches(), kind, place=read.name)
    parts, done = [], 0
    for scores in batches():
        parts.append(Confidence.of(scores, targets[done : done + len(scores)], kind=decision))
        done += len(scores)
    return evaluate_confidence(Confidence.merge(parts), targets, name=name)


def mark_new_places(
    targets: Sequence[Any],
    train: Sequence[Any],
    users: Any = None,
    sample_users: Any = None,
    *,
    allow_mismatch: bool = False,
) -> list[str]:
    """Mark samples whose true class is in the training (of their user, where known).

    Classes and users that are written differently are refused unless `allow_mismatch`.

    >>> mark_new_places(["home", "gym"], ["home", "work"])
    ['seen', 'new']
    """
    named = [target for target in targets if target is not None and target != -1]
    check_places_match(named, train, "true classes", allow=allow_mismatch)
    if users is None or sample_users is None:
        trained = set(train)
        return ["seen" if target in trained else "new" for target in targets]
    check_lengths(train=len(train), train_users=len(users))
    check_lengths(users=len(sample_users), samples=len(targets))
    check_users_match(users, sample_users, allow=allow_mismatch)
    visits = set(zip(users, train, strict=True))
    pairs = zip(sample_users, targets, strict=True)
    return ["seen" if pair in visits else "new" for pair in pairs]


def read_coordinates(path: str) -> dict[str, tuple[float, float]]:
    """Read {class: (latitude, longitude)}; the first other column names the class."""
    table = {name.strip().lower(): column for name, column in read_table(path).items()}
    lat, lon = (_column(list(table), names, path) for names in (_LATITUDE, _LONGITUDE))
    ids = next((name for name in table if name not in (lat, lon)), None)
    if ids is None:
        raise FormatError(f"{path} needs a column that names the class beside lat and lon.")
    coordinates: dict[str, tuple[float, float]] = {}
    for row, place in enumerate(map(str, table[ids])):
        if place in coordinates:
            raise FormatError(f"{path}, row {row}: {place!r} is there twice.")
        lat_degrees, lon_degrees = (parse_number(str(table[name][row])) for name in (lat, lon))
        if lat_degrees is None or lon_degrees is None:
            wrong = table[lat if lat_degrees is None else lon][row]
            raise FormatError(f"{path}, row {row}: {wrong!r:.40} is no number of degrees.")
        coordinates[place] = (lat_degrees, lon_degrees)
    return coordinates


def _column(header: list[str], names: tuple[str, ...], path: str) -> str:
    present = [name for name in header if name in names]
    if len(present) != 1:
        hint = did_you_mean(names[0], header)
        raise FormatError(
            f"{path} needs one column {' or '.join(names)}; it has: {', '.join(header)}.{hint}"
        )
    return present[0]


def distances_of(
    results: Sequence[PredictionResult], coordinates: dict[str, tuple[float, float]]
) -> dict[str, DistanceResult]:
    """Measure errors in metres of each result; classes are text, as in the file."""
    return {
        result.name: distance_errors(
            _as_text(result.predicted), _as_text(result.targets), coordinates, name=result.name
        )
        for result in results
    }


def _as_text(classes: Any) -> list[str | None]:
    return [None if label in (-1, "") else str(label) for label in classes.tolist()]
