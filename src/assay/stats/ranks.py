"""Ranks of systems with bootstrap intervals, and group letters of systems."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay.arrays import Flags, Floats, Ints
from assay.core.exact_sums import slack, to_grid
from assay.errors import ShapeError
from assay.stats.bootstrap import resample_sums
from assay.stats.samples import check_bootstraps, check_level, check_seed, finite_or_nan, too_few

__all__ = ["RankInterval", "compact_letters", "rank_intervals"]


def compact_letters(separable: Any) -> list[str]:
    """Group letters of each system from a symmetric matrix: True where two were separated.

    Two systems share a letter exactly if they were not separated. Systems are taken in the order
    given, best first for the usual look. After z come aa, ab, …; where such names are needed, the
    letters of one system are separated by commas.

    >>> compact_letters([[False, False, True], [False, False, False], [True, False, False]])
    ['a', 'ab', 'b']
    """
    matrix = np.asarray(separable)
    if matrix.dtype != np.bool_ or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(
            "separable must be a square matrix of True and False, one row per system; "
            f"found shape {matrix.shape} of {matrix.dtype}."
        )
    if (matrix != matrix.T).any() or matrix.diagonal().any():
        raise ShapeError("separable must be symmetric, with False on the diagonal.")
    groups = _drop_redundant(_cover(~matrix))
    names = [_letter(number) for number in range(len(groups))]
    joint = "," if len(groups) > 26 else ""
    members = np.array(groups, bool).reshape(len(groups), len(matrix))
    return [joint.join(names[g] for g in np.flatnonzero(column)) for column in members.T]


def _cover(alike: Flags) -> list[Flags]:
    """Groups in which all are alike, so that each alike pair is in one: grown from each pair.

    There are at most as many groups as pairs, whatever the matrix; all maximal groups could be
    exponentially many.
    """
    open_pairs = alike.copy()
    groups = []
    for first in range(len(alike)):
        while open_pairs[first, first:].any():
            group = _grow(first, alike, open_pairs)
            open_pairs[np.ix_(group, group)] = False
            groups.append(group)
    return groups


def _grow(first: int, alike: Flags, open_pairs: Flags) -> Flags:
    """The group of `first`, its first partner still open, and whoever is alike to all in it."""
    partner = first + int(np.argmax(open_pairs[first, first:]))
    group = np.zeros(len(alike), bool)
    group[[first, partner]] = True
    welcome = alike[first] & alike[partner] & ~group
    while welcome.any():
        gain = np.where(welcome, (open_pairs & group).sum(axis=1) + 1, 0)
        group[int(np.argmax(gain))] = True
        welcome &= alike[int(np.argmax(gain))] & ~group
    return group


def _drop_redundant(groups: list[Flags]) -> list[Flags]:
    """Leave out groups whose every pair is in another group too."""
    if not groups:
        return []
    members = np.array(groups, np.int64)
    times = members.T @ members
    kept = []
    for group in groups:
        inside = np.ix_(group, group)
        if (times[inside] > 1).all():
            times[inside] -= 1
        else:
            kept.append(group)
    return kept


def _letter(number: int) -> str:
    """a … z, aa … zz, aaa …"""
    name = ""
    number += 1
    while number:
        number, place = divmod(number - 1, 26)
        name = chr(ord("a") + place) + name
    return name


@dataclass(frozen=True)
class RankInterval:
    """The rank of one system among others, 1 for the best, and its bootstrap interval.

    Systems with equal means share their mean rank. `low` and `high` are NaN, and `note` says why,
    where there are too few queries.
    """

    rank: float
    low: float
    high: float
    level: float
    n: int
    n_removed: int
    resamples: int
    seed: int
    note: str = ""

    def __repr__(self) -> str:
        """Rank and ends."""
        ends = "no interval" if math.isnan(self.low) else f"[{self.low:g}, {self.high:g}]"
        note = f"; {self.note}" if self.note else ""
        return f"RankInterval({self.rank:g} {ends}, {self.level * 100:g} %, n={self.n}{note})"


def rank_intervals(
    values: Any, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> list[RankInterval]:
    """Rank systems by their mean over queries (systems × queries), with bootstrap intervals.

    All systems see the same resampled queries. Queries with a NaN in any system are removed.

    >>> rank_intervals([[0.1, 0.2, 0.1, 0.2], [0.7, 0.9, 0.8, 0.9]])
    [RankInterval(2 [2, 2], 95 %, n=4), RankInterval(1 [1, 1], 95 %, n=4)]
    """
    table = finite_or_nan(values, "values", dimensions=2)
    share, resamples, seed = check_level(level), check_bootstraps(resamples), check_seed(seed)
    kept = ~np.isnan(table).any(axis=0)
    removed = int((~kept).sum())
    ranks, low, high, note = _ranks(table[:, kept], share, resamples, seed)
    n = int(kept.sum())
    return [
        RankInterval(*numbers, share, n, removed, resamples, seed, note)
        for numbers in zip(ranks, low, high, strict=True)
    ]


def _ranks(
    table: Floats, level: float, resamples: int, seed: int
) -> tuple[list[float], list[float], list[float], str]:
    systems, n = table.shape
    unknown = [math.nan] * systems
    if n == 0 or systems == 0:
        return unknown, unknown, unknown, too_few(n) or ""
    # One grid for all systems, so that equal means are equal sums up to the rounding of each.
    grid, shift = to_grid(table, n)
    near = slack(2 * n, float(np.abs(table).max()), shift)
    ranks = _mid_ranks(grid.sum(axis=1)[None, :], near)[0].tolist()
    if too_few(n):
        return ranks, unknown, unknown, too_few(n) or ""
    sums = resample_sums(grid.T, np.array([0, n]), resamples, seed)
    tail = (1 - level) / 2
    drawn = _mid_ranks(sums, near)
    low = np.quantile(drawn, tail, axis=0, method="inverted_cdf")
    high = np.quantile(drawn, 1 - tail, axis=0, method="inverted_cdf")
    return ranks, low.tolist(), high.tolist(), ""


def _mid_ranks(sums: Ints, near: int) -> Floats:
    """Rank from 1 for the largest in each row; sums within `near` of each other share a rank."""
    ranks = np.empty(sums.shape, np.float64)
    for column in range(sums.shape[1]):
        own = sums[:, column : column + 1]
        above = (sums > own + near).sum(axis=1)
        level = (np.abs(sums - own) <= near).sum(axis=1)
        ranks[:, column] = above + (level + 1) / 2
    return ranks
