"""Ranks in a score matrix: both engines against a count in plain Python, bad cells and misuse."""

from __future__ import annotations

import numpy as np
import pytest

WIDTHS = ("none", "avx2", "avx512")


def counted(kernels, scores, targets, *, best=True):
    """(bad cell, above, tied, before, best) as lists."""
    arrays = [np.full(len(scores), -7, np.int64) for _ in range(4)]
    bad = kernels.count_score_ranks(scores, targets, *arrays[:3], arrays[3] if best else None)
    return bad, *(array.tolist() for array in arrays)


def by_hand(scores, targets):
    lists = ([], [], [], [])
    for row, target in zip(scores.tolist(), targets.tolist(), strict=True):
        found = (-1, -1, -1)
        if target >= 0:
            ties = [c for c, value in enumerate(row) if value == row[target] and c != target]
            above = sum(value > row[target] for value in row)
            found = (above, len(ties), sum(c < target for c in ties))
        for values, value in zip(lists, (*found, row.index(max(row))), strict=True):
            values.append(value)
    return (-1, -1), *lists


def made(rng, rows, columns, dtype, levels):
    scores = rng.integers(-levels, levels, (rows, columns)).astype(dtype) / 4
    scores[rng.random(scores.shape) < 0.1] = -0.0
    targets = rng.integers(-1, columns, rows)
    return scores, targets


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 2, 7, 31, 32, 33, 64, 65, 255, 256, 257, 1187])
@pytest.mark.parametrize("levels", [1, 3, 100_000])
def test_it_counts_like_plain_python(engine, dtype, columns, levels):
    scores, targets = made(np.random.default_rng(columns + levels), 12, columns, dtype, levels)
    assert counted(engine, scores, targets) == by_hand(scores, targets)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_vector_width_changes_a_count(both, monkeypatch, width):
    monkeypatch.setenv("ASSAY_SIMD", width)
    native, twin = both
    for dtype in (np.float32, np.float64):
        scores, targets = made(np.random.default_rng(5), 60, 531, dtype, 40)
        assert counted(native, scores, targets) == counted(twin, scores, targets)


def test_rows_with_a_stride_are_read_in_place(engine):
    wide, targets = made(np.random.default_rng(1), 9, 50, np.float32, 5)
    scores = wide[:, 3:40]
    targets = np.minimum(targets, 36)
    assert counted(engine, scores, targets) == by_hand(scores, targets)


def test_masked_classes_rank_last(engine):
    scores = np.array([[-np.inf, 1.0, -np.inf, 2.0]])
    assert counted(engine, scores, np.array([1]))[1:4] == ([1], [0], [0])


@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("column", [0, 1, 100, 126, 127, 128])
@pytest.mark.parametrize("target", [-1, 100])
def test_the_first_bad_cell_is_named(engine, value, dtype, column, target):
    scores = np.zeros((5, 129), dtype)
    scores[2, column] = scores[2, 128] = scores[3, 0] = value
    assert counted(engine, scores, np.full(5, target))[0] == (2, column)


def test_a_masked_target_is_bad(engine):
    scores = np.zeros((3, 4), np.float32)
    scores[1] = -np.inf
    assert counted(engine, scores, np.array([0, -1, 0]))[0] == (-1, -1)
    assert counted(engine, scores, np.array([0, 2, 0]))[0] == (1, 2)


def test_the_best_column_is_not_looked_for_unless_asked(engine):
    assert counted(engine, np.zeros((1, 2)), np.array([1]), best=False)[4] == [-7]


@pytest.mark.parametrize("target", [-2, 3, 2**40])
def test_a_target_outside_never_reaches_memory(engine, target):
    with pytest.raises(ValueError, match="target out of range"):
        counted(engine, np.zeros((2, 3)), np.array([0, target]))


def test_counts_of_another_length_are_refused(engine):
    with pytest.raises(ValueError, match="one length"):
        engine.count_score_ranks(
            np.zeros((2, 3)),
            np.zeros(2, np.int64),
            *(np.zeros(n, np.int64) for n in (2, 3, 2)),
            None,
        )


def test_no_rows_and_no_columns(engine):
    assert counted(engine, np.zeros((0, 3)), np.zeros(0, np.int64))[0] == (-1, -1)
    with pytest.raises(ValueError, match="columns"):
        counted(engine, np.zeros((2, 0)), np.zeros(2, np.int64))
