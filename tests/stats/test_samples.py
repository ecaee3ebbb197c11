"""What tests and intervals accept, up to the last number that they do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from assay.errors import ShapeError, UsageError, ValueRangeError
from assay.stats import compare_jointly, compare_seeds, effect, paired_test, tukey_hsd
from assay.stats.samples import (
    check_bootstraps,
    check_level,
    check_margin,
    check_resamples,
    check_seed,
    check_significance_level,
    clean_pairs,
    finite_or_nan,
    too_few,
)
from assay.stats.tests import TEST_METHODS

ACCEPTED: list[tuple[Callable[[Any], float], list[Any], list[Any]]] = [
    (check_level, [1e-300, 0.5, np.float32(0.5)], [0, 1, 0.0, 1.0, -0.5, math.nan, True, "0.5"]),
    (check_significance_level, [1e-12, 0.5], [0, 9e-13, 0.51, 1, math.nan, True, False, "0.05"]),
    (check_resamples, [1, np.int64(7)], [0, -1, 1.5, True]),
    (check_bootstraps, [100], [99, 0, 100.0, True]),
    (check_seed, [0, 2**64 - 1, np.int64(7)], [-1, 2**64, 1.0, True, "1"]),
    (check_margin, [1e-300, 5, 1e300], [0, -0.1, math.inf, math.nan, True, "1"]),
]


@pytest.mark.parametrize(("check", "right", "wrong"), ACCEPTED)
def test_where_arguments_end(
    check: Callable[[Any], float], right: list[Any], wrong: list[Any]
) -> None:
    for value in right:
        assert check(value) == value
    for value in wrong:
        with pytest.raises(UsageError):
            check(value)


def test_scores_are_finite_numbers() -> None:
    assert finite_or_nan([1e100, -1e100, math.nan], "values")[0] == 1e100
    assert finite_or_nan([True, False], "values").tolist() == [1, 0]
    with pytest.raises(ValueRangeError, match=r"-1\.1e\+100 at 1\."):
        finite_or_nan([0.1, -1.1e100], "values")
    with pytest.raises(ValueRangeError, match=r"inf at \(1, 0\)"):
        finite_or_nan([[0.1, 0.2], [math.inf, 0.2]], "values", dimensions=2)
    with pytest.raises(ShapeError, match="a row per system"):
        finite_or_nan([0.1], "values", dimensions=2)


def test_differences_of_rounding_are_none() -> None:
    found = clean_pairs([0.1 + 0.2, 1.0, math.nan, -5.0], [0.3, 1 + 1e-11, 1.0, -5 - 1e-12])
    assert (found.differences != 0).tolist() == [False, True, False]
    assert found.n_removed == 1
    assert clean_pairs([1e-101], [0.0]).differences[0] == 0  # its square would underflow
    assert clean_pairs([1e-99], [0.0]).differences[0] == 1e-99


def test_three_values_are_enough() -> None:
    assert too_few(3) is None
    assert too_few(2) == "too few queries (2): at least 3 are needed"
    assert too_few(7, "clusters", 8) == "too few clusters (7): at least 8 are needed"


@pytest.mark.parametrize("scale", [2.0**-50, 2.0**50])
def test_the_unit_of_a_measure_changes_no_p(scale: float) -> None:
    table = np.random.default_rng(5).random((6, 12))

    def found(table: np.ndarray) -> list[float]:
        a, b = table[0], table[1]
        return [
            compare_seeds(table[:3], table[3:]).p,
            effect(a, b).standardised,
            *tukey_hsd(table, resamples=100).p.ravel(),
            *compare_jointly(table, [(0, 1), (0, 2)], resamples=100).p,
            *(paired_test(a, b, method=name, resamples=100).p for name in TEST_METHODS),
        ]

    assert found(scale * table) == pytest.approx(found(table), rel=1e-12)
    rounded = scale * np.tile([0.3, 0.1 + 0.2, 0.3], (3, 4))  # equal but for rounding
    assert compare_seeds(rounded, np.full((3, 12), scale * 0.3)).p == 1
