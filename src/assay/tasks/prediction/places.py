"""What is special where classes are places: errors in metres, and how predictable people are.

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

from assay.arrays import Floats, Ints, numbers_or_none
from assay.core import checks
from assay.core.checks import name_few
from assay.errors import MismatchError, UsageError, ValueRangeError
from assay.stats import Interval, interval
from assay.tables.table import Cell, Table

__all__ = [
    "DistanceResult",
    "Predictability",
    "distance_errors",
    "haversine",
    "measure_predictability",
]

RADIUS: Final = 6_371_008.8  # metres
LIMITS: Final = (100.0, 500.0, 1000.0, 5000.0)
_Z: Final = 1.959964


def haversine(a: Any, b: Any) -> Floats:
    """Metres between places, each a row of latitude and longitude in degrees.

    >>> float(haversine([48.8566, 2.3522], [51.5074, -0.1278]).round(-3))
    344000.0
    """
    (lat_a, lon_a), (lat_b, lon_b) = (np.radians(np.asarray(x, np.float64).T) for x in (a, b))
    half = np.sin((lat_b - lat_a) / 2) ** 2
    half = half + np.cos(lat_a) * np.cos(lat_b) * np.sin((lon_b - lon_a) / 2) ** 2
    found: Floats = 2 * RADIUS * np.arcsin(np.sqrt(np.minimum(half, 1.0)))
    return found


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

    def table(self) -> Table:
        """Median, mean and the shares, with 95 % intervals."""
        lines = [
            ("median error (m)", self.median, "figure"),
            ("mean error (m)", self.mean, "figure"),
        ]
        lines += [(f"Acc@{_spell(limit)}", one, "fraction") for limit, one in self.within.items()]
        rows = [
            (Cell(label), *(_cell(value, kind) for value in (one.estimate, one.low, one.high)))
            for label, one, kind in lines
        ]
        return Table(("distance", self.name, "95 % from", "to"), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        named = {"median": self.median, "mean": self.mean}
        named |= {f"Acc@{_spell(limit)}": one for limit, one in self.within.items()}
        ends = {
            name: numbers_or_none({"value": one.estimate, "low": one.low, "high": one.high})
            for name, one in named.items()
        }
        return {"metres": ends, "samples": len(self.metres), "without_place": self.n_without}


def _cell(value: float, kind: str) -> Cell:
    return (
        Cell(f"{value:,.0f}", "figure")
        if kind == "figure" and not math.isnan(value)
        else Cell(value, "fraction")
    )


def _spell(limit: float) -> str:
    """Metres as people write them.

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
    """Distances between predicted and true classes, whose `coordinates` are {class: (lat, lon)}.

    A prediction or target of None, −1 or "" is left out and counted.

    >>> found = distance_errors(["b", "a"], ["a", "a"], {"a": (0, 0), "b": (0, 1)}, limits=[1000])
    >>> found.metres.round().tolist(), found.within[1000].estimate
    ([111195.0, 0.0], 0.5)
    """
    places = _check_coordinates(coordinates)
    pairs = [
        checks.as_list(column, what)
        for column, what in ((predicted, "predicted"), (targets, "targets"))
    ]
    checks.check_lengths(predicted=len(pairs[0]), targets=len(pairs[1]))
    known = [
        row
        for row in zip(*pairs, strict=True)
        if not any(one is None or one in (-1, "") for one in row)
    ]
    absent = sorted({str(one) for row in known for one in row if one not in places})
    if absent:
        raise MismatchError(f"Classes without coordinates: {name_few(absent)}. Add them.")
    if not known:
        raise UsageError("No sample has both a prediction and a target: there is no distance.")
    metres = haversine([places[a] for a, _ in known], [places[b] for _, b in known])
    return DistanceResult(
        name,
        metres,
        median_interval(metres),
        interval(metres, seed=seed),
        {float(limit): interval(metres <= limit, seed=seed) for limit in sorted(limits)},
        len(pairs[0]) - len(known),
    )


def _check_coordinates(
    coordinates: Mapping[Any, Sequence[float]],
) -> dict[Any, tuple[float, float]]:
    checks.require(coordinates, Mapping, "coordinates", "{class: (latitude, longitude)}")
    found = {}
    for place, pair in coordinates.items():
        try:
            lat, lon = map(float, pair)
        except (TypeError, ValueError):
            lat = lon = math.nan
        if not (abs(lat) <= 90 and abs(lon) <= 360):
            raise ValueRangeError(
                f"coordinates of {place!r}: {pair!r:.60} is no latitude (−90 to 90) and longitude."
            )
        found[place] = (lat, lon)
    return found


def median_interval(values: Any) -> Interval:
    """The median with an interval between two of the values, which assumes nothing about them.

    Their ranks leave at most 2.5 % of a binomial distribution on either side, as the normal
    distribution has it.
    """
    ordered = np.sort(np.asarray(values, np.float64))
    n = len(ordered)
    below = math.floor((n - _Z * math.sqrt(n)) / 2)
    note = "" if below >= 1 else "too few values"
    low, high = (
        (float(ordered[below - 1]), float(ordered[n - below])) if below >= 1 else (math.nan,) * 2
    )
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
        """Means over users with 95 % intervals."""
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
        """Plain data for JSON."""
        return {
            "users": [str(user) for user in self.users],
            "visits": self.visits.tolist(),
            "places": self.places.tolist(),
            "bits": {name: values.tolist() for name, values in self.entropy.items()},
            "bound": {name: values.tolist() for name, values in self.bound.items()},
        }


def measure_predictability(labels: Any, users: Any = None) -> Predictability:
    """Of visits in order of time, of several `users` if these are given; two visits are needed.

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
    known, owner = np.unique(owners, return_inverse=True)
    each = [codes[owner == number] for number in range(len(known))]
    long = [number for number, visits in enumerate(each) if len(visits) > 1]
    if not long:
        raise UsageError("No user has two visits: there is nothing to predict.")
    found = [_entropies(each[number]) for number in long]
    sizes = np.array([len(np.unique(each[number])) for number in long])
    entropy = {name: np.array([one[name] for one in found]) for name in found[0]}
    return Predictability(
        tuple(known[long].tolist()),
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
    """Bits per visit by Lempel and Ziv: n log2 n over the sum of Λ_i.

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
    """The largest share Π with H(Π) + (1 − Π) log2(places − 1) = bits; 1 where one place is all."""
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
