"""Distances against known ones, entropy rates against a search by hand, Fano's bound inverted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.errors import AssayError, MismatchError, UsageError, ValueRangeError
from assay.prediction.baselines import entropy_rate, fano_bound, measure_predictability
from assay.prediction.evaluate import distance_errors, haversine, median_interval


@pytest.mark.parametrize(
    ("a", "b", "metres"),
    [
        ((0, 0), (0, 1), 111_195.1),  # a degree of a great circle
        ((0, 0), (0, 180), math.pi * 6_371_008.8),
        ((90, 0), (-90, 123), math.pi * 6_371_008.8),
        ((10, 179.5), (10, -179.5), 109_505.3),  # over the date line
        ((36.12, -86.67), (33.94, -118.40), 2_886_448.0),  # Nashville to Los Angeles
        ((5, 5), (5, 5), 0),
    ],
)
def test_haversine(a, b, metres):
    assert float(haversine(a, b)) == pytest.approx(metres, rel=2e-5, abs=1e-6)
    assert float(haversine(b, a)) == pytest.approx(float(haversine(a, b)), rel=1e-12)


def test_distance_is_that_of_the_cosine_rule():
    rng = np.random.default_rng(1)
    a, b = (np.column_stack([rng.uniform(-90, 90, 200), rng.uniform(-180, 180, 200)]) for _ in "ab")
    (p, x), (q, y) = np.radians(a.T), np.radians(b.T)
    angle = np.arccos(np.sin(p) * np.sin(q) + np.cos(p) * np.cos(q) * np.cos(x - y))
    assert haversine(a, b) == pytest.approx(6_371_008.8 * angle, rel=1e-7)


def test_errors_of_predictions():
    places = {"a": (0.0, 0.0), "b": (0.0, 0.001), "c": (0.0, 0.02)}
    found = distance_errors(
        ["a", "b", "c", "a", None, "b"], ["a", "a", "a", "b", "a", ""], places, limits=[200, 5000]
    )
    step = 111.195
    assert found.metres == pytest.approx([0, step, 20 * step, step], rel=1e-4, abs=1e-9)
    assert found.median.estimate == pytest.approx(step, rel=1e-4)
    assert {limit: one.estimate for limit, one in found.within.items()} == {200: 0.75, 5000: 1}
    assert found.n_without == 2
    assert [row[0].value for row in found.table().rows][2:] == ["Acc@200m", "Acc@5km"]
    assert found.to_dict()["metres"]["Acc@200m"]["value"] == 0.75


def test_the_interval_of_a_median_holds_its_level():
    rng = np.random.default_rng(2)
    held = 0
    for _ in range(400):
        one = median_interval(rng.exponential(size=37))
        held += one.low <= math.log(2) <= one.high
    assert 0.93 <= held / 400 <= 0.99
    assert math.isnan(median_interval([1.0, 2.0]).low)


@pytest.mark.parametrize(
    ("places", "error", "words"),
    [
        ({"a": (0, 0)}, MismatchError, "Missing: 'b'"),
        ({"a": (0, 0), "b": (91, 0)}, ValueRangeError, "'b'"),
        ({"a": (0, 0), "b": (math.nan, 0)}, ValueRangeError, "'b'"),
        ({"a": (0, 0), "b": "xy"}, ValueRangeError, "'b'"),
        ({"a": (0, 0), "b": (0, 0, 0)}, ValueRangeError, "'b'"),
        ([(0, 0)], AssayError, "coordinates"),
    ],
)
def test_coordinates_that_are_none(places, error, words):
    with pytest.raises(error, match=words):
        distance_errors(["a"], ["b"], places)


def rate_by_hand(visits):
    """Λ_i as it is defined, by lists and loops."""
    n, total = len(visits), 0
    for i in range(n):
        length = 1
        while i + length <= n and any(
            visits[j : j + length] == visits[i : i + length] for j in range(i - length + 1)
        ):
            length += 1
        total += length
    return n * math.log2(n) / total


@pytest.mark.parametrize("kinds", [1, 2, 3, 8, 60_000])
def test_the_entropy_rate_is_its_definition(kinds):
    rng = np.random.default_rng(kinds)
    for n in (2, 3, 17, 60):
        visits = rng.integers(0, kinds, n) + (55_200 if kinds == 3 else 0)  # around surrogates
        assert entropy_rate(visits) == pytest.approx(rate_by_hand(visits.tolist()), rel=1e-12)


def test_the_rate_of_a_coin_is_near_one_bit_and_of_a_cycle_near_none():
    rng = np.random.default_rng(3)
    assert entropy_rate(rng.integers(0, 2, 4000)) == pytest.approx(1, abs=0.1)
    assert entropy_rate(np.tile([0, 1, 2], 500)) < 0.05


@pytest.mark.parametrize("places", [2, 5, 300])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.72, 0.999, 1.0])
def test_fano_is_inverted(places, share):
    if share < 1 / places:
        return
    bits = -sum(x * math.log2(x) for x in (share, 1 - share) if x) + (1 - share) * math.log2(
        max(places - 1, 1)
    )
    assert fano_bound(bits, places) == pytest.approx(share, abs=2e-6)
    assert fano_bound(99.0, places) == pytest.approx(1 / places)


def test_users_are_apart():
    labels = ["h", "w"] * 30 + ["x", "y", "z"] * 20 + ["once"]
    users = ["a"] * 60 + ["b"] * 60 + ["c"]
    found = measure_predictability(labels, users)
    assert found.users == ("a", "b")
    assert found.places.tolist() == [2, 3]
    assert found.entropy["random"] == pytest.approx([1, math.log2(3)])
    assert found.bound["frequency"] == pytest.approx([0.5, 1 / 3], abs=1e-6)
    assert (found.bound["sequence"] > 0.85).all()
    assert [row[0].value for row in found.table().rows] == ["random", "frequency", "sequence"]
    with pytest.raises(UsageError, match="two visits"):
        measure_predictability(["a", "b"], ["x", "y"])
