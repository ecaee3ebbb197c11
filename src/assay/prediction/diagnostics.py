"""Look further at predictions of places: errors in metres, new places, predictability.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, Ints
from assay.core import checks
from assay.core.id_hints import describe_near
from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.prediction.baselines import check_places_match, check_users_match
from assay.prediction.result import as_table
from assay.stats import Interval, interval
from assay.tables.table import Cell, Table

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
        return {
            "median": self.median,
            "mean": self.mean,
            **{
                f"Acc@{limit:g}m" if limit < 1000 else f"Acc@{limit / 1000:g}km": share
                for limit, share in self.within.items()
            },
        }

    def table(self) -> Table:
        """Return median, mean and the shares, with 95 % intervals."""
        rows = []
        for name, value in self.intervals.items():
            in_metres = not name.startswith("Acc@")
            cells = [
                Cell(f"{end:,.0f}", "figure")
                if in_metres and not math.isnan(end)
                else Cell(end, "fraction")
                for end in (value.estimate, value.low, value.high)
            ]
            rows.append((Cell(f"{name} error (m)" if in_metres else name), *cells))
        return Table(("distance", self.name, "95 % from", "to"), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        ends = {name: value.to_dict("value") for name, value in self.intervals.items()}
        return {"metres": ends, "samples": len(self.metres), "without_place": self.n_without}


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
        raise MismatchError(
            f"Classes without coordinates: {checks.name_few(absent)}.{near} Add them."
        )
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
            share = interval(self.bound[name], bounds=(0.0, 1.0))
            bits = interval(self.entropy[name]).estimate
            rows.append((name, bits, share.estimate, share.low, share.high))
        return as_table(("knowing", "bits", "at most right", "95 % from", "to"), rows)

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
    counts = [np.unique(each[number], return_counts=True)[1] for number in long]
    visits, places = np.array([(n.sum(), len(n)) for n in counts]).T
    shares = [n / n.sum() for n in counts]
    entropy = {
        "random": np.array([math.log2(n) for n in places.tolist()]),
        "frequency": np.array([float(-(share * np.log2(share)).sum()) + 0.0 for share in shares]),
        "sequence": np.array([entropy_rate(each[number]) for number in long]),
    }
    bound = {
        name: np.array(list(map(fano_bound, bits.tolist(), places.tolist())))
        for name, bits in entropy.items()
    }
    users_with_visits = tuple(names_of_users[long].tolist())
    return Predictability(users_with_visits, visits, places, entropy, bound)


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
        plain = sum(-x * math.log2(x) for x in (middle, 1 - middle) if x > 0)
        if plain + (1 - middle) * math.log2(max(places - 1, 1)) > bits:
            low = middle
        else:
            high = middle
    return (low + high) / 2


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
    checks.check_lengths(train=len(train), train_users=len(users))
    checks.check_lengths(users=len(sample_users), samples=len(targets))
    check_users_match(users, sample_users, allow=allow_mismatch)
    visits = set(zip(users, train, strict=True))
    pairs = zip(sample_users, targets, strict=True)
    return ["seen" if pair in visits else "new" for pair in pairs]
