"""The grid on which sums are whole numbers: as fine as 64 bits allow, and back again."""

from __future__ import annotations

import numpy as np
import pytest

from assay.arrays import from_grid, slack, to_grid


@pytest.mark.parametrize("terms", [1, 7, 8, 10_000])
@pytest.mark.parametrize("largest", [1.0, np.nextafter(1.0, 0.0), 3e-7, 5e12])
def test_the_grid_is_the_finest_on_which_a_difference_of_sums_fits(terms, largest):
    on_grid, shift = to_grid(np.array([[largest, -largest], [0.0, largest / 3]]), terms)
    assert on_grid.shape == (2, 2)
    top = int(on_grid.max())
    assert int(on_grid.min()) == -top
    assert 2**59 <= terms * top <= 2**61  # so that 2 × 2^61 is below 2^63, and two bits are unused
    back = from_grid(on_grid, shift)
    assert np.abs(back - [[largest, -largest], [0.0, largest / 3]]).max() <= 2.0 ** -(shift + 1)


def test_known_grids():
    assert [to_grid(np.array([x]), n)[1] for x, n in ((1.0, 1), (0.75, 1), (0.75, 4))] == [
        59,
        60,
        58,
    ]
    assert from_grid([3, -1], 1).tolist() == [1.5, -0.5]
    zeros, shift = to_grid(np.zeros((2, 3)), 5)
    assert (zeros.tolist(), zeros.dtype, shift) == ([[0] * 3] * 2, np.int64, 0)


def test_sums_are_the_same_within_a_step_and_four_units_in_the_last_place_for_each_term():
    assert slack(10, 0.0, 40) == 10
    assert slack(10, 1.0, 52) == 10 * (1 + 4)  # a unit of 1.0 is 2^−52
    assert slack(3, 2.0, 53) == 3 * (1 + 16)
    assert slack(10**6, 1.0, 200) == 2**61
