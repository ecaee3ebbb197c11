"""Multiple comparisons: corrected p-values, Tukey's test of all pairs, ranks and group letters.

Ranks of systems with simultaneous intervals, and group letters of systems.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from itertools import combinations
from string import ascii_letters
from typing import Any

import numpy as np

from assay.arrays import Flags, Floats, from_grid, or_none, slack, stream_key, to_grid
from assay.core.checks import check_choice
from assay.errors import ShapeError, ValueRangeError
from assay.native import kernels
from assay.stats import samples
from assay.stats.choices import CONFIDENCE, LEVEL, RESAMPLES
from assay.stats.joint import allowed_draws, compare_jointly

CORRECTIONS = ("holm", "bonferroni", "bh", "none")


def adjust(p_values: Any, method: str = "holm") -> Floats:
    """Adjust p-values for their number.

    `holm` and `bonferroni` control the family-wise error rate, `bh` (Benjamini & Hochberg) the
    false discovery rate. Compare the result with the level as usual.

    Args:
        p_values: p of each test; NaN stays NaN and is not counted.
        method: holm, bonferroni, bh or none.

    Returns:
        The adjusted p-values, at most 1.

    Raises:
        ValueRangeError: A p-value is not between 0 and 1.

    Example:
        >>> adjust([0.01, 0.04, 0.03]).round(2).tolist()
        [0.03, 0.06, 0.06]
    """
    name = check_choice(method, CORRECTIONS, "method")
    raw = samples.finite_or_nan(p_values, "p_values")
    if ((raw < 0) | (raw > 1)).any():
        row = int(np.argmax((raw < 0) | (raw > 1)))
        raise ValueRangeError(f"p_values must lie between 0 and 1, found {raw[row]} at {row}.")
    adjusted = raw.copy()
    defined = np.flatnonzero(~np.isnan(raw))
    order = defined[np.argsort(raw[defined], kind="stable")]
    ascending, m = raw[order], len(order)
    if name == "holm":
        ascending = np.maximum.accumulate(ascending * np.arange(m, 0, -1))
    elif name == "bonferroni":
        ascending = ascending * m
    elif name == "bh":
        ascending = np.minimum.accumulate((ascending / (np.arange(1, m + 1) / m))[::-1])[::-1]
    adjusted[order] = np.minimum(ascending, 1.0)
    return adjusted


def levels_of_one(p_values: Any, method: str = "holm", level: float = LEVEL) -> Floats:
    """Return the level that each p alone is compared with, so that `adjust` and it always agree.

    Holm: a rejected p met the level of its step, all others failed at that of the first step that
    failed. Benjamini & Hochberg: k of m rejected give k/m of the level, the one at which intervals
    of what was selected keep their coverage (Benjamini & Yekutieli 2005, JASA 100); all others
    failed at (k + 1)/m.

    Args:
        p_values: p of each test.
        method: As of `adjust`.
        level: Significance level of the family.

    Returns:
        A level for each p.

    Example:
        >>> levels_of_one([0.01, 0.04, 0.03]).round(4).tolist()
        [0.0167, 0.025, 0.025]
    """
    adjusted = adjust(p_values, method)
    defined = ~np.isnan(adjusted)
    samples.check_level(level, example=0.05)
    m, rejected = int(defined.sum()), int((adjusted <= level).sum())
    if not m or method == "none":
        return np.full(len(adjusted), level)
    if method == "bonferroni":
        return np.full(len(adjusted), level / m)
    if method == "bh":
        return level * (np.where(adjusted <= level, rejected, min(rejected + 1, m)) / m)
    each = np.full(len(adjusted), level / max(m - rejected, 1))
    order = np.flatnonzero(defined)[np.argsort(np.asarray(p_values)[defined], kind="stable")]
    each[order[:rejected]] = level / (m - np.arange(rejected))
    return each


@dataclass(frozen=True, eq=False)
class TukeyResult:
    """p for each pair of systems, adjusted for all pairs, and the mean differences.

    `p[i, j]` belongs to systems i and j, `differences[i, j]` is mean i − mean j. p is NaN, and
    `note` says why, where there are too few queries. `ranges` are the largest differences of the
    shuffles, ascending.
    """

    p: Floats
    differences: Floats
    n: int
    n_removed: int
    resamples: int
    seed: int
    ranges: Floats
    note: str = ""

    def half_width(self, level: float) -> float:
        """Return the least difference with p ≤ level: intervals reach as far.

        Infinite if none has.
        """
        allowed = allowed_draws(level, self.resamples)
        return math.inf if allowed < 0 or self.note else float(self.ranges[-1 - allowed])

    def __repr__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        removed = f", {self.n_removed} removed" if self.n_removed else ""
        return (
            f"TukeyResult({len(self.p)} systems, n={self.n}{removed}, "
            f"{self.resamples} resamples{note})"
        )


def tukey_hsd(values: Any, *, resamples: int = RESAMPLES, seed: int = 0) -> TukeyResult:
    """Test all pairs of systems at once (randomised Tukey HSD).

    The scores of each query are shuffled among the systems, and each difference is compared with
    the largest difference that arises so (Carterette, ACM TOIS 2012).

    Args:
        values: Systems × queries; queries with a NaN in any system are removed and counted.
        resamples: Number of resamples.
        seed: Seed of the draws.

    Returns:
        p and mean difference of each pair.

    Raises:
        ShapeError: There are fewer than two systems.

    Example:
        >>> result = tukey_hsd([[0.9, 0.8, 0.9, 0.7], [0.1, 0.2, 0.1, 0.3], [0.1, 0.2, 0.2, 0.3]])
        >>> result.p[0, 1] < 0.05 < result.p[1, 2]
        np.True_
    """
    table = samples.finite_or_nan(values, "values", dimensions=2)
    if len(table) < 2:
        raise ShapeError(f"A comparison needs two systems or more, found shape {table.shape}.")
    resamples, seed = samples.check_resamples(resamples), samples.check_seed(seed)
    complete = ~np.isnan(table).any(axis=0)
    table = table[:, complete]
    p, differences, ranges = _tukey(table, resamples, seed)
    n, removed = table.shape[1], int((~complete).sum())
    note = samples.too_few(n) or ""
    return TukeyResult(p, differences, n, removed, resamples, seed, ranges, note)


def _tukey(table: Floats, resamples: int, seed: int) -> tuple[Floats, Floats, Floats]:
    systems, n = table.shape
    unknown = np.full((systems,) * 2, math.nan)
    if n == 0:
        return unknown, unknown, np.empty(0)
    means = np.array([math.fsum(row) / n for row in table.tolist()])
    differences = means[:, None] - means
    if samples.too_few(n):
        return unknown, differences, np.empty(0)
    # Centred scores keep the grid fine; a query's mean is the same however it is shuffled.
    grid, shift = to_grid(table - table.mean(axis=0), n)
    near = slack(4 * n, float(np.abs(table).max()), shift)
    sums = grid.sum(axis=1)
    gaps = np.abs(sums[:, None] - sums)
    key = stream_key(seed, "shuffles")
    flat = np.ascontiguousarray(grid.T).ravel()
    ranges = np.sort(kernels().shuffled_ranges(flat, systems, key, 0, resamples, 0))
    reached = resamples - np.searchsorted(ranges, gaps - near)
    p = (reached + 1) / (resamples + 1)
    p[gaps <= near] = 1.0
    return p, differences, from_grid(ranges, shift) / n


def compact_letters(separable: Any) -> list[str]:
    """Return the group letters of each system.

    Two systems share a letter exactly if they were not separated. Systems are taken in the order
    given, best first for the usual look. After z come A … Z, then a2, b2, ….

    Args:
        separable: A symmetric matrix: True where two systems were separated.

    Returns:
        The letters of each system; `split_letters` takes them apart.

    Raises:
        ShapeError: The matrix is not symmetric, or not of True and False.

    Example:
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
    turns = (divmod(number, len(ascii_letters)) for number in range(len(groups)))
    names = [ascii_letters[place] + (str(turn + 1) if turn else "") for turn, place in turns]
    members = np.array(groups, bool).reshape(len(groups), len(matrix))
    return ["".join(names[g] for g in np.flatnonzero(column)) for column in members.T]


def _cover(alike: Flags) -> list[Flags]:
    """Grow groups in which all are alike, so that each alike pair is in one.

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
    """Grow the group of `first` and its first open partner by all that are alike."""
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
    needed = []
    for group in groups:
        inside = np.ix_(group, group)
        if (times[inside] > 1).all():
            times[inside] -= 1
        else:
            needed.append(group)
    return needed


def split_letters(letters: str) -> list[str]:
    """Return the group letters of one system, one by one.

    >>> split_letters("aCb2")
    ['a', 'C', 'b2']
    """
    return re.findall(r"[a-zA-Z][0-9]*", letters)


@dataclass(frozen=True)
class RankInterval:
    """The rank of one system among others, 1 for the best, and its simultaneous interval.

    A system ranks below all that were shown to be better, and above all that were shown to be worse
    (Mogstad, Romano, Shaikh & Wilhelm 2024, Review of Economic Studies 91). Equal means share their
    mean rank. `low` and `high` are NaN, and `note` says why, where there are too few queries.
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

    def text(self) -> str | None:
        """Return the rank and its ends, where they differ: `2 (1–3)`; None without a rank."""
        if math.isnan(self.rank):
            return None
        sure = math.isnan(self.low) or self.low == self.high
        return f"{self.rank:g}" + ("" if sure else f" ({self.low:g}–{self.high:g})")

    def to_dict(self, name: str = "rank") -> dict[str, float | None]:
        """Return rank and ends as plain data; undefined numbers are None."""
        return {
            name: or_none(self.rank),
            f"{name}_low": or_none(self.low),
            f"{name}_high": or_none(self.high),
        }

    def __repr__(self) -> str:
        ends = "no interval" if math.isnan(self.low) else f"[{self.low:g}, {self.high:g}]"
        note = f"; {self.note}" if self.note else ""
        return f"RankInterval({self.rank:g} {ends}, {self.level * 100:g} %, n={self.n}{note})"


def rank_intervals(
    values: Any,
    *,
    clusters: Any = None,
    level: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[RankInterval]:
    """Rank systems by their mean over queries, with simultaneous intervals.

    All pairs are compared in one family (`compare_jointly`), each on the queries that both have.

    Args:
        values: Systems × queries.
        clusters: A label for each query; whole groups are compared.
        level: Confidence level.
        resamples: Number of resamples.
        seed: Seed of the draws.

    Returns:
        The rank of each system with its interval; `n` queries have a value of all.

    Example:
        >>> rank_intervals([[0.1, 0.2, 0.1, 0.2] * 2, [0.7, 0.9, 0.8, 0.9] * 2])
        [RankInterval(2 [2, 2], 95 %, n=8), RankInterval(1 [1, 1], 95 %, n=8)]
    """
    table = samples.finite_or_nan(values, "values", dimensions=2)
    share = samples.check_level(level)
    samples.check_bootstraps(resamples)
    samples.check_seed(seed)
    n = int((~np.isnan(table).any(axis=0)).sum())
    blank = RankInterval(*(math.nan,) * 3, share, n, table.shape[1] - n, resamples, seed)
    better = np.zeros((len(table),) * 2, bool)
    if len(table) < 2:
        return ranks_of(table, better, blank)
    pairs = list(combinations(range(len(table)), 2))
    joint = compare_jointly(
        table, pairs, clusters=clusters, level=1 - share, resamples=resamples, seed=seed
    )
    if np.isnan(joint.low).all():
        blank = replace(blank, note=joint.note or "too few queries or resamples to separate any")
    for (a, b), p, difference in zip(pairs, joint.p, joint.differences, strict=True):
        if p <= 1 - share:
            better[(a, b) if difference > 0 else (b, a)] = True
    return ranks_of(table, better, blank)


def ranks_of(values: Floats, better: Flags, blank: RankInterval) -> list[RankInterval]:
    """Return ranks of systems × queries; `better[i, j]` says that i was shown to be better than j.

    `blank` holds what all of them share; its note says that there are no ends.
    """
    systems, largest = len(values), float(np.nanmax(np.abs(values), initial=0.0))
    defined = [row[~np.isnan(row)].tolist() for row in values]
    means = np.array([math.fsum(row) / len(row) if row else math.nan for row in defined])
    gaps, near = means[:, None] - means, samples.SAME * largest  # near means share a rank
    above, alike = (gaps < -near).sum(axis=1), (np.abs(gaps) <= near).sum(axis=1)
    ranks = np.where(np.isnan(means), math.nan, above + (alike + 1) / 2)
    if blank.note or systems < 2:
        return [replace(blank, rank=float(rank)) for rank in ranks]
    # Where values are undefined, a mean is not of the queries of its pairs and may lie elsewhere.
    lows = np.minimum(1 + better.sum(axis=0), np.floor(ranks))
    highs = np.maximum(systems - better.sum(axis=1), np.ceil(ranks))
    return [
        replace(blank, rank=float(rank), low=float(low), high=float(high))
        for rank, low, high in zip(ranks, lows, highs, strict=True)
    ]
